package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// shownEvents is how many events show prints where nobody says how many.
const shownEvents = 1000

// choice says which events are shown.
type choice struct {
	target
	from  events.Position // the first; zero: the target's first one, or where at is given so many that end there
	at    events.Position // the last that counts: what is behind has not happened yet
	limit int             // most events; 0 means all
}

// page is the events of a target that are shown together, and how its turns stood
// at the choice's position.
type page struct {
	book    *book
	choice  choice
	stories []*story // of turns that have a place on the page
	turns   int      // of the trace, up to the position
	calls   int
	events  int
	before  int // events of the target that stand before the page
	after   int // and behind it, up to the position
	from    events.Position
	to      events.Position
}

// page chooses the events, and tells the turns that have one.
func (b *book) page(ctx context.Context, c choice) (*page, error) {
	p := &page{book: b, choice: c}
	if len(b.turns) == 0 {
		return p, nil // nothing of it can be read
	}
	if c.at.Compare(b.turns[0].from) < 0 {
		return nil, beginsBehind(b.trace, b.turns[0].from)
	}
	p.events, p.calls, p.turns = b.upTo(c.at)
	if c.turn == "" {
		return p, p.ofTrace(ctx)
	}
	if err := b.has(c.target, p.turns); err != nil {
		return nil, err
	}
	return p, p.ofTurn(ctx, b.of[c.turn])
}

// has returns nil if the trace had that turn when it had so many turns, or says
// what it had; whether the call is there is asked of the turn.
func (b *book) has(t target, turns int) error {
	var names []string
	for _, c := range b.turns[:turns] {
		names = append(names, c.key.Turn)
	}
	if slices.Contains(names, t.turn) {
		return nil
	}
	return &exit.Failure{Err: fmt.Errorf("trace %s has no turn %s", t.trace, t.turn), Hint: nearly(t.turn, names, "its turns are: "), Code: exit.Failed}
}

// hasCall returns nil if a turn with so many calls has that one.
func hasCall(t target, calls int) error {
	if t.call < calls {
		return nil
	}
	return &exit.Failure{
		Err:  fmt.Errorf("turn %s/%s has no call %d: it has %s", t.trace, t.turn, t.call, count(calls, "call")),
		Hint: "calls are numbered from 0", Code: exit.Failed,
	}
}

// ofTrace fills the page with events of any turn.
func (p *page) ofTrace(ctx context.Context) error {
	b, c := p.book, p.choice
	first := 0
	switch {
	case c.from != (events.Position{}):
		first = b.before(c.from)
	case c.at != end && c.limit > 0:
		first = max(p.events-c.limit, 0)
	}
	last := p.events
	if c.limit > 0 {
		last = min(last, first+c.limit)
	}
	p.before, p.after = min(first, p.events), max(p.events-last, 0)
	if first >= last {
		return nil // what is asked for begins behind the last event
	}
	p.from, p.to = b.place(first), b.place(last-1)
	return p.tell(ctx)
}

// nearEvents is how many events of other turns are read on the way, at most, where two
// places are read at once.
const nearEvents = 2048

// tell tells the turns that have an event on the page. Those that begin and end near
// it are read together with it.
func (p *page) tell(ctx context.Context) error {
	b := p.book
	first, last := b.before(p.from), b.before(p.to)
	from, to := p.from, p.to
	near := make(map[string]*story)
	var chapters []*chapter
	seen := make(map[uint32]bool)
	for _, l := range b.commits[b.leafOf(p.from) : b.leafOf(p.to)+1] {
		if seen[l.turn] {
			continue
		}
		seen[l.turn] = true
		c := b.turns[l.turn]
		chapters = append(chapters, c)
		ends := c.to
		if ends.Compare(p.choice.at) > 0 {
			ends = p.choice.at
		}
		if len(c.states) > 0 || first-b.before(c.from) > nearEvents || b.before(ends)-last > nearEvents {
			continue
		}
		near[c.key.Turn] = newStory(c.key)
		from = earlierOf(from, c.from)
		if ends.Compare(to) > 0 {
			to = ends
		}
	}
	if err := p.read(ctx, from, to, near); err != nil {
		return err
	}
	slices.SortFunc(chapters, func(a, b *chapter) int { return a.from.Compare(b.from) })
	for _, c := range chapters {
		st := near[c.key.Turn]
		if st == nil {
			var err error
			if st, err = b.story(ctx, c, p.from, p.to, p.choice.at); err != nil {
				return err
			}
		}
		if st.kept > 0 {
			p.stories = append(p.stories, st)
		}
	}
	return nil
}

func earlierOf(a, b events.Position) events.Position {
	if b.Compare(a) < 0 {
		return b
	}
	return a
}

// read tells what stands between two positions to the stories of its turns.
func (p *page) read(ctx context.Context, from, to events.Position, stories map[string]*story) error {
	return p.book.walk(ctx, from, bus.Filter{Trace: p.book.trace}, func(e projections.Event) error {
		if e.Pos.Compare(to) > 0 || e.Pos.Compare(p.choice.at) > 0 {
			return errEnough
		}
		if st := stories[e.Turn.Turn]; st != nil {
			st.tell(e, e.Pos.Compare(p.from) >= 0 && e.Pos.Compare(p.to) <= 0)
		}
		return nil
	})
}

// ofTurn fills the page with events of one turn, or of one of its calls.
func (p *page) ofTurn(ctx context.Context, ch *chapter) error {
	c := p.choice
	var all []events.Position
	calls := 0
	err := p.book.walk(ctx, ch.from, bus.Filter{Trace: ch.key.Trace, Turn: ch.key.Turn}, func(e projections.Event) error {
		if e.Pos.Compare(c.at) > 0 || e.Pos.Compare(ch.to) > 0 {
			return errEnough
		}
		if s, ok := e.Event.(*events.TurnSubmitted); ok {
			calls = len(s.Calls)
		}
		if c.call == noCall || c.call == e.Call {
			all = append(all, e.Pos)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := hasCall(c.target, calls); err != nil && len(all) == 0 {
		return err
	}
	p.window(all)
	st, err := p.book.story(ctx, ch, p.from, p.to, c.at)
	if err != nil {
		return err
	}
	p.stories = []*story{st}
	return nil
}

// window chooses among the positions of a target's events.
func (p *page) window(all []events.Position) {
	c := p.choice
	first := 0
	switch {
	case c.from != (events.Position{}):
		first, _ = slices.BinarySearchFunc(all, c.from, events.Position.Compare)
	case c.at != end && c.limit > 0:
		first = max(len(all)-c.limit, 0)
	}
	last := len(all)
	if c.limit > 0 {
		last = min(last, first+c.limit)
	}
	p.before, p.after = first, len(all)-last
	p.from, p.to = c.at, c.at // nothing
	if first < last {
		p.from, p.to = all[first], all[last-1]
	} else if len(all) > 0 {
		p.from.Index++ // what is asked for begins behind the last event
	}
}

// earlier is where a page of the same size begins that ends before this one.
func (p *page) earlier() events.Position {
	if p.choice.turn != "" || p.choice.limit == 0 {
		return p.book.turns[0].from
	}
	return p.book.place(p.before - p.choice.limit)
}

// next is where the page behind this one begins.
func (p *page) next() events.Position {
	out := p.to
	out.Index++
	return out
}
