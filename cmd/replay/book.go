package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// stretch is how many events stand between two copies of the state of a long turn:
// what must be read again to stand anywhere in it.
const stretch = 512

// book is what a trace holds and where, without what it says: read once, it finds
// any place of a trace of any length. It is not changed once it is open.
type book struct {
	trace   string
	log     source
	turns   []*chapter // in the order in which they began
	of      map[string]*chapter
	commits []leaf
	stretch int
	events  int
	damaged []damage
	torn    error           // what is wrong with an archive as a whole
	cut     bool            // the log has more of it, behind the position that was asked for
	last    events.Position // of the last event
}

// leaf is one commit: there are many, so it is small.
type leaf struct {
	seq        uint64
	generation uint32
	turn       uint32 // number of its chapter
	events     uint32 // of the book, up to and with it
}

// chapter is one turn of a book.
type chapter struct {
	key      events.TurnKey
	number   uint32
	from, to events.Position // of its first and last event
	events   int
	calls    int    // of all chapters up to this one
	own      int    // calls
	fault    string // the first thing that is wrong with what was recorded of it; "" if nothing is
	faultAt  events.Position
	behind   bool     // events stand behind its end, which the first reading did not fold
	states   []*story // of a turn longer than a stretch, each a stretch behind the one before
}

// openBook reads a trace up to a position. A trace that is not there is an error
// that names those that are called nearly so.
func openBook(ctx context.Context, log source, trace string, at events.Position) (*book, error) {
	b := &book{trace: trace, log: log, of: make(map[string]*chapter), stretch: stretch}
	return b, b.open(ctx, at)
}

// open reads the trace.
func (b *book) open(ctx context.Context, at events.Position) error {
	open := make(map[string]*story)
	var first *events.Position
	err := scan(ctx, b.log, bus.Filter{Trace: b.trace}, func(d damage) { b.damaged = append(b.damaged, d) }, func(s bus.Stored) error {
		if first == nil {
			p := s.Position(0)
			first = &p
		}
		kept, some := upTo(s, at)
		b.cut = b.cut || len(kept.Commit.Records) < len(s.Commit.Records)
		if !some {
			return errEnough
		}
		b.enter(kept, open)
		return nil
	})
	if errors.Is(err, archive.ErrDamaged) {
		b.torn, err = err, nil
	}
	for id, st := range open {
		b.of[id].close(st)
	}
	if err == nil {
		err = b.finish(ctx)
	}
	switch {
	case err != nil:
		return err
	case first == nil && len(b.damaged) == 0:
		return errors.Join(b.torn, unknownTrace(ctx, b.log, b.trace))
	case first != nil && len(b.turns) == 0:
		return beginsBehind(b.trace, *first)
	}
	return nil
}

// finish counts the calls, and folds again the turns with events behind their end.
func (b *book) finish(ctx context.Context) error {
	calls := 0
	for _, c := range b.turns {
		if c.behind {
			st, err := b.story(ctx, c, end, end, b.last)
			if err != nil {
				return err
			}
			c.close(st)
		}
		calls += c.own
		c.calls = calls
	}
	return nil
}

// enter notes a commit. open are the states of turns that have not ended.
func (b *book) enter(s bus.Stored, open map[string]*story) {
	id := s.Commit.Turn.Turn
	c := b.of[id]
	if c == nil {
		c = &chapter{key: s.Commit.Turn, number: uint32(len(b.turns)), from: s.Position(0)}
		b.turns, b.of[id] = append(b.turns, c), c
		open[id] = newStory(c.key)
	}
	for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
		b.events++
		c.events++
		c.to, b.last = e.Pos, e.Pos
		st := open[id]
		if st == nil { // behind the end of a short turn
			c.behind = true
			continue
		}
		st.tell(e, false)
		if st.count%b.stretch == 0 {
			c.states = append(c.states, st.copyOf())
		}
		if events.EndsTurn(e.Kind()) && len(c.states) == 0 {
			c.close(st)
			delete(open, id)
		}
	}
	b.commits = append(b.commits, leaf{s.Seq, s.Generation, c.number, uint32(b.events)})
}

// close notes what a turn's fold says of it.
func (c *chapter) close(st *story) {
	c.own = len(st.turn.Calls)
	c.fault, c.faultAt = st.fault, st.faultAt
}

// leafOf is the number of the first commit that stands at a position or behind it.
func (b *book) leafOf(at events.Position) int {
	i, _ := slices.BinarySearchFunc(b.commits, at, func(l leaf, p events.Position) int {
		return events.Position{Generation: l.generation, Seq: l.seq}.Compare(events.Position{Generation: p.Generation, Seq: p.Seq})
	})
	return i
}

