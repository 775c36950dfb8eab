package client

import (
	"context"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Act says who asks for something, and why. Its zero value is the caller, without a word.
type Act struct {
	By     *events.Principal // nil means the caller; where everybody is believed: an operator
	Reason string            // for the record

	// Circuit is of ResetBreaker and OpenBreaker alone: which of the tool's endpoints is
	// meant, for example https://example.com. "" means the tool as a whole.
	Circuit string

	// Force is of OpenBreaker alone: the tool is meant though no node knows it, for example
	// since the nodes that have it are not there now.
	Force bool
}

// Cancelled is what became of a cancel.
type Cancelled struct {
	Status string      `json:"status"` // accepted, or already_terminal
	State  events.Kind `json:"state"`  // how it had ended already

	By *events.Principal `json:"by"` // whose cancel counts, the first one's; nil where nobody had asked before it ended
}

// Accepted says that the wish is durable. The call's end says what became of it.
func (c Cancelled) Accepted() bool { return c.Status == "accepted" }

type actBody struct {
	Principal *events.Principal `json:"principal,omitempty"`
	Reason    string            `json:"reason,omitempty"`
}

// byBody is an act of which no reason is told.
type byBody struct {
	Principal *events.Principal `json:"principal,omitempty"`
}

// Cancel asks for the end of every call of a turn that has not ended. A turn that has
// ended is no error: the answer says how.
func (c *Client) Cancel(ctx context.Context, key events.TurnKey, a Act) (out Cancelled, err error) {
	at, err := pathOf(key, "cancel")
	if err == nil {
		err = c.post(ctx, at, actBody{a.By, a.Reason}, &out)
	}
	return out, err
}

// CancelCall asks for the end of one call. One that has ended is no error.
func (c *Client) CancelCall(ctx context.Context, call events.CallKey, a Act) (out Cancelled, err error) {
	at, err := callPath(call, "cancel")
	if err == nil {
		err = c.post(ctx, at, actBody{a.By, a.Reason}, &out)
	}
	return out, err
}

// Resolved is what became of a resolution.
type Resolved struct {
	Status  string           `json:"status"` // resolved
	Effects events.Effects   `json:"effects"`
	By      events.Principal `json:"by"`
	Key     string           `json:"key"` // of the call's idempotency key: free, taken, or "" where it has none
}

// Resolve says how a call ended whose effects are only possible: events.EffectsNone or
// events.EffectsDone. The first word counts, and another one is NothingToResolve.
func (c *Client) Resolve(ctx context.Context, call events.CallKey, e events.Effects, a Act) (out Resolved, err error) {
	at, err := callPath(call, "resolve")
	if err != nil {
		return out, err
	}
	return out, c.post(ctx, at, struct {
		Principal *events.Principal `json:"principal,omitempty"`
		Effects   events.Effects    `json:"effects"`
		Note      string            `json:"note,omitempty"`
	}{a.By, e, a.Reason}, &out)
}

// Undone is what became of an undo.
type Undone struct {
	Status  string            `json:"status"` // compensated, already_compensated, accepted, denied, failed or unknown
	Of      string            `json:"of"`     // the call to undo: trace/turn/call
	Undo    string            `json:"undo"`   // the call that undoes it
	By      *events.Principal `json:"by"`     // who has undone it
	At      time.Time         `json:"at"`
	Text    string            `json:"text"` // what the tool said
	Code    events.Code       `json:"code"`
	Reason  string            `json:"reason"`  // why it is not undone
	Effects events.Effects    `json:"effects"` // of an undo that has not succeeded
}

// Compensate has a completed call undone, and waits for that at most so long (0: not at
// all; at most an hour). The same again tells how the undo ended, and never undoes twice.
// It returns NothingToUndo and UndoUnknown.
func (c *Client) Compensate(ctx context.Context, call events.CallKey, wait time.Duration, a Act) (out Undone, err error) {
	at, err := callPath(call, "compensate")
	if err != nil {
		return out, err
	}
	body := struct {
		actBody
		WaitMS int64 `json:"wait_ms,omitempty"`
	}{actBody{a.By, a.Reason}, wait.Milliseconds()}
	_, err = c.do(ctx, request{method: "POST", path: at, body: body, wait: wait, into: &out})
	return out, err
}
