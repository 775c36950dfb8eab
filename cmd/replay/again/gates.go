package again

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// findings are those of gates in their order: all pass up to f's, which says f.
func findings(order []lifecycle.Gate, f lifecycle.Finding) []lifecycle.Finding {
	var out []lifecycle.Finding
	for _, g := range order {
		if g == f.Gate {
			out = append(out, f)
			if f.Ruling == lifecycle.Deny || f.Ruling == lifecycle.Reuse {
				break
			}
			continue
		}
		out = append(out, lifecycle.Finding{Gate: g})
	}
	return out
}

// deniedAs is the finding behind a recorded denial.
func deniedAs(d *events.Denied) lifecycle.Finding {
	return lifecycle.Finding{
		Gate: lifecycle.Gate(d.Gate), Ruling: lifecycle.Deny, Code: d.Code, Reason: d.Reason, Path: d.Path,
		Policies: d.Policies, Policy: d.Policy, Judged: d.Judged, Circuit: d.Circuit,
	}
}

// forItsSecret is why a policy's word about a call counts for nothing.
const forItsSecret = "its node had refused it for a secret in it, whose value is not in the log"

// forSecret says whether a call was refused for a secret in its arguments, and by no
// policy: it would have named a file, or with its value in it the call was another one.
func forSecret(d *events.Denied, refs []events.SecretRef) bool {
	return len(refs) > 0 && d.Gate == string(lifecycle.GateAuthorize) && d.Code == events.AccessDenied && d.Policy == "" && len(d.Policies) == 0
}

// asked is the finding of a policy that asks a person.
func asks(why string, v events.Verdict) lifecycle.Finding {
	return lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Ask, Reason: why, Policies: v.Policies, Policy: v.Policy, Judged: v.Judged}
}

// ruled is what is recorded of a call's gates: their findings in one, and what else
// they found.
type ruled struct {
	finding  lifecycle.Finding
	verdict  events.Verdict
	text     string        // what a person was asked
	operands []events.Seen // and shown
	preview  *events.Preview
	looked   bool // at the files
	secret   bool // it was refused for a secret in it, and by no policy
	expires  time.Time
}

// recorded is what the gates have found, as an event says; ok is false where it is
// no event of theirs.
func recorded(e events.Event, c *lifecycle.Call, s *events.TurnSubmitted) (ways []ruled, ok bool) {
	switch v := e.(type) {
	case *events.Deduplicated:
		return []ruled{{finding: lifecycle.Finding{Gate: lifecycle.GateDedupe, Ruling: lifecycle.Reuse, Reuse: v}}}, true
	case *events.Denied:
		if v.Gate == string(lifecycle.GateApprove) { // nobody can be asked: the last gate's own word
			verdict := events.Verdict{Hash: c.Hash, Policies: v.Policies, Policy: v.Policy, Judged: v.Judged}
			if c.Verdict != nil {
				verdict.Hash = c.Verdict.Hash
			}
			return []ruled{{finding: asks("", verdict), verdict: verdict}}, true
		}
		return []ruled{{finding: deniedAs(v), secret: forSecret(v, c.Secrets)}}, true
	case *events.ApprovalRequested:
		r := ruled{verdict: v.Verdict, text: v.Asks, operands: v.Operands, preview: v.Preview, looked: true, expires: v.Expires}
		if v.Verdict.Tier == events.Approval { // asked without the policy, perhaps
			ways = append(ways, r)
		}
		r.finding = asks(lifecycle.ReasonOf(v), v.Verdict)
		return append(ways, r), true
	case *events.Authorized:
		r := ruled{verdict: v.Verdict}
		ways = append(ways, r)
		if v.Decision != "allow" {
			r.finding = asks("", v.Verdict)
			ways = append(ways, r)
		}
		return ways, true
	}
	return nil, false
}

// judge are the ways in which the plan gates have come to the next event.
func (w *walker) judge(e entry, c *lifecycle.Call) []candidate {
	if r := w.t.Submitted.Calls[e.Call].Refused; r != nil {
		return []candidate{always(lifecycle.Judge{Call: e.Call})}
	}
	ways, ok := recorded(e.Event, c, w.t.Submitted)
	if !ok {
		return nil
	}
	asked := w.ask(e, c)
	var out []candidate
	for _, r := range ways {
		for _, j := range asked {
			out = append(out, candidate{asked: j, cmd: func(now time.Time) lifecycle.Command {
				f, v := w.over(j, r, c.Hash)
				return lifecycle.Judge{
					Call: e.Call, Findings: findings(lifecycle.PlanGates, f), Verdict: v, Asks: r.text, Operands: r.operands, Preview: r.preview, Looked: r.looked,
					Expire: until(now, r.expires),
				}
			}})
		}
	}
	return out
}