// first is how many events stand before a commit.
func (b *book) first(leaf int) int {
	if leaf == 0 {
		return 0
	}
	return int(b.commits[leaf-1].events)
}

// before is how many events stand before a position.
func (b *book) before(at events.Position) int {
	i := b.leafOf(at)
	n := b.first(i)
	if i < len(b.commits) && b.commits[i].seq == at.Seq && b.commits[i].generation == at.Generation {
		n += min(at.Index, int(b.commits[i].events)-n)
	}
	return n
}

// upTo is how many events, calls and turns the trace had at a position.
func (b *book) upTo(at events.Position) (n, calls, turns int) {
	if at.Compare(b.last) >= 0 {
		return b.events, b.turns[len(b.turns)-1].calls, len(b.turns)
	}
	turns, found := slices.BinarySearchFunc(b.turns, at, func(c *chapter, p events.Position) int { return c.from.Compare(p) })
	if found {
		turns++
	}
	if turns > 0 {
		calls = b.turns[turns-1].calls
	}
	if at.Index < end.Index { // what is behind every index is behind the commit
		at.Index++
	}
	return b.before(at), calls, turns
}

// place is the position of the event before which n events of the book stand.
func (b *book) place(n int) events.Position {
	n = min(max(n, 0), b.events-1)
	i, _ := slices.BinarySearchFunc(b.commits, uint32(n), func(l leaf, n uint32) int {
		if l.events <= n {
			return -1
		}
		return 1
	})
	l := b.commits[i]
	return events.Position{Generation: l.generation, Seq: l.seq, Index: n - b.first(i)}
}

// walk calls do for each event from a position on, until do returns an error;
// errEnough ends it without one. What cannot be read was told of when the book was
// opened.
func (b *book) walk(ctx context.Context, from events.Position, f bus.Filter, do func(projections.Event) error) error {
	err := scanFrom(ctx, b.log, from, f, func(damage) {}, func(s bus.Stored) error {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			if e.Pos.Compare(from) < 0 {
				continue
			}
			if err := do(e); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, archive.ErrDamaged) {
		return nil
	}
	return err
}

// story tells a turn: of its events those between two positions, and how it stands
// at a third one, which is not before them.
func (b *book) story(ctx context.Context, c *chapter, from, to, at events.Position) (*story, error) {
	if at.Compare(b.last) > 0 {
		at = b.last // what came later is not in the book
	}
	st := c.stateBefore(from)
	for {
		err := b.walk(ctx, cmp.Or(st.next, c.from), bus.Filter{Trace: b.trace, Turn: c.key.Turn}, func(e projections.Event) error {
			if e.Pos.Compare(at) > 0 || e.Pos.Compare(to) > 0 && c.leap(st, at) != nil {
				return errEnough
			}
			st.tell(e, e.Pos.Compare(from) >= 0 && e.Pos.Compare(to) <= 0)
			return nil
		})
		if err != nil {
			return nil, err
		}
		further := c.leap(st, at)
		if further == nil {
			return st, nil
		}
		st = further.withEventsOf(st)
	}
}

// stateBefore is the latest state of the turn that holds no event from a position on.
func (c *chapter) stateBefore(p events.Position) *story {
	for _, st := range slices.Backward(c.states) {
		if st.next.Compare(p) <= 0 {
			return st.copyOf()
		}
	}
	return newStory(c.key)
}

// leap is the latest state of the turn at a position, if it is further than st.
func (c *chapter) leap(st *story, at events.Position) *story {
	for _, s := range slices.Backward(c.states) {
		if s.count <= st.count {
			return nil
		}
		last := s.next
		last.Index--
		if last.Compare(at) <= 0 {
			return s
		}
	}
	return nil
}

// withEventsOf is the story as it stands further on, with the events that an
// earlier one of the same turn shows.
func (st *story) withEventsOf(earlier *story) *story {
	out := st.copyOf()
	out.events, out.kept, out.hidden = earlier.events, earlier.kept, earlier.hidden
	for offset, t := range earlier.calls {
		out.tale(offset).events = t.events
	}
	return out
}

// beginsBehind is the error of a position before a trace's beginning.
func beginsBehind(trace string, first events.Position) error {
	return exit.Misused(fmt.Errorf("trace %s begins at %s, behind the position that --at names", trace, first), "give that position, or a later one")
}
