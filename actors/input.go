package actors

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy/secrets"
	"github.com/sluice-run/sluice/tools"
)

// Sealer is a Vault that also keeps values which turn up while calls run. Where a
// node's Vault is none, a tool whose state holds a secret cannot ask a person.
type Sealer interface {
	// ID names a value: the same for the same value.
	ID(secrets.Value) string
	// Put keeps the values of refs, in that order, BEFORE the event that names them.
	// Its errors are those of Vault.Open.
	Put(ctx context.Context, call events.CallKey, refs []events.SecretRef, values []secrets.Value) error
}

// statePath is where the reference to a sealed state says that it stands.
const statePath = "/state"

// asking brings what a tool asks a person into the form in which it is stored: without
// the secrets that the call was given, and with a state that holds one kept outside the
// log. fail is why it cannot be asked.
func (h *hands) asking(ctx context.Context, key attemptKey, j job, in *tools.InputRequired) (out *lifecycle.Asks, fail *events.Error) {
	out = &lifecycle.Asks{Requests: slices.Clone(in.Requests), State: in.State, Expire: h.n.cfg.Approval}
	for i := range out.Requests {
		r := &out.Requests[i]
		r.Message, r.Schema, r.Raw = j.clean.Text(r.Message), cleanJSON(j.clean, r.Schema), cleanJSON(j.clean, r.Raw)
		if j.clean.Text(r.URL) != r.URL {
			return nil, &events.Error{Code: events.ExecutionError, Message: "the tool asks a person to visit an address that holds a secret, which must not be stored or shown: it was not asked"}
		}
	}
	if j.clean.Text(in.State) == in.State {
		return out, nil
	}
	vault, ok := h.n.cfg.Vault.(Sealer)
	if !ok {
		return nil, &events.Error{Code: events.AccessDenied, Message: "the tool asks a person, and its state holds a secret, for which this node has no place outside the log: it was not asked"}
	}
	value := secrets.StringValue(in.State)
	ref := events.SecretRef{ID: vault.ID(value), Path: statePath}
	if err := vault.Put(context.WithoutCancel(ctx), key.call, []events.SecretRef{ref}, []secrets.Value{value}); err != nil {
		h.n.log.Warn("the state of a tool that asks a person could not be sealed", "call", key.call.String(), "err", err)
		return nil, &events.Error{Code: events.AccessDenied, Message: "the tool asks a person, and its state holds a secret, which could not be kept outside the log: it was not asked"}
	}
	out.State, out.Secrets = secrets.Placeholder(ref.ID), []events.SecretRef{ref}
	return out, nil
}

func cleanJSON(c secrets.Cleaner, b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return b
	}
	return json.RawMessage(c.JSON(string(b)))
}

// asks makes of a report in which a tool asks a person what the turn is told.
func (h *hands) asks(ctx context.Context, key attemptKey, j job, r tools.Report, s lifecycle.Settle) lifecycle.Settle {
	if r.Input == nil {
		return s
	}
	out, fail := h.asking(ctx, key, j, r.Input)
	if fail != nil {
		s.Class, s.Result = events.ClassTool, events.Result{Status: events.Failure, Error: fail}
		return s
	}
	s.Asks = out
	return s
}

// letGo gives back what the attempts of a call held whose tool has asked a person: that may
// take a day, and others may have it meanwhile. What was taken for a start that is not in
// the log yet stays: the answers may be there already.
func (a *turnActor) letGo(call *lifecycle.Call) {
	for _, s := range a.log {
		for _, r := range s.Commit.Records {
			st, ok := r.Event.(*events.Started)
			if !ok || r.Call != call.Offset || st.Owner.Boot != a.n.cfg.Boot {
				continue
			}
			for _, l := range startLocks(st) {
				a.n.locks.undo(l, a.key.Call(call.Offset))
			}
		}
	}
}

// errNoAnswer says that what a person has given a tool is not what the log says.
var errNoAnswer = errors.New("the answers hold a secret whose value is not among those that were kept")

// unsealGiven puts the values of secrets into what a tool goes on with, and returns
// their texts. It returns an error of Vault.Open.
func (h *hands) unsealGiven(ctx context.Context, call events.CallKey, j job) (ready job, known []string, err error) {
	given := j.call.Goes()
	if given == nil {
		return j, nil, nil
	}
	if refs := j.call.Input.Secrets; len(refs) > 0 {
		values, err := h.n.openValues(ctx, call, refs, j.in.Deadline)
		if err != nil {
			return j, nil, err
		}
		given.State = values[refs[0].ID].Text()
		known = append(known, given.State)
	}
	given.Answers = slices.Clone(given.Answers)
	for i := range given.Answers {
		a := &given.Answers[i]
		refs := a.Secrets
		if a.Secrets = nil; len(refs) == 0 { // a tool has no use for them
			continue
		}
		values, err := h.n.openValues(ctx, call, refs, j.in.Deadline)
		if err != nil {
			return j, nil, err
		}
		if a.Content, err = secrets.Open(a.Content, refs, values); err != nil {
			return j, nil, errNoAnswer
		}
		for _, r := range refs {
			known = append(known, values[r.ID].Text())
		}
	}
	j.in.Given = given
	return j, known, nil
}
