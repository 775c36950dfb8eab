package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/tools"
)

// Vault has the values that arguments in the log have placeholders for.
type Vault interface {
	// Open returns the values of a call's references by their ids, or an error: it may
	// wrap bus.ErrUnavailable or bus.ErrUncertain, after which it is asked again, and
	// anything else is for good.
	Open(ctx context.Context, call events.CallKey, refs []events.SecretRef) (map[string]secrets.Value, error)
	// Drop forgets values that nobody needs any more.
	Drop(ctx context.Context, call events.CallKey, refs []events.SecretRef) error
}

// errNoVault says that this node has nowhere to look for values.
var errNoVault = errors.New("this node keeps no secrets")

// unseal puts the values of secrets into what a tool is given, at the last moment, and
// says what to take out of whatever comes back. fail is the answer of an attempt that
// does not run: a value is not here, or with it the call is another one than was let
// through. Nothing ever runs with a placeholder.
func (h *hands) unseal(ctx context.Context, key attemptKey, j job) (ready job, fail *events.Error) {
	j.clean = secrets.Cleaner{Detect: !h.n.cfg.ShowSecrets}
	j, given, err := h.unsealGiven(ctx, key.call, j)
	if err != nil {
		return j, h.notHere(key, "a person's answer", err)
	}
	j.clean.Known = secrets.NewLiterals(given...)
	refs := j.call.Secrets
	if len(refs) == 0 {
		return j, nil
	}
	values, err := h.n.openValues(ctx, key.call, refs, j.in.Deadline)
	if err != nil {
		return j, h.notHere(key, "the call", err)
	}
	args, err := secrets.Open(j.in.Args, refs, values)
	if err != nil {
		return j, &events.Error{Code: events.AccessDenied, Message: "not started: " + err.Error()}
	}
	known := given
	for _, r := range refs {
		known = append(known, values[r.ID].Text())
	}
	j.clean.Known = secrets.NewLiterals(known...)
	opened, why := h.n.sameCall(j, args, values)
	if why != "" {
		return j, &events.Error{Code: events.AccessDenied, Message: "not started: " + j.clean.Text(why)}
	}
	j.in.Args, j.in.May = args, h.n.gates.May(opened)
	return j, nil
}

// notHere is the answer of an attempt that is not run since a value is not here.
func (h *hands) notHere(key attemptKey, where string, err error) *events.Error {
	h.n.log.Warn("a call's secrets are not here: it is not run", "call", key.call.String(), "err", err)
	return &events.Error{Code: events.AccessDenied, Message: "not started: " + where + " holds a secret whose value this node does not have (" + reasonOf(err) +
		"); send the call again with the value, or give all nodes the same file of keys"}
}

// reasonOf is what may be told of an error of the vault.
func reasonOf(err error) string {
	if errors.Is(err, secrets.ErrSealed) {
		return "it was sealed under another key"
	}
	for e := err; ; {
		inner := errors.Unwrap(e)
		if inner == nil {
			return e.Error()
		}
		e = inner
	}
}

// openValues asks the vault, and asks again while it cannot be reached and the attempt
// has time.
func (n *Node) openValues(ctx context.Context, call events.CallKey, refs []events.SecretRef, deadline time.Time) (map[string]secrets.Value, error) {
	if n.cfg.Vault == nil {
		return nil, errNoVault
	}
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		values, err := n.cfg.Vault.Open(ctx, call, refs)
		passing := errors.Is(err, bus.ErrUnavailable) || errors.Is(err, bus.ErrUncertain)
		late := !deadline.IsZero() && n.cfg.Now().Add(wait).After(deadline)
		if !passing || late || !n.pause(ctx, wait) {
			return values, err
		}
	}
}

// sameCall has the gates judge the arguments with their values in them, in memory only.
// They have judged placeholders so far, and a person has seen placeholders: where a
// value makes another call of it, one with other commands, files or hosts, or one that
// policy would not let through, it is not run, and why says so.
func (n *Node) sameCall(j job, args json.RawMessage, values map[string]secrets.Value) (opened *Asked, why string) {
	const other = "with its secret in it the call would do something else than what was judged and shown"
	sealed := j.asked
	opened = &Asked{Tool: sealed.Tool, Args: lifecycle.Args{JSON: args, Hash: sealed.Args.Hash}, Raw: sealed.Raw, Turn: sealed.Turn, Key: sealed.Key, shown: sealed.shown}
	gates := n.gates
	gates.log = nil // what breaks here may hold the value
	before, last := lastOf(gates.Static(sealed)), lastOf(gates.Static(opened))
	switch {
	case last.Ruling == lifecycle.Deny && last.Gate == lifecycle.GateValidate:
		return opened, "the secret does not fit the tool's schema: " + last.Reason
	case last.Ruling == lifecycle.Deny:
		return opened, "with its secret in it the call is not allowed: " + last.Reason
	case last.Ruling == lifecycle.Ask && (before.Ruling != lifecycle.Ask || !slices.Equal(before.Policies, last.Policies)):
		return opened, "with its secret in it the call needs a person's approval, and was not asked about for that"
	}
	was, is := gates.learn(j.tool, sealed), gates.learn(j.tool, opened)
	switch {
	case was.tier != is.tier, !sameOperation(was.op, is.op, values):
		return opened, other
	case !slices.Equal(substituted(names(was.resources), values), names(is.resources)):
		return opened, other
	case !slices.Equal(was.operands, is.operands): // their digests were taken by what was judged
		return opened, other
	}
	for _, ptr := range j.tool.Writes { // what was looked at, and is locked
		if stringAt(sealed.Args.JSON, ptr) != stringAt(args, ptr) {
			return opened, other
		}
	}
	return opened, ""
}

