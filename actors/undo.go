package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// UndoConfig is what the undo tool works with. Bus and Registry are required where
// it is to run; zero elsewhere means the default beside the field.
type UndoConfig struct {
	Bus       bus.Bus         // nil: the tool can be described and judged, and refuses to run
	Registry  *tools.Registry // where the tools are whose calls are undone
	Workspace string          // of calls whose turn named none: the node's own
	Log       *slog.Logger    // nil discards
	Seen      Observer        // hears of what is appended to the undone call's turn; nil observes nothing

	Now   func() time.Time // nil means time.Now
	NewID func() string    // makes ids of commits; nil means ULIDs
}

// undoer undoes calls. It may be used from many goroutines.
type undoer struct{ UndoConfig }

// NewUndo makes the tool that undoes a completed call, once: an undo is an effect
// like any other, and so it is a call like any other, durable before it runs, judged,
// and recovered. It runs the undone call's own Compensate, and then appends
// lifecycle.Undone to that call's turn. It belongs into no model's list of tools; see
// UndoRule.
func NewUndo(c UndoConfig) (tools.Tool, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Seen == nil {
		c.Seen = nobody{}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = func() string { return ulid.Make().String() }
	}
	u := &undoer{c}
	return tools.Typed(tools.Spec{
		Name: lifecycle.UndoTool, Tier: events.Irreversible, Limits: tools.Limits{Retries: -1},
		Description: "Undoes what a completed call did, where the call's tool can. Each call is undone once.",
		Key: func(args json.RawMessage) string { // one effect for one call, whoever asks for it, and how
			if call, ok := lifecycle.UndoOf(args); ok {
				return call.String()
			}
			return ""
		},
		Asks: func(args json.RawMessage) string {
			call, _ := lifecycle.UndoOf(args)
			return "undo what the call " + call.String() + " did"
		},
		Probe: u.probe,
	}, u.run)
}

// UndoRule is the row of the policy for the undo tool. A person may call it in a turn
// whose allowlist names it; an agent only where every list that narrows it does: the
// glob * is no leave to undo.
func UndoRule() policy.Rule {
	return policy.Rule{ID: "undo.named", Version: "1", Judge: func(r policy.Request) policy.Finding {
		if r.Tool != lifecycle.UndoTool {
			return policy.Finding{}
		}
		named, lists := 0, 0
		for _, l := range r.Allowlists {
			if l != nil {
				lists++
			}
			if slices.Contains(l, lifecycle.UndoTool) {
				named++
			}
		}
		if named > 0 && (named == lists || r.Principal.Kind == "person") {
			return policy.Finding{}
		}
		return policy.Finding{
			Decision: policy.Deny, Code: events.PermissionDenied,
			Reason: "Undoing calls is for people: an agent may do it only where its allowlist names the tool \"" + lifecycle.UndoTool + "\"; say what should be undone, and why.",
		}
	}}
}

// refuse is a failure of the undo tool before it had any effect.
func refuse(code events.Code, format string, args ...any) *tools.Error {
	return &tools.Error{Code: code, Class: events.ClassTool, Effects: events.EffectsNone, Message: fmt.Sprintf(format, args...)}
}

// undoing is one undo: the call that undoes, and the one that is undone.
type undoing struct {
	by   lifecycle.Turn // whose call the undo is
	seq  uint64         // of by's last commit
	call events.CallKey // to undo
	past lifecycle.Turn // its turn
	log  []bus.Stored   // of past
}

