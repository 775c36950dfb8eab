package fault

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Plan is scripts that have each been played once without a fault.
type Plan struct {
	Turns []*Turn
}

// Turn is a script, and what comes of it without a fault.
type Turn struct {
	Script *Script
	Pairs  []Pair // its neighbouring stages, in the order in which they are shown
	// Differs are the calls whose answers are not the recorded ones, without any fault:
	// what today's runtime does otherwise. Cells are held against what it does.
	Differs  []Difference
	Failures []Failure // broken laws, without any fault
	answers  []events.Answer
	commits  []bus.Stored
}

// Applies says why the fault cannot occur there; "" if it can.
func (c Cell) Applies() string { return c.Turn.Script.applies(c.Pair, c.Row) }

// Selection says which cells are wanted. Its zero value is all.
type Selection struct {
	Kinds []Kind // nil: all
	From  string // of the pair; "": every pair. A kind of an event, start or end; a turn's may stand without its turn_
	To    string
	Call  int  // only where One: the call's stages; events.TurnEvent: the turn's own
	One   bool // only Call's
	Turn  string
}

// Cell is one fault at one place of one turn.
type Cell struct {
	Turn *Turn
	Pair Pair
	Row  KindRow
}

// Runner plays cells. Its zero value is good.
type Runner struct {
	Workers int  // at once; 0 means as many as there are processors
	Story   bool // each result tells what happened, step by step
}

// crew plays with a system of actors that is made anew now and then: those of nodes that
// have died stay in it.
type crew struct {
	system *actors.System
	played int
	boots  int
	story  bool
}

// mostPlayed is how many cells share a system.
const mostPlayed = 256

func (w *crew) cell(s *Script, strikes ...*strike) *cell {
	if w.system == nil || w.played == mostPlayed {
		w.system, w.played, w.boots = actors.NewSystem(slog.New(slog.DiscardHandler)), 0, 0
	}
	w.played++
	c := newCell(s, w.system, w.name, strikes...)
	c.telling = w.story
	for _, x := range strikes {
		x.c = c
	}
	return c
}

// name is a boot id that no other has in the crew's system.
func (w *crew) name() string {
	w.boots++
	return fmt.Sprint("n", w.boots)
}

// each calls do for every index below n, from as many goroutines as there are workers,
// until ctx ends. It returns once all have returned.
func (r Runner) each(ctx context.Context, n int, do func(w *crew, i int)) {
	workers := r.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			w := &crew{story: r.Story}
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				do(w, i)
			}
		})
	}
	wg.Wait()
}

// Plan plays every script once without a fault. It returns ctx's error where that ends
// first.
func (r Runner) Plan(ctx context.Context, scripts []*Script) (*Plan, error) {
	p := &Plan{Turns: make([]*Turn, len(scripts))}
	r.each(ctx, len(scripts), func(w *crew, i int) { p.Turns[i] = w.turn(scripts[i]) })
	return p, ctx.Err()
}

// turn plays a script without a fault.
func (w *crew) turn(s *Script) *Turn {
	c := w.cell(s)
	c.play()
	t := &Turn{Script: s, commits: c.commits, Pairs: pairsOf(len(s.calls), c.commits)}
	t.answers = c.judge(nil)
	t.Failures = c.errs
	for i := range t.answers {
		if s.calls[i].made || i >= len(s.recorded) || sameAnswer(t.answers[i], s.recorded[i]) {
			continue
		}
		t.Differs = append(t.Differs, difference(i, s.recorded[i], t.answers[i], unlikeRecorded, c.reason(i)))
	}
	return t
}

// unlikeRecorded is said where the model is told something else without any fault.
const unlikeRecorded = "without any fault: today's runtime does not do what was recorded, or the recording does not say all that was the case"

// Playable says whether faults can be put into the turn: not where it comes to no end
// without any.
func (t *Turn) Playable() bool {
	return !slices.ContainsFunc(t.Failures, func(f Failure) bool { return f.Law == lawEnd || f.Law == lawEngine })
}

// Cells are those of a plan that are selected, in the order of turns, pairs and kinds:
// of the turns that are Playable.
func (p *Plan) Cells(sel Selection) []Cell {
	var out []Cell
	for _, t := range p.Turns {
		if sel.Turn != "" && sel.Turn != t.Script.Key.Turn || !t.Playable() {
			continue
		}
		for _, pair := range t.Pairs {
			if !sel.pair(pair) {
				continue
			}
			for _, row := range Kinds {
				if sel.Kinds == nil || slices.Contains(sel.Kinds, row.Kind) {
					out = append(out, Cell{t, pair, row})
				}
			}
		}
	}
	return out
}

func (s Selection) pair(p Pair) bool {
	if s.One && s.Call != p.Call {
		return false
	}
	return s.From == "" || isStage(p, p.From, s.From) && isStage(p, p.To, s.To)
}

// isStage says whether somebody means a stage: turn_ may be left out of a turn's, where no
// kind of call events has that name.
func isStage(p Pair, stage, meant string) bool {
	if stage == meant {
		return true
	}
	_, call := events.KindRow(events.Kind(meant))
	return p.Call == events.TurnEvent && stage == "turn_"+meant && (!call || meant == "completed")
}

// Play plays cells, and yields their results in the cells' order, from one goroutine at a
// time. It returns ctx's error where that ends first.
func (r Runner) Play(ctx context.Context, cells []Cell, yield func(Result)) error {
	var mu sync.Mutex
	ready, next := make(map[int]Result), 0
	r.each(ctx, len(cells), func(w *crew, i int) {
		res := w.play(cells[i])
		mu.Lock()
		defer mu.Unlock()
		ready[i] = res
		for res, ok := ready[next]; ok; res, ok = ready[next] {
			delete(ready, next)
			next++
			yield(res)
		}
	})
	return ctx.Err()
}

// play plays one cell.
func (w *crew) play(x Cell) Result {
	s := x.Turn.Script
	res := Result{Trace: s.Key.Trace, Turn: s.Key.Turn, Pair: x.Pair, Kind: x.Row.Kind}
	if res.Why = s.applies(x.Pair, x.Row); res.Why != "" {
		res.Verdict = NotApplicable
		return res
	}
	hit := &strike{row: x.Row, pair: x.Pair}
	c := w.cell(s, hit)
	c.play()
	now := c.judge(x.Turn.answers)
	res.Effects, res.Story = c.counts(), c.story
	switch {
	case !hit.struck:
		c.fail(lawEngine, x.Pair.Call, "the fault did not strike")
	default:
		res.Answers = c.answers(hit)
		if now != nil && len(x.Turn.answers) == len(now) {
			res.Differences = c.differences(hit, x.Turn.answers, now)
		}
		if res.Answers != nil && x.Pair.Call != events.TurnEvent {
			res.Answers.Finding = c.finding(x.Pair.Call)
		}
	}
	res.Story = c.story
	switch res.Failures = c.errs; {
	case len(c.errs) > 0:
		res.Verdict = Failed
	case len(res.Differences) > 0:
		res.Verdict = Differs
	default:
		res.Verdict = Same
	}
	return res
}
