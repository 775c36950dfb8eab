package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// ErrUndoUnknown says that an earlier undo of the call may have had its effect, and
// that nobody knows: somebody must look, and resolve that undo's call.
var ErrUndoUnknown = errors.New("an earlier undo may have had its effect")

// Undo is a wish to undo what a completed call did.
type Undo struct {
	Call   events.CallKey
	By     events.Principal
	Reason string        // for the record; "" means none
	Wait   time.Duration // for the end; 0: not at all, negative: until it has ended
}

// The statuses of an Undone.
const (
	UndoneNow     = "compensated"         // the call is undone
	UndoneBefore  = "already_compensated" // it was already
	UndoneNotYet  = "accepted"            // the undo is durable, and has not ended
	UndoneDenied  = "denied"              // a gate has refused it: nothing was done
	UndoneFailed  = "failed"              // the call stays as it was; Effects says whether that is certain
	UndoneUnknown = "unknown"             // nobody knows: resolve the undo's call
)

// Undone is what became of an undo. Its JSON form is what the compensate of HTTP
// and of the command line give.
type Undone struct {
	Status  string            `json:"status"`
	Of      string            `json:"of"`             // the call to undo: trace/turn/offset
	Undo    string            `json:"undo,omitempty"` // the call that undoes it, or did; "" where none was made
	By      *events.Principal `json:"by,omitempty"`   // who has undone it
	At      time.Time         `json:"at,omitzero"`    // when
	Text    string            `json:"text,omitempty"` // what the tool said
	Code    events.Code       `json:"code,omitempty"`
	Reason  string            `json:"reason,omitempty"`  // why it is not undone
	Effects events.Effects    `json:"effects,omitempty"` // of an undo that did not succeed: only after none it may be asked for again
}

// maxUndos is how many undos of one call a desk makes turns for: each but the last
// one has failed without an effect.
const maxUndos = 100

// Compensate undoes what a completed call did. The undo is a turn of its own in the
// call's trace, submitted here and run by any node of the call's placement, whose
// only call is one of lifecycle.UndoTool. Asked again it attaches to the undo that is
// under way, or tells how it ended; after one that failed without an effect it makes
// another.
//
// It returns lifecycle.ErrNoTurn, ErrNoCall and ErrNoUndo, ErrUndoUnknown, and the
// errors of Submit and Wait. What a node finds is no error: see Undone.
func (d *Desk) Compensate(ctx context.Context, u Undo) (Undone, error) {
	v, err := d.Get(ctx, u.Call.TurnKey())
	if err != nil {
		return Undone{}, err
	}
	c := v.Turn.Call(u.Call.Offset)
	switch {
	case c == nil:
		return Undone{}, fmt.Errorf("turn %s: call %d: %w", v.Turn.Key, u.Call.Offset, lifecycle.ErrNoCall)
	case len(u.Reason) > lifecycle.MaxWords:
		return Undone{}, fmt.Errorf("%w: a reason of %d bytes, at most %d: say it shorter", lifecycle.ErrWords, len(u.Reason), lifecycle.MaxWords)
	case c.Undone:
		return undoneIn(v, u.Call, UndoneBefore), nil
	}
	if why := lifecycle.WhyNotUndone(v.Turn, c); why != "" {
		return Undone{}, fmt.Errorf("call %s: %w: %s", u.Call, lifecycle.ErrNoUndo, why)
	}
	undo, err := d.undo(ctx, u, v)
	if err != nil {
		return Undone{Of: u.Call.String()}, err
	}
	return d.becameOf(ctx, u.Call, undo)
}

// undo submits the undo, or finds the one that is under way, and waits for its end.
func (d *Desk) undo(ctx context.Context, u Undo, v View) (View, error) {
	for n := 1; n <= maxUndos; n++ {
		key := undoTurn(u.Call, n)
		for {
			have, err := d.fresh(ctx, key)
			if err != nil {
				return View{}, err
			}
			if len(have.Commits) > 0 {
				next, err := passed(have, u.Call)
				if err != nil {
					return View{}, err
				}
				if next {
					break
				}
				if have.Ended() {
					return have, d.found(ctx, u.Call, have.Turn)
				}
				return d.attached(ctx, u, have)
			}
			have, err = d.undoAs(ctx, key, u, v)
			if !errors.Is(err, lifecycle.ErrDifferent) {
				return have, err
			} // somebody else was first: look at theirs
		}
	}
	return View{}, fmt.Errorf("call %s: %w: %d undos of it have failed", u.Call, lifecycle.ErrNoUndo, maxUndos)
}

// undoTurn is the id of the n-th turn that undoes a call: the same whoever asks, so
// that two who ask at the same time make one.
func undoTurn(call events.CallKey, n int) events.TurnKey {
	id := fmt.Sprintf("undo-%s-%d-%d", call.Turn, call.Offset, n)
	if events.CheckID("turn", id) != nil { // too long
		id = fmt.Sprintf("undo-%.32s-%d-%d", lifecycle.Digest([]byte(call.Turn))[len("sha256:"):], call.Offset, n)
	}
	return events.TurnKey{Trace: call.Trace, Turn: id}
}

