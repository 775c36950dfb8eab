package e2e

import (
	"context"
	"crypto/sha256"
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
	told  [sha256.Size]byte
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
}

// reader folds what it reads, event by event.
type reader struct {
	ctx    context.Context
	blobs  projections.Blobs
	traces map[string]*past
	order  []string
	broken []string // commits that cannot be read
}

// pasts reads everything.
func pasts(ctx context.Context, from library) (*reader, error) {
	r := &reader{ctx: ctx, traces: map[string]*past{}}
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
		t = &turnPast{state: lifecycle.Turn{Key: e.Turn}}
		p.turns[e.Turn.Turn] = t
	}
	t.state = lifecycle.Evolve(t.state, lifecycle.Meta{At: e.At, By: e.By}, e.Record)
	if k := e.Kind(); events.IsTerminal(k) || events.EndsTurn(k) || k == events.KindTurnSubmitted {
		t.ends = endsOf(t.state)
	}
	p.conv = projections.Answers.Apply(p.conv, e)
	if a := p.conv.Turn(e.Turn); a != nil && a.Last == e.Pos {
		if sampled(t.changes, len(a.Calls)+2) {
			if err := r.render(p, a); err != nil {
				return err
			}
		}
		t.changes++
	}
	m := moment{at: e.Pos, event: fmt.Sprintf("%s of %s/%d", e.Kind(), e.Turn, e.Call), ends: t.ends}
	p.told.Sum(m.told[:0])
	p.moments = append(p.moments, m)
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
// rendered: at all of few, else at the first and last eight, and sixteen between.
func sampled(i, n int) bool {
	const edge, most = 8, 32
	return n <= most || i < edge || i >= n-edge || (i-edge)%((n-2*edge)/(most/2)) == 0
}

// render adds what the model is told now of a turn, for each provider.
func (r *reader) render(p *past, t *projections.Turn) error {
	answers, err := t.Answers(r.blobs)
	if err != nil {
		if r.ctx.Err() != nil || errors.Is(err, bus.ErrUnavailable) {
			return err
		}
		fmt.Fprintln(p.told, err)
	}
	for _, f := range codec.Formats() {
		list, err := codec.Render(f, answers, codec.Options{CallBytes: t.Limits.CallBytes, TurnBytes: t.Limits.TurnBytes})
		if err != nil {
			return err
		}
		for _, m := range list {
			p.told.Write(append(m, '\n'))
		}
	}
	return nil
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

// events is how many events were read.
func (r *reader) events() (n int) {
	for _, p := range r.traces {
		n += len(p.moments)
	}
	return n
}
