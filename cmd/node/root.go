package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// Exit codes beside those of every command.
const (
	exitNotEnded   = 4 // submit, compensate: the turn has not ended in the time given
	exitDurability = 5 // serve: a sync failed, and nothing can be promised any more
)

const exitHelp = `Exit codes:
  0  done
  1  what was asked for could not be done
  2  the command line, the configuration or the input is wrong
  3  the log cannot be reached, or the data directory cannot be used
  4  submit, compensate: the turn has not ended in the time given; it goes on
  5  serve: durability is lost; look at the disk
A second SIGINT or SIGTERM, more than half a second after the first, ends the process at once.`

// app is one run of the command.
type app struct {
	in   io.Reader
	out  *sink
	err  io.Writer
	set  *settings
	json bool
	as   string // the NATS user through whose door a verb goes; "" where it opens the log
}

// name is what this command is called.
const name = "sluice-node"

// run runs the command and returns its exit code. The first SIGINT or SIGTERM
// ends ctx; a second one ends the process, but for one that comes with the first.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	ctx, restore := command.Signals(ctx)
	defer restore()
	pipe := make(chan os.Signal, 1) // a reader who has seen enough is no reason to die with the log open
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	a := &app{in: in, out: &sink{w: out}, err: errw, set: newSettings()}
	err := a.root().Run(ctx, args, in, out, errw)
	unread := a.out.failed()
	if err == nil {
		err = unread
	}
	if err == nil || errors.Is(unread, syscall.EPIPE) && errors.Is(err, syscall.EPIPE) {
		return exit.OK
	}
	exit.Complain(errw, name, discreetError{err}, hint(err))
	return exitCode(err)
}

func (a *app) root() command.Root {
	return command.Root{
		Name: name, Short: "Run the tool calls of AI agents, every step an event in a log",
		About: "Every verb takes --data DIR (a running node is found through it) or --nats URL.\n" +
			"Settings come from flags, else from SLUICE_… in the environment, else from the file that --config names.\n\n" + exitHelp,
		Flags: a.set.storeFlags, Complete: a.set.complete, JSON: &a.json,
		Verbs: []func() *cobra.Command{
			a.serve, a.mcp, a.through(a.submit, nil), a.through(a.tail, a.throughTail), a.through(a.cancel, a.throughCancel), a.through(a.approve, nil), a.through(a.deny, nil), a.through(a.answer, nil),
			a.through(a.resolve, a.throughResolve), a.through(a.compensate, a.throughCompensate), a.through(a.inbox, a.throughInbox), a.whoami, a.nodesToo, a.workersToo, a.limitsToo, a.breakerToo, a.readstoreToo, a.tools, a.mcpservers,
			a.explain, a.policyToo, a.secretVerbs, a.token, a.nats, a.demo, a.doctor, a.config, a.version,
		},
	}
}

// version is the verb that says what this is.
func (a *app) version() *cobra.Command { return command.VersionVerb(name, command.Version(), a.say) }

func exitCode(err error) int {
	var p *gateway.Problem
	typed := exit.UnknownVerb(err) || errors.As(err, &p) || errors.Is(err, lifecycle.ErrSubmission) || errors.Is(err, lifecycle.ErrArgs) || errors.Is(err, lifecycle.ErrAnswers)
	return exit.Code(err, typed)
}

// hint is what to do about an error, "" if its text says it.
func hint(err error) string {
	if h := exit.Hint(err); h != "" {
		return h
	}
	var p *gateway.Problem
	switch {
	case errors.As(err, &p):
		return p.Next
	case exit.UnknownVerb(err):
		return "see " + name + " --help"
	case errors.Is(err, lifecycle.ErrAnswers):
		return "sluice-node inbox show has the fields of the form; mend what the error names, and answer again"
	case errors.Is(err, gateway.ErrNothingToRun):
		return "a model's message without calls is its last word: the conversation is over, and nothing has to be submitted"
	case errors.Is(err, lifecycle.ErrSubmission):
		return "mend what the error names, and submit again"
	case errors.Is(err, lifecycle.ErrNoTurn), errors.Is(err, lifecycle.ErrNoCall):
		return "sluice-node tail --from start --follow=false shows what is there; another log is named with --data or --nats"
	case errors.Is(err, gateway.ErrNoTool):
		return "sluice-node tools and sluice-node workers list what there is; --force does it all the same, for the tool of a node that is not there now"
	case errors.Is(err, lifecycle.ErrDifferent):
		return "leave --turn out to have a new id made"
	case errors.Is(err, lifecycle.ErrNoUndo), errors.Is(err, lifecycle.ErrNothing):
		return "sluice-replay show tells how a call stands"
	case errors.Is(err, gateway.ErrUndoUnknown):
		return "sluice-node resolve says how it ended; then ask for the undo again"
	case errors.Is(err, lifecycle.ErrDecider):
		return "have a person answer, who is not the one that asks; --by says who answers"
	case errors.Is(err, lifecycle.ErrNotAsking), errors.Is(err, lifecycle.ErrHash), errors.Is(err, lifecycle.ErrEnded),
		errors.Is(err, lifecycle.ErrSuperseded), errors.Is(err, lifecycle.ErrExpired), errors.Is(err, gateway.ErrNoApproval), errors.Is(err, lifecycle.ErrNoInput):
		return "sluice-node inbox shows what waits for a person"
	case errors.Is(err, bus.ErrUnavailable), errors.Is(err, bus.ErrUncertain):
		return "try again: the same ids are safe to repeat"
	}
	return ""
}
