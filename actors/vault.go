package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	opened, why := h.n.sameCall(j.tool, j.asked, args, values, true)
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
// policy would not let through, it is not run, and why says so. Only where it is to
// start is looked what there is outside of the workspace: whoever is denied would know.
func (n *Node) sameCall(tool tools.Tool, sealed *Asked, args json.RawMessage, values map[string]secrets.Value, starts bool) (opened *Asked, why string) {
	const other = "with its secret in it the call would do something else than what is judged and shown: hand the secret over in a file or a variable of the environment"
	opened = &Asked{Tool: sealed.Tool, Args: lifecycle.Args{JSON: args, Hash: sealed.Args.Hash}, Raw: sealed.Raw, Turn: sealed.Turn, Key: sealed.Key, shown: sealed.shown, agreedBefore: sealed.agreedBefore}
	gates := n.gates
	gates.log = nil // what breaks here may hold the value
	before, last := lastOf(gates.Static(sealed)), lastOf(gates.Static(opened))
	switch {
	case last.Ruling == lifecycle.Deny && last.Gate == lifecycle.GateValidate:
		return opened, "the secret does not fit the tool's schema: " + last.Reason
	case last.Ruling == lifecycle.Deny:
		return opened, "with its secret in it the call is not allowed: " + last.Reason
	case last.Ruling == lifecycle.Ask && (before.Ruling != lifecycle.Ask || !slices.Equal(before.Policies, last.Policies)):
		return opened, "with its secret in it the call needs a person's approval for another reason than can be shown: " + last.Reason
	}
	was, is := gates.learn(tool, sealed), gates.learn(tool, opened)
	switch {
	case was.tier != is.tier, !sameOperation(was.op, is.op, values):
		return opened, other
	case !slices.Equal(substituted(names(was.resources), values), names(is.resources)):
		return opened, other
	}
	for _, ptr := range tool.Writes { // what was looked at, and is locked
		if stringAt(sealed.Args.JSON, ptr) != stringAt(args, ptr) {
			return opened, other
		}
	}
	files := shelf{n.workspace(sealed.Turn), starts}
	if !files.same(was.op.Paths, is.op.Paths, values) || !files.same(was.operands, is.operands, values) {
		return opened, "with its secret in it the call names a file that is there, and that nobody was shown: hand the secret over in a file or a variable of the environment"
	}
	return opened, ""
}

// unlikeSealed denies a call about which a person would be asked, and that could not
// start then, since its values make another call of it. Values that are not at hand now
// are waited for when it starts.
func (n *Node) unlikeSealed(ctx context.Context, o owe, key events.CallKey, tool tools.Tool, findings []lifecycle.Finding) []lifecycle.Finding {
	at := slices.IndexFunc(findings, func(f lifecycle.Finding) bool { return f.Gate == lifecycle.GateAuthorize })
	if n.cfg.Vault == nil || !sealed(o) || at < 0 {
		return findings
	}
	call := o.turn.Call(o.offset)
	values, err := n.cfg.Vault.Open(ctx, key, call.Secrets)
	if err != nil {
		return findings
	}
	args, err := secrets.Open(o.asked.Args.JSON, call.Secrets, values)
	if err != nil {
		return findings
	}
	_, why := n.sameCall(tool, o.asked, args, values, false)
	if why == "" {
		return findings
	}
	clean := secrets.Cleaner{Detect: true, Known: secrets.NewLiterals(texts(values)...)}
	why = clean.Text(strings.ToUpper(why[:1]) + why[1:])
	denied := bounded(lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Deny, Code: events.AccessDenied, Reason: why})
	return append(slices.Clone(findings[:at]), denied)
}

// sealed says whether a call's arguments hold placeholders.
func sealed(o owe) bool {
	call := o.turn.Call(o.offset)
	return call != nil && len(call.Secrets) > 0
}

// operands are the files that an approval of a call is bound to. A word with a
// placeholder in it is none, or the call is not run: see shelf.
func (n *Node) operands(o owe, tool tools.Tool) []string {
	list := n.gates.learn(tool, o.asked).operands
	if !sealed(o) {
		return list
	}
	var ids []string
	for _, r := range o.turn.Call(o.offset).Secrets {
		ids = append(ids, r.ID)
	}
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return mentions(name, ids) })
}

func texts(values map[string]secrets.Value) []string {
	var out []string
	for _, v := range values {
		out = append(out, v.Text())
	}
	return out
}

// sealedName denies a call that names a file by a secret, before anybody is asked: what
// is judged and shown would be another name than the one that is used.
func sealedName(op events.Operation) (lifecycle.Finding, bool) {
	for _, p := range op.Paths {
		if len(secrets.Placeholders(p)) > 0 {
			return lifecycle.Finding{
				Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Deny, Code: events.AccessDenied,
				Reason: "A secret stands where the call names a file, and names are judged, stored and shown: use another name, or hand the secret over in a file or a variable of the environment.",
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
// place of their placeholders, and for its files; see shelf.
func sameOperation(was, is events.Operation, values map[string]secrets.Value) bool {
	return was.Class == is.Class && was.Reads == is.Reads && sameSet(substituted(was.Hosts, values), is.Hosts) &&
		slices.Equal(unquoted(substituted(was.Commands, values)), unquoted(is.Commands))
}

// sameSet compares lists that a tool may have sorted: a value sorts otherwise than its
// placeholder.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// unquoted are commands without the quotes that a word is shown in for one of its
// characters, which its placeholder has not.
func unquoted(commands []string) []string {
	out := make([]string, len(commands))
	for i, c := range commands {
		out[i] = strings.ReplaceAll(c, "'", "")
	}
	return out
}

// shelf is where names of files are looked up.
type shelf struct {
	workspace string
	outside   bool // also outside of it
}

// same says whether files, or words that may name some, are those that were judged, but
// for a secret's own text in a word. Such a word, and whatever else the secret makes
// look like a name, must name nothing that is there: then it is no file, and the call
// does the same as with a placeholder.
func (p shelf) same(was, is []string, values map[string]secrets.Value) bool {
	judged, left, ids := make(map[string]bool), make(map[string]bool), slices.Collect(maps.Keys(values))
	for _, name := range is {
		left[name] = true
	}
	for _, name := range was {
		judged[name] = true
		switch {
		case !mentions(name, ids):
			if !left[name] {
				return false
			}
		case p.has(secrets.Substitute(name, values)):
			return false
		}
	}
	return !slices.ContainsFunc(is, func(name string) bool { return !judged[name] && p.has(name) })
}

// mentions says whether a name was made of a placeholder, or of a part of one: behind
// the letters of a flag.
func mentions(name string, ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(name, id) })
}

// has says whether anything has that name, or may have: a file, a folder, a link to
// nothing, whatever lies behind a link that leads out of the workspace.
func (p shelf) has(name string) bool {
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(p.workspace, name)
		if err != nil || !filepath.IsLocal(rel) {
			return p.outside && exists(os.Lstat(name))
		}
		name = rel
	}
	root, err := os.OpenRoot(cmp.Or(p.workspace, "."))
	if err != nil {
		return exists(nil, err)
	}
	defer root.Close()
	return exists(root.Lstat(name))
}

func exists(_ fs.FileInfo, err error) bool {
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ENAMETOOLONG)
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
