package fault

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-run/sluice/events"
)

// Round is one playing of a turn with several faults, drawn from a seed. The same seed
// over the same turns is the same round, to the last step.
type Round struct {
	Seed        uint64       `json:"seed"`
	Trace       string       `json:"trace"`
	Turn        string       `json:"turn"`
	Faults      []Drawn      `json:"faults"`
	Verdict     Verdict      `json:"verdict"`
	Effects     []Count      `json:"effects,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
	Failures    []Failure    `json:"failures,omitempty"`
	Story       []string     `json:"story,omitempty"`
}

// Drawn is one fault of a round.
type Drawn struct {
	Pair   Pair `json:"pair"`
	Kind   Kind `json:"kind"`
	Struck bool `json:"struck"` // false: the turn never came to the place
}

// mostDrawn is how many faults a round has at most; it has two at least.
const mostDrawn = 4

// Rounds plays n rounds, with the seeds from seed on, and yields them in order, from one
// goroutine at a time. It returns ctx's error where that ends first. A plan without
// turns has no rounds.
func (r Runner) Rounds(ctx context.Context, p *Plan, seed uint64, n int, yield func(Round)) error {
	p = &Plan{Turns: slices.DeleteFunc(slices.Clone(p.Turns), func(t *Turn) bool { return !t.Playable() })}
	if len(p.Turns) == 0 {
		return ctx.Err()
	}
	var mu sync.Mutex
	ready, next := make(map[int]Round), 0
	r.each(ctx, n, func(w *crew, i int) {
		res := w.round(p, seed+uint64(i))
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

// round plays one.
func (w *crew) round(p *Plan, seed uint64) Round {
	rng := rand.New(rand.NewPCG(seed, 0x51c3))
	t := p.Turns[rng.IntN(len(p.Turns))]
	s := t.Script
	strikes := t.draw(rng)
	c := w.cell(s, strikes...)
	c.rng = rng
	c.play()
	now := c.judge(t.answers)
	out := Round{Seed: seed, Trace: s.Key.Trace, Turn: s.Key.Turn, Effects: c.counts(), Verdict: Same}
	for _, x := range strikes {
		out.Faults = append(out.Faults, Drawn{x.pair, x.row.Kind, x.struck})
		if x.struck {
			c.answers(x)
		}
	}
	for i := range min(len(now), len(t.answers)) {
		if !sameAnswer(t.answers[i], now[i]) {
			out.Verdict = Differs
			out.Differences = append(out.Differences, difference(i, t.answers[i], now[i], "what the faults together do: "+strings.Join(names(strikes), ", "), c.reason(i)))
			if t.answers[i].Standing == events.AnswerSuccess && now[i].Standing == events.AnswerSuccess && !s.calls[i].verdict.Probe && !s.calls[i].made && s.calls[i].reuses == nil {
				c.fail(lawPolicy, i, "it is told another success than without the faults")
			}
		}
	}
	if out.Failures, out.Story = c.errs, c.story; len(c.errs) > 0 {
		out.Verdict = Failed
	}
	return out
}

// draw chooses the faults of a round.
func (t *Turn) draw(rng *rand.Rand) []*strike {
	var out []*strike
	want := 2 + rng.IntN(mostDrawn-1)
	for tries := 0; len(out) < want && tries < 100; tries++ {
		pair, row := t.Pairs[rng.IntN(len(t.Pairs))], Kinds[rng.IntN(len(Kinds))]
		if t.Script.applies(pair, row) == "" {
			out = append(out, &strike{row: row, pair: pair})
		}
	}
	return out
}

func names(strikes []*strike) []string {
	var out []string
	for _, x := range strikes {
		if x.struck && !slices.Contains(out, string(x.row.Kind)) {
			out = append(out, string(x.row.Kind))
		}
	}
	return out
}