// sealedName denies a call that names a file by a secret, before anybody is asked: what
// is judged and shown would be another name than the one that is used.
func sealedName(op events.Operation) (lifecycle.Finding, bool) {
	for _, p := range op.Paths {
		if len(secrets.Placeholders(p)) > 0 {
			return lifecycle.Finding{
				Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Deny, Code: events.AccessDenied,
				Reason: "The name of a file holds a secret: names are judged, stored and shown, so it cannot; use another name.",
			}, true
		}
	}
	return lifecycle.Finding{}, false
}

// lastOf is what the last gate found that was asked.
func lastOf(findings []lifecycle.Finding, _ events.Verdict) lifecycle.Finding {
	if len(findings) == 0 {
		return lifecycle.Finding{Ruling: lifecycle.Deny}
	}
	return findings[len(findings)-1]
}

// sameOperation says whether an operation is what was judged, but for values in the
// place of their placeholders. A file or a host is never one.
func sameOperation(was, is events.Operation, values map[string]secrets.Value) bool {
	return was.Class == is.Class && was.Reads == is.Reads && slices.Equal(was.Paths, is.Paths) &&
		slices.Equal(substituted(was.Hosts, values), is.Hosts) && slices.Equal(substituted(was.Commands, values), is.Commands)
}

func substituted(list []string, values map[string]secrets.Value) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = secrets.Substitute(s, values)
	}
	return out
}

func names(uses []events.ResourceUse) []string {
	out := make([]string, len(uses))
	for i, u := range uses {
		out[i] = fmt.Sprintf("%s %t", u.Name, u.Exclusive)
	}
	return out
}

// sealedTurn drops the values of a turn that has ended. It is best effort: what stays
// goes by itself after a while.
func (n *Node) sealedTurn(t lifecycle.Turn) {
	if n.cfg.Vault == nil || t.Submitted == nil {
		return
	}
	for i, raw := range t.Submitted.Calls {
		refs := slices.Clone(raw.Secrets)
		if c := t.Call(i); c != nil {
			for _, r := range slices.Concat(c.Secrets, c.Sealed) {
				if !slices.Contains(refs, r) {
					refs = append(refs, r)
				}
			}
		}
		if len(refs) == 0 {
			continue
		}
		key := t.Key.Call(i)
		n.do(func() {
			if err := n.cfg.Vault.Drop(n.ctx, key, refs); err != nil && n.ctx.Err() == nil {
				n.log.Warn("sealed values that nobody needs could not be removed", "call", key.String(), "err", err)
			}
		})
	}
}

// discreet is the tool with the values that it was given taken out of its progress,
// its answer and its errors before anything cuts them: half of a secret is not known
// again.
func discreet(t tools.Tool, clean secrets.Cleaner) tools.Tool {
	run := t.Run
	early := secrets.Cleaner{Known: clean.Known} // what only looks like a secret is looked for once, at the end
	t.Run = func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		tell := in.Progress
		in.Progress = func(p events.Progress) {
			p.Text = clean.Text(p.Text)
			tell(p)
		}
		r, err := run(ctx, in)
		return early.Result(r), quiet(err, early)
	}
	return t
}

// quiet is an error without secrets in its words.
func quiet(err error, clean secrets.Cleaner) error {
	if err == nil || clean.Idle() {
		return err
	}
	if own, ok := errors.AsType[*tools.Error](err); ok {
		e := *own
		e.Message, e.Path = clean.Text(own.Message), clean.Text(own.Path)
		if own.Result != nil {
			r := clean.Result(*own.Result)
			e.Result = &r
		}
		return &e
	}
	return quietError{clean.Text(err.Error()), err}
}

// quietError is an error that says something else than it did.
type quietError struct {
	words string
	error
}

func (e quietError) Error() string { return e.words }
func (e quietError) Unwrap() error { return e.error }

// discreetLog is a log in which nothing that was taken out is told.
func discreetLog(log *slog.Logger, clean secrets.Cleaner) *slog.Logger {
	if clean.Idle() {
		return log
	}
	return slog.New(NewLogHandler(log.Handler(), clean.Text))
}
