package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Kinds of what waits for a person.
const (
	KindApproval = "approval"
	KindInput    = "input"
)

// Approval is one question to a person: whether a call may go on or, of Kind input, what
// its tool needs before it can.
type Approval struct {
	Kind        string           `json:"kind"`  // KindApproval, answered with Approve or Deny; KindInput, with Answer
	ID          string           `json:"id"`    // trace/turn/call@asking; trace/turn/call@iN of an input
	State       string           `json:"state"` // open, approved, denied, expired, withdrawn or superseded
	Call        events.CallKey   `json:"call"`
	Seq         uint32           `json:"seq"`    // of the event that asks
	Asking      int              `json:"asking"` // which of the call's askings it is, from 1
	Tool        string           `json:"tool"`
	ToolVersion string           `json:"tool_version"`
	Principal   events.Principal `json:"principal"` // who wants it
	Workspace   string           `json:"workspace"`
	Mode        string           `json:"mode"`
	Model       string           `json:"model"`
	Asks        string           `json:"asks"` // what would happen
	Args        events.Body      `json:"args"` // whole; by reference where they are large
	Preview     *events.Preview  `json:"preview"`
	Why         string           `json:"why"`
	ArgsHash    string           `json:"args_hash"` // what a yes is bound to
	Tier        events.Tier      `json:"tier"`
	Operation   events.Operation `json:"operation"`
	Operands    []events.Seen    `json:"operands"`
	Policies    []string         `json:"policies"`
	Policy      string           `json:"policy"`
	Requests    []InputRequest   `json:"requests"` // of an input: what its tool asks for
	Effects     events.Effects   `json:"effects"`  // of an input: what the call may have done before it asked
	At          time.Time        `json:"at"`
	Expires     time.Time        `json:"expires"`
	AgeS        int64            `json:"age_s"`    // seconds since it was asked
	LeftS       int64            `json:"left_s"`   // seconds until it expires; 0 where it is over
	Decision    *ApprovalEnd     `json:"decision"` // nil while it is open
	Warnings    []string         `json:"warnings"` // what could mislead who reads it
	Visible     string           `json:"visible"`  // all of it for a person to read: what could mislead is escaped
}

// ApprovalEnd is how an approval was answered.
type ApprovalEnd struct {
	State string            `json:"state"`
	By    *events.Principal `json:"by"` // nil: nobody; it has expired or was withdrawn
	At    time.Time         `json:"at"`
	Scope string            `json:"scope"`
	Hash  string            `json:"args_hash"` // of what was approved
	Args  *events.Body      `json:"args"`      // changed arguments
	Note  string            `json:"note"`
	Code  events.Code       `json:"code"`

	Answers []events.InputAnswer `json:"answers"` // of an input; secrets are placeholders
}

// InputRequest is one thing that a tool asks a person for.
type InputRequest struct {
	events.InputRequest
	Fields []Field `json:"fields"` // of a form, in its order
}

