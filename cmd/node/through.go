package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections"
)

// through is a verb that can go through the NATS door, too: with --as it needs no right
// to the log, and does what that user may. by does the whole of it then; nil leaves it to
// the verb itself, which asks withApprovals.
func (a *app) through(verb func() *cobra.Command, by byDoor) func() *cobra.Command {
	return func() *cobra.Command {
		cmd := verb()
		a.asFlag(cmd.PersistentFlags())
		a.orByDoor(cmd, by)
		return cmd
	}
}

// byDoor does what a verb does at a node's door.
type byDoor func(ctx context.Context, door *door, cmd *cobra.Command, args []string) error

// throughEach is a verb that can go through the door with those below it that by names, and
// itself where it is among them. The others need no node, or read a file.
func (a *app) throughEach(verb func() *cobra.Command, by map[string]byDoor) func() *cobra.Command {
	return func() *cobra.Command {
		cmd := verb()
		for _, one := range append(cmd.Commands(), cmd) {
			if do := by[one.Name()]; do != nil {
				a.asFlag(one.Flags())
				a.orByDoor(one, do)
			}
		}
		return cmd
	}
}

func (a *app) asFlag(f *pflag.FlagSet) {
	f.StringVar(&a.as, "as", "", "`name` of a NATS user: go through the door of a node, with that user's rights, instead of opening the log.\n"+
		"--nats says where, and --nkey, --creds or the URL that it is that user")
}

// orByDoor has a command go to the door where --as is given.
func (a *app) orByDoor(cmd *cobra.Command, by byDoor) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if a.as == "" {
			return run(cmd, args)
		}
		if f := cmd.Flags().Lookup("by"); f != nil && f.Changed && f.Value.String() != a.as {
			return exit.Misused(fmt.Errorf("--by %s with --as %s", show.Short(f.Value.String(), 100), show.Short(a.as, 100)), "leave --by out: through the door it is the user who acts")
		}
		if by == nil {
			return run(cmd, args)
		}
		return a.atDoor(func(d *door) error { return by(cmd.Context(), d, cmd, args) })
	}
}

// door is a node's NATS door, as one user.
type door struct{ caller *jetlog.Caller }

// atDoor goes to the door as the user of --as.
func (a *app) atDoor(do func(*door) error) error {
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	s := a.set
	c := jetlog.DialConfig{URL: s.NATS, Creds: s.Creds, NKey: s.NKey, CA: s.CA, Cert: s.Cert, Key: s.Key, TLS: s.TLS, Log: log}
	if c.URL == "" {
		r, found, err := jetlog.Find(s.Data)
		switch {
		case err != nil:
			return exit.Unusable(err, "")
		case !found || r.URL == "":
			return exit.Misused(errors.New("--as needs a NATS server, and none was found on the data directory"), "name it with --nats URL")
		}
		c.URL, c.Pin = r.URL, r.Pin
	}
	caller, err := jetlog.DialDoor(c, a.as)
	if err != nil {
		return exit.Unusable(err, session.DialHint(err, "is a node with --nats-users there? name its server with --nats"))
	}
	defer caller.Close()
	return do(&door{caller})
}

// answerWithin is how long an answer may take, beside the time that the request itself
// says it waits: a node may have died with it.
const answerWithin = time.Minute

// ask asks for a verb. into is what the answer is read into, nil for nothing. The status
// is as HTTP has it.
func (d *door) ask(ctx context.Context, verb string, body, into any) (int, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	var asked struct {
		WaitMS int64 `json:"wait_ms"`
	}
	_ = json.Unmarshal(text, &asked) // what we have just written
	wait := answerWithin + time.Duration(asked.WaitMS)*time.Millisecond
	ctx, stop := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w: no answer came within %v", bus.ErrUnavailable, wait))
	defer stop()
	a, err := d.caller.Knock(ctx, bus.Knock{Verb: verb, Body: text})
	switch {
	case errors.Is(err, jetlog.ErrNotPermitted):
		return 0, &exit.Failure{Err: err, Hint: "is --as the user whose credentials these are? sluice-node nats permissions prints what it needs", Code: exit.Failed}
	case errors.Is(err, bus.ErrUnavailable):
		return 0, exit.Unusable(err, "does a node serve with --nats-users? try again: the same ids are safe to repeat")
	case err != nil:
		return 0, err
	case a.Error != "":
		return a.Status, refused(a)
	case into == nil:
		return a.Status, nil
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return a.Status, fmt.Errorf("the door's answer to %s cannot be read: %w", verb, err)
	}
	return a.Status, nil
}

// refused is what the door says instead of doing it.
func refused(a bus.Answer) error {
	var p gateway.Problem
	if err := json.Unmarshal(a.Body, &p); err != nil {
		return fmt.Errorf("the door says %d: %s", a.Status, show.Short(a.Error, 1000))
	}
	f := &exit.Failure{Err: errors.New(show.Short(p.Error(), 2000)), Hint: show.Short(p.Next, 1000), Code: exit.Failed}
	switch a.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		f.Code = exit.Usage
	case http.StatusServiceUnavailable:
		f.Code = exit.Unavailable
	}
	return f
}

