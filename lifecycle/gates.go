package lifecycle

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Gate is one of the gates between a request and a start.
type Gate string

// The gates, in order: cheap and certain first, a person last, and never for a
// call that is doomed anyway.
const (
	GateDedupe    Gate = "dedupe"
	GateAllow     Gate = "allow"
	GateValidate  Gate = "validate"
	GateAuthorize Gate = "authorize"
	GatePeek      Gate = "breaker_peek"
	GateApprove   Gate = "approve" // Decide's own: no finding arrives for it
	GateLimit     Gate = "limit"   // slots and tokens of the limits, BEFORE any lease: all take them in one order
	GateLock      Gate = "lock"    // leases, then expectations
	GateAdmit     Gate = "breaker_admit"
)

// PlanGates are passed by every call when its turn is planned, so that all that
// must be asked is asked at once. StartGates are passed as a call's batch
// begins: what can have changed is judged again.
var (
	PlanGates  = []Gate{GateDedupe, GateAllow, GateValidate, GateAuthorize, GatePeek}
	StartGates = []Gate{GateAllow, GateAuthorize, GateLimit, GateLock, GateAdmit}
)

// Ruling is what a gate says of a call.
type Ruling string

// The rulings. The zero value lets the call pass.
const (
	Pass  Ruling = ""
	Deny  Ruling = "deny"
	Ask   Ruling = "ask"   // of authorize only: a person must agree
	Reuse Ruling = "reuse" // of dedupe only: another call's result is the answer
	Wait  Ruling = "wait"  // not now: judge again later
)

// Finding is what one gate found.
type Finding struct {
	Gate     Gate
	Ruling   Ruling
	Code     events.Code
	Reason   string
	Path     string
	Policies []string
	Policy   string               // version
	Judged   time.Time            // the moment that a policy's word holds for; zero: any
	Reuse    *events.Deduplicated // with Reuse
	Circuit  string               // of the breaker's gates: the endpoint whose circuit is open; "": the tool's own
}

// ErrFindings says that findings are not those of the gates in their order: a
// bug at the edge.
var ErrFindings = errors.New("findings do not follow the order of the gates")

// settled returns the finding that ends the way, or nil where every gate was
// asked and let the call pass or asks for a person. asks is the asking one.
func settled(order []Gate, findings []Finding) (end, asks *Finding, err error) {
	for i := range findings {
		f := &findings[i]
		if i >= len(order) || f.Gate != order[i] {
			return nil, nil, fmt.Errorf("%w: %q at place %d", ErrFindings, f.Gate, i)
		}
		if !f.sayable() {
			return nil, nil, fmt.Errorf("%w: %q of gate %q", ErrFindings, f.Ruling, f.Gate)
		}
		switch f.Ruling {
		case Pass:
		case Ask:
			asks = f
		default:
			if i != len(findings)-1 {
				return nil, nil, fmt.Errorf("%w: %q ended the way, and %d more came", ErrFindings, f.Gate, len(findings)-1-i)
			}
			return f, nil, nil
		}
	}
	if len(findings) != len(order) {
		return nil, nil, fmt.Errorf("%w: %d of %d", ErrFindings, len(findings), len(order))
	}
	return nil, asks, nil
}

// sayable says whether the gate may rule so.
func (f *Finding) sayable() bool {
	switch f.Ruling {
	case Pass, Deny:
		return true
	case Ask:
		return f.Gate == GateAuthorize
	case Reuse:
		return f.Gate == GateDedupe && f.Reuse != nil
	case Wait:
		return f.Gate == GateDedupe || f.Gate == GateLimit || f.Gate == GateLock || f.Gate == GateAdmit
	}
	return false
}

// DefaultApproval is how long a person has to answer where nothing else is said.
const DefaultApproval = 24 * time.Hour