// passed says whether a turn that has the id of an undo leaves the next one free: it
// is none, or has ended without an effect. One that has ended and does not had its
// effect, and only the record is missing.
func passed(v View, call events.CallKey) (bool, error) {
	s := v.Turn.Submitted
	if s == nil || len(s.Calls) != 1 || s.Calls[0].Tool != lifecycle.UndoTool {
		return true, nil // a caller's own, with such an id
	}
	if of, ok := lifecycle.UndoOf(json.RawMessage(s.Calls[0].Args.Text)); !ok || of != call {
		return true, nil
	}
	c := v.Turn.Calls[0]
	switch {
	case v.Turn.Ended == nil:
		return false, nil
	case c.Unresolved():
		return false, fmt.Errorf("call %s: %w: look whether it did, then resolve call %s as none or done", call, ErrUndoUnknown, v.Turn.Key.Call(0))
	case c.Resolved != nil:
		return c.Resolved.Effects == events.EffectsNone, nil
	}
	return c.Outcome == nil || c.Outcome.Effects == events.EffectsNone, nil
}

// found records that a call was undone where its undo could not: a person has looked,
// and has said so.
func (d *Desk) found(ctx context.Context, call events.CallKey, undo lifecycle.Turn) error {
	cmd := lifecycle.Undone{
		Call: call.Offset, By: undo.Submitted.Principal,
		Result: events.Result{Status: events.Success, Text: events.Body{Text: "its undo was found done"}},
	}
	if r := undo.Calls[0].Resolved; r != nil {
		cmd.By = r.By
		if r.Note != "" {
			cmd.Result.Text.Text += ": " + r.Note
		}
	}
	_, err := d.act(ctx, call.TurnKey(), cmd)
	return err
}

// undoAs submits the turn that undoes.
func (d *Desk) undoAs(ctx context.Context, key events.TurnKey, u Undo, v View) (View, error) {
	of := v.Turn.Submitted
	s := events.TurnSubmitted{
		Principal: person(u.By), Calls: []events.RawCall{lifecycle.Undo(u.Call, wholeText(u.Reason))}, Format: "json", Workspace: of.Workspace,
		Mode: events.ModeWrite, CanAsk: true, Allow: []string{lifecycle.UndoTool}, Placement: of.Placement,
	}
	if u.Wait == 0 {
		t, err := d.Submit(ctx, key, s)
		if err != nil {
			return View{}, err
		}
		return d.load(ctx, t.Key, t.Seq)
	}
	_, have, err := d.Run(ctx, key, s, max(0, u.Wait))
	return have, err
}

// attached waits for the end of an undo that somebody has asked for before. One that
// nobody has claimed is queued again.
func (d *Desk) attached(ctx context.Context, u Undo, have View) (View, error) {
	if _, _, err := d.attach(ctx, have, *have.Turn.Submitted); err != nil {
		return have, err
	}
	if u.Wait == 0 {
		return have, d.durable(ctx)
	}
	return d.Wait(ctx, have.Turn.Key, max(0, u.Wait))
}

// becameOf is what an undo has led to.
func (d *Desk) becameOf(ctx context.Context, call events.CallKey, undo View) (Undone, error) {
	out := Undone{Status: UndoneNotYet, Of: call.String(), Undo: undo.Turn.Key.Call(0).String()}
	if !undo.Ended() {
		return out, nil
	}
	v, err := d.Get(ctx, call.TurnKey())
	if err != nil {
		return out, err
	}
	if v.Turn.Call(call.Offset).Undone {
		now := undoneIn(v, call, UndoneNow)
		now.Undo = out.Undo
		return now, nil
	}
	c := undo.Turn.Calls[0]
	out.Status, out.Effects = UndoneFailed, events.EffectsNone
	if e, ok := c.Terminal.(*events.Denied); ok {
		out.Status, out.Code, out.Reason = UndoneDenied, e.Code, e.Reason
		return out, nil
	}
	if o := c.Outcome; o != nil {
		out.Effects = o.Effects
		if e := o.Result.Error; e != nil {
			out.Code, out.Reason = e.Code, e.Message
		}
	}
	if out.Effects == events.EffectsPossible {
		out.Status = UndoneUnknown
	}
	return out, nil
}

// undoneIn is what the call's own turn says of its undo.
func undoneIn(v View, call events.CallKey, status string) Undone {
	out := Undone{Status: status, Of: call.String()}
	if e, at := compensatedIn(v, call.Offset); e != nil {
		out.By, out.At, out.Text = &e.By, at, e.Result.Text.Text
	}
	return out
}

// compensatedIn is the event that says that a call was undone, and when; nil if it
// was not.
func compensatedIn(v View, offset int) (*events.Compensated, time.Time) {
	for _, s := range v.Commits {
		for _, r := range s.Commit.Records {
			if e, ok := r.Event.(*events.Compensated); ok && r.Call == offset {
				return e, s.Commit.At
			}
		}
	}
	return nil, time.Time{}
}
