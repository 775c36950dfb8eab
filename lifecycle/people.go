package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Approve is a person's yes to a call that is asked about.
type Approve struct {
	Call   int
	By     events.Principal
	Asking int    // which of the call's askings the person saw; 0 means the one that is open
	Scope  string // events.ScopeCall (the meaning of "") or events.ScopeSession
	Hash   string // of the arguments that the person saw; "" means those that are asked about
	Args   *Args  // changed arguments; nil means as asked
	Note   string

	Secrets []events.SecretRef // the sealed values that Args refers to
	Untold  bool               // the model is not told of Args: only of what a release recorded that never did
}

// Reject is a person's no.
type Reject struct {
	Call   int
	By     events.Principal
	Asking int // as in Approve
	Note   string
}

func (Approve) command() {}
func (Reject) command()  {}

// KindAgent, KindPerson and KindService are the kinds of principals. An agent is what
// is of no named kind, too.
const (
	KindAgent   = "agent"
	KindPerson  = "person"
	KindService = "service"
)

// MayDecide returns nil where by may say yes or no to a call that asker wants, or an
// ErrDecider. No agent decides about calls, whoever wants them; what is no person decides
// about none of its own or of its children; and nobody's child about its parent's. A
// person may answer the agents that act for that person.
func MayDecide(by, asker events.Principal) error {
	switch {
	case by.Kind != KindPerson && by.Kind != KindService:
		return fmt.Errorf("%w: %q is an agent, and no agent decides about calls", ErrDecider, by.ID)
	case by.ID == asker.ID && (asker.Kind != KindPerson || by.Kind != KindPerson):
		return fmt.Errorf("%w: %q wants this call itself", ErrDecider, by.ID)
	case by.Kind != KindPerson && slices.Contains(asker.Parents, by.ID):
		return fmt.Errorf("%w: %q wants this call itself, as %q, which is its child", ErrDecider, by.ID, asker.ID)
	case slices.Contains(by.Parents, asker.ID):
		return fmt.Errorf("%w: %q is a child of %q, which wants this call", ErrDecider, by.ID, asker.ID)
	}
	return nil
}

func (d *decider) approve(c Approve) error {
	if err := MayDecide(c.By, d.t.Submitted.Principal); err != nil {
		return fmt.Errorf("call %d: %w", c.Call, err)
	}
	call := d.t.Call(c.Call)
	switch {
	case call == nil:
		return fmt.Errorf("call %d: %w", c.Call, ErrNoCall)
	case call.Asked != nil && c.Asking != 0 && c.Asking != call.Asked.Number():
		return superseded(call, c.Asking)
	case call.Approved != nil && saidAgain(call, c):
		return nil // whoever says it, and whatever has become of the call since
	case call.Approved != nil && call.Open(): // the first durable decision wins
		return fmt.Errorf("call %d: %w: %s has approved it already, with other arguments or another scope", c.Call, ErrNotAsking, call.Approved.By.ID)
	}
	call, err := d.asking(c.Call)
	switch {
	case err != nil:
		return err
	case !d.env.Now.Before(call.Asked.Expires): // its timer is on the way, or nobody is there to hear it
		return fmt.Errorf("call %d: %w: nobody had answered by %s", c.Call, ErrExpired, call.Asked.Expires.UTC().Format("2006-01-02 15:04:05 MST"))
	case c.Hash != "" && c.Hash != call.Asked.Hash:
		return fmt.Errorf("call %d: %w", c.Call, ErrHash)
	}
	e := &events.Approved{By: c.By, Scope: cmp.Or(c.Scope, events.ScopeCall), Hash: call.Asked.Hash, Note: c.Note}
	if c.Args != nil && c.Args.Hash != call.Asked.Hash {
		e.Args, e.Hash, e.Secrets, e.Told = &events.Body{Text: string(c.Args.JSON)}, c.Args.Hash, c.Secrets, !c.Untold
	}
	d.emit(c.Call, e)
	return nil
}

// saidAgain says whether a yes is the one that the call has.
func saidAgain(call *Call, c Approve) bool {
	hash := cmp.Or(c.Hash, call.Asked.Hash)
	if c.Args != nil {
		hash = c.Args.Hash
	}
	return hash == call.Approved.Hash && cmp.Or(c.Scope, events.ScopeCall) == cmp.Or(call.Approved.Scope, events.ScopeCall)
}

