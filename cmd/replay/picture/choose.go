package picture

import (
	"slices"
	"strings"
)

// Bounds of what of a trace is drawn.
const (
	maxCalls    = 200 // rows
	maxTurns    = 60  // turns with an axis of their own
	maxSegments = 24  // of a row
	maxMarks    = 12  // of a row
)

// place is a call in a trace, or a turn without calls.
type place struct {
	turn int
	call int // in the order of the turn's batches; -1: none
}

// calls yields the calls of a turn, in the order of its batches.
func (t *Turn) calls(yield func(i int, b *Batch, c *Call) bool) {
	i := 0
	for j := range t.Batches {
		b := &t.Batches[j]
		for k := range b.Calls {
			if !yield(i, b, &b.Calls[k]) {
				return
			}
			i++
		}
	}
}

// count is how many calls a turn has.
func (t *Turn) count() int {
	n := 0
	for i := range t.Batches {
		n += len(t.Batches[i].Calls)
	}
	return n
}

// telling says whether somebody who looks for what went wrong wants to see a call.
func (c *Call) telling() bool {
	return !c.State.fine() || slices.ContainsFunc(c.Marks, func(m Mark) bool { return m.Sign != Note && m.Sign != Yes }) ||
		slices.ContainsFunc(c.Segments, func(s Segment) bool { return s.Kind == Lost || s.Kind == Recovery || s.Kind == Ending })
}

// choice is what is drawn of a trace.
type choice struct {
	calls map[place]bool
	turns map[int]bool
}

// choose picks what is drawn: all that there is, or, of a long trace, the calls that
// did not end well and then those at its beginning and its end.
func choose(turns []Turn, calls, most int) choice {
	var told, rest []place
	for i := range turns {
		t := &turns[i]
		if t.count() == 0 {
			told, rest = sortOut(told, rest, place{i, -1}, !t.State.fine())
		}
		t.calls(func(n int, _ *Batch, c *Call) bool {
			told, rest = sortOut(told, rest, place{i, n}, c.telling())
			return true
		})
	}
	out := choice{map[place]bool{}, map[int]bool{}}
	take := func(list []place, room int) {
		for i := range list { // from both ends inwards
			p := list[i/2]
			if i%2 == 1 {
				p = list[len(list)-1-i/2]
			}
			if len(out.calls) >= room {
				return
			}
			if out.turns[p.turn] || len(out.turns) < most {
				out.turns[p.turn], out.calls[p] = true, true
			}
		}
	}
	if len(told)+len(rest) <= calls && len(turns) <= most {
		take(told, calls)
	} else {
		take(told, calls*3/4)
	}
	take(rest, calls)
	return out
}

func sortOut(told, rest []place, p place, telling bool) (a, b []place) {
	if telling {
		return append(told, p), rest
	}
	return told, append(rest, p)
}

// tally is calls by how they stand.
type tally [states]int

func (n *tally) add(s State) {
	if s < 0 || s >= states {
		s = Unknown
	}
	n[s]++
}

func (n *tally) addTurn(t *Turn) {
	t.calls(func(_ int, _ *Batch, c *Call) bool {
		n.add(c.State)
		return true
	})
}

// all is how many there are.
func (n *tally) all() int {
	sum := 0
	for _, k := range n {
		sum += k
	}
	return sum
}

// String is for example "12 calls: 10 completed, 2 denied".
func (n *tally) String() string {
	var parts []string
	for s, k := range n {
		if k > 0 {
			parts = append(parts, grouped(k)+" "+State(s).look().words)
		}
	}
	if len(parts) == 0 {
		return "no calls"
	}
	return count(n.all(), "call") + ": " + strings.Join(parts, ", ")
}
