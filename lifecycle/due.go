package lifecycle

import (
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Effect is something that is still owed to the world. Effects are values: two
// that are equal are the same debt, so whoever pays can tell what is new, what
// runs already and what nobody wants any more.
type Effect struct {
	Do      Do
	Call    int       // offset, or events.TurnEvent
	Attempt int       // of Perform, Stop and Probe; of Start, the one that would begin
	At      time.Time // not before; zero means now. Of Park, when it must be woken; zero means never
}

// Do is what an effect does.
type Do string

// The kinds of effects.
const (
	DoPlan     Do = "plan"     // look up what planning needs, then Plan
	DoJudge    Do = "judge"    // ask the plan gates, then Judge
	DoStart    Do = "start"    // ask the start gates, then Begin
	DoPerform  Do = "perform"  // run the attempt, then Settle
	DoStop     Do = "stop"     // end the attempt that runs: it then settles
	DoProbe    Do = "probe"    // ask the tool what happened, then Probed
	DoExpire   Do = "expire"   // at At, Expire
	DoDeadline Do = "deadline" // at At, Advance: the deadline passes; with no At, others' events have consequences
	DoPark     Do = "park"     // write the timer for At, if any, then Park
)

// Due is everything that the owner of the turn owes now, in a fixed order. It
// depends on the state alone: a restarted process finds the same debts.
func Due(t Turn) []Effect {
	if t.Submitted == nil || t.Submitted.Imported != "" || t.Ended != nil || t.Parked != nil || t.Owner.Boot == "" || t.Foreign || t.Broken != "" {
		return nil
	}
	if t.Planned == nil {
		return []Effect{{Do: DoPlan, Call: events.TurnEvent}}
	}
	next, pending := closed(t)
	var out []Effect
	for _, e := range append(dueCalls(next), dueStarts(next)...) {
		if next.Calls[e.Call] == t.Calls[e.Call] { // what changes a call is appended first
			out = append(out, e)
		}
	}
	if pending {
		out = append(out, Effect{Do: DoDeadline, Call: events.TurnEvent})
	} else if p := parkable(t); p != nil {
		return append(out, Effect{Do: DoPark, Call: events.TurnEvent, At: p.Due})
	}
	if end := t.Deadline(); !end.IsZero() && slices.ContainsFunc(next.Calls, (*Call).idle) {
		out = append(out, Effect{Do: DoDeadline, Call: events.TurnEvent, At: end})
	}
	return out
}

// closed is the state once what already follows from it is appended, which
// Advance does; pending says that there is such a thing.
func closed(t Turn) (next Turn, pending bool) {
	d := &decider{t: t}
	d.close()
	return d.t, len(d.out) > 0
}

func dueCalls(t Turn) []Effect {
	var out []Effect
	for i, c := range t.Calls {
		_, _, cancelled := t.Cancelled(c)
		switch c.Phase {
		case PhaseRequested, PhaseApproved:
			out = append(out, Effect{Do: DoJudge, Call: i})
		case PhaseAsking:
			out = append(out, Effect{Do: DoExpire, Call: i, At: c.Asked.Expires})
		case PhaseInput:
			out = append(out, Effect{Do: DoExpire, Call: i, At: c.Input.Expires})
		case PhaseStarted:
			out = append(out, Effect{Do: DoPerform, Call: i, Attempt: c.Attempt})
			if cancelled {
				out = append(out, Effect{Do: DoStop, Call: i, Attempt: c.Attempt})
			}
		case PhaseProbing:
			out = append(out, Effect{Do: DoProbe, Call: i, Attempt: c.Attempt})
		}
	}
	return out
}

// currentBatch is the first batch that has a call without a terminal.
func (t Turn) currentBatch() []int {
	if t.Planned == nil {
		return nil
	}
	for _, b := range t.Planned.Batches {
		for _, i := range b {
			if c := t.Call(i); c != nil && c.Open() {
				return b
			}
		}
	}
	return nil
}

func dueStarts(t Turn) []Effect {
	batch := t.currentBatch()
	room := t.Concurrency()
	for _, i := range batch {
		if t.Calls[i].Phase == PhaseStarted {
			room--
		}
	}
	var out []Effect
	for _, i := range batch {
		c := t.Calls[i]
		if room <= 0 {
			break
		}
		if _, _, cancelled := t.Cancelled(c); c.ready() && !cancelled {
			out = append(out, Effect{Do: DoStart, Call: i, Attempt: c.Attempt + 1, At: c.RetryAt})
			room--
		}
	}
	return out
}

type parking struct {
	Due     time.Time
	Waiting []int
}

// parkable returns what a turn waits for that waits only for people, and for the
// keys of some calls, or nil.
func parkable(t Turn, keys ...int) *parking {
	if t.Planned == nil || len(dueStarts(t)) > 0 {
		return nil
	}
	p := &parking{Due: t.Deadline()}
	for _, e := range dueCalls(t) {
		p.Waiting = append(p.Waiting, e.Call)
		if e.Do == DoJudge && slices.Contains(keys, e.Call) {
			continue
		}
		if e.Do != DoExpire {
			return nil
		}
		if p.Due.IsZero() || e.At.Before(p.Due) {
			p.Due = e.At
		}
	}
	if len(p.Waiting) == 0 {
		return nil
	}
	return p
}
