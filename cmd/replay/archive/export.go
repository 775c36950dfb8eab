package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Bodies reads commits as they are stored; see jetlog.Bus.ReadBodies. A body is the
// reader's to keep, and not to change.
type Bodies interface {
	ReadBodies(ctx context.Context, from events.Position, f bus.Filter, yield func(at events.Position, turn events.TurnKey, body []byte) error) error
}

// ReadOn is ReadBodies of what may be damaged: what is lost is told, and the reading
// goes on behind it.
func ReadOn(ctx context.Context, from Bodies, at events.Position, f bus.Filter, lost func(error), yield func(at events.Position, turn events.TurnKey, body []byte) error) error {
	for {
		err := from.ReadBodies(ctx, at, f, yield)
		var bad *bus.Unreadable
		switch {
		case errors.As(err, &bad):
			lost(bad.Err)
			at = events.Position{Generation: max(at.Generation, 1), Seq: bad.Seq + 1}
		case errors.Is(err, ErrDamaged):
			lost(err)
			return nil
		default:
			return err
		}
	}
}

// Span says which commits of a trace are exported: those from First up to Last.
type Span struct {
	Trace       string
	First, Last events.Position
}

// Export copies traces from a log, or from another archive, into an archive.
type Export struct {
	From   Bodies
	Blobs  bus.Blobs
	Redact *Redactor // nil: nothing is replaced
	// Lost is told of what cannot be read and is left out, perhaps more than once; nil:
	// nobody is.
	Lost func(error)
	Held int // bytes of commits that may wait for their trace's turn; 0 means 64 MiB
}

// errEnough ends a reading whose caller has what it wants.
var errEnough = errors.New("that is enough")

// few is up to how many traces each is read by itself; of more, the log is read once.
const few = 16

// Run writes the traces, sorted by their first position, whatever the order in spans.
// The writer is closed by the caller. It returns the errors of reading and writing, and
// bus.ErrRewound where the log lost its tail meanwhile.
func (e *Export) Run(ctx context.Context, w *Writer, spans []Span) error {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b Span) int { return a.First.Compare(b.First) })
	if len(spans) > few {
		return e.gather(ctx, w, spans)
	}
	for _, s := range spans {
		if err := e.alone(ctx, w, s); err != nil {
			return err
		}
	}
	return nil
}

func (e *Export) lost(err error) {
	if e.Lost != nil {
		e.Lost(err)
	}
}

// alone reads a trace by itself.
func (e *Export) alone(ctx context.Context, w *Writer, s Span) error {
	if err := w.Begin(s.Trace); err != nil {
		return err
	}
	err := ReadOn(ctx, e.From, s.First, bus.Filter{Trace: s.Trace}, e.lost, func(at events.Position, turn events.TurnKey, body []byte) error {
		if at.Seq > s.Last.Seq {
			return errEnough
		}
		if err := e.add(ctx, w, Commit{at, turn, body}); err != nil {
			return err
		}
		if at.Seq == s.Last.Seq {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("trace %s: %w", s.Trace, err)
	}
	return nil
}

func (e *Export) add(ctx context.Context, w *Writer, c Commit) error {
	body, err := unmark(c.Body)
	if err == nil {
		c.Body = body
	} // what has no form that is known is copied as it is
	blobs := e.Blobs
	if e.Redact != nil {
		if c, err = e.Redact.commit(ctx, c, e.Blobs); err != nil {
			return fmt.Errorf("redact the commit at %s: %w", c.At, err)
		}
		blobs = e.Redact
	}
	return w.Add(ctx, c, blobs)
}

// gathering reads the log once, and holds the commits of each trace until it is the
// trace's turn to be written. Where that is too much, the trace whose turn it is, is
// read by itself.
type gathering struct {
	*Export
	w     *Writer
	spans []Span
	next  int // of spans: the one whose turn it is
	piles map[string]*pile
	held  int
}

// pile is what was read of a trace.
type pile struct {
	span    Span
	commits []Commit
	size    int
	whole   bool
	written bool
}

func (e *Export) gather(ctx context.Context, w *Writer, spans []Span) error {
	g := &gathering{Export: e, w: w, spans: spans, piles: make(map[string]*pile, len(spans))}
	last := uint64(0)
	for _, s := range spans {
		g.piles[s.Trace] = &pile{span: s}
		last = max(last, s.Last.Seq)
	}
	err := ReadOn(ctx, e.From, spans[0].First, bus.Filter{}, e.lost, func(at events.Position, turn events.TurnKey, body []byte) error {
		if at.Seq > last || g.next == len(spans) {
			return errEnough
		}
		return g.feed(ctx, Commit{at, turn, body})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	for g.next < len(g.spans) { // what has no end there
		if err := g.write(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *gathering) feed(ctx context.Context, c Commit) error {
	p := g.piles[c.Turn.Trace]
	if p == nil || p.written || c.At.Seq > p.span.Last.Seq {
		return nil
	}
	p.commits, p.size, g.held = append(p.commits, c), p.size+len(c.Body), g.held+len(c.Body)
	p.whole = c.At.Seq == p.span.Last.Seq
	room := g.Held
	if room == 0 {
		room = heldBytes
	}
	for g.next < len(g.spans) && (g.piles[g.spans[g.next].Trace].whole || g.held > room) {
		if err := g.write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// write writes the trace whose turn it is.
func (g *gathering) write(ctx context.Context) error {
	s := g.spans[g.next]
	p := g.piles[s.Trace]
	g.next++
	g.held -= p.size
	commits := p.commits
	p.written, p.commits = true, nil
	if !p.whole {
		return g.alone(ctx, g.w, s)
	}
	if err := g.w.Begin(s.Trace); err != nil {
		return err
	}
	for _, c := range commits {
		if err := g.add(ctx, g.w, c); err != nil {
			return fmt.Errorf("trace %s: %w", s.Trace, err)
		}
	}
	return nil
}
