package picture

import (
	"math"
	"slices"
	"time"
)

// piece is a stretch of an axis on which time passes evenly. A folded one is a long
// wait in which nothing happened: it is drawn short, and broken.
type piece struct {
	from, to time.Duration // since the axis begins
	x0, x1   float64
	folded   bool
}

// axis is where times stand. It begins at start.
type axis struct {
	start  time.Time
	pieces []piece
}

// stretch is what is known of a part of an axis before it is drawn.
type stretch struct {
	from, to time.Duration
	busy     bool // something runs, or is decided
}

// What is folded: a wait of foldWait or a run of foldRun, or more, that is foldRatio
// times as long as all that would be left; the foldMost longest of them.
const (
	foldWait  = 10 * time.Second
	foldRun   = time.Hour
	foldRatio = 4
	foldMost  = 6
	foldWidth = 44.0
)

// foreverAxis bounds what an axis can show: times that somebody made up must not
// overflow.
const foreverAxis = 100 * 365 * 24 * time.Hour

// since is a moment on an axis.
func since(start, t time.Time) time.Duration {
	return min(max(t.Sub(start), 0), foreverAxis)
}

// newAxis lays moments and stretches of time out between x0 and x1. Moments are
// what since makes of times.
func newAxis(start time.Time, moments []time.Duration, busy [][2]time.Duration, x0, x1 float64) axis {
	parts := stretches(moments, busy)
	folded := foldedOf(parts)
	left := time.Duration(0)
	for i, s := range parts {
		if !folded[i] {
			left += s.to - s.from
		}
	}
	room := x1 - x0 - float64(len(folded))*foldWidth
	a := axis{start: start}
	x := x0
	for i, s := range parts {
		w := foldWidth
		if !folded[i] {
			w = 0
			if left > 0 {
				w = room * float64(s.to-s.from) / float64(left)
			}
		}
		if last := len(a.pieces) - 1; last >= 0 && !folded[i] && !a.pieces[last].folded {
			a.pieces[last].to, a.pieces[last].x1 = s.to, x+w
		} else {
			a.pieces = append(a.pieces, piece{s.from, s.to, x, x + w, folded[i]})
		}
		x += w
	}
	if len(a.pieces) == 0 {
		a.pieces = []piece{{0, 0, x0, x0, false}}
	}
	return a
}

// stretches are what lies between the moments.
func stretches(moments []time.Duration, busy [][2]time.Duration) []stretch {
	at := append([]time.Duration{0}, moments...)
	for _, b := range busy {
		at = append(at, b[0], b[1])
	}
	slices.Sort(at)
	at = slices.Compact(at)
	begins := make([]int, len(at)) // how many begin there, less how many end
	for _, b := range busy {
		if b[0] < b[1] {
			i, _ := slices.BinarySearch(at, b[0])
			j, _ := slices.BinarySearch(at, b[1])
			begins[i]++
			begins[j]--
		}
	}
	var out []stretch
	running := 0
	for i := range len(at) - 1 {
		running += begins[i]
		if last := len(out) - 1; last >= 0 && out[last].busy && running > 0 && at[i+1]-at[i] < foldRun && out[last].to-out[last].from < foldRun {
			out[last].to = at[i+1] // neighbours that run are never folded by themselves
			continue
		}
		out = append(out, stretch{at[i], at[i+1], running > 0})
	}
	return out
}

// foldedOf says which stretches are folded.
func foldedOf(parts []stretch) map[int]bool {
	var can []int
	left := time.Duration(0)
	for i, s := range parts {
		d := s.to - s.from
		left += d
		if d >= foldRun || d >= foldWait && !s.busy {
			can = append(can, i)
		}
	}
	slices.SortStableFunc(can, func(a, b int) int {
		return int(min(max((parts[b].to-parts[b].from)-(parts[a].to-parts[a].from), -1), 1))
	})
	can = can[:min(len(can), foldMost)]
	var out map[int]bool
	for n, i := range can {
		left -= parts[i].to - parts[i].from
		if left > 0 && parts[i].to-parts[i].from >= foldRatio*left {
			out = map[int]bool{}
			for _, j := range can[:n+1] {
				out[j] = true
			}
		}
	}
	return out
}

// x is where a moment stands; what is outside stands at the edge.
func (a axis) x(t time.Time) float64 {
	d := since(a.start, t)
	for _, p := range a.pieces {
		if d <= p.to {
			if d <= p.from || p.to == p.from {
				return p.x0
			}
			return p.x0 + (p.x1-p.x0)*(float64(d-p.from)/float64(p.to-p.from))
		}
	}
	return a.pieces[len(a.pieces)-1].x1
}

// long says whether any time passes on an axis.
func (a axis) long() bool { return a.pieces[len(a.pieces)-1].to > 0 }

// tick is a mark of an axis.
type tick struct {
	x     float64
	label string
}

// tickRoom is how far ticks stand from each other at least.
const tickRoom = 72

// ticks are even marks of each piece. Behind a fold they count from the fold's end.
func (a axis) ticks() []tick {
	var out []tick
	for i, p := range a.pieces {
		if p.folded {
			continue
		}
		behind := i > 0
		if p.to == p.from || p.x1-p.x0 < 1 {
			if !behind {
				out = append(out, tick{p.x0, "0"})
			}
			continue
		}
		step := niceStep(p.to-p.from, int((p.x1-p.x0)/tickRoom))
		for d := time.Duration(0); d <= p.to-p.from; d += step {
			t := tick{p.x0 + (p.x1-p.x0)*float64(d)/float64(p.to-p.from), span(d)}
			if behind && d > 0 {
				t.label = "+" + t.label
			} else if behind {
				continue // the fold says how long it was
			}
			out = append(out, t)
		}
	}
	return out
}

// niceStep divides a duration into at most n parts of a round length.
func niceStep(d time.Duration, n int) time.Duration {
	n = max(n, 1)
	least := d / time.Duration(n)
	for _, unit := range []time.Duration{
		1, 2, 5, 10, 20, 50, 100, 200, 500,
		time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond, 10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
		100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
	} {
		if unit > least || unit == d {
			return unit
		}
	}
	year := 365 * 24 * time.Hour
	return year * time.Duration(math.Ceil(float64(least)/float64(year)+1))
}
