package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
)

// sealed is a call whose secrets are to be kept outside the log.
type sealed struct {
	offset int
	refs   []events.SecretRef
	values []secrets.Value
}

// seal takes the secrets out of a submission, whose calls name the arguments that
// were declared as such by references without an id. What a caller says to have
// sealed counts for nothing. It is done before the submission is stored anywhere. It
// returns an ErrSubmission where a caller has declared what is not there: that would be
// stored as it is, and the caller would believe it sealed.
func (d *Desk) seal(s events.TurnSubmitted) (events.TurnSubmitted, []sealed, error) {
	var out []sealed
	was := s.Calls
	s.Calls = slices.Clone(s.Calls)
	for i := range s.Calls {
		c := &s.Calls[i]
		declared := declaredIn(c.Secrets)
		if vain, _ := secrets.Missing(c.Args.Text, declared); len(vain) > 0 {
			return s, nil, fmt.Errorf("%w: calls/%d: what it declares at %q names no argument of it that can hold a secret", lifecycle.ErrSubmission, i, vain[0])
		}
		declared = append(declared, d.marks(c.Tool)...)
		c.Secrets = nil
		c.Key = d.sealKey(c.Key)
		if len(secrets.Find(c.Tool))+len(secrets.Find(c.Said)) > 0 {
			c.Tool, c.Said = secrets.Redact(cmp.Or(c.Said, c.Tool)), ""
			c.Refused = &events.Refusal{Code: events.UnknownTool, Reason: "There is no such tool: its name looks like a secret, and was not stored; call one of the tools in the list by its exact name."}
		}
		if c.Refused != nil {
			c.Refused = &events.Refusal{Code: c.Refused.Code, Reason: secrets.Redact(c.Refused.Reason)}
			c.Args.Text = secrets.RedactArgs(c.Args.Text, declared...)
			continue
		}
		got := secrets.Seal(c.Args.Text, secrets.Sealing{Declared: declared, ID: d.secretID})
		if len(got.Refs) > 0 && d.vault == nil {
			got = secrets.Sealed{Args: secrets.RedactArgs(c.Args.Text, declared...), Refused: &events.Refusal{
				Code:   events.AccessDenied,
				Reason: "the arguments hold a secret, and this door has nowhere to keep it outside the log: submit the call to a node",
			}}
		}
		c.Args.Text, c.Secrets, c.Refused = got.Args, got.Refs, got.Refused
		if len(got.Refs) > 0 {
			out = append(out, sealed{i, got.Refs, got.Values})
		}
	}
	forget(was, s.Calls)
	return s, out, nil
}

// forget drops what providers want back with calls where it holds a secret, and in the whole
// turn where one was taken out of a call: the model may have thought of it in clear, in
// words that nobody would find, and what is changed in it the provider refuses.
func forget(was, calls []events.RawCall) {
	found := false
	for i := range calls {
		found = found || calls[i].Args.Text != was[i].Args.Text || calls[i].Tool != was[i].Tool
	}
	clean := secrets.Cleaner{Detect: true}
	for i := range calls {
		if e := calls[i].Extra.Text; e != "" && (found || clean.JSON(e) != e) {
			calls[i].Extra = events.Body{}
		}
	}
}

// declaredIn are the arguments that a caller has declared as secrets.
func declaredIn(refs []events.SecretRef) []string {
	var out []string
	for _, r := range refs {
		if r.ID == "" {
			out = append(out, r.Path)
		}
	}
	return out
}

// secretID names a value. Without a vault the names are made and thrown away.
func (d *Desk) secretID(v secrets.Value) string {
	if d.vault == nil {
		return lifecycle.Digest([]byte(v))[len("sha256:"):][:32]
	}
	return d.vault.ID(v)
}

// sealKey is an idempotency key without the secrets in it. The same key stays the
// same one.
func (d *Desk) sealKey(key string) string {
	spans := secrets.Find(key)
	if len(spans) == 0 {
		return key
	}
	if d.vault == nil {
		return secrets.Redact(key)
	}
	out, at := "", 0
	for _, s := range spans {
		out += key[at:s.Start] + secrets.Placeholder(d.vault.ID(secrets.Value(key[s.Start:s.End])))
		at = s.End
	}
	return secrets.Redact(out + key[at:])
}

// keep puts the values where the turn's owner finds them, BEFORE the event that names
// them.
func (d *Desk) keep(ctx context.Context, key events.TurnKey, all []sealed) error {
	for _, s := range all {
		if err := d.vault.Put(ctx, key.Call(s.offset), s.refs, s.values); err != nil {
			return err
		}
	}
	return nil
}

// unkeep forgets the values of a submission that came to nothing: of one that was
// refused those that the turn which is there does not name, of one whose turn has
// ended all. It is best effort: what stays goes by itself after a while.
func (d *Desk) unkeep(ctx context.Context, v View, all []sealed, err error) {
	refused := errors.Is(err, lifecycle.ErrDifferent)
	if !refused && (err != nil || !v.Ended()) {
		return
	}
	for _, s := range all {
		refs := s.refs
		if refused && v.Turn.Submitted != nil && s.offset < len(v.Turn.Submitted.Calls) {
			theirs := v.Turn.Submitted.Calls[s.offset].Secrets
			refs = slices.DeleteFunc(slices.Clone(refs), func(r events.SecretRef) bool { return slices.Contains(theirs, r) })
		}
		if err := d.vault.Drop(ctx, v.Turn.Key.Call(s.offset), refs); err != nil {
			d.log.Warn("sealed values that nobody needs could not be removed", "turn", v.Turn.Key.String(), "err", err)
		}
	}
}

