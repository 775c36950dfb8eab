package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// tool makes a tool of a definition.
func (r *Roster) tool(name, digest string, d wire.Definition) tools.Tool {
	tier, believed := r.cfg.Trust.Of(name, d.Tier)
	t := tools.Tool{Spec: tools.Spec{
		Name: name, Description: d.Description, Version: digest, Schema: d.Schema, Tier: tier,
		Limits: limitsOf(d.Limits), HonoursKey: d.HonoursKey && believed, Key: keyOf(d.Key),
		Containment: func(tools.Invocation) string { return "remote" },
	}}
	made := errand{tool: name, digest: digest, tier: tier, honours: t.HonoursKey}
	t.Run = func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		e := made
		e.verb, e.in = wire.VerbRun, in
		return r.run(ctx, e)
	}
	if d.Probe {
		t.Probe = func(ctx context.Context, in tools.Invocation) (tools.Finding, error) {
			e := made
			e.verb, e.in, e.tier = wire.VerbProbe, in, events.Readonly
			return r.probe(ctx, e)
		}
	}
	if d.Compensate && tier == events.Reversible {
		t.Compensate = func(ctx context.Context, in tools.Invocation, done events.Result) (events.Result, error) {
			e := made
			e.verb, e.in, e.done = wire.VerbCompensate, in, wireResult(done)
			return r.run(ctx, e)
		}
	}
	return t
}

// limitsOf are a worker's limits as tools have them.
func limitsOf(l *wire.Limits) tools.Limits {
	if l == nil {
		return tools.Limits{}
	}
	const most = int64(30 * 24 * time.Hour / time.Millisecond) // beyond, it is no limit, and would overflow
	return tools.Limits{
		Wall: time.Duration(min(l.WallMS, most)) * time.Millisecond, Output: min(l.Output, wire.MaxWhole), Lines: l.Lines, Text: l.Text,
		Keep: tools.Keep(l.Keep), Retries: min(l.Retries, maxRetries),
	}
}

// maxRetries bounds what a worker asks for.
const maxRetries = 10

// keyOf derives an idempotency key from the argument that a pointer names; nil for "".
func keyOf(pointer string) func(json.RawMessage) string {
	if pointer == "" {
		return nil
	}
	return func(args json.RawMessage) string {
		v, ok := wire.At(args, pointer)
		if !ok {
			return ""
		}
		return v
	}
}

// run has a worker do an attempt.
func (r *Roster) run(ctx context.Context, e errand) (events.Result, error) {
	a, err := r.do(ctx, e)
	if err != nil {
		return events.Result{}, err
	}
	return resultOf(a)
}

// probe asks a worker what became of an earlier attempt.
func (r *Roster) probe(ctx context.Context, e errand) (tools.Finding, error) {
	a, err := r.do(ctx, e)
	switch {
	case err != nil:
		return tools.Finding{}, err
	case a.Type == wire.TypeError:
		_, err := resultOf(a)
		return tools.Finding{}, err
	case a.Type != wire.TypeFound:
		return tools.Finding{}, nonsense("it answers a probe with %.40q", a.Type)
	}
	return tools.Finding{Found: a.Found, Result: eventsResult(a.Result)}, nil
}

// resultOf is the end of an attempt in the runtime's words.
func resultOf(a wire.Answer) (events.Result, error) {
	switch a.Type {
	case wire.TypeResult:
		return eventsResult(a.Result), nil
	case wire.TypeAsk:
		return events.Result{}, &tools.InputRequired{Requests: a.Asks, State: a.State}
	case wire.TypeError:
		e := a.Error.Sound()
		out := &tools.Error{
			Code: cmp.Or(e.Code, events.ExecutionError), Class: e.Class, Message: e.Message, Path: e.Path, Effects: e.Effects,
			After: time.Duration(min(e.AfterMS, int64(time.Hour/time.Millisecond))) * time.Millisecond,
		}
		if a.Result != nil {
			kept := eventsResult(a.Result)
			out.Result = &kept
		}
		return events.Result{}, out
	}
	return events.Result{}, nonsense("it answers an attempt with %.40q", a.Type)
}

// eventsResult is a worker's result as the log has it. A status that makes none is a success:
// failures are errors.
func eventsResult(r *wire.Result) events.Result {
	out := events.Result{Status: events.Success}
	if r == nil {
		return out
	}
	if r.Status == events.Partial {
		out.Status = events.Partial
	}
	out.Text.Text, out.Data, out.Undo = r.Text, r.Data, r.Undo
	return out
}

func wireResult(r events.Result) *wire.Result {
	return &wire.Result{Status: r.Status, Text: r.Text.Text, Data: r.Data, Undo: r.Undo}
}
