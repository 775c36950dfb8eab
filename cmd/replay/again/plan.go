package again

import (
	"slices"
	"strconv"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// plan is the turn's plan. What a tool says of its calls is not recorded: it is taken
// as would have given the recorded batches, as far as what is recorded allows.
func (w *walker) plan(p *events.TurnPlanned) candidate {
	cmd := lifecycle.Plan{Inherited: p.Inherited, Context: p.Context, Policy: p.Policy, Facts: w.facts(p)}
	return always(cmd)
}

func (w *walker) facts(p *events.TurnPlanned) []lifecycle.CallFacts {
	g := guess{all: make([]lifecycle.CallFacts, len(w.t.Calls)), known: make([]bool, len(w.t.Calls)), disjoint: w.t.Submitted.Disjoint}
	for i := range g.all {
		recorded, uses, ok := w.learnt(i)
		g.all[i] = lifecycle.CallFacts{Known: true, Resources: uses, Hash: w.hashOf(w.t.Submitted.Calls[i].Args, recorded)}
		g.known[i] = ok
	}
	var before []int
	for _, b := range p.Batches {
		b = slices.DeleteFunc(slices.Clone(b), func(i int) bool { return i < 0 || i >= len(g.all) })
		g.batch(before, b)
		before = b
	}
	return g.all
}

// guess are the facts of a turn's calls, as far as they can be told.
type guess struct {
	all      []lifecycle.CallFacts
	known    []bool // what the call locks is recorded
	disjoint bool
}

// batch has the calls of a batch share it, and not join the one before: they may all
// be safe beside each other, or lock what does not meet.
func (g guess) batch(before, b []int) {
	if len(b) > 1 && g.disjoint && g.mayLock(b) {
		g.lock(b)
		if g.together(b) && g.apart(before, b) {
			return
		}
	}
	for _, i := range b {
		g.all[i].Safe = len(b) > 1
	}
	if !g.apart(before, b) {
		g.part(before, b)
	}
}

// mayLock says whether each of the calls may lock something.
func (g guess) mayLock(b []int) bool {
	return !slices.ContainsFunc(b, func(i int) bool { return g.known[i] && len(g.all[i].Resources) == 0 })
}

// lock has each of the calls lock something of its own where it is not recorded what.
func (g guess) lock(b []int) {
	for _, i := range b {
		if !g.known[i] {
			g.all[i].Resources = []events.ResourceUse{{Name: "not recorded, of call " + strconv.Itoa(i), Exclusive: true}}
		}
	}
}

func (g guess) together(b []int) bool {
	return len(lifecycle.Batches(pick(g.all, b), g.disjoint)) == 1
}

// apart says whether the first call of b stays out of the batch before.
func (g guess) apart(before, b []int) bool {
	return len(before) == 0 || len(b) == 0 || !g.together(append(slices.Clone(before), b[0]))
}

// part keeps two batches apart, if that may be: where what one of their calls locks is
// not recorded, it may have been the reason.
func (g guess) part(before, b []int) {
	next := b[0]
	for _, i := range before {
		if i != next && (!g.known[i] || !g.known[next]) {
			g.all[i].Resources = append(slices.Clone(g.all[i].Resources), unrecorded)
			g.all[next].Resources = append(slices.Clone(g.all[next].Resources), unrecorded)
			return
		}
	}
}

// unrecorded stands for a resource that is not recorded.
var unrecorded = events.ResourceUse{Name: "not recorded", Exclusive: true}

func pick(facts []lifecycle.CallFacts, at []int) []lifecycle.CallFacts {
	var out []lifecycle.CallFacts
	for _, i := range at {
		if i >= 0 && i < len(facts) {
			out = append(out, facts[i])
		}
	}
	return out
}

// learnt is what the rest of the record says of a call: the hash of its arguments, and
// what it locks; ok is false where that is not recorded.
func (w *walker) learnt(call int) (hash string, uses []events.ResourceUse, ok bool) {
	if c := w.t.Call(call); c != nil && c.Phase != lifecycle.PhaseNone {
		hash = c.Hash
	}
	for _, e := range w.all[w.i:] {
		if e.Call != call {
			continue
		}
		switch v := e.Event.(type) {
		case *events.Requested:
			hash = v.Hash
		case *events.Authorized:
			return hash, v.Verdict.Resources, true
		case *events.ApprovalRequested:
			return hash, v.Verdict.Resources, true
		}
	}
	return hash, nil, false
}