// over is what the gates find now. Where what a policy is called is no difference, an
// approval for the session that was given under the recorded one holds.
func (w *walker) over(j *judgement, r ruled, hash string) (lifecycle.Finding, events.Verdict) {
	f, v := j.over(r, hash)
	if w.Policy != nil && !w.Strict && r.verdict.Policy != "" {
		v.Policy = r.verdict.Policy
	}
	return f, v
}

// until is how long a person has to answer; 0 where that is not recorded.
func until(now, expires time.Time) time.Duration {
	if expires.IsZero() {
		return 0
	}
	return max(expires.Sub(now), 1)
}

// begin are the ways in which the start gates have come to the next event.
func (w *walker) begin(e entry, c *lifecycle.Call) []candidate {
	switch v := e.Event.(type) {
	case *events.Started:
		return w.started(e, c, v)
	case *events.Failed:
		return w.failedAgain(e, c, v)
	}
	ways, ok := recorded(e.Event, c, w.t.Submitted)
	if !ok {
		return nil
	}
	var asked []*judgement
	if fresh(ways[0].finding) {
		asked = w.ask(e, c)
	} else {
		asked = []*judgement{nil}
	}
	var out []candidate
	for _, r := range ways {
		if r.verdict.Hash == "" {
			r.verdict = *c.Verdict
		}
		for _, j := range asked {
			out = append(out, candidate{asked: j, cmd: func(time.Time) lifecycle.Command {
				f, v := w.over(j, r, c.Hash)
				return lifecycle.Begin{
					Call: e.Call, Findings: findings(lifecycle.StartGates, f), Verdict: v, Asks: r.text, Operands: r.operands, Preview: r.preview, Looked: r.looked,
				}
			}})
		}
	}
	return out
}

// started is the way to a start. Where the policy was asked again as the call began, it is
// asked again here, too: what it would deny then does not start.
func (w *walker) started(e entry, c *lifecycle.Call, v *events.Started) []candidate {
	verdict, found := *c.Verdict, lifecycle.Finding{}
	verdict.Judged = v.Judged
	var asked *judgement
	if !v.Judged.IsZero() {
		for _, j := range w.ask(e, c) {
			if j == nil || j.unjudged != "" || j.finding.Ruling != lifecycle.Deny {
				asked = nil
				break
			}
			asked = j
		}
	}
	if asked != nil {
		found = asked.finding
	}
	return []candidate{{asked: asked, cmd: func(now time.Time) lifecycle.Command {
		return lifecycle.Begin{
			Call: e.Call, Findings: findings(lifecycle.StartGates, found), Verdict: verdict,
			Wall: max(v.Deadline.Sub(now), 1), Locks: v.Locks, Expect: v.Expect, Breaker: v.Breaker, Containment: v.Containment,
			Limits: v.Limits, LimitWait: time.Duration(v.LimitWaitMS) * time.Millisecond,
		}
	}}}
}

// fresh says whether a start gate's finding is the policy's own. A tool that takes
// other arguments now, and arguments that are gone, are told in its name.
func fresh(f lifecycle.Finding) bool {
	world := []events.Code{events.InternalError, events.InvalidParam, events.TooLarge}
	return f.Gate == lifecycle.GateAuthorize && !slices.Contains(world, f.Code)
}

// failedAgain is the end of a call whose next attempt a gate has not let through.
func (w *walker) failedAgain(e entry, c *lifecycle.Call, v *events.Failed) []candidate {
	if v.Result.Error == nil {
		return nil
	}
	begin := func(reason string) lifecycle.Command {
		f := lifecycle.Finding{Gate: lifecycle.GateAdmit, Ruling: lifecycle.Deny, Code: v.Result.Error.Code, Reason: reason}
		return lifecycle.Begin{Call: e.Call, Verdict: *c.Verdict, Findings: findings(lifecycle.StartGates, f)}
	}
	reason := w.said(e, v.Result.Error.Message, begin, func(out events.Event) string {
		if f, ok := out.(*events.Failed); ok && f.Result.Error != nil {
			return f.Result.Error.Message
		}
		return ""
	})
	return []candidate{always(begin(reason))}
}

// probed are the answers that a tool may have given of an attempt whose owner was lost.
func probed(e entry, c *lifecycle.Call) []candidate {
	p := lifecycle.Probed{Call: e.Call, Attempt: c.Attempt}
	if v, ok := e.Event.(*events.Completed); ok {
		p.Found, p.Result = true, v.Result
		return []candidate{always(p)}
	}
	failed := p
	failed.Failed = true
	if v, ok := e.Event.(*events.Unknown); ok && v.Result.Error != nil { // what stood in its way is the node's word
		if why, ok := strings.CutPrefix(v.Result.Error.Message, lifecycle.OwnerLost); ok {
			failed.Why = why
		}
	}
	lost := always(failed)
	lost.assumes = probeFailed
	return []candidate{always(p), lost}
}