// Judge is the verdict of the plan gates on a call.
type Judge struct {
	Call     int
	Findings []Finding
	Verdict  events.Verdict  // what a call that passes may do
	Asks     string          // what a person would read
	Operands []events.Seen   // with Looked: files that the call would run, as they are now
	Preview  *events.Preview // what it would change; nil where its tool shows nothing, or nobody is asked
	Looked   bool            // an earlier approval must be for these files
	Expire   time.Duration   // of an approval; 0 means DefaultApproval
}

func (Judge) command() {}

func (d *decider) judge(c Judge) error {
	call, err := d.open(c.Call)
	if err != nil {
		return err
	}
	if call.Phase != PhaseRequested && (call.Phase != PhaseApproved || call.Approved.Args == nil) {
		return nil // already judged
	}
	if _, _, ok := d.t.Cancelled(call); ok {
		return nil // the closure ends it
	}
	if r := d.t.Submitted.Calls[c.Call].Refused; r != nil {
		d.deny(c.Call, &Finding{Gate: GateValidate, Code: r.Code, Reason: r.Reason})
		return nil
	}
	end, asks, err := settled(PlanGates, c.Findings)
	switch {
	case err != nil:
		return err
	case end == nil && (c.Verdict.Hash == "" || call.Hash != "" && c.Verdict.Hash != call.Hash):
		return fmt.Errorf("call %d: %w", c.Call, ErrHash) // judged before a person changed them
	case end == nil:
		d.pass(call, c, asks)
	case end.Ruling == Deny:
		d.deny(c.Call, end)
	case end.Ruling == Reuse:
		d.emit(c.Call, end.Reuse)
	}
	return nil
}

func (d *decider) deny(call int, f *Finding) {
	d.emit(call, &events.Denied{
		Gate: string(f.Gate), Code: f.Code, Reason: f.Reason, Path: f.Path, Policies: f.Policies, Policy: f.Policy, Judged: f.Judged, Circuit: f.Circuit,
	})
}

// decisionAllow is the decision of a call that needed nobody's yes.
const decisionAllow = "allow"

// pass takes a call that every gate let through to the last one: a person.
func (d *decider) pass(call *Call, c Judge, asks *Finding) {
	if asks == nil && c.Verdict.Tier != events.Approval {
		d.emit(call.Offset, &events.Authorized{Verdict: c.Verdict, Decision: decisionAllow})
		return
	}
	why := alwaysAsked
	if asks != nil {
		why = asks.Reason
	}
	req := &events.ApprovalRequested{Asks: c.Asks, Operands: c.Operands, Preview: c.Preview}
	if d.approvedFor(call, c.Verdict, bound(req), c.Looked) {
		d.emit(call.Offset, &events.Authorized{Verdict: c.Verdict, Decision: "approved"})
		return
	}
	d.ask(call, c.Verdict, d.sinceYes(call, c.Verdict, bound(req), c.Looked)+why, req, c.Expire)
}

const alwaysAsked = "a call of this tool always needs a person's approval"

// ask requests an approval, unless none can be had.
func (d *decider) ask(call *Call, v events.Verdict, why string, req *events.ApprovalRequested, expire time.Duration) {
	if !d.t.Submitted.CanAsk {
		d.emit(call.Offset, &events.Denied{
			Gate: string(GateApprove), Code: events.PermissionDenied, Policies: v.Policies, Policy: v.Policy, Judged: v.Judged,
			Reason: "this needs a person's approval and nobody can be asked in this turn: do something else, or submit again where somebody can be asked",
		})
		return
	}
	if expire <= 0 {
		expire = DefaultApproval
	}
	if call.Asked != nil {
		req.Asking = call.Asked.Number()
	}
	req.Asking++
	req.Why, req.Hash, req.ToolVersion = why, v.Hash, v.ToolVersion
	req.Policies, req.Policy, req.Verdict = v.Policies, v.Policy, v
	req.Expires = d.env.Now.Add(expire).Truncate(time.Microsecond) // the clock of commits has no more
	d.emit(call.Offset, req)
}

// SessionApproval is how releases remembered an approval for the session that bound it
// to a tool and the hash of its exact arguments: see events.Inherited.
func SessionApproval(tool, hash string) string { return tool + " " + hash }