// Field is one field of a form.
type Field struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`  // string, number, integer, boolean, or choices
	Title       string          `json:"title"` // "" means Name
	Description string          `json:"description"`
	Required    bool            `json:"required"`
	Secret      bool            `json:"secret"`  // what is given is sealed, and never shown
	Format      string          `json:"format"`  // of a string: email, uri, date, date-time, or any other word
	Pattern     string          `json:"pattern"` // of a string, as JSON Schema has it
	Choices     []Choice        `json:"choices"` // nothing else may be said; nil: anything may
	Least       *int            `json:"least"`   // characters of a string, or choices
	Most        *int            `json:"most"`
	Minimum     json.Number     `json:"minimum"` // of a number; "" means none
	Maximum     json.Number     `json:"maximum"`
	Default     json.RawMessage `json:"default"`
}

// Choice is one thing that may be chosen.
type Choice struct {
	Value string `json:"value"`
	Title string `json:"title"` // "" means Value
}

// Yes is what goes with an approval. Its zero value is a yes to the call as it was asked
// about, and to nothing else.
type Yes struct {
	By    *events.Principal // nil means the caller
	Scope string            // events.ScopeCall, the meaning of "", or events.ScopeSession: exactly this call in the rest of its trace
	Args  any               // changed arguments, which pass all gates again; nil leaves them
	Note  string            // for the record, and for the model where arguments are changed
}

// No is what goes with a denial.
type No struct {
	By   *events.Principal // nil means the caller
	Note string            // for the model to read
}

// Decided is whose answer counts, and for what.
type Decided struct {
	Status    string           `json:"status"` // approved, denied, already_approved or already_denied
	ID        string           `json:"id"`
	Tool      string           `json:"tool"`
	By        events.Principal `json:"by"` // whose answer counts
	At        time.Time        `json:"at"`
	Scope     string           `json:"scope"`
	ArgsHash  string           `json:"args_hash"`  // of what may run now
	AskedHash string           `json:"asked_hash"` // of what was asked about, where that is something else
	Note      string           `json:"note"`
}

// decision is the body of an answer. It always names the asking that was read, and a yes
// the arguments: repeated, it can meet no other question.
type decision struct {
	Principal *events.Principal `json:"principal,omitempty"`
	Asking    int               `json:"asking,omitempty"`
	Hash      string            `json:"args_hash,omitempty"`
	Scope     string            `json:"scope,omitempty"`
	Args      json.RawMessage   `json:"args,omitempty"`
	Note      string            `json:"note,omitempty"`
}

// Approve says yes to an approval as it was read: to that asking, and those arguments. If
// the call was asked about again meanwhile it is Superseded, and nothing runs. An answer
// that somebody has given before is no error: see Decided.Status.
func (c *Client) Approve(ctx context.Context, a Approval, y Yes) (out Decided, err error) {
	body := decision{Principal: y.By, Asking: a.Asking, Hash: a.ArgsHash, Scope: y.Scope, Note: y.Note}
	if y.Args != nil {
		if body.Args, err = json.Marshal(y.Args); err != nil {
			return out, err
		}
	}
	at, err := callPath(a.Call, "approve")
	if err == nil {
		err = c.post(ctx, at, body, &out)
	}
	return out, err
}

// Deny says no to an approval as it was read.
func (c *Client) Deny(ctx context.Context, a Approval, n No) (out Decided, err error) {
	at, err := callPath(a.Call, "deny")
	if err == nil {
		err = c.post(ctx, at, decision{Principal: n.By, Asking: a.Asking, Note: n.Note}, &out)
	}
	return out, err
}

// InputAnswers are a person's answers to what a tool asks: one for each request or, with
// Action, the same for all of them.
type InputAnswers struct {
	By      *events.Principal    // nil means the caller
	Answers []events.InputAnswer // by the ids of the requests
	Action  string               // instead of Answers: events.InputDecline, InputCancel, or InputAccept with Content
	Content any                  // with events.InputAccept, where one form is asked: its fields
	Note    string               // for the record
}

// Answered is whose answers count.
type Answered struct {
	Status  string               `json:"status"`
	ID      string               `json:"id"`
	Tool    string               `json:"tool"`
	By      events.Principal     `json:"by"`
	At      time.Time            `json:"at"`
	Answers []events.InputAnswer `json:"answers"` // secrets are placeholders
	Note    string               `json:"note"`
}

// Answer answers an input as it was read: that asking of its call, and no later one. Its
// call then goes on with the answers.
func (c *Client) Answer(ctx context.Context, a Approval, in InputAnswers) (out Answered, err error) {
	body := struct {
		Principal *events.Principal    `json:"principal,omitempty"`
		Asking    int                  `json:"asking,omitempty"`
		Answers   []events.InputAnswer `json:"answers,omitempty"`
		Action    string               `json:"action,omitempty"`
		Content   json.RawMessage      `json:"content,omitempty"`
		Note      string               `json:"note,omitempty"`
	}{Principal: in.By, Asking: a.Asking, Answers: in.Answers, Action: in.Action, Note: in.Note}
	if in.Content != nil {
		if body.Content, err = json.Marshal(in.Content); err != nil {
			return out, err
		}
	}
	at, err := callPath(a.Call, "answer")
	if err == nil {
		err = c.post(ctx, at, body, &out)
	}
	return out, err
}
