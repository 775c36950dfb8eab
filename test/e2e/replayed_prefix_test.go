package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// library is something that holds traces: a log, or an archive.
type library interface {
	bus.Tail
	Generation() uint32
	Blobs() bus.Blobs
}

// moment is what can be said of a trace at one of its events.
type moment struct {
	at    events.Position
	event string // kind, turn and call
	ends  string // how each call of the turn has ended, and the turn
	told  digest // all that the model was told up to there
}

// past is what was read of a trace: the state at every prefix.
type past struct {
	commits []bus.Stored
	moments []moment

	conv  projections.Conversation
	turns map[string]*turnPast
	told  hash.Hash // of all messages so far, for every provider
}

// turnPast is a turn as far as it was read.
type turnPast struct {
	state   lifecycle.Turn
	ends    string
	changes int
	answers hash.Hash // of every answer that has changed so far, with what stands outside the log
}

// digest is a SHA-256.
type digest = [sha256.Size]byte

// renderings are the messages of turns, for every provider, by the answers that they say.
// Rendering is a pure function and an expensive one.
type renderings map[digest]digest

// reader folds what it reads, event by event.
type reader struct {
	ctx    context.Context
	blobs  projections.Blobs
	known  renderings
	anew   func(*projections.Turn) bool // whether messages are renderings also where they are known
	traces map[string]*past
	order  []string
	broken []string // commits that cannot be read
}

// pasts reads everything.
func pasts(ctx context.Context, from library, known renderings, anew func(*projections.Turn) bool) (*reader, error) {
	r := &reader{ctx: ctx, known: known, anew: anew, traces: map[string]*past{}}
	r.blobs = func(ref events.BlobRef) ([]byte, error) { return from.Blobs().Get(ctx, ref) }
	for at := (events.Position{}); ; {
		err := from.Read(ctx, at, bus.Filter{}, false, r.add)
		var bad *bus.Unreadable
		if !errors.As(err, &bad) {
			return r, err
		}
		r.broken = append(r.broken, err.Error())
		at = events.Position{Generation: max(at.Generation, 1), Seq: bad.Seq + 1}
	}
}

func (r *reader) add(s bus.Stored) error {
	id := s.Commit.Turn.Trace
	p := r.traces[id]
	if p == nil {
		p = &past{turns: map[string]*turnPast{}, told: sha256.New()}
		r.traces[id] = p
		r.order = append(r.order, id)
	}
	p.commits = append(p.commits, s)
	for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
		if err := r.event(p, e); err != nil {
			return fmt.Errorf("%s at %s: %w", e.Kind(), e.Pos, err)
		}
	}
	return nil
}

// event folds one event in both ways: as the decider does, and as answers are.
func (r *reader) event(p *past, e projections.Event) error {
	t := p.turns[e.Turn.Turn]
	if t == nil {
		t = &turnPast{state: lifecycle.Turn{Key: e.Turn}, answers: sha256.New()}
		p.turns[e.Turn.Turn] = t
	}
	t.state = lifecycle.Evolve(t.state, lifecycle.Meta{At: e.At, By: e.By}, e.Record)
	if k := e.Kind(); events.IsTerminal(k) || events.EndsTurn(k) || k == events.KindTurnSubmitted {
		t.ends = endsOf(t.state)
	}
	p.conv = projections.Answers.Apply(p.conv, e)
	if a := p.conv.Turn(e.Turn); a != nil && a.Last == e.Pos {
		if err := r.changed(p, t, a, e.Call); err != nil {
			return err
		}
	}
	m := moment{at: e.Pos, event: fmt.Sprintf("%s of %s/%d", e.Kind(), e.Turn, e.Call), ends: t.ends}
	p.told.Sum(m.told[:0])
	p.moments = append(p.moments, m)
	return nil
}

// changed takes up that what the model is told of a call, or of the turn, has changed.
func (r *reader) changed(p *past, t *turnPast, a *projections.Turn, call int) error {
	answers, _ := a.Answers(nil)
	if call != events.TurnEvent {
		answers = answers[call : call+1]
	}
	for _, one := range answers {
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		t.answers.Write(text)
		if ref := one.Result.Text.Ref; ref != nil {
			data, err := r.blobs(*ref)
			if err := r.outage(err); err != nil {
				return err
			}
			fmt.Fprintf(t.answers, "%v %s", err, data)
		}
	}
	var now digest
	t.answers.Sum(now[:0])
	p.told.Write(now[:])
	if sampled(t.changes, len(a.Calls)+2) {
		said, ok := r.known[now]
		if !ok || r.anew(a) {
			var err error
			if said, err = r.render(a); err != nil {
				return err
			}
			r.known[now] = said
		}
		p.told.Write(said[:])
	}
	t.changes++
	return nil
}

