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
	var err error
	if p.events, p.calls, p.turns, err = b.before(ctx, c.at); err != nil {
		return nil, err
	}
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
	start, err := p.start(ctx)
	if err != nil {
		return err
	}
	var got []projections.Event
	err = b.walk(ctx, start, bus.Filter{Trace: b.trace}, func(e projections.Event) error {
		if e.Pos.Compare(c.at) > 0 || c.limit > 0 && len(got) == c.limit {
			return errEnough
		}
		got = append(got, e)
		return nil
	})
	if err != nil {
		return err
	}
	if len(got) == 0 {
		p.before = p.events // what is asked for begins behind them
		return nil
	}
	p.from, p.to = got[0].Pos, got[len(got)-1].Pos
	upTo, _, _, err := b.before(ctx, p.to)
	if err != nil {
		return err
	}
	p.before, p.after = upTo-len(got), p.events-upTo
	return p.tell(ctx, got)
}

// start is where the page begins.
func (p *page) start(ctx context.Context) (events.Position, error) {
	b, c := p.book, p.choice
	switch {
	case c.from != (events.Position{}):
		return c.from, nil
	case c.at == end || c.limit == 0 || p.events <= c.limit:
		return b.turns[0].from, nil
	}
	return b.place(ctx, p.events-c.limit)
}

// tell tells the turns that the events are of: from them, where they hold all of
// the turn, else from the log.
func (p *page) tell(ctx context.Context, got []projections.Event) error {
	whole := make(map[string]*story)
	var chapters []*chapter
	seen := make(map[string]bool)
	for _, e := range got {
		c := p.book.of[e.Turn.Turn]
		if c == nil {
			continue // it came after the book was opened
		}
		if !seen[e.Turn.Turn] {
			seen[e.Turn.Turn] = true
			chapters = append(chapters, c)
			if c.from.Compare(p.from) >= 0 && (c.to.Compare(p.to) <= 0 || p.after == 0) {
				whole[e.Turn.Turn] = newStory(c.key)
			}
		}
		if st := whole[e.Turn.Turn]; st != nil {
			st.tell(e, true)
		}
	}
	slices.SortFunc(chapters, func(a, b *chapter) int { return a.from.Compare(b.from) })
	for _, c := range chapters {
		st := whole[c.key.Turn]
		if st == nil {
			var err error
			if st, err = p.book.story(ctx, c, p.from, p.to, p.choice.at); err != nil {
				return err
			}
		}
		p.stories = append(p.stories, st)
	}
	return nil
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
func (p *page) earlier(ctx context.Context) (events.Position, error) {
	if p.choice.turn != "" || p.choice.limit == 0 {
		return p.book.turns[0].from, nil
	}
	return p.book.place(ctx, p.before-p.choice.limit)
}

// next is where the page behind this one begins.
func (p *page) next() events.Position {
	out := p.to
	out.Index++
	return out
}
