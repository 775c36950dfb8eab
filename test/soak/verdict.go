package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// outcome is what was found at the end, besides what was sampled.
type outcome struct {
	terminals map[string]int    // by trace/turn/call: how many ends it has in the log
	calls     map[string]string // every submitted call → its tool
	answers   map[string]answer // by trace/turn/call: how the node says that it ended
	ledger    []effect
	refused   []string // requests that were refused and should not have been
	unended   []string // turns that had not ended when patience did
	broken    []string // what went wrong with the soak itself
	verify    string   // what sluice-replay verify says
	verified  bool
}

// answer is how a call ended.
type answer struct{ state, effects string }

// effect is a line of the ledger.
type effect struct{ Tool, Call, Key string }

// once are the fixtures whose effects must not be there twice.
var once = []string{"charge", "approve_me"}

// account says whether everything that was submitted has ended, once, and whether
// what the nodes say of its effects is what happened.
func (o *outcome) account() []finding {
	return []finding{
		o.ended(), o.twice(), o.honest(), listed("requests", o.refused, "none was refused"),
		listed("injector", o.broken, "every fault was put in, and every process came back"),
		{o.verified, "verify", o.verify},
	}
}

// shown is how many things of one kind are named.
const shown = 5

// listed is a finding that is right where there is nothing to list.
func listed(what string, bad []string, right string) finding {
	if len(bad) == 0 {
		return finding{true, what, right}
	}
	says := strings.Join(bad[:min(len(bad), shown)], "; ")
	if more := len(bad) - shown; more > 0 {
		says += fmt.Sprintf("; and %d more", more)
	}
	return finding{false, what, says}
}

// ended holds the log's terminals against what was submitted.
func (o *outcome) ended() finding {
	bad := slices.Clone(o.unended)
	for call := range o.calls {
		if n := o.terminals[call]; n != 1 {
			bad = append(bad, fmt.Sprintf("%s has %d terminals", call, n))
		}
	}
	for call := range o.terminals {
		if _, ours := o.calls[call]; !ours {
			bad = append(bad, call+" was never submitted")
		}
	}
	slices.Sort(bad)
	return listed("terminals", bad, fmt.Sprintf("%d calls, one end each", len(o.calls)))
}

// twice looks for effects that were there twice, by call and by idempotency key.
func (o *outcome) twice() finding {
	seen := map[string]int{}
	lines := 0
	for _, e := range o.ledger {
		if !slices.Contains(once, e.Tool) {
			continue
		}
		lines++
		seen["call "+e.Call]++
		if e.Key != "" {
			seen["key "+e.Key]++
		}
	}
	var bad []string
	for what, n := range seen {
		if n > 1 {
			bad = append(bad, fmt.Sprintf("%s: %d times", what, n))
		}
	}
	slices.Sort(bad)
	return listed("ledger", bad, fmt.Sprintf("%d irreversible effects, none twice", lines))
}

// honest holds what the nodes say of effects against the ledger.
func (o *outcome) honest() finding {
	there := map[string]bool{}
	for _, e := range o.ledger {
		there[e.Call] = true
	}
	var bad []string
	for call, a := range o.answers {
		if !slices.Contains(once, o.calls[call]) {
			continue
		}
		switch {
		case there[call] && a.effects == "none":
			bad = append(bad, fmt.Sprintf("%s says %s without effects, and it happened", call, a.state))
		case !there[call] && (a.state == "completed" || a.state == "failed" && a.effects == "done"):
			bad = append(bad, fmt.Sprintf("%s says %s, and it never happened", call, a.state))
		}
	}
	slices.Sort(bad)
	return listed("answers", bad, fmt.Sprintf("%d answers, as the ledger has it", len(o.answers)))
}

// emptied says whether nothing waits any more, and whether the mirror has all. A
// server that was killed right behind a timer's end may have kept its message, and
// forgotten that it was one to fire: it stays, and does nothing.
func (r *record) emptied() []finding {
	kills := 0.0
	for _, m := range r.marks {
		if strings.HasPrefix(m.kind, "kill") {
			kills++
		}
	}
	out := []finding{
		r.atMost(figMessages+".SLUICE_TURNS", 0, "the queue is empty"),
		r.atMost(timersSet, kills, fmt.Sprintf("no timer is set, but for what %.0f kills may have left", kills)),
		r.atMost(lagRead, 0, "the mirror has all that the log has"),
	}
	for _, of := range r.of(figTurns) {
		out = append(out, r.atMost(figTurns+"."+of, 0, "no turn is in memory"))
	}
	return out
}

// atMost holds a value's last sample against a bound.
func (r *record) atMost(name string, bound float64, right string) finding {
	v, ok := r.last(name)
	switch {
	case !ok:
		return finding{false, name, "it was never measured"}
	case v > bound:
		return finding{false, name, fmt.Sprintf("%.0f at the end", v)}
	case v > 0:
		right = fmt.Sprintf("%.0f at the end: %s", v, right)
	}
	return finding{true, name, right}
}

// drained says that nothing at all waits.
func (r *record) drained() bool {
	v, ok := r.last(timersSet)
	return ok && v == 0 && len(failed(r.emptied())) == 0
}

// stillLimit is how long it may last that no call ends, while turns come in: an
// election, a take-over behind it, and what the machine adds.
const stillLimit = time.Minute

// still looks for the longest time of the load in which no call ended.
func (r *record) still() finding {
	var longest, at time.Duration
	last := r.begin
	for _, p := range r.series(loadEnded) {
		if p.at < r.begin || p.at > r.end {
			continue
		}
		if p.at-last > longest {
			longest, at = p.at-last, last
		}
		if p.v > 0 {
			last = p.at
		}
	}
	says := fmt.Sprintf("at most %.0f s without a call's end, from %.0f s on; allowed %.0f s", longest.Seconds(), at.Seconds(), stillLimit.Seconds())
	return finding{longest <= stillLimit, "stand-still", says}
}

// failed are the names of what was not right.
func failed(all []finding) []string {
	var out []string
	for _, f := range all {
		if !f.ok {
			out = append(out, f.what)
		}
	}
	return out
}
