package again

import (
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// always is a candidate whose command does not depend on the moment.
func always(cmd lifecycle.Command) candidate {
	return candidate{cmd: func(time.Time) lifecycle.Command { return cmd }}
}

// propose are the commands that may have led to the next events, the likeliest first.
func (w *walker) propose() []candidate {
	e := w.all[w.i]
	var out []candidate
	if e.Call == events.TurnEvent {
		out = w.proposeTurn(e)
	} else if c := w.t.Call(e.Call); c != nil {
		out = w.proposeCall(e, c)
	}
	if a := w.abandoned(); a != nil && w.t.Submitted != nil {
		out = append(out, always(lifecycle.Abandon{Reason: a.Reason}))
	}
	if e.by.Boot != "" && w.t.Submitted != nil {
		out = append(out, always(lifecycle.Advance{}))
	}
	return out
}

// abandoned is the turn's abandonment, if it is among the events that may belong to
// the next decision.
func (w *walker) abandoned() *events.TurnAbandoned {
	for _, i := range w.ends {
		if a, ok := w.all[i].Event.(*events.TurnAbandoned); ok && i >= w.i {
			if i < w.all[w.i].end {
				return a
			}
			return nil
		}
	}
	return nil
}

// moment is shorter than any two commits are apart.
const moment = 2 * time.Nanosecond

func (w *walker) proposeTurn(e entry) []candidate {
	switch v := e.Event.(type) {
	case *events.TurnSubmitted:
		return []candidate{always(lifecycle.Submit{Turn: *v})}
	case *events.TurnClaimed:
		boot, claim := v.Owner.Boot, lifecycle.Claim{Boot: v.Owner.Boot, Node: v.Node, Reply: v.Reply, Drained: v.Why == events.ClaimDrained}
		return []candidate{
			always(lifecycle.Finish{Boot: boot, Node: v.Node, Reply: v.Reply}),
			always(claim),
			always(lifecycle.Finish{Boot: boot, Node: v.Node, Reply: v.Reply, Retention: moment}), // it was older than half of it
		}
	case *events.TurnPlanned:
		return []candidate{w.plan(v)}
	case *events.TurnParked:
		return w.park(v)
	case *events.TurnCancelRequested:
		return []candidate{always(lifecycle.CancelTurn{By: v.By, Reason: v.Reason})}
	case *events.ModelStarted, *events.ModelCompleted:
		return []candidate{always(lifecycle.Note{Event: v})}
	}
	return nil // ends follow from the state
}

// park are the ways in which a turn came to be parked: it waits for people, or for
// the keys of some calls, too.
func (w *walker) park(p *events.TurnParked) []candidate {
	var keys []int
	for _, i := range p.Waiting {
		if c := w.t.Call(i); c != nil && (c.Phase == lifecycle.PhaseRequested || c.Phase == lifecycle.PhaseApproved) {
			keys = append(keys, i)
		}
	}
	if len(keys) == 0 {
		return []candidate{always(lifecycle.Park{})}
	}
	return []candidate{always(lifecycle.Park{Keys: keys, Until: p.Due})}
}

func (w *walker) proposeCall(e entry, c *lifecycle.Call) []candidate {
	switch v := e.Event.(type) {
	case *events.Requested:
		return w.requested(e)
	case *events.CancelRequested:
		return []candidate{always(lifecycle.CancelCall{Call: e.Call, By: v.By, Reason: v.Reason})}
	case *events.Approved:
		return w.approved(e, v)
	case *events.InputGiven:
		if v.By != nil {
			return []candidate{always(lifecycle.Answer{Call: e.Call, By: *v.By, Round: v.Round, Answers: v.Answers, Note: v.Note})}
		}
	case *events.LateResult:
		return []candidate{always(lifecycle.Late{Call: e.Call, Owner: v.Owner, Outcome: v.Outcome})}
	case *events.Resolved:
		return []candidate{always(lifecycle.Resolve{Call: e.Call, By: v.By, Effects: v.Effects, Result: v.Result, Note: v.Note})}
	case *events.Compensated:
		return []candidate{always(lifecycle.Undone{Call: e.Call, By: v.By, Result: v.Result})}
	case *events.Progress:
		return []candidate{always(lifecycle.Tell{Call: e.Call, Progress: *v})}
	}
	switch {
	case c.Phase == lifecycle.PhaseRequested || c.Phase == lifecycle.PhaseApproved:
		return w.judge(e, c)
	case c.Phase == lifecycle.PhaseAsking:
		return w.asking(e)
	case c.Phase == lifecycle.PhaseInput:
		return []candidate{always(lifecycle.Expire{Call: e.Call})}
	case c.Phase == lifecycle.PhaseAuthorized || c.Phase == lifecycle.PhaseRetrying || c.Phase == lifecycle.PhaseGiven:
		return w.begin(e, c)
	case c.Phase == lifecycle.PhaseStarted:
		return w.settle(e, c)
	case c.Phase == lifecycle.PhaseProbing:
		return probed(e, c)
	case !c.Open(): // whatever it says, it comes too late: what a decider says of that is told
		return []candidate{always(lifecycle.Settle{Call: e.Call, Attempt: c.Attempt})}
	}
	return nil
}

// requested are the ways in which a call gets its first event: with the plan, or
// because its end is asked for before there is one.
func (w *walker) requested(e entry) []candidate {
	for _, r := range w.all[w.i:e.end] {
		switch v := r.Event.(type) {
		case *events.TurnPlanned:
			return []candidate{w.plan(v)}
		case *events.CancelRequested:
			if r.Call == e.Call && e.by.Boot == "" {
				return []candidate{always(lifecycle.CancelCall{Call: e.Call, By: v.By, Reason: v.Reason})}
			}
		}
	}
	if !w.single && !e.parts {
		return nil
	}
	return []candidate{w.plan(&events.TurnPlanned{})} // the plan itself never came into the log
}

func (w *walker) approved(e entry, v *events.Approved) []candidate {
	cmd := lifecycle.Approve{Call: e.Call, By: v.By, Scope: v.Scope, Note: v.Note}
	if v.Args != nil {
		cmd.Args = &lifecycle.Args{JSON: []byte(v.Args.Text), Hash: w.hashOf(*v.Args, v.Hash)}
		cmd.Secrets, cmd.Untold = v.Secrets, !v.Told
	} else {
		cmd.Hash = v.Hash
	}
	return []candidate{always(cmd)}
}

// hashOf is the hash of arguments as they are parsed today; the recorded one where
// they are not at hand.
func (w *walker) hashOf(args events.Body, recorded string) string {
	text, ok := w.text(args)
	if !ok || w.Redacted {
		return recorded
	}
	a, err := lifecycle.Parse(text)
	if err != nil {
		return ""
	}
	return a.Hash
}

// text is a body's text; ok is false where it is kept outside the log and not there.
func (s Settings) text(b events.Body) (string, bool) {
	switch {
	case b.Ref == nil:
		return b.Text, true
	case s.Body == nil:
		return "", false
	}
	return s.Body(*b.Ref)
}

// asking are the ends of a wait for a person.
func (w *walker) asking(e entry) []candidate {
	d, ok := e.Event.(*events.Denied)
	if !ok || d.By == nil {
		return []candidate{always(lifecycle.Expire{Call: e.Call})}
	}
	reject := func(note string) lifecycle.Command { return lifecycle.Reject{Call: e.Call, By: *d.By, Note: note} }
	note := w.said(e, d.Reason, reject, func(out events.Event) string {
		if v, ok := out.(*events.Denied); ok {
			return v.Reason
		}
		return ""
	})
	return []candidate{always(reject(note))}
}

// said finds the words that somebody has brought to a decision which puts them at the
// end of a sentence of its own: it is decided with others, to see that sentence.
func (w *walker) said(e entry, recorded string, with func(words string) lifecycle.Command, sentence func(events.Event) string) string {
	const others = "?"
	out, err := lifecycle.Decide(w.t, lifecycle.Env{Now: e.at, Owner: e.by}, with(others))
	if err != nil {
		return ""
	}
	for _, r := range out {
		if s := sentence(r.Event); r.Call == e.Call && s != "" {
			words, _ := strings.CutPrefix(recorded, strings.TrimSuffix(s, others))
			if words == recorded {
				return "" // it ends in nobody's words
			}
			return words
		}
	}
	return ""
}
