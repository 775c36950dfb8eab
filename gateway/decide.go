package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/projections"
)

// ApprovalID names one asking of a call: for a person's yes, or for what its tool needs.
type ApprovalID struct {
	Call   events.CallKey
	Asking int  // from 1; 0 means the call's last
	Input  bool // its tool has asked; where Asking is 0, too, false means the call's last of either
}

// String is trace/turn/call@asking, with an i before the number of what a tool has asked,
// and without @asking where that is the last one.
func (id ApprovalID) String() string {
	switch {
	case id.Asking == 0:
		return id.Call.String()
	case id.Input:
		return projections.InputID(id.Call, id.Asking)
	}
	return projections.PendingID(id.Call, id.Asking)
}

// ParseApprovalID reads what String gives.
func ParseApprovalID(s string) (ApprovalID, error) {
	name, number, named := strings.Cut(s, "@")
	call, err := events.ParseCallKey(name)
	if err != nil {
		return ApprovalID{}, err
	}
	id := ApprovalID{Call: call}
	if !named {
		return id, nil
	}
	digits, input := strings.CutPrefix(number, "i")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || strconv.Itoa(n) != digits {
		return ApprovalID{}, fmt.Errorf("approval %.80q: want trace/turn/call@asking, and the asking from 1, with an i before it for what a tool asks", s)
	}
	id.Asking, id.Input = n, input
	return id, nil
}

// Decision is a person's answer.
type Decision struct {
	Yes   bool
	By    events.Principal // a person or a service: see lifecycle.MayDecide. An empty kind means person
	Scope string           // of a yes: events.ScopeCall (the meaning of "") or events.ScopeSession
	Hash  string           // of the arguments that the person saw; "" means those that are asked about
	Args  *string          // of a yes: changed arguments; nil means as asked
	Note  string           // for the record; of a no for the model, too
}

// What became of an answer. Already says that somebody had said the same before, and
// that this one changes nothing.
const (
	DecidedApproved        = "approved"
	DecidedDenied          = "denied"
	DecidedAlreadyApproved = "already_approved"
	DecidedAlreadyDenied   = "already_denied"
)

// Decided is what became of an answer: whose counts, and for what. Its JSON form is what
// every door gives.
type Decided struct {
	Status string           `json:"status"`
	ID     string           `json:"id"`
	Tool   string           `json:"tool"`
	By     events.Principal `json:"by"` // whose answer counts
	At     time.Time        `json:"at,omitzero"`
	Scope  string           `json:"scope,omitempty"`
	Hash   string           `json:"args_hash,omitempty"`  // of what may run now
	Asked  string           `json:"asked_hash,omitempty"` // of what was asked about, where that is something else
	Note   string           `json:"note,omitempty"`
}

// Decide answers an asking. The first durable answer counts: the same again is no error,
// and says whose it was. It returns lifecycle.ErrDecider, ErrNotAsking, ErrSuperseded,
// ErrExpired, ErrHash, ErrEnded, ErrCancelled, ErrNoCall or ErrNoTurn, and
// lifecycle.ErrArgs for changed arguments that are no JSON object, or that the gates of
// the node at this door refuse: the call waits on then.
func (d *Desk) Decide(ctx context.Context, id ApprovalID, a Decision) (Decided, error) {
	by := person(a.By)
	if id.Input {
		return Decided{}, fmt.Errorf("%s: %w: it is what the call's tool asks: answer that", id, lifecycle.ErrNotAsking)
	}
	if !a.Yes {
		t, already, err := d.actAnew(ctx, id.Call.TurnKey(), lifecycle.Reject{Call: id.Call.Offset, By: by, Asking: id.Asking, Note: wholeText(a.Note)})
		if err != nil {
			return Decided{}, err
		}
		return decided(t, id, by, already), nil
	}
	cmd := lifecycle.Approve{Call: id.Call.Offset, By: by, Asking: id.Asking, Scope: a.Scope, Hash: a.Hash, Note: wholeText(a.Note)}
	if a.Args != nil {
		args, refs, err := d.sealChanged(ctx, id.Call, *a.Args)
		if err != nil {
			return Decided{}, err
		}
		if err := d.passable(ctx, id, by, args); err != nil {
			return Decided{}, err
		}
		cmd.Args, cmd.Secrets = &args, refs
	}
	t, already, err := d.actAnew(ctx, id.Call.TurnKey(), cmd)
	if err != nil {
		return Decided{}, err
	}
	return decided(t, id, by, already), nil
}