// named is the part of a body that names a call, or a turn where it has none.
type named struct {
	Trace  string `json:"trace"`
	Turn   string `json:"turn"`
	Call   *int   `json:"call,omitempty"`
	Asking int    `json:"asking,omitempty"`
	Kind   string `json:"kind,omitempty"` // of the page of what a tool asks
}

func nameCall(c events.CallKey) named { return named{Trace: c.Trace, Turn: c.Turn, Call: &c.Offset} }

func nameAsking(id gateway.ApprovalID) named {
	n := nameCall(id.Call)
	n.Asking = id.Asking
	if id.Input {
		n.Kind = projections.PendingInput
	}
	return n
}

// Approvals is approver's.
func (d *door) Approvals(ctx context.Context) ([]projections.Page, error) {
	var all []projections.Page
	var at struct {
		Cursor string `json:"cursor,omitempty"`
	}
	for {
		var out approvalsPage
		if _, err := d.ask(ctx, "inbox", at, &out); err != nil {
			return nil, err
		}
		all = append(all, out.Approvals...)
		if at.Cursor = out.Next; at.Cursor == "" {
			return all, nil
		}
	}
}

// approvalsPage is a page of what waits, over whichever door.
type approvalsPage struct {
	Approvals []projections.Page `json:"approvals"`
	Next      string             `json:"next"`
}

// Approval is approver's.
func (d *door) Approval(ctx context.Context, id gateway.ApprovalID) (out projections.Page, err error) {
	_, err = d.ask(ctx, "approval", nameAsking(id), &out)
	return out, err
}

// Decide is approver's. Who decides is the door's user, whatever the decision says.
func (d *door) Decide(ctx context.Context, id gateway.ApprovalID, a gateway.Decision) (out gateway.Decided, err error) {
	body := struct {
		named
		Scope string          `json:"scope,omitempty"`
		Hash  string          `json:"args_hash,omitempty"`
		Args  json.RawMessage `json:"args,omitempty"`
		Note  string          `json:"note,omitempty"`
	}{named: nameAsking(id), Scope: a.Scope, Hash: a.Hash, Note: a.Note}
	if a.Args != nil {
		if !json.Valid([]byte(*a.Args)) {
			return out, exit.Misused(errors.New("the arguments are no JSON"), "give one JSON object")
		}
		body.Args = json.RawMessage(*a.Args)
	}
	verb := "deny"
	if a.Yes {
		verb = "approve"
	}
	_, err = d.ask(ctx, verb, body, &out)
	return out, err
}

// throughInbox lists what waits.
func (a *app) throughInbox(ctx context.Context, d *door, cmd *cobra.Command, _ []string) error {
	if f := cmd.Flags().Lookup("follow"); f != nil && f.Value.String() == "true" {
		return a.throughFollow(ctx, d)
	}
	list, err := d.Approvals(ctx)
	if err != nil {
		return err
	}
	return a.printInbox(list)
}

// throughCancel asks for the end of a turn or a call.
func (a *app) throughCancel(ctx context.Context, d *door, cmd *cobra.Command, args []string) error {
	body := struct {
		named
		Reason string `json:"reason,omitempty"`
	}{Reason: cmd.Flags().Lookup("reason").Value.String()}
	if call, err := events.ParseCallKey(args[0]); err == nil {
		body.named = nameCall(call)
	} else {
		key, err := events.ParseTurnKey(args[0])
		if err != nil {
			return exit.Misused(err, "name a turn as trace/turn, or a call as trace/turn/call")
		}
		body.named = named{Trace: key.Trace, Turn: key.Turn}
	}
	var out struct {
		Status string
		State  events.Kind
		By     *events.Principal
	}
	if _, err := d.ask(ctx, "cancel", body, &out); err != nil {
		return err
	}
	return a.cancelled(gateway.Reply{Accepted: out.Status == "accepted", Ended: out.State, By: out.By}, args[0])
}

// throughResolve says how an unknown end ended.
func (a *app) throughResolve(ctx context.Context, d *door, cmd *cobra.Command, args []string) error {
	call, err := events.ParseCallKey(args[0])
	if err != nil {
		return exit.Misused(err, "name a call as trace/turn/call")
	}
	var r gateway.Resolution
	_, err = d.ask(ctx, "resolve", struct {
		named
		Effects string `json:"effects"`
		Note    string `json:"note,omitempty"`
	}{nameCall(call), args[1], cmd.Flags().Lookup("note").Value.String()}, &r)
	if err != nil {
		return err
	}
	return a.resolved(call, r)
}

// whoami is the verb that asks the door who one is there.
func (a *app) whoami() *cobra.Command {
	return a.through(func() *cobra.Command {
		return &cobra.Command{
			Use: "whoami", Short: "Ask the NATS door of a node who --as is there, and may do what", Args: command.Args(0, 0, "none"),
			RunE: func(*cobra.Command, []string) error {
				return exit.Misused(errors.New("who is asked about?"), "say --as NAME, and --nats URL with that user's credentials")
			},
		}
	}, func(ctx context.Context, d *door, _ *cobra.Command, _ []string) error {
		var out json.RawMessage
		if _, err := d.ask(ctx, "whoami", struct{}{}, &out); err != nil {
			return err
		}
		a.printRaw(out)
		return a.out.failed()
	})()
}