func (u *undoer) run(ctx context.Context, in tools.Invocation, args lifecycle.UndoArgs) (events.Result, error) {
	if u.Bus == nil || u.Registry == nil {
		return events.Result{}, refuse(events.InternalError, "this process can undo nothing: ask a node")
	}
	x, err := u.look(ctx, in, args)
	if err != nil {
		return events.Result{}, err
	}
	tool, err := x.undoable(u.Registry)
	if err != nil {
		return events.Result{}, err
	}
	done, err := u.hold(ctx, in, x)
	if err != nil {
		return events.Result{}, err
	}
	if done != nil { // most of the time it is recorded, too: it was not yet when this began
		if x, err = u.look(ctx, in, args); err == nil {
			_, err = x.undoable(u.Registry)
		}
	} else if err = u.Bus.Barrier().Wait(ctx); err != nil { // BEFORE the effect: who has it must be known after a power cut
		err = refuse(events.ExecutionError, "it is not durable who undoes the call, and nothing was done: %v", err)
	} else {
		done, err = u.compensate(ctx, in, x, tool)
	}
	if err != nil {
		return events.Result{}, err
	}
	if err := u.record(ctx, x, *done); err != nil {
		return events.Result{}, err
	}
	return undone(x.call, tool.Name, *done), nil
}

// look reads both turns as the log has them now, and says whether the one may
// touch the other.
func (u *undoer) look(ctx context.Context, in tools.Invocation, args lifecycle.UndoArgs) (*undoing, error) {
	x := &undoing{}
	var err error
	if x.call, err = events.ParseCallKey(args.Call); err != nil {
		return nil, &tools.Error{
			Code: events.InvalidParam, Class: events.ClassInvalid, Path: "/call", Message: "call: want trace/turn/offset, for example t1/u1/0",
		}
	}
	by, err := u.turn(ctx, in.Call.TurnKey())
	if err == nil {
		x.log, err = u.turn(ctx, x.call.TurnKey())
	}
	if err != nil {
		return nil, refuse(events.ExecutionError, "the log cannot be read now, and nothing was done: ask again (%v)", err)
	}
	x.by, x.past = lifecycle.Fold(in.Call.TurnKey(), commits(by)...), lifecycle.Fold(x.call.TurnKey(), commits(x.log)...)
	if len(by) > 0 {
		x.seq = by[len(by)-1].Seq
	}
	switch {
	case x.past.Submitted == nil:
		return nil, refuse(events.NotFound, "there is no turn %s: nothing was done", x.call.TurnKey())
	case x.by.Submitted == nil:
		return nil, refuse(events.InternalError, "the turn of this call is not in the log")
	case x.by.Submitted.Principal.Kind != "person" && x.by.Key.Trace != x.call.Trace:
		return nil, refuse(events.AccessDenied, "an agent may undo only calls of its own trace, %s: nothing was done", x.by.Key.Trace)
	case placementOf(x.by) != placementOf(x.past):
		return nil, refuse(events.InvalidParam, "the call ran in the placement %s, and this turn in %s: undo it from a turn of its own placement", placementOf(x.past), placementOf(x.by))
	}
	return x, nil
}

func placementOf(t lifecycle.Turn) string {
	return cmp.Or(t.Submitted.Placement, events.DefaultPlacement)
}

// turn is every commit of a turn, as the log has it now.
func (u *undoer) turn(ctx context.Context, key events.TurnKey) ([]bus.Stored, error) {
	head, err := u.Bus.Head(ctx)
	if err != nil {
		return nil, err
	}
	return u.Bus.Load(ctx, key, head.Seq-1)
}

// undoable is the tool of the call, where the call can be undone.
func (x *undoing) undoable(r *tools.Registry) (tools.Tool, error) {
	c := x.past.Call(x.call.Offset)
	switch {
	case c == nil:
		return tools.Tool{}, refuse(events.NotFound, "turn %s has %d calls, and no call %d: nothing was done", x.past.Key, len(x.past.Calls), x.call.Offset)
	case c.Undone:
		by, at := undoneBy(x.log, x.call.Offset)
		return tools.Tool{}, refuse(events.Conflict, "call %s was undone already, by %s at %s: nothing was done", x.call, by.ID, at.UTC().Format(time.RFC3339))
	}
	if len(c.Secrets) > 0 {
		return tools.Tool{}, refuse(events.AccessDenied, "call %s cannot be undone: its arguments held secrets, which are kept only until its turn has ended; undo it by hand", x.call)
	}
	if why := lifecycle.WhyNotUndone(x.past, c); why != "" {
		return tools.Tool{}, refuse(events.Conflict, "call %s cannot be undone: %s", x.call, why)
	}
	tool, known := r.Lookup(c.Tool)
	switch {
	case !known:
		return tool, refuse(events.UnknownTool, "this node does not have the tool %s any more, which would undo its call: nothing was done", c.Tool)
	case tool.Compensate == nil:
		return tool, refuse(events.ExecutionError, "the tool %s has no way to undo a call any more: nothing was done", c.Tool)
	}
	return tool, nil
}

