package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/tools"
)

// compensate has the call's own tool undo it, with what the call was given and what
// it answered.
func (u *undoer) compensate(ctx context.Context, in tools.Invocation, x *undoing, tool tools.Tool) (*events.Result, error) {
	c := x.past.Call(x.call.Offset)
	args, err := u.text(ctx, c.Args)
	if err != nil {
		return nil, refuse(events.ExecutionError, "the arguments of call %s cannot be read, and nothing was done: %v", x.call, err)
	}
	parsed, err := lifecycle.Parse(args)
	if err != nil {
		return nil, refuse(events.ExecutionError, "the arguments of call %s cannot be read, and nothing was done: %v", x.call, err)
	}
	done := c.Outcome.Result
	if done.Text.Ref != nil {
		if done.Text.Text, err = u.text(ctx, done.Text); err != nil {
			return nil, refuse(events.ExecutionError, "the answer of call %s cannot be read, and nothing was done: %v", x.call, err)
		}
		done.Text.Ref = nil
	}
	was := in // deadline, locks and progress are the undo's own
	was.Call, was.Attempt, was.Tool, was.Args, was.Key = x.call, c.Attempt, c.Tool, parsed.JSON, c.Started.Key
	was.Mode, was.Workspace, was.Expect = x.past.Submitted.Mode, x.past.Submitted.Workspace, nil
	if was.Workspace == "" {
		was.Workspace = u.Workspace
	}
	r, err := tool.Compensate(ctx, was, done)
	if err != nil {
		return nil, notUndone(x.call, err)
	}
	if r.Error != nil || r.Status == events.Failure {
		message := "its tool says that it failed"
		if r.Error != nil {
			message = r.Error.Message
		}
		return nil, &tools.Error{
			Code: events.ExecutionError, Class: events.ClassTool, Effects: events.EffectsPossible, Result: &r,
			Message: fmt.Sprintf("call %s stays as it was: %s", x.call, message),
		}
	}
	return &r, nil
}

// text is a body's text, wherever it is.
func (u *undoer) text(ctx context.Context, b events.Body) (string, error) {
	if b.Ref == nil {
		return b.Text, nil
	}
	data, err := u.Bus.Blobs().Get(ctx, *b.Ref)
	return string(data), err
}

// notUndone is the failure of a tool to undo its call, as one of the undo tool. That
// the other side was not there says nothing about the availability of undoing.
func notUndone(call events.CallKey, err error) error {
	own, ok := errors.AsType[*tools.Error](err)
	if !ok {
		return fmt.Errorf("undo call %s: %w", call, err)
	}
	e := *own
	if e.Effects == events.EffectsDone { // it failed, and has changed something: whether the call is undone nobody knows
		e.Effects = events.EffectsPossible
	}
	e.Message = fmt.Sprintf("call %s stays as it was: %s", call, own.Message)
	switch own.Class {
	case events.ClassInvalid, events.ClassConflict: // it refused, and did nothing
	case events.ClassTimeout, events.ClassCancelled:
	default:
		e.Class = events.ClassTool
	}
	return &e
}

// Bounds of what the undone call's own turn keeps of the undo; the undo's call has
// all of it.
const (
	maxUndoText = 4 << 10               // bytes
	recordSoon  = 50 * time.Millisecond // before an append that failed is tried again, doubled
	recordLate  = 2 * time.Second       // the longest of these pauses
)

// record appends to the call's turn that it was undone, and waits until that is
// durable. It tries until ctx ends: the effect is there.
func (u *undoer) record(ctx context.Context, x *undoing, r events.Result) error {
	text, _, _ := tools.CutText(secrets.Redact(r.Text.Text), tools.Limits{Text: maxUndoText})
	cmd := lifecycle.Undone{
		Call: x.call.Offset, By: x.by.Submitted.Principal,
		Result: events.Result{Status: events.Success, Text: events.Body{Text: text}},
	}
	var c events.Commit // the one that may have been kept
	at := uint64(0)
	for wait := recordSoon; ; wait = min(2*wait, recordLate) {
		err := u.append(ctx, x, cmd, &c, &at)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, lifecycle.ErrForeign), errors.Is(err, lifecycle.ErrBroken), errors.Is(err, bus.ErrTooLarge):
			return fmt.Errorf("call %s was undone, and that cannot be recorded: %w", x.call, err)
		}
		u.Log.Warn("a call was undone, and that could not be recorded: trying again", "call", x.call.String(), "err", err)
		if !rest(ctx, wait) {
			return fmt.Errorf("call %s was undone, and that could not be recorded: %w", x.call, errors.Join(err, ctx.Err()))
		}
	}
}

// append appends the record once. c and at are those of a try that may have been
// kept: the same is tried again until it is known.
func (u *undoer) append(ctx context.Context, x *undoing, cmd lifecycle.Command, c *events.Commit, at *uint64) error {
	if c.ID == "" {
		log, err := u.turn(ctx, x.call.TurnKey())
		if err != nil {
			return err
		}
		now := u.Now().UTC().Truncate(time.Microsecond)
		records, err := lifecycle.Decide(lifecycle.Fold(x.past.Key, commits(log)...), lifecycle.Env{Now: now}, cmd)
		if err != nil || len(records) == 0 {
			return err
		}
		*c, *at = events.Commit{ID: u.NewID(), Turn: x.past.Key, At: now, Records: records}, log[len(log)-1].Seq
	}
	s, err := u.Bus.Append(ctx, *c, *at)
	if err != nil {
		if !errors.Is(err, bus.ErrUncertain) {
			*c = events.Commit{}
		}
		return err
	}
	if err := u.Bus.Barrier().Wait(ctx); err != nil {
		return err
	}
	named := map[int]string{x.call.Offset: x.past.Call(x.call.Offset).Tool}
	u.Seen.Committed(s, named)
	if u.Bus.Wanted(s, named) {
		if err := u.Bus.Publish(ctx, s, named); err != nil {
			u.Log.Warn("live events not sent", "turn", x.past.Key.String(), "err", err)
		}
	}
	return nil
}

// rest waits; false means that ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// undone is the undo's own answer. What the tool then knows of files is not passed
// on, so that the trace's next write of one meets a conflict and looks at it first;
// that a file is gone is, since nobody could look at it.
func undone(call events.CallKey, tool string, r events.Result) events.Result {
	out := events.Result{Status: events.Success, Data: r.Data, Blobs: r.Blobs, Cut: r.Cut}
	text := strings.TrimSuffix("undid "+call.String()+" ("+tool+"): "+r.Text.Text, ": ")
	out.Text = events.Body{Text: text}
	for _, s := range r.Seen {
		if s.Digest == "" {
			out.Seen = append(out.Seen, s)
		}
	}
	return out
}

// probe asks the log whether the call was undone.
func (u *undoer) probe(ctx context.Context, in tools.Invocation) (tools.Finding, error) {
	call, ok := lifecycle.UndoOf(in.Args)
	if !ok || u.Bus == nil {
		return tools.Finding{}, fmt.Errorf("call %s names no call to undo", in.Call)
	}
	log, err := u.turn(ctx, call.TurnKey())
	if err != nil {
		return tools.Finding{}, err
	}
	for _, s := range log {
		for _, r := range s.Commit.Records {
			if e, ok := r.Event.(*events.Compensated); ok && r.Call == call.Offset {
				c := lifecycle.Fold(call.TurnKey(), commits(log)...).Call(call.Offset)
				return tools.Finding{Found: true, Result: undone(call, c.Tool, e.Result)}, nil
			}
		}
	}
	return tools.Finding{}, nil
}
