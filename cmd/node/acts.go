package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/projections"
)

// withDesk opens the log, does something at its desk, and closes it.
func (a *app) withDesk(ctx context.Context, do func(*gateway.Desk) error) error {
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	ses, err := a.set.open(ctx, log, false)
	if err != nil {
		return err
	}
	desk := gateway.NewDesk(gateway.DeskConfig{Bus: ses.Bus, Now: ses.Now, Log: log})
	return errors.Join(do(desk), ses.Close())
}

// said prints what became of an act.
func (a *app) said(status, what string) error {
	return a.say(map[string]string{"status": status, "of": what}, "%s: %s\n", what, status)
}

// cancel is the verb that asks for the end of a turn or a call.
func (a *app) cancel() *cobra.Command {
	var by, reason string
	cmd := &cobra.Command{
		Use: "cancel TRACE/TURN[/CALL]", Short: "Ask for the end of a turn, or of one call", Args: command.Args(1, 1, "trace/turn or trace/turn/call"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ask, err := cancelOf(args[0])
			if err != nil {
				return err
			}
			return a.withDesk(cmd.Context(), func(d *gateway.Desk) error {
				r, err := ask(cmd.Context(), d, me(by), reason)
				switch {
				case err != nil:
					return err
				case !r.Accepted && a.json:
					return a.printJSON(map[string]string{"status": "already_terminal", "state": string(r.Ended), "of": args[0]})
				case !r.Accepted:
					return a.said("already ended: "+string(r.Ended), args[0])
				}
				return a.said("accepted", args[0])
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "`name` of who asks; left out: the user")
	cmd.Flags().StringVar(&reason, "reason", "", "a `sentence` for the record, and for the model")
	return cmd
}

// canceller asks for an end.
type canceller func(ctx context.Context, d *gateway.Desk, by events.Principal, reason string) (gateway.Reply, error)

// cancelOf is the cancel of what is named: a turn or a call.
func cancelOf(what string) (canceller, error) {
	if strings.Count(what, "/") == 2 {
		call, err := events.ParseCallKey(what)
		if err != nil {
			return nil, exit.Misused(err, "name a call as trace/turn/call")
		}
		return func(ctx context.Context, d *gateway.Desk, by events.Principal, reason string) (gateway.Reply, error) {
			return d.CancelCall(ctx, call, by, reason)
		}, nil
	}
	key, err := events.ParseTurnKey(what)
	if err != nil {
		return nil, exit.Misused(err, "name a turn as trace/turn")
	}
	return func(ctx context.Context, d *gateway.Desk, by events.Principal, reason string) (gateway.Reply, error) {
		return d.CancelTurn(ctx, key, by, reason)
	}, nil
}

// callAct is a verb that does something to one call.
func (a *app) callAct(use, about, status string, n int, what string, do func(context.Context, *gateway.Desk, events.CallKey, []string) error,
	then ...func(context.Context, *gateway.Desk, events.CallKey) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: about, Args: command.Args(n, n, what),
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := events.ParseCallKey(args[0])
			if err != nil {
				return exit.Misused(err, "name a call as trace/turn/call: sluice-node inbox shows them")
			}
			return a.withDesk(cmd.Context(), func(d *gateway.Desk) error {
				if err := do(cmd.Context(), d, call, args); err != nil {
					return err
				}
				err := a.said(status, args[0])
				for _, more := range then {
					err = errors.Join(err, more(cmd.Context(), d, call))
				}
				return err
			})
		},
	}
}

// judgedSoon is how long the gates may take over changed arguments before a
// person is told no more of it.
const judgedSoon = 2 * time.Second

// judged tells how the gates judge the arguments that a person has just given.
func (a *app) judged(ctx context.Context, d *gateway.Desk, call events.CallKey) error {
	soon, stop := context.WithTimeout(ctx, judgedSoon)
	defer stop()
	approved, status := false, ""
	var denied error
	err := d.Events(soon, events.Position{}, gateway.FeedFilter{Trace: call.Trace, Turn: call.Turn}, true, func(e gateway.FeedEvent) error {
		if e.Notice != "" || e.Record().Call != call.Offset {
			return nil
		}
		switch what := e.Record().Event.(type) {
		case *events.Approved:
			approved = true
			return nil
		case *events.Denied:
			denied = fmt.Errorf("the new arguments were denied by %s: %s: %s", what.Gate, what.Code, show.Short(what.Reason, 1000))
		case *events.Authorized:
			status = "the new arguments pass the gates"
		default:
			status = "the new arguments: " + string(what.Kind())
		}
		if !approved {
			status, denied = "", nil
			return nil
		}
		return errEnded
	})
	switch {
	case denied != nil:
		return &exit.Failure{Err: denied, Hint: "the call has ended; the model is told why", Code: exit.Failed}
	case errors.Is(err, errEnded) && !a.json:
		a.note("%s", status)
		return nil
	case soon.Err() != nil && ctx.Err() == nil:
		a.note("no node has judged the new arguments within %v; sluice-node tail --from start --trace %s --turn %s tells", judgedSoon, call.Trace, call.Turn)
		return nil
	case errors.Is(err, errEnded):
		return nil
	}
	return err
}

// approve is the verb that says yes.
func (a *app) approve() *cobra.Command {
	var by, note, hash, changed string
	var session bool
	cmd := a.callAct("approve TRACE/TURN/CALL", "Say yes to a call that waits for a person", "approved", 1, "trace/turn/call",
		func(ctx context.Context, d *gateway.Desk, call events.CallKey, _ []string) error {
			yes := gateway.Approval{By: me(by), Hash: hash, Note: note}
			if session {
				yes.Scope = events.ScopeSession
			}
			if changed != "" {
				yes.Args = &changed
			}
			return d.Approve(ctx, call, yes)
		}, func(ctx context.Context, d *gateway.Desk, call events.CallKey) error {
			if changed == "" {
				return nil
			}
			return a.judged(ctx, d, call)
		})
	f := cmd.Flags()
	f.StringVar(&by, "by", "", "`name` of who says so; left out: the user")
	f.StringVar(&note, "note", "", "a `sentence` for the record")
	f.StringVar(&hash, "hash", "", "`hash` of the arguments that you saw, from the inbox: a yes to others is refused")
	f.StringVar(&changed, "args", "", "run it with these arguments (`JSON`); they pass all gates again")
	f.BoolVar(&session, "session", false, "yes to exactly this call for the rest of its trace")
	return cmd
}

// deny is the verb that says no.
func (a *app) deny() *cobra.Command {
	var by, note string
	cmd := a.callAct("deny TRACE/TURN/CALL", "Say no to a call that waits for a person", "denied", 1, "trace/turn/call",
		func(ctx context.Context, d *gateway.Desk, call events.CallKey, _ []string) error {
			return d.Reject(ctx, call, me(by), note)
		})
	cmd.Flags().StringVar(&by, "by", "", "`name` of who says so; left out: the user")
	cmd.Flags().StringVar(&note, "note", "", "a `sentence` for the model")
	return cmd
}

// resolve is the verb that says how a call ended whose end is not known.
func (a *app) resolve() *cobra.Command {
	var by, note string
	cmd := &cobra.Command{
		Use: "resolve TRACE/TURN/CALL none|done", Short: "Say whether a call whose end is unknown had its effect",
		Long: "Say whether a call whose end is unknown had its effect: look first. none frees the call's idempotency key, so that\n" +
			"the same may be asked for again; done keeps it. What the model was told stays, and the first answer counts.",
		Args: command.Args(2, 2, "trace/turn/call, and none or done"),
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := events.ParseCallKey(args[0])
			if err != nil {
				return exit.Misused(err, "name a call as trace/turn/call")
			}
			e := events.Effects(args[1])
			if e != events.EffectsNone && e != events.EffectsDone {
				return exit.Misused(fmt.Errorf("effects %q", args[1]), "say none: nothing happened; or done: it happened")
			}
			return a.withDesk(cmd.Context(), func(d *gateway.Desk) error {
				r, err := d.Resolve(cmd.Context(), call, me(by), e, note)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(struct {
						Of string `json:"of"`
						gateway.Resolution
					}{call.String(), r})
				}
				a.print("%s: resolved: %s\n", call, resolution(r))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "`name` of who says so; left out: the user")
	cmd.Flags().StringVar(&note, "note", "", "a `sentence` for the record")
	return cmd
}

// resolution is what a resolution means, in words.
func resolution(r gateway.Resolution) string {
	out := "it had its effect"
	if r.Effects == events.EffectsNone {
		out = "it had no effect"
	}
	out += ", says " + show.Short(r.By.ID, 64)
	switch r.Key {
	case gateway.KeyFree:
		out += "; its idempotency key is free: the same may be asked for again"
	case gateway.KeyTaken:
		out += "; its idempotency key stays taken: the same call again gets this one's answer, and does not run"
	}
	return out
}

// inbox is the verb that shows what waits for a person.
func (a *app) inbox() *cobra.Command {
	return &cobra.Command{
		Use: "inbox", Short: "Show the calls that wait for a person", Args: command.Args(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if list, ok := a.askedNode(cmd.Context()); ok {
				return a.printInbox(list)
			}
			return a.withDesk(cmd.Context(), func(d *gateway.Desk) error {
				list, err := d.Inbox(cmd.Context())
				if err != nil {
					return err
				}
				return a.printInbox(list)
			})
		},
	}
}

func (a *app) printInbox(list []projections.Pending) error {
	if a.json {
		return a.printJSON(map[string]any{"approvals": list})
	}
	for _, p := range list {
		a.print("%s  %s by %s\n  asks     %s\n  why      %s\n  hash     %s\n  expires  %s\n",
			p.Call, show.Short(p.Tool, 64), show.Short(p.Principal.ID, 64), strings.ReplaceAll(show.Lines(p.Asks), "\n", "\n           "), show.Short(p.Why, 300), p.Hash, p.Expires.Local().Format(time.RFC3339))
	}
	if len(list) == 0 {
		a.note("nothing waits for a person")
	}
	return nil
}

// tail is the verb that shows the log's events.
func (a *app) tail() *cobra.Command {
	var from, trace, turn string
	var kinds, tools []string
	follow := true
	cmd := &cobra.Command{
		Use: "tail", Short: "Show the events of the log, as they come or from a position on", Args: command.Args(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := gateway.FeedFilter{Trace: trace, Turn: turn, Tools: tools}
			var err error
			if f.Kinds, err = gateway.ParseKinds(kinds); err != nil {
				return exit.Misused(err, "see --kind")
			}
			if f.Turn != "" && f.Trace == "" {
				return exit.Misused(errors.New("--turn without --trace"), "a turn's id is unique only in its trace: give both")
			}
			at, err := tailFrom(from)
			if err != nil {
				return err
			}
			return a.runTail(cmd.Context(), at, from == "", f, follow)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&from, "from", "", "`position` of the first event, or start; left out: from now on")
	fl.StringVar(&trace, "trace", "", "only of this trace `id`")
	fl.StringVar(&turn, "turn", "", "only of this turn `id`")
	fl.StringSliceVar(&kinds, "kind", nil, "only of these `kinds`")
	fl.StringSliceVar(&tools, "tool", nil, "only of calls of these `tools`")
	fl.BoolVar(&follow, "follow", true, "go on with what comes")
	return cmd
}

func tailFrom(from string) (events.Position, error) {
	if from == "" || from == "start" {
		return events.Position{}, nil
	}
	p, err := events.ParsePosition(from)
	if err != nil {
		return p, exit.Misused(err, "give a position as tail shows it, or start")
	}
	return p, nil
}

// runTail shows events from the position on, or from now on, of whichever node
// keeps the log by then.
func (a *app) runTail(ctx context.Context, at events.Position, now bool, f gateway.FeedFilter, follow bool) error {
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	ses, err := a.set.open(ctx, log, false)
	if err != nil {
		return err
	}
	err = a.set.keepOn(ctx, ses, log, func(ctx context.Context, ses *session.Session) error {
		if now {
			head, err := ses.Bus.Head(ctx)
			if err != nil {
				return err
			}
			at, now = head, false
		}
		d := gateway.NewDesk(gateway.DeskConfig{Bus: ses.Bus, Now: ses.Now, Log: log})
		return d.Events(ctx, at, f, follow, func(e gateway.FeedEvent) error {
			at = e.Position
			if e.Notice == "" {
				at.Index++
			}
			return a.showEvent(e)
		})
	})
	if ctx.Err() != nil {
		return nil // somebody has seen enough
	}
	return err
}

func (a *app) showEvent(e gateway.FeedEvent) error {
	switch {
	case e.Notice != "" && a.json:
		return a.printJSON(map[string]string{"notice": string(e.Notice), "from": e.From.String(), "to": e.Position.String()})
	case e.Notice != "":
		a.print("-- %s: from %s to %s\n", e.Notice, e.From, e.Position)
	case a.json:
		ce, err := e.CloudEvent()
		if err != nil {
			return err
		}
		a.printRaw(ce)
	default:
		a.print("%s\n", describe(e))
	}
	return a.out.failed()
}