// sealChanged reads arguments that a person has changed, and takes the secrets out of
// them. Placeholders that stood in the call's arguments may stay where they stood: the
// person has not seen the values; what is put in the place of a whole one is a secret,
// too. It returns lifecycle.ErrArgs for what is no JSON
// object, or would be refused at the door, and the errors of act.
func (d *Desk) sealChanged(ctx context.Context, call events.CallKey, text string) (lifecycle.Args, []events.SecretRef, error) {
	text = wholeJSON(text)
	if _, err := lifecycle.Parse(text); err != nil {
		return lifecycle.Args{}, nil, refusedArgs{secrets.Redact(err.Error())}
	}
	v, err := d.fresh(ctx, call.TurnKey())
	if err != nil {
		return lifecycle.Args{}, nil, err
	}
	o := secrets.Sealing{ID: d.secretID}
	if c := v.Turn.Call(call.Offset); c != nil {
		had := []byte(c.Args.Text)
		if c.Args.Ref != nil {
			if had, err = d.bus.Blobs().Get(ctx, *c.Args.Ref); err != nil {
				return lifecycle.Args{}, nil, err
			}
		}
		o.Keep, o.Declared = c.Secrets, append(secrets.SealedWhole(had), d.marks(c.Tool)...)
	}
	got := secrets.Seal(text, o)
	fresh := slices.ContainsFunc(got.Values, func(v secrets.Value) bool { return v != "" })
	switch {
	case got.Refused != nil:
		return lifecycle.Args{}, nil, refusedArgs{got.Refused.Reason}
	case fresh && d.vault == nil:
		return lifecycle.Args{}, nil, refusedArgs{"they hold a secret, and this door has nowhere to keep it outside the log: approve at a node"}
	case fresh:
		if err := d.vault.Put(ctx, call, got.Refs, got.Values); err != nil {
			return lifecycle.Args{}, nil, err
		}
	}
	args, err := lifecycle.Parse(got.Args)
	return args, got.Refs, err
}

// silent is a command with the secrets taken out of what people say in it.
func silent(cmd lifecycle.Command) lifecycle.Command {
	switch c := cmd.(type) {
	case lifecycle.Approve:
		c.Note = secrets.Redact(c.Note)
		return c
	case lifecycle.Reject:
		c.Note = secrets.Redact(c.Note)
		return c
	case lifecycle.Answer:
		c.Note = secrets.Redact(c.Note)
		return c
	case lifecycle.CancelCall:
		c.Reason = secrets.Redact(c.Reason)
		return c
	case lifecycle.CancelTurn:
		c.Reason = secrets.Redact(c.Reason)
		return c
	case lifecycle.Resolve:
		c.Note = secrets.Redact(c.Note)
		return c
	case lifecycle.Undone:
		c.Result.Text.Text = secrets.Redact(c.Result.Text.Text)
		return c
	}
	return cmd
}

// unsecret takes the secrets out of a recorded turn for good: nothing of it is ever
// run. It returns copies.
func unsecret(s events.TurnSubmitted, answers []*events.Result) (events.TurnSubmitted, []*events.Result) {
	was := s.Calls
	s.Calls = slices.Clone(s.Calls)
	for i := range s.Calls {
		c := &s.Calls[i]
		c.Args.Text, c.Key, c.Secrets = secrets.RedactArgs(c.Args.Text), secrets.Redact(c.Key), nil
	}
	forget(was, s.Calls)
	clean := secrets.Cleaner{Detect: true}
	out := slices.Clone(answers)
	for i, a := range out {
		if a != nil {
			r := clean.Result(*a)
			out[i] = &r
		}
	}
	return s, out
}

// discreet is the problem without the secrets that its words repeat from a request.
func (p *Problem) discreet() *Problem {
	out := *p
	out.Detail, out.Next, out.Stop = secrets.Redact(p.Detail), secrets.Redact(p.Next), secrets.Redact(p.Stop)
	out.Fields = slices.Clone(p.Fields)
	for i := range out.Fields {
		out.Fields[i].Why = secrets.Redact(out.Fields[i].Why)
	}
	return &out
}

// maxDeclared bounds how many arguments of a turn may be declared as secrets.
const maxDeclared = 256

// Declare marks arguments of all calls as secrets, by their JSON Pointers: each of those
// calls that have such an argument, of which there must be one. A call whose arguments
// cannot be read may have it. Its errors are Problems.
func Declare(calls []events.RawCall, pointers []string) error {
	const next = "name arguments as JSON Pointers, for example /token"
	if len(pointers) > maxDeclared {
		return BadRequest(fmt.Sprintf("%d arguments are declared as secrets, at most %d", len(pointers), maxDeclared), next)
	}
	for _, p := range pointers {
		if !strings.HasPrefix(p, "/") || len(p) > lifecycle.MaxActor {
			return BadRequest("secrets: one is no JSON Pointer to an argument", next)
		}
	}
	fits := make(map[string]bool)
	for i := range calls {
		vain, _ := secrets.Missing(calls[i].Args.Text, pointers)
		for _, p := range pointers {
			if !slices.Contains(vain, p) {
				fits[p] = true
				calls[i].Secrets = append(calls[i].Secrets, events.SecretRef{Path: p})
			}
		}
	}
	for _, p := range pointers {
		if !fits[p] && len(calls) > 0 {
			return problemOf(fmt.Errorf("%w: what is declared at %q names no argument of any call that can hold a secret", lifecycle.ErrSubmission, p))
		}
	}
	return nil
}
