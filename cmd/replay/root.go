package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // something is broken or missing, or a part of the input is bad
	exitUsage       = 2 // the command line is wrong
	exitUnavailable = 3 // the log cannot be reached, or the data directory cannot be used
)

const exitHelp = `Exit codes:
  0  done; of verify: everything holds
  1  something is broken or missing, or a part of the input is bad; the rest was done
  2  the command line is wrong
  3  the log cannot be reached, or the data directory cannot be used`

// app is one run of the command.
type app struct {
	in   io.Reader
	out  *bufio.Writer
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
	a := &app{in: in, out: bufio.NewWriterSize(out, 64<<10), err: errw, set: &settings{}}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(a.out)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && err != nil {
		err = errors.New("it was interrupted")
	}
	if flushed := a.out.Flush(); flushed != nil { // half an output must not look like a whole one
		err = errors.Join(err, fmt.Errorf("write the output: %w", flushed))
	}
	if err == nil {
		return exitOK
	}
	a.tell(err)
	return exitCode(err)
}

// tell complains of an error, or of each that it joins, but for what was said.
func (a *app) tell(err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			a.tell(one)
		}
	} else if err != errSaid {
		a.complain(err)
	}
}

// errSaid is the error of a verb that has told already what is wrong.
var errSaid error = &failure{err: errors.New("some of it is wrong"), code: exitFailed}

// complain prints an error, and what to do about it.
func (a *app) complain(err error) {
	fmt.Fprintf(a.err, "sluice-replay: error: %s\n", visibleLines(err.Error()))
	if h := hint(err); h != "" {
		fmt.Fprintf(a.err, "sluice-replay: hint: %s\n", visibleLines(h))
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice-replay",
		Short: "Read, check and import recorded traces; no tool is ever run",
		Long: "Read, check and import recorded traces; no tool is ever run.\n\nEvery verb takes --data DIR (a running node is found through it) or --nats URL,\n" +
			"and --json. The flags that say where the log is can stand in the environment, too: SLUICE_DATA, SLUICE_NATS, …\n\n" + exitHelp,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.set.complete(cmd.Flags()) },
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(err, "see sluice-replay "+strings.TrimPrefix(cmd.CommandPath(), "sluice-replay ")+" --help")
	})
	a.set.flags(root.PersistentFlags())
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, for programs")
	for _, verb := range []func() *cobra.Command{a.importing, a.list, a.show, a.messages, a.verify, a.versions} {
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

// unusable is an error with the log's keeper.
func unusable(err error) error { return &failure{err: err, code: exitUnavailable} }

// wants asks for a number of arguments, from low to high, and says which.
func wants(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return usage(fmt.Errorf("%d arguments: want %s", len(args), what), "see sluice-replay "+cmd.Name()+" --help")
		}
		return nil
	}
}

func exitCode(err error) int {
	var f *failure
	switch {
	case errors.As(err, &f) && f.code != 0:
		return f.code
	case errors.Is(err, events.ErrID):
		return exitUsage
	case errors.Is(err, bus.ErrUnavailable), errors.Is(err, bus.ErrUncertain):
		return exitUnavailable
	}
	return exitFailed
}

// hint is what to do about an error, "" if its text says it.
func hint(err error) string {
	var f *failure
	switch {
	case errors.As(err, &f) && f.hint != "":
		return f.hint
	case strings.HasPrefix(err.Error(), "unknown command"):
		return "see sluice-replay --help"
	case errors.Is(err, events.ErrNewerFormat):
		return "use the sluice-replay of the release that wrote it, or a newer one"
	case errors.Is(err, events.ErrID):
		return "sluice-replay list shows the traces"
	case errors.Is(err, bus.ErrRewound):
		return "the log lost its tail while it was read: run this again"
	case errors.Is(err, bus.ErrUnavailable), errors.Is(err, bus.ErrUncertain):
		return "try again: reading changes nothing, and importing the same again is safe"
	}
	return ""
}

// versions is the verb that says what this is.
func (a *app) versions() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, and that of the log format", Args: wants(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]any{"version": versionOf(), "format": events.Format})
			}
			a.print("sluice-replay %s, log format %d\n", versionOf(), events.Format)
			return nil
		},
	}
}

// version is what the build says that it is; "" where it says nothing.
var version string

// versionOf is what this binary was built from.
func versionOf() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	out := info.Main.Version
	for _, s := range info.Settings {
		if short := s.Value[:min(12, len(s.Value))]; s.Key == "vcs.revision" && !strings.Contains(out, short) {
			out += " " + short
		}
	}
	return strings.TrimSpace(cmp.Or(out, "unknown"))
}
