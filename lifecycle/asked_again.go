package lifecycle

import (
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// What a person reads before the reason of a call that somebody has said yes to, and
// that is asked about once more: what is not as it was.
const (
	againIs  = "asked again: "
	againAnd = ", and "
	againFor = "; "

	otherTool   = "the tool's definition has changed since the yes"
	otherPolicy = "the policy has changed since the yes"
	otherReason = "the policy asks for another reason than the one that the yes was for"
	otherRun    = "the files that it would run are not those that the yes was for"
	otherBase   = "the files that it would change are not those that the yes was for"
)

// ReasonOf is why a person was asked, without what is told before it of an earlier yes.
func ReasonOf(e *events.ApprovalRequested) string {
	rest, again := strings.CutPrefix(e.Why, againIs)
	causes, reason, found := strings.Cut(rest, againFor)
	if !again || !found {
		return e.Why
	}
	for cause := range strings.SplitSeq(causes, againAnd) {
		if !slices.Contains([]string{otherTool, otherPolicy, otherReason, otherRun, otherBase}, cause) {
			return e.Why // the policy's own words
		}
	}
	return reason
}

// sinceYes is what stands before the reason for which a call is asked about that nobody
// has said yes to as it is now; "" where nobody has said yes to it as it was, either.
func (d *decider) sinceYes(call *Call, v events.Verdict, now Shown, looked bool) string {
	y := d.t.yesBefore(call, v.Hash)
	if y == nil {
		return ""
	}
	var causes []string
	for _, other := range []struct {
		is    bool
		cause string
	}{
		{y.ToolVersion != v.ToolVersion, otherTool},
		{y.Policy != v.Policy, otherPolicy},
		{!sameReasons(y.Policies, v), otherReason},
		{looked && !sameFiles(y.Operands, now.Operands), otherRun},
		{looked && !sameFiles(y.Base, now.Base), otherBase},
	} {
		if other.is {
			causes = append(causes, other.cause)
		}
	}
	if causes == nil {
		return ""
	}
	return againIs + strings.Join(causes, againAnd) + againFor
}

// yesBefore is what somebody has said yes to of this call, here or for the session, as
// its tool, the policy and the files were then; nil where nobody has.
func (t Turn) yesBefore(call *Call, hash string) *events.SessionYes {
	if a := call.Asked; a != nil && call.Approved != nil && call.Approved.Hash == hash {
		return &events.SessionYes{ToolVersion: a.ToolVersion, Policy: a.Policy, Policies: a.Policies, Operands: a.Operands, Base: a.Base()}
	}
	if t.Planned == nil {
		return nil
	}
	for _, y := range slices.Backward(t.Planned.Inherited.Session) {
		if y.Tool == call.Tool && y.Hash == hash && sameAsker(&y, t.Submitted) {
			return &y
		}
	}
	return nil
}