// passable refuses changed arguments that would only end the call, as far as the node
// at this door can say. Whatever else there is to say against the answer is said by act.
func (d *Desk) passable(ctx context.Context, id ApprovalID, by events.Principal, args lifecycle.Args) error {
	if d.refuses == nil {
		return nil
	}
	v, err := d.fresh(ctx, id.Call.TurnKey())
	if err != nil {
		return err
	}
	c := v.Turn.Call(id.Call.Offset)
	switch {
	case c == nil || c.Phase != lifecycle.PhaseAsking || id.Asking != 0 && id.Asking != c.Asked.Number():
		return nil
	case lifecycle.MayDecide(by, v.Turn.Submitted.Principal) != nil: // who may not decide is told nothing of the policy
		return nil
	}
	if why := d.refuses(v.Turn, c.Offset, args); why != "" {
		return refusedArgs{secrets.Redact(why)}
	}
	return nil
}

// refusedArgs is a lifecycle.ErrArgs that says why arguments of a person were not taken.
type refusedArgs struct{ why string }

func (e refusedArgs) Error() string {
	return "the new arguments were not taken, and the call still waits: " + e.why
}

func (e refusedArgs) Is(target error) bool { return target == lifecycle.ErrArgs }

// decided is the answer that counts, for somebody who has given one: already says that it
// was given before.
func decided(t lifecycle.Turn, id ApprovalID, by events.Principal, already bool) Decided {
	c := t.Call(id.Call.Offset)
	if c == nil {
		return Decided{ID: id.String(), By: by}
	}
	out := Decided{ID: id.String(), Tool: c.Tool, By: by}
	if c.Asked != nil {
		out.ID = projections.PendingID(id.Call, c.Asked.Number())
	}
	switch e, denied := c.Terminal.(*events.Denied); {
	case denied && e.By != nil:
		out.Status, out.By, out.Note = DecidedDenied, *e.By, lifecycle.NoteOf(e)
	case c.Approved != nil:
		out.Status, out.By, out.At, out.Note = DecidedApproved, c.Approved.By, c.ApprovedAt, c.Approved.Note
		out.Scope, out.Hash = cmp.Or(c.Approved.Scope, events.ScopeCall), c.Approved.Hash
		if c.Asked != nil && c.Asked.Hash != out.Hash {
			out.Asked = c.Asked.Hash
		}
	}
	if already {
		out.Status = map[string]string{DecidedApproved: DecidedAlreadyApproved, DecidedDenied: DecidedAlreadyDenied}[out.Status]
	}
	return out
}

// Approval is a person's yes, for Approve.
type Approval struct {
	By    events.Principal
	Scope string  // events.ScopeCall (the meaning of "") or events.ScopeSession
	Hash  string  // of the arguments that the person saw; "" means those that are asked about
	Args  *string // changed arguments; nil means as asked
	Note  string
}

// Approve says yes to the call's last asking. It returns the errors of Decide.
func (d *Desk) Approve(ctx context.Context, call events.CallKey, a Approval) error {
	_, err := d.Decide(ctx, ApprovalID{Call: call}, Decision{Yes: true, By: a.By, Scope: a.Scope, Hash: a.Hash, Args: a.Args, Note: a.Note})
	return err
}

// Reject says no to the call's last asking. note is for the model, "" means none. It
// returns the errors of Decide.
func (d *Desk) Reject(ctx context.Context, call events.CallKey, by events.Principal, note string) error {
	_, err := d.Decide(ctx, ApprovalID{Call: call}, Decision{By: by, Note: note})
	return err
}

// ErrNoApproval says that nothing was ever asked under that name.
var ErrNoApproval = errors.New("there is no such approval")
