package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
)

// compensate is the verb that has a completed call undone.
func (a *app) compensate() *cobra.Command {
	var by, reason string
	var timeout time.Duration
	var here bool
	wait := true
	cmd := &cobra.Command{
		Use: "compensate TRACE/TURN/CALL", Short: "Undo what a completed call did, if its tool can", Args: command.Args(1, 1, "trace/turn/call"),
		Long: "Undo what a completed call did, if its tool can. The undo is a call of its own, in a turn of the same trace: it is\n" +
			"durable before it runs, judged by the gates, and runs at most once. Asked again, this tells how it ended, or waits\n" +
			"for its end; after an undo that failed and had no effect, it makes another one. Where no node runs on the data\n" +
			"directory, one runs in this process for as long.\n\n" + exitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := events.ParseCallKey(args[0])
			if err != nil {
				return exit.Misused(err, "name a call as trace/turn/call: sluice-replay show lists them")
			}
			u := gateway.Undo{Call: call, By: me(by), Reason: reason}
			switch {
			case wait && timeout > 0:
				u.Wait = timeout
			case wait:
				u.Wait = -1
			}
			return a.runCompensate(cmd.Context(), u, here)
		},
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", "", "`name` of who asks; left out: the user")
	f.StringVar(&reason, "reason", "", "a `sentence` for the record")
	f.BoolVar(&wait, "wait", true, "wait for the end; otherwise say only that it is durable")
	f.DurationVar(&timeout, "timeout", 0, "how long to wait; 0: until it ends")
	hereFlag(f, &here)
	a.set.nodeFlags(f)
	return cmd
}

func (a *app) runCompensate(ctx context.Context, u gateway.Undo, here bool) error {
	log, err := a.set.quiet(a.err)
	if err != nil {
		return err
	}
	ses, err := a.openToRun(ctx, here || u.Wait == 0, false, log)
	if err != nil {
		return err
	}
	if ses.Server == nil {
		if err := a.set.noNodeFlags(); err != nil {
			return errors.Join(err, ses.Close())
		}
	}
	var out gateway.Undone
	err = a.set.keepOn(ctx, ses, log, func(within context.Context, ses *session.Session) error {
		desk, stop, err := a.desk(within, ses, u.Wait != 0, log)
		if err != nil {
			return err
		}
		out, err = desk.Compensate(within, u)
		return errors.Join(err, stop())
	})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &exit.Failure{Err: fmt.Errorf("stopped waiting for the undo of %s", u.Call), Hint: undoGoesOn, Code: exitNotEnded}
	}
	if err != nil {
		return err
	}
	return a.saidUndone(u, out)
}

const undoGoesOn = "it goes on; the same again tells how it ended"

// saidUndone prints what became of an undo.
func (a *app) saidUndone(u gateway.Undo, out gateway.Undone) error {
	if a.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	}
	text := func(format string, args ...any) error {
		if !a.json {
			a.print("%s: %s\n", out.Of, fmt.Sprintf(format, args...))
		}
		return nil
	}
	by, at := "", ""
	if out.By != nil {
		by, at = show.Short(out.By.ID, 64), out.At.Local().Format(time.RFC3339)
	}
	failed := func(hint string) error {
		return &exit.Failure{Err: fmt.Errorf("call %s was not undone: %s: %s", out.Of, out.Code, show.Short(out.Reason, 2000)), Hint: hint, Code: exit.Failed}
	}
	switch out.Status {
	case gateway.UndoneNow:
		return text("compensated by %s: %s", by, show.Short(out.Text, 2000))
	case gateway.UndoneBefore:
		return text("compensated already, by %s at %s", by, at)
	case gateway.UndoneNotYet:
		if u.Wait != 0 {
			return &exit.Failure{Err: fmt.Errorf("the undo of %s, call %s, has not ended", out.Of, out.Undo), Hint: undoGoesOn, Code: exitNotEnded}
		}
		return text("accepted, as call %s", out.Undo)
	case gateway.UndoneDenied:
		return failed("nothing was done; who acts is --by, and the principals' file says who may call the tool compensate")
	case gateway.UndoneUnknown:
		return failed("it may have happened: look, then sluice-node resolve " + out.Undo + " none, or done")
	}
	if out.Effects == events.EffectsNone {
		return failed("nothing was done: mend what the error names, and ask again")
	}
	return failed("sluice-replay show " + u.Call.Trace + " tells what happened")
}
