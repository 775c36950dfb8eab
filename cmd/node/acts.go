package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
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
	values, err := a.set.vault(ses, false, log)
	if err != nil {
		return errors.Join(err, ses.Close())
	}
	desk := gateway.NewDesk(gateway.DeskConfig{Bus: ses.Bus, Now: ses.Now, Log: log, Vault: values, Refuses: a.set.refusing(ctx)})
	err = do(desk)
	if errors.Is(err, lifecycle.ErrNoTurn) {
		err = fmt.Errorf("%w in the log %s", err, a.set.logNamed())
	}
	return errors.Join(err, ses.Close())
}

// logNamed says which log was opened; the address of a server may hold a password.
func (s *settings) logNamed() string {
	if s.NATS != "" {
		return "of --nats"
	}
	return "of " + show.Short(s.Data, 300)
}

// resolved prints what became of a call that was resolved.
func (a *app) resolved(call events.CallKey, r gateway.Resolution) error {
	if a.json {
		return a.printJSON(struct {
			Of string `json:"of"`
			gateway.Resolution
		}{call.String(), r})
	}
	a.print("%s: resolved: %s\n", call, resolution(r))
	return nil
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
				if err != nil {
					return err
				}
				return a.cancelled(r, args[0])
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "`name` of who asks; left out: the user")
	cmd.Flags().StringVar(&reason, "reason", "", "a `sentence` for the record, and for the model")
	return cmd
}

// cancelled says what became of a cancel, and whose it is that counts.
func (a *app) cancelled(r gateway.Reply, what string) error {
	status := "accepted"
	if !r.Accepted {
		status = "already_terminal"
	}
	if a.json {
		return a.printJSON(struct {
			Status string            `json:"status"`
			State  events.Kind       `json:"state,omitempty"`
			By     *events.Principal `json:"by,omitempty"`
			Of     string            `json:"of"`
		}{status, r.Ended, r.By, what})
	}
	if !r.Accepted {
		status = "already ended: " + string(r.Ended)
		if r.By != nil {
			status += "; " + show.Short(r.By.ID, 64) + " had asked for its end"
		}
	}
	return a.said(status, what)
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
				return a.resolved(call, r)
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
			shown, err := a.runTail(cmd.Context(), at, from == "", f, follow)
			if err == nil && shown == 0 && !follow && (trace != "" || turn != "" || len(kinds)+len(tools) > 0) {
				a.note("there is no such event from there on: look at the ids, kinds and tools, or leave some out; --from start reads the whole log")
			}
			return err
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
// keeps the log by then. It returns how many there were.
func (a *app) runTail(ctx context.Context, at events.Position, now bool, f gateway.FeedFilter, follow bool) (shown int, err error) {
	log, err := a.set.quiet(a.err)
	if err != nil {
		return 0, err
	}
	ses, err := a.set.open(ctx, log, false)
	if err != nil {
		return 0, err
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
				shown++
			}
			return a.showEvent(e)
		})
	})
	if ctx.Err() != nil {
		return shown, nil // somebody has seen enough
	}
	return shown, err
}

func (a *app) showEvent(e gateway.FeedEvent) error {
	switch {
	case e.Notice != "" && a.json:
		line := map[string]string{"notice": string(e.Notice), "from": e.From.String(), "to": e.Position.String()}
		if e.Err != nil {
			line["error"] = e.Err.Error()
		}
		return a.printJSON(line)
	case e.Err != nil:
		a.print("-- %s: from %s to %s: %s\n", e.Notice, e.From, e.Position, show.Short(e.Err.Error(), 300))
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
