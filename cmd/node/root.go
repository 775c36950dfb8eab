package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // what was asked for could not be done
	exitUsage       = 2 // the command line, the configuration or the input is wrong
	exitUnavailable = 3 // the log cannot be reached, or the data directory cannot be used
	exitNotEnded    = 4 // submit: the turn has not ended in the time given
	exitDurability  = 5 // serve: a sync failed, and nothing can be promised any more
)

const exitHelp = `Exit codes:
  0  done
  1  what was asked for could not be done
  2  the command line, the configuration or the input is wrong
  3  the log cannot be reached, or the data directory cannot be used
  4  submit: the turn has not ended in the time given; it goes on
  5  serve: durability is lost; look at the disk
A second SIGINT or SIGTERM ends the process at once.`

// app is one run of the command.
type app struct {
	in   io.Reader
	out  *sink
	err  io.Writer
	set  *settings
	json bool
}

// run runs the command and returns its exit code. The first SIGINT or SIGTERM
// ends ctx; the second one ends the process.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	ctx, restore := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, restore)
	pipe := make(chan os.Signal, 1) // a reader who has seen enough is no reason to die with the log open
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	a := &app{in: in, out: &sink{w: out}, err: errw, set: newSettings()}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	unread := a.out.failed()
	if err == nil {
		err = unread
	}
	if err == nil || errors.Is(unread, syscall.EPIPE) && errors.Is(err, syscall.EPIPE) {
		return exitOK
	}
	fmt.Fprintf(errw, "sluice-node: error: %s\n", visibleLines(err.Error()))
	if h := hint(err); h != "" {
		fmt.Fprintf(errw, "sluice-node: hint: %s\n", h)
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice-node",
		Short: "Run the tool calls of AI agents, every step an event in a log",
		Long: "Run the tool calls of AI agents, every step an event in a log.\n\nEvery verb takes --data DIR (a running node is found through it) or --nats URL.\n" +
			"Settings come from flags, else from SLUICE_… in the environment, else from the file that --config names.\n\n" + exitHelp,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.set.complete(cmd.Flags()) },
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(err, "see sluice-node "+strings.TrimPrefix(cmd.CommandPath(), "sluice-node ")+" --help")
	})
	a.set.storeFlags(root.PersistentFlags())
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	for _, verb := range []func() *cobra.Command{
		a.serve, a.submit, a.tail, a.cancel, a.approve, a.deny, a.resolve, a.inbox, a.tools, a.explain, a.demo, a.config, a.version,
	} {
		root.AddCommand(verb())
	}
	return root
}

// failure is an error that knows its exit code and what to do about it.
type failure struct {
	err  error
	hint string
	code int
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// usage is an error of whoever typed the command.
func usage(err error, hint string) error { return &failure{err, hint, exitUsage} }

// exactArgs wants n arguments, and says which.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(fmt.Errorf("%d arguments: want %s", len(args), what), "see sluice-node "+cmd.Name()+" --help")
		}
		return nil
	}
}

func exitCode(err error) int {
	var f *failure
	var p *gateway.Problem
	switch {
	case errors.As(err, &f) && f.code != 0:
		return f.code
	case strings.HasPrefix(err.Error(), "unknown command"): // cobra's, before any verb is known
		return exitUsage
	case errors.As(err, &p), errors.Is(err, lifecycle.ErrSubmission), errors.Is(err, events.ErrID), errors.Is(err, lifecycle.ErrArgs):
		return exitUsage
	case errors.Is(err, bus.ErrUnavailable), errors.Is(err, bus.ErrUncertain):
		return exitUnavailable
	}
	return exitFailed
}

// hint is what to do about an error, "" if its text says it.
func hint(err error) string {
	var f *failure
	var p *gateway.Problem
	switch {
	case errors.As(err, &f) && f.hint != "":
		return f.hint
	case errors.As(err, &p):
		return p.Next
	case strings.HasPrefix(err.Error(), "unknown command"):
		return "see sluice-node --help"
	case errors.Is(err, lifecycle.ErrSubmission):
		return "mend what the error names, and submit again"
	case errors.Is(err, lifecycle.ErrNoTurn), errors.Is(err, lifecycle.ErrNoCall):
		return "sluice-node tail --from start --follow=false shows what is there"
	case errors.Is(err, lifecycle.ErrDifferent):
		return "leave --turn out to have a new id made"
	case errors.Is(err, lifecycle.ErrNotAsking), errors.Is(err, lifecycle.ErrHash), errors.Is(err, lifecycle.ErrEnded):
		return "sluice-node inbox shows what waits for a person"
	case errors.Is(err, bus.ErrUnavailable), errors.Is(err, bus.ErrUncertain):
		return "try again: the same ids are safe to repeat"
	}
	return ""
}
