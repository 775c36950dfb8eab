package lifecycle

import (
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// MaxTakeovers is how many owners a turn may lose one after another, with no
// call ended in between, before it is abandoned: it is what kills them.
const MaxTakeovers = 5

// Claim makes a boot the turn's owner, and settles what an earlier owner left,
// in one commit, BEFORE any other act of the new owner.
type Claim struct {
	Boot    string
	Node    string
	Reply   string // of the claim's queue message
	Drained bool   // the earlier owner gave it back on purpose
}

func (Claim) command() {}

func (d *decider) claim(c Claim) error {
	switch {
	case d.t.Ended != nil:
		return ErrEnded
	case d.t.Submitted.Imported != "":
		return fmt.Errorf("%w: it was imported, and is never run", ErrEnded)
	case d.t.Owner.Boot == c.Boot && d.t.Parked == nil && d.t.Claim.Reply == c.Reply:
		return nil // already mine. By another message it claims anew: what it read may be old, and its append says so
	}
	why, takeovers := d.claimed(c)
	if why == events.ClaimTakenOver || why == events.ClaimDrained {
		for i := range d.t.Calls {
			d.recover(d.t.Calls[i])
		}
	}
	if takeovers > MaxTakeovers {
		return d.abandon("its owner was lost each time it ran")
	}
	d.close()
	return nil
}

// claimed makes the boot the owner, and says why it is and how many owners were lost.
func (d *decider) claimed(c Claim) (why string, takeovers int) {
	why, takeovers = d.claimReason(c), d.t.Takeovers
	if why == events.ClaimTakenOver {
		takeovers++
	}
	d.env.Owner = events.Owner{Boot: c.Boot, Epoch: d.t.Owner.Epoch + 1}
	d.emit(events.TurnEvent, &events.TurnClaimed{
		Owner: d.env.Owner, Node: c.Node, Reply: c.Reply, Why: why, Takeovers: takeovers,
	})
	return why, takeovers
}

func (d *decider) claimReason(c Claim) string {
	switch {
	case d.t.Owner.Boot == "":
		return events.ClaimNew
	case d.t.Parked != nil:
		return events.ClaimWoken
	case c.Drained:
		return events.ClaimDrained
	}
	return events.ClaimTakenOver
}

// recover puts a new owner's finding about one open call on the record, and
// ends the call where it cannot go on.
func (d *decider) recover(c *Call) {
	if !c.Open() || c.Phase == PhaseNone {
		return
	}
	r := &events.Recovered{LastStage: c.Last, Action: events.RecoverContinue, Reason: "it had not started: it goes on where it stood"}
	switch c.Phase {
	case PhaseStarted:
		r.Attempt, r.ToolStarted = c.Attempt, true
		r.Action, r.Reason = afterLoss(*c.Verdict)
	case PhaseProbing:
		r.Attempt, r.ToolStarted = c.Attempt, true
		r.Action, r.Reason = events.RecoverProbe, "the tool is asked once more whether the effect happened"
	case PhaseRetrying:
		r.Attempt = c.Attempt
		r.Reason = "its last attempt is over: the next one starts when it is due"
	case PhaseInput:
		r.Attempt = c.Attempt
		r.Reason = "its tool has asked a person: it waits on for the answers"
	case PhaseGiven:
		r.Attempt = c.Attempt
		r.Reason = "a person has answered its tool: the next attempt starts with the answers"
	}
	d.emit(c.Offset, r)
	if r.Action == events.RecoverUnknown {
		d.unknownAfterLoss(d.t.Calls[c.Offset], r.Reason)
	}
}

// afterLoss is what to do about a call whose owner was lost while it ran.
func afterLoss(v events.Verdict) (action, reason string) {
	switch {
	case v.Tier == events.Readonly:
		return events.RecoverRestart, "it is readonly: it is started again"
	case v.Tier == events.Reversible && v.HonoursKey && v.Key != "":
		return events.RecoverRestart, "its tool does one effect for one key: it is started again with the same key"
	case v.Probe:
		return events.RecoverProbe, "its owner was lost while it ran: the tool is asked whether the effect happened"
	}
	return events.RecoverUnknown, "its owner was lost while it ran, and nobody can tell whether the effect happened"
}

func (d *decider) unknownAfterLoss(c *Call, reason string) {
	o := d.outcome(c, events.ClassLost, effectsUnanswered(c), lostResult(reason))
	d.emit(c.Offset, &events.Unknown{Outcome: o, Why: events.UnknownOwnerLost})
	if i := slices.IndexFunc(c.Late, func(l *events.LateResult) bool { return l.Outcome.Class == events.ClassOK }); i >= 0 && d.t.Calls[c.Offset].Unresolved() {
		d.emit(c.Offset, resolvedBy(c.Late[i])) // the evidence came first
	}
}

// resolvedBy says that an attempt's own success has come late: its effect has happened.
func resolvedBy(l *events.LateResult) *events.Resolved {
	return &events.Resolved{
		By: events.Principal{ID: "late_result", Kind: "service"}, Effects: events.EffectsDone, Result: &l.Outcome.Result,
	}
}

func lostResult(reason string) events.Result {
	return failure(events.UnknownOutcome, reason)
}

func failure(code events.Code, message string) events.Result {
	return events.Result{Status: events.Failure, Error: &events.Error{Code: code, Message: message}}
}

// effectsUnanswered are the effects of a call that ended without its tool's answer.
func effectsUnanswered(c *Call) events.Effects {
	over := (c.Phase == PhaseRetrying || c.waitsForInput()) && !c.Doubt // no attempt is open, and none that was had an effect
	if c.Attempt == 0 || over || c.Verdict != nil && c.Verdict.Tier == events.Readonly {
		return events.EffectsNone
	}
	return events.EffectsPossible
}

// abandon ends every open call, and the turn.
func (d *decider) abandon(reason string) error {
	takeovers := d.t.Takeovers // the ends below set it back
	if d.t.Planned == nil {
		d.requestAll()
	}
	for i := range d.t.Calls {
		c := d.t.Calls[i]
		switch {
		case !c.Open():
		case c.Phase == PhaseStarted || c.Phase == PhaseProbing:
			d.unknownAfterLoss(c, "the turn was abandoned while this call ran: "+reason)
		default:
			o := d.outcome(c, events.ClassLost, effectsUnanswered(c), failure(events.CodeCancelled, "the turn was abandoned: "+reason))
			d.emit(i, &events.Cancelled{Outcome: o, Reason: "abandoned"})
		}
	}
	d.emit(events.TurnEvent, &events.TurnAbandoned{Reason: reason, Takeovers: takeovers})
	return nil
}

// requestAll gives every call its first event.
func (d *decider) requestAll() {
	for i, raw := range d.t.Submitted.Calls {
		if d.t.Calls[i].Phase == PhaseNone {
			d.emit(i, request(raw, inlineHash(raw)))
		}
	}
}
