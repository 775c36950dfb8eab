package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Log is what traces are imported into; see jetlog.Bus.
type Log interface {
	Bodies
	// AppendBody appends a commit as it was stored elsewhere.
	AppendBody(ctx context.Context, body []byte, at uint64) (bus.Stored, error)
	Blobs() bus.Blobs
}

// What became of a trace.
const (
	Imported  = "imported"
	Continued = "continued" // an import was cut off, and this one has brought the rest
	Attached  = "attached"  // it was there already, with the same content
	Bad       = "bad"       // it was not imported, or not whole
)

// Outcome is what became of one trace of an archive.
type Outcome struct {
	Trace    string // as it is called in the log
	Status   string
	Turns    int
	NewTurns int
	Calls    int
	Commits  int
	New      int             // commits that were appended
	More     int             // commits that the log has behind those of the archive
	First    events.Position // in the log; zero where nothing was appended
	Last     events.Position
	Was      Span // where it stood when it was recorded
	Missing  int  // bytes that it refers to and that are not in the archive, or damaged there
	Err      error
}

// Import puts traces of an archive in a log. Each turn is marked as imported, so that
// no node ever runs it, whatever its state; all else is as it was recorded. Positions
// are the log's.
type Import struct {
	From   *Reader
	To     Log
	Prefix string // before each trace's id, and each commit's; "" keeps them
}