// superseded is the answer to who decides about another asking than the call's last.
func superseded(call *Call, asking int) error {
	if asking > call.Asked.Number() {
		return fmt.Errorf("call %d: %w: asking %d has not been made: the last one is %d", call.Offset, ErrNotAsking, asking, call.Asked.Number())
	}
	return fmt.Errorf("call %d: %w: asking %d was answered, and %d is open: %s", call.Offset, ErrSuperseded, asking, call.Asked.Number(), call.Asked.Why)
}

// asking returns a call that waits for a person and whose end nobody asked for.
func (d *decider) asking(offset int) (*Call, error) {
	call := d.t.Call(offset)
	switch {
	case call == nil:
		return nil, fmt.Errorf("call %d: %w", offset, ErrNoCall)
	case !call.Open():
		return nil, fmt.Errorf("call %d: %w: %s", offset, ErrEnded, endedHow(call))
	}
	if _, _, ok := d.t.Cancelled(call); ok {
		return nil, fmt.Errorf("call %d: %w", offset, ErrCancelled)
	}
	switch {
	case call.Phase == PhaseAsking:
		return call, nil
	case call.Phase == PhaseInput:
		return nil, fmt.Errorf("call %d: %w: its tool has begun, and asks for input: answer that", offset, ErrNotAsking)
	case call.Approved != nil:
		return nil, fmt.Errorf("call %d: %w: %s has approved it, and it is %s", offset, ErrNotAsking, call.Approved.By.ID, call.Phase)
	}
	return nil, fmt.Errorf("call %d: %w: it is %s", offset, ErrNotAsking, cmp.Or(call.Phase, "submitted"))
}

// endedHow is how a call has ended, for who would have decided about it.
func endedHow(c *Call) string {
	switch e := c.Terminal.(type) {
	case *events.Denied:
		switch {
		case e.By != nil:
			return e.By.ID + " said no"
		case e.Code == events.ApprovalExpired:
			return "it had expired"
		}
		return "denied by " + e.Gate
	case *events.Completed, *events.Failed, *events.TimedOut, *events.Unknown:
		switch {
		case c.Answered != nil && c.Answered.By != nil:
			return string(c.Last) + ", after " + c.Answered.By.ID + " had answered its tool"
		case c.Approved != nil:
			return string(c.Last) + ", after " + c.Approved.By.ID + " had approved it"
		}
	}
	return string(c.Last)
}

// What a model reads of a person's no, before their note.
const (
	saidNo   = "a person said no to this call: do not repeat it, do something else"
	theySaid = "; they said: "
)

// NoteOf is the note of the person who said no, without what the model is told besides;
// "" where there was none, or where nobody said no.
func NoteOf(e *events.Denied) string {
	note, found := strings.CutPrefix(e.Reason, saidNo+theySaid)
	if e.By == nil || !found {
		return ""
	}
	return note
}

func (d *decider) reject(c Reject) error {
	if err := MayDecide(c.By, d.t.Submitted.Principal); err != nil {
		return fmt.Errorf("call %d: %w", c.Call, err)
	}
	call := d.t.Call(c.Call)
	if call != nil && call.Asked != nil && c.Asking != 0 && c.Asking != call.Asked.Number() {
		return superseded(call, c.Asking)
	}
	if call != nil {
		if is, ok := call.Terminal.(*events.Denied); ok && is.By != nil {
			return nil // a person has said no already: whoever asks again may have to tell a node
		}
	}
	call, err := d.asking(c.Call)
	if err != nil {
		return err
	}
	reason := saidNo
	if c.Note != "" {
		reason += theySaid + c.Note
	}
	d.emit(c.Call, &events.Denied{
		Gate: string(GateApprove), Code: events.ApprovalRejected, Reason: reason, By: &c.By,
		Policies: call.Asked.Policies, Policy: call.Asked.Policy,
	})
	return nil
}

// Shown are the files that an approval holds for, as they were when it was asked for.
type Shown struct {
	Operands []events.Seen // that the call would run
	Base     []events.Seen // that its preview was made from
}

func (s Shown) same(o Shown) bool {
	return sameFiles(s.Operands, o.Operands) && sameFiles(s.Base, o.Base)
}