// undoneBy is who undid the call, and when.
func undoneBy(log []bus.Stored, offset int) (by events.Principal, at time.Time) {
	for _, s := range log {
		for _, r := range s.Commit.Records {
			if e, ok := r.Event.(*events.Compensated); ok && r.Call == offset {
				return e.By, s.Commit.At
			}
		}
	}
	return by, at
}

// undoKey names the entry that says who undoes the call. No idempotency key of a
// call has so few parts.
func undoKey(call events.CallKey) string { return keyCell("undo " + call.String()) }

// hold makes this call the one that undoes, by an entry like those of idempotency
// keys: whoever asks, one after another may try, and only while it is certain that
// no earlier one had its effect. done is not nil where a person has found that an
// earlier one did: only the record is missing.
func (u *undoer) hold(ctx context.Context, in tools.Invocation, x *undoing) (done *events.Result, err error) {
	for {
		entry, rev, err := u.entry(ctx, x.call)
		if err != nil {
			return nil, refuse(events.ExecutionError, "the log cannot be read now, and nothing was done: ask again (%v)", err)
		}
		hash := lifecycle.Digest([]byte(x.call.String()))
		holder, err := u.holder(ctx, entry)
		if err != nil {
			return nil, refuse(events.ExecutionError, "the log cannot be read now, and nothing was done: ask again (%v)", err)
		}
		ruling, same := lifecycle.Dedupe(in.Call, hash, entry, holder)
		switch ruling {
		case lifecycle.KeyMine:
			return nil, nil
		case lifecycle.KeyReuse:
			return &same.Outcome.Result, nil
		case lifecycle.KeyWait:
			return nil, refuse(events.Conflict, "call %s is being undone by call %s, which has not ended: nothing was done here", x.call, entry.Holder)
		case lifecycle.KeyBlocked, lifecycle.KeyConflict:
			return nil, refuse(events.UnknownOutcome, "call %s may have undone %s already, and nobody knows: nothing was done; somebody must check, and resolve %[1]s", entry.Holder, x.call)
		}
		b, err := json.Marshal(lifecycle.KeyEntry{Holder: in.Call.String(), Hash: hash, Seq: x.seq})
		if err != nil {
			return nil, err
		}
		_, err = u.Bus.Cells().Put(ctx, bus.BucketKeys, undoKey(x.call), b, rev, 0)
		if err != nil && !errors.Is(err, bus.ErrConflict) {
			return nil, refuse(events.ExecutionError, "it could not be noted who undoes the call, and nothing was done: ask again (%v)", err)
		} // read anew: what stands there says who it is
	}
}

func (u *undoer) entry(ctx context.Context, call events.CallKey) (*lifecycle.KeyEntry, uint64, error) {
	cell, err := u.Bus.Cells().Get(ctx, bus.BucketKeys, undoKey(call))
	if errors.Is(err, bus.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var e lifecycle.KeyEntry
	return &e, cell.Revision, json.Unmarshal(cell.Value, &e)
}

// holder is the turn of the call that an entry names.
func (u *undoer) holder(ctx context.Context, e *lifecycle.KeyEntry) (lifecycle.Turn, error) {
	if e == nil {
		return lifecycle.Turn{}, nil
	}
	key, err := events.ParseCallKey(e.Holder)
	if err != nil {
		return lifecycle.Turn{}, nil // Dedupe knows what an entry that points nowhere means
	}
	log, err := u.turn(ctx, key.TurnKey())
	return lifecycle.Fold(key.TurnKey(), commits(log)...), err
}
