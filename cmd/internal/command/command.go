// Package command is what every command begins with: its root, the number of its
// verbs' arguments, the signals that end it, and its version.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
)

// Root is what the root of a command is made of.
type Root struct {
	Name, Short string
	About       string                     // follows Short in the long help
	Flags       func(*pflag.FlagSet)       // adds those of every verb
	Complete    func(*pflag.FlagSet) error // fills what no flag has set, BEFORE the verb runs
	JSON        *bool                      // is set by --json
	Verbs       []func() *cobra.Command
}

// Run runs the verb that args name, and returns its error, which it does not print.
func (r Root) Run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) error {
	root := r.command()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	return root.ExecuteContext(ctx)
}

func (r Root) command() *cobra.Command {
	out := &cobra.Command{
		Use: r.Name, Short: r.Short, Long: r.Short + ".\n\n" + r.About,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return r.Complete(cmd.Flags()) },
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	out.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = fmt.Errorf("--%s: %w", bad.GetFlag().Name, Unfit(bad.GetFlag(), bad.GetValue(), bad.Unwrap()))
		}
		return exit.Misused(err, seeHelp(cmd))
	})
	r.Flags(out.PersistentFlags())
	out.PersistentFlags().BoolVar(r.JSON, "json", false, "print JSON, for programs")
	for _, verb := range r.Verbs {
		out.AddCommand(verb())
	}
	return out
}

// Unfit is the error of a value that a flag did not take, in the words of who wrote it. err
// is what the flag says, and stands where the flag is of a kind of its own.
func Unfit(f *pflag.Flag, value string, err error) error {
	want := ""
	switch f.Value.Type() {
	case "bool":
		want = "true or false"
	case "int", "int64":
		want = "a whole number, for example 3"
	case "duration":
		want = "a time with its unit, for example 300ms, 10s, 5m or 24h"
		if days, e := strconv.Atoi(strings.TrimSuffix(value, "d")); e == nil && strings.HasSuffix(value, "d") && days > 0 {
			want += fmt.Sprintf("; %s are %dh", value, 24*days)
		}
	default:
		return err
	}
	return fmt.Errorf("%q: want %s", show.Short(value, 100), want)
}

func seeHelp(cmd *cobra.Command) string { return "see " + cmd.CommandPath() + " --help" }

// Args wants a number of arguments, from low to high, and says which.
func Args(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return exit.Misused(fmt.Errorf("%d arguments: want %s", len(args), what), seeHelp(cmd))
		}
		return nil
	}
}

// Together is within what time of the first signal another one is the same: a supervisor may
// tell a process, and its group.
const Together = 500 * time.Millisecond

// Signals ends ctx at the first SIGINT or SIGTERM; the next one that comes more than
// Together later ends the process. restore gives the signals back, and must be called.
func Signals(ctx context.Context) (until context.Context, restore func()) {
	until, end := context.WithCancel(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	back := sync.OnceFunc(func() { signal.Stop(got) })
	over := make(chan struct{})
	go func() {
		select {
		case <-got:
			end()
		case <-until.Done():
		case <-over:
			return
		}
		t := time.NewTimer(Together)
		defer t.Stop()
		select {
		case <-t.C:
			back()
		case <-over:
		}
	}()
	stop := sync.OnceFunc(func() { close(over) })
	return until, func() { stop(); back(); end() }
}

// VersionVerb is the verb that says what the command is. say prints a value as
// JSON, or the text beside it.
func VersionVerb(name, version string, say func(v any, format string, args ...any) error) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, and that of the log format", Args: Args(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error {
			return say(map[string]any{"version": version, "format": events.Format}, "%s %s, log format %d\n", name, version, events.Format)
		},
	}
}

// Stamp is what the build says that it is; "" where it says nothing. The
// Makefile sets it.
var Stamp string

// Version is what this binary was built from: the build's stamp, else Go's own word.
func Version() string {
	if Stamp != "" {
		return Stamp
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