// approvedFor says whether somebody has already said yes to exactly this call: here, as
// it was asked about, or for the session in an earlier turn of the trace. now are the
// files as they are; with looked false nobody has looked, and the lock gate compares
// them instead.
func (d *decider) approvedFor(call *Call, v events.Verdict, now Shown, looked bool) bool {
	if a := call.Approved; a != nil && a.Hash == v.Hash && asked(call.Asked, v) && (!looked || bound(call.Asked).same(now)) {
		return true
	}
	if d.t.Planned == nil {
		return false
	}
	if slices.Contains(d.t.Planned.Inherited.Approvals, SessionApproval(call.Tool, v.Hash)) {
		return true // recorded by a release that bound it to no more
	}
	y := d.t.sessionYes(call, v)
	return y != nil && (!looked || Shown{y.Operands, y.Base}.same(now))
}

// asked says whether what was asked about is the tool and the policy of now.
func asked(a *events.ApprovalRequested, v events.Verdict) bool {
	return a.ToolVersion == v.ToolVersion && a.Policy == v.Policy && sameReasons(a.Policies, v)
}

// sameReasons says whether a yes that was given for the reasons of some policies is one
// to what is asked now. Where the verdict holds for its moment only, others may ask.
func sameReasons(policies []string, v events.Verdict) bool {
	return v.Judged.IsZero() || slices.Equal(policies, v.Policies)
}

// sessionYes is the approval for the session that the trace leaves to a call of this
// turn, as it is judged now; nil where there is none.
func (t Turn) sessionYes(call *Call, v events.Verdict) *events.SessionYes {
	if t.Planned == nil {
		return nil
	}
	for i := range t.Planned.Inherited.Session {
		y := &t.Planned.Inherited.Session[i]
		if y.Tool == call.Tool && y.Hash == v.Hash && y.ToolVersion == v.ToolVersion && y.Policy == v.Policy && sameReasons(y.Policies, v) && sameAsker(y, t.Submitted) {
			return y
		}
	}
	return nil
}

// AgreedBefore says whether the trace leaves to the turn a yes for the session to a call of
// the tool with arguments of that hash. Whether it holds for the call as it is judged now,
// its tool's and the policy's versions and its files, Judge and Begin find.
func AgreedBefore(t Turn, tool, hash string) bool {
	if t.Planned == nil || hash == "" {
		return false
	}
	in := t.Planned.Inherited
	return slices.Contains(in.Approvals, SessionApproval(tool, hash)) ||
		slices.ContainsFunc(in.Session, func(y events.SessionYes) bool { return y.Tool == tool && y.Hash == hash && sameAsker(&y, t.Submitted) })
}

// Bound are the files that the call's approval holds for: its own, or the one for the
// session that lets it through. ok is false where nobody was asked, and where the call
// runs with changed arguments about which nobody has to be asked.
func Bound(t Turn, call *Call) (files Shown, ok bool) {
	switch {
	case call.Asked != nil && call.Decision != decisionAllow:
		return bound(call.Asked), true
	case call.Verdict != nil:
		if y := t.sessionYes(call, *call.Verdict); y != nil {
			return Shown{y.Operands, y.Base}, true
		}
	}
	return Shown{}, false
}

func bound(a *events.ApprovalRequested) Shown { return Shown{a.Operands, a.Base()} }

func sameFiles(a, b []events.Seen) bool {
	return slices.EqualFunc(a, b, func(x, y events.Seen) bool { return x.Path == y.Path && x.Digest == y.Digest })
}

// sameAsker says whether the turn's calls are wanted by the principal that the approval
// was given for, with the same parents, and in the same place: neither another principal
// of the trace nor a child inherits it.
func sameAsker(y *events.SessionYes, s *events.TurnSubmitted) bool {
	return y.Principal.ID == s.Principal.ID && agentKind(y.Principal) == agentKind(s.Principal) &&
		slices.Equal(y.Principal.Parents, s.Principal.Parents) && y.Workspace == s.Workspace &&
		cmp.Or(y.Placement, events.DefaultPlacement) == cmp.Or(s.Placement, events.DefaultPlacement)
}

func agentKind(p events.Principal) string { return cmp.Or(p.Kind, KindAgent) }