// outage is err where nothing can be said now of what stands outside the log.
func (r *reader) outage(err error) error {
	if r.ctx.Err() != nil || errors.Is(err, bus.ErrUnavailable) {
		return err
	}
	return nil
}

// endsOf is how each call of a turn has ended, and the turn itself.
func endsOf(t lifecycle.Turn) string {
	var all []events.Kind
	for _, c := range t.Calls {
		kind := events.Kind("-")
		if c.Terminal != nil {
			kind = c.Terminal.Kind()
		}
		all = append(all, kind)
	}
	if t.Ended != nil {
		all = append(all, t.Ended.Kind())
	}
	return fmt.Sprint(all)
}

// sampled says at which of about n changes of a turn's answers its messages are
// renderings: at all of few, else at the first and last eight, and sixteen between.
func sampled(i, n int) bool {
	const edge, most = 8, 32
	return n <= most || i < edge || i >= n-edge || (i-edge)%((n-2*edge)/(most/2)) == 0
}

// render is what the model is told now of a turn, for every provider.
func (r *reader) render(t *projections.Turn) (out digest, err error) {
	all := sha256.New()
	answers, err := t.Answers(r.blobs)
	if err := r.outage(err); err != nil {
		return out, err
	}
	fmt.Fprintln(all, err)
	for _, f := range codec.Formats() {
		list, err := codec.Render(f, answers, codec.Options{CallBytes: t.Limits.CallBytes, TurnBytes: t.Limits.TurnBytes})
		if err != nil {
			return out, err
		}
		for _, m := range list {
			all.Write(append(m, '\n'))
		}
	}
	all.Sum(out[:0])
	return out, nil
}

// differ says where two readings tell something else, "" if nowhere. Where places is
// set, also the same things at other places are a difference.
func (r *reader) differ(o *reader, places bool) string {
	if !slices.Equal(r.broken, o.broken) {
		return fmt.Sprintf("cannot be read: %q and %q", r.broken, o.broken)
	}
	if a, b := slices.Sorted(slices.Values(r.order)), slices.Sorted(slices.Values(o.order)); !slices.Equal(a, b) {
		return fmt.Sprintf("traces %v and %v", a, b)
	}
	for _, id := range r.order {
		a, b := r.traces[id].moments, o.traces[id].moments
		for i := range min(len(a), len(b)) {
			x, y := a[i], b[i]
			if !places {
				x.at, y.at = events.Position{}, events.Position{}
			}
			switch {
			case x.at != y.at || x.event != y.event:
				return fmt.Sprintf("trace %s, event %d: %s at %s, and %s at %s", id, i+1, x.event, a[i].at, y.event, b[i].at)
			case x.ends != y.ends:
				return fmt.Sprintf("trace %s at %s, %s: calls stand at %s, and at %s", id, a[i].at, x.event, x.ends, y.ends)
			case x.told != y.told:
				return fmt.Sprintf("trace %s at %s, %s: the model is told something else", id, a[i].at, x.event)
			}
		}
		if len(a) != len(b) {
			return fmt.Sprintf("trace %s has %d events, and %d", id, len(a), len(b))
		}
	}
	return ""
}

// commitsOf are the commits of a turn, of whatever trace.
func (r *reader) commitsOf(key events.TurnKey) (out []events.Commit) {
	p := r.traces[key.Trace]
	if p == nil {
		return nil
	}
	for _, s := range p.commits {
		if s.Commit.Turn == key {
			out = append(out, s.Commit)
		}
	}
	return out
}

// whole says that the log has its beginning: retention has taken nothing.
func (r *reader) whole() bool {
	for _, p := range r.traces {
		if p.commits[0].Seq == 1 {
			return true
		}
	}
	return false
}

// turns is how many turns were read.
func (r *reader) turns() (n int) {
	for _, p := range r.traces {
		n += len(p.turns)
	}
	return n
}

// events is how many events were read.
func (r *reader) events() (n int) {
	for _, p := range r.traces {
		n += len(p.moments)
	}
	return n
}
