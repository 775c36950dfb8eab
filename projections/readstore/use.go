package readstore

import (
	"slices"

	"github.com/sluice-run/sluice/events"
)

// usageNames are the columns of the table of usage. Each is a sum, so that what is
// counted step by step is what a count over all calls and turns gives.
var usageNames = func() []string {
	names := []string{"turns", "turns_completed", "turns_abandoned", "input_tokens", "output_tokens"}
	names = append(names, "calls", "attempts", "retries", "asked", "run_us", "output_bytes", "late", "resolved", "undone")
	names = append(names, "effects_none", "effects_possible", "effects_done")
	for _, kind := range endings {
		names = append(names, "ended_"+string(kind))
	}
	return names
}()

// usage is one row of it, in the order of usageNames.
type usage [32]int64 // there are fewer columns

func (u *usage) add(o usage, sign int64) {
	for i, n := range o {
		u[i] += sign * n
	}
}

// usageKey is what usage is counted by.
type usageKey struct {
	day  int64
	tool string // "" for turns
	who  string
}

// useOf is what a call adds to the usage of its tool.
func useOf(c *call) usage {
	var u usage
	for i, n := range [...]int64{1, c.attempts, c.retries, c.asked, c.run, c.bytes, c.late, c.resolved, c.undone} {
		u[useCalls+i] = n
	}
	if c.status == "" {
		return u
	}
	switch c.effects {
	case events.EffectsNone:
		u[useEffects]++
	case events.EffectsPossible:
		u[useEffects+1]++
	case events.EffectsDone:
		u[useEffects+2]++
	}
	if i := slices.Index(endings, c.status); i >= 0 {
		u[useEnds+i]++
	}
	return u
}

// Where the columns of calls begin.
const (
	useCalls   = 5
	useEffects = useCalls + 9
	useEnds    = useEffects + 3
)

// useOfTurn is what a turn adds to the usage of its principal.
func useOfTurn(t *turn) usage {
	var u usage
	if t.submitted {
		u[0] = 1
	}
	switch t.end {
	case events.KindTurnCompleted:
		u[1] = 1
	case events.KindTurnAbandoned:
		u[2] = 1
	}
	u[3], u[4] = t.tokens[0], t.tokens[1]
	return u
}

// useKey is where it is counted.
func (t *turn) useKey() usageKey { return usageKey{day: dayOf(t.first), who: t.who} }

// useKeyOf is where a call of the turn is counted.
func (t *turn) useKeyOf(c *call) usageKey { return usageKey{day: c.day, tool: c.tool, who: t.who} }
