package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// counts is how often everything came up.
type counts map[string]int

func (c *counts) mark(format string, args ...any) { c.more(fmt.Sprintf(format, args...), 1) }

func (c *counts) more(what string, n int) {
	if *c == nil {
		*c = counts{}
	}
	(*c)[what] += n
}

func (c *counts) events(records []events.Record) {
	for _, r := range records {
		switch e := r.Event.(type) {
		case *events.Recovered:
			c.more("recovered: "+e.Action, 1)
		case *events.TurnClaimed:
			c.more("claimed: "+e.Why, 1)
		case *events.InputGiven:
			what := "nobody"
			if e.By != nil {
				what = e.Answers[0].Action
			}
			c.more("input: "+what, 1)
			c.more(string(r.Event.Kind()), 1)
		default:
			c.more(string(r.Event.Kind()), 1)
		}
	}
}

func (c *counts) add(other *counts) {
	for what, n := range *other {
		c.more(what, n)
	}
}

func (c counts) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%8d %s\n", c[what], what)
	}
	return b.String()
}

// missing are the things that a simulator worth its name brings about.
func (c counts) missing() []string {
	want := []string{
		"crash", "pause", "cut off", "drain", "clock set off", "lost tail", "bomb", "an actor breaks", "redelivery", "duplicate",
		"append uncertain, kept true", "append uncertain, kept false", "put uncertain, kept true", "put uncertain, kept false",
		"push uncertain, kept true", "push uncertain, kept false", "door died before its push", "door died before its wake-up",
		"late answer", "probe, found true", "probe, found false", "probe that cannot tell", "probe admitted", "denied for its host", "at rest",
		"limit: few denied", "limit: slow denied", "limit: both denied", "limit: now denied", "limit: waited", "limit: few is full", "limit: alone is full", "limit: both is full",
		"input: accept", "input: decline", "input: nobody", "given to a further attempt",
		"claimed: new", "claimed: woken", "claimed: drained", "claimed: taken_over",
		"recovered: continue", "recovered: restart", "recovered: probe", "recovered: unknown",
		"node: conflicts", "node: redeliveries", "node: late_results", "node: mourned", "node: swept", "node: actor_panics",
		"says: another node has claimed the turn: this one stops acting for it",
		"says: a lease was lost: somebody else may have it",
		"says: the node could not renew its presence: others may think it dead",
	}
	for _, phase := range []lifecycle.Phase{
		lifecycle.PhaseNone, lifecycle.PhaseRequested, lifecycle.PhaseAsking, lifecycle.PhaseApproved, lifecycle.PhaseAuthorized,
		lifecycle.PhaseStarted, lifecycle.PhaseRetrying, lifecycle.PhaseProbing, lifecycle.PhaseInput, lifecycle.PhaseGiven,
	} {
		want = append(want, "cancel while "+string(phase))
	}
	for _, row := range events.Kinds {
		switch row.Kind {
		case events.KindRecovered, events.KindTurnClaimed: // by their reasons, above
		case events.KindCompensated, events.KindModelStarted, events.KindModelCompleted: // beside the way
		default:
			want = append(want, string(row.Kind))
		}
	}
	return slices.DeleteFunc(want, func(what string) bool { return c[what] > 0 })
}