// Run imports the archive's traces, those that are named, or all where only is empty,
// in the order in which they began, and calls tell for each of them. What is appended
// is not durable before the log's barrier. Its error is the log's, the context's or
// tell's, or that the file as a whole is damaged: a trace that is bad is told, and that
// is all.
func (im *Import) Run(ctx context.Context, only []string, tell func(Outcome) error) error {
	want := make(map[string]bool, len(only))
	for _, id := range only {
		want[id] = true
	}
	holes, err := im.From.each(ctx, func(trace string) error {
		if len(only) > 0 && !want[trace] {
			return nil
		}
		delete(want, trace)
		o, err := im.trace(ctx, trace)
		if err != nil {
			return fmt.Errorf("trace %s: %w", trace, err)
		}
		return tell(o)
	})
	for _, id := range only {
		if want[id] && err == nil {
			err = tell(Outcome{Trace: id, Status: Bad, Err: errors.New("it is not in the archive, or cannot be read there")})
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(append([]error{im.From.damage}, holes[:min(len(holes), mostLost)]...)...)
}

// each yields the traces in the file's order. holes are what cannot be read of the file.
func (r *Reader) each(ctx context.Context, yield func(trace string) error) (holes []error, err error) {
	seen := map[string]bool{}
	for w := r.walker(); ; {
		p, err := w.next(ctx)
		var h *hole
		switch {
		case errors.Is(err, io.EOF):
			return holes, nil
		case errors.As(err, &h):
			holes = append(holes, err)
			continue
		case err != nil:
			return holes, err
		case p.Kind != pieceCommits || seen[p.Trace]:
			continue
		}
		seen[p.Trace] = true
		if err := yield(p.Trace); err != nil {
			return holes, err
		}
	}
}

// there is what the log has of a turn.
type there struct {
	seqs   []uint64
	sums   [][sha256.Size]byte // of the commits without the mark
	native bool                // it was submitted here
}

// trace imports one trace. An error is the log's.
func (im *Import) trace(ctx context.Context, trace string) (Outcome, error) {
	o := Outcome{Trace: im.Prefix + trace, Status: Bad, Was: Span{Trace: trace}}
	if o.Err = events.CheckID("trace", o.Trace); o.Err != nil {
		return o, nil
	}
	have, err := im.have(ctx, o.Trace)
	if err != nil {
		return o, err
	}
	if o.Err, err = im.compare(ctx, trace, have, &o); err != nil || o.Err != nil {
		return o, err
	}
	if o.New > 0 {
		if o.Err, err = im.append(ctx, trace, have, &o); err != nil || o.Err != nil {
			return o, err
		}
	}
	switch {
	case o.New == 0:
		o.Status = Attached
	case o.New < o.Commits:
		o.Status = Continued
	default:
		o.Status = Imported
	}
	return o, nil
}

// have is what the log has of a trace, by turn.
func (im *Import) have(ctx context.Context, trace string) (map[string]*there, error) {
	out := map[string]*there{}
	err := im.To.ReadBodies(ctx, events.Position{}, bus.Filter{Trace: trace}, func(at events.Position, turn events.TurnKey, body []byte) error {
		t := out[turn.Turn]
		if t == nil {
			t = &there{}
			out[turn.Turn] = t
		}
		was, err := unmark(body)
		if err != nil {
			was = body
		}
		t.native = t.native || bytes.Equal(was, body) && submittedHere(body)
		t.seqs, t.sums = append(t.seqs, at.Seq), append(t.sums, sha256.Sum256(was))
		return nil
	})
	return out, err
}

// submittedHere says whether a commit begins a turn that a node may run.
func submittedHere(body []byte) bool {
	c, err := events.Decode(body)
	if err != nil {
		return true // nobody knows
	}
	for _, r := range c.Records {
		switch e := r.Event.(type) {
		case *events.TurnSubmitted:
			return e.Imported == ""
		case events.Foreign:
			if e.Name == events.KindTurnSubmitted {
				return true // of a newer release, and not marked
			}
		}
	}
	return false
}

// coming is a commit of the archive as it will be stored, but for the mark.
type coming struct {
	Commit
	nth     int // in its turn, from 0
	decoded events.Commit
}

// commits yields the commits of a trace. why is what is wrong with them; err is yield's,
// or the file's.
func (im *Import) commits(ctx context.Context, trace string, yield func(coming) error) (why, err error) {
	n, nth := 0, map[string]int{}
	missing, err := im.From.read(ctx, events.Position{}, bus.Filter{Trace: trace}, func(at events.Position, turn events.TurnKey, body []byte) error {
		n++
		turn.Trace = im.Prefix + trace
		c := coming{Commit: Commit{at, turn, body}, nth: nth[turn.Turn]}
		nth[turn.Turn]++
		if why = im.decode(&c, trace); why != nil {
			why = fmt.Errorf("commit %d, recorded at %d.%d: %w", n, at.Generation, at.Seq, why)
			return errEnough
		}
		return yield(c)
	})
	var bad *bus.Unreadable
	switch {
	case errors.Is(err, errEnough):
		return why, nil
	case errors.As(err, &bad):
		return fmt.Errorf("it is not whole: %w", bad.Err), nil
	case missing != nil:
		return fmt.Errorf("it is not whole: %w", missing), nil
	}
	return nil, err
}

// decode gives a commit its new name, and decodes it.
func (im *Import) decode(c *coming, trace string) error {
	var err error
	if c.decoded, err = events.Decode(c.Body); err != nil {
		return err
	}
	if c.decoded.Turn != (events.TurnKey{Trace: trace, Turn: c.Turn.Turn}) {
		return fmt.Errorf("%w: it says that it is of turn %s", events.ErrFormat, c.decoded.Turn)
	}
	if err = single(c.Body, 0); err == nil {
		err = tellable(c.decoded)
	}
	if err != nil || im.Prefix == "" {
		return err
	}
	if c.Body, err = rename(c.Body, c.Turn.Trace, im.Prefix); err != nil {
		return err
	}
	c.decoded, err = events.Decode(c.Body)
	if err == nil && c.decoded.Turn != c.Turn {
		err = fmt.Errorf("%w: renamed, it is of turn %s", errForm, c.decoded.Turn)
	}
	return err
}

// compare holds a trace against what the log has of it, BEFORE anything is appended.
func (im *Import) compare(ctx context.Context, trace string, have map[string]*there, o *Outcome) (why, err error) {
	own := false
	for _, t := range have {
		own = own || t.native
		o.More += len(t.seqs)
	}
	turns, ids := map[string]bool{}, map[[sha256.Size / 2]byte]bool{}
	var differs error
	why, err = im.commits(ctx, trace, func(c coming) error {
		if o.Commits++; o.Commits == 1 {
			o.Was.First = c.At
		}
		o.Was.Last = c.At
		sum := sha256.Sum256([]byte(c.decoded.ID))
		id := [sha256.Size / 2]byte(sum[:]) // there may be millions
		if ids[id] {
			differs = fmt.Errorf("%w: commit %s is in it twice", ErrHostile, show(c.decoded.ID))
			return errDiffers
		}
		ids[id] = true
		count(o, c, turns, have[c.Turn.Turn] == nil)
		t := have[c.Turn.Turn]
		switch {
		case t != nil && c.nth < len(t.sums):
			o.More--
			if t.sums[c.nth] == sha256.Sum256(c.Body) {
				return nil
			}
			if differs, err = im.difference(ctx, c, t.seqs[c.nth]); err != nil {
				return err
			}
			return errDiffers
		case t != nil && t.native:
			differs = fmt.Errorf("turn %s is this log's own, and the archive has more of it, from what was recorded at %d.%d on", c.Turn, c.At.Generation, c.At.Seq)
			return errDiffers
		case own:
			differs = fmt.Errorf("the trace is this log's own, and has no turn %s", c.Turn.Turn)
			return errDiffers
		}
		o.New++
		return nil
	})
	if errors.Is(err, errDiffers) {
		return differs, nil
	}
	return why, err
}

// errDiffers ends a comparison.
var errDiffers = errors.New("it differs")

// count counts a commit.
func count(o *Outcome, c coming, turns map[string]bool, isNew bool) {
	if !turns[c.Turn.Turn] {
		turns[c.Turn.Turn] = true
		o.Turns++
		if isNew {
			o.NewTurns++
		}
	}
	for _, r := range c.decoded.Records {
		if s, ok := r.Event.(*events.TurnSubmitted); ok {
			o.Calls += len(s.Calls)
		}
	}
}

// append appends what the log does not have.
func (im *Import) append(ctx context.Context, trace string, have map[string]*there, o *Outcome) (why, err error) {
	last := map[string]uint64{}
	for turn, t := range have {
		last[turn] = t.seqs[len(t.seqs)-1]
	}
	var refused error
	why, err = im.commits(ctx, trace, func(c coming) error {
		if t := have[c.Turn.Turn]; t != nil && c.nth < len(t.seqs) {
			return nil
		}
		if err := im.bring(ctx, c, o); err != nil {
			return err
		}
		body, err := mark(c.Body, im.source(c.At))
		if err == nil {
			var s bus.Stored
			if s, err = im.To.AppendBody(ctx, body, last[c.Turn.Turn]); err == nil {
				last[c.Turn.Turn] = s.Seq
				o.Last = s.Position(0)
				if o.First == (events.Position{}) {
					o.First = o.Last
				}
				return nil
			}
		}
		switch {
		case ctx.Err() != nil, errors.Is(err, bus.ErrUnavailable), errors.Is(err, bus.ErrUncertain):
			return err
		case errors.Is(err, bus.ErrConflict):
			err = fmt.Errorf("somebody else writes this trace: import it again: %w", err)
		}
		refused = fmt.Errorf("recorded at %d.%d: %w", c.At.Generation, c.At.Seq, err)
		return errDiffers
	})
	if errors.Is(err, errDiffers) {
		return refused, nil
	}
	return why, err
}

// source says where a turn came from: the archive, and the place where it stood.
func (im *Import) source(at events.Position) string {
	const short = 16
	digest := "damaged"
	if sum, ok := parseDigest(im.From.man.Digest); ok {
		digest = hex.EncodeToString(sum[:])[:short]
	}
	return fmt.Sprintf("%s@%d.%d", digest, at.Generation, at.Seq)
}

// bring stores what a commit refers to, BEFORE the commit. What the archive does not
// have is counted.
func (im *Import) bring(ctx context.Context, c coming, o *Outcome) error {
	for _, r := range c.decoded.Records {
		for _, ref := range References(r.Event) {
			data, err := im.From.Blobs().Get(ctx, ref)
			if err != nil {
				if ctx.Err() != nil {
					return err
				}
				o.Missing++
				continue
			}
			if _, err := im.To.Blobs().Put(ctx, data, ref.Media); err != nil {
				return err
			}
		}
	}
	return nil
}

// difference says how a commit of the archive differs from the one in the log.
func (im *Import) difference(ctx context.Context, c coming, seq uint64) (why, err error) {
	where := fmt.Sprintf("turn %s, commit %d, recorded at %d.%d, is another one in the log, at sequence %d", c.Turn, c.nth+1, c.At.Generation, c.At.Seq, seq)
	err = im.To.ReadBodies(ctx, events.Position{}, bus.Filter{Trace: c.Turn.Trace, Turn: c.Turn.Turn}, func(at events.Position, _ events.TurnKey, body []byte) error {
		if at.Seq != seq {
			return nil
		}
		theirs, err := events.Decode(body)
		if err != nil {
			why = fmt.Errorf("%s, which cannot be read: %w", where, err)
		} else {
			why = fmt.Errorf("%s: %s", where, differ(c.decoded, theirs))
		}
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if why == nil && err == nil {
		why = errors.New(where)
	}
	return why, err
}
