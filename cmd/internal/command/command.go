// Package command is what every command begins with: its root, the number of its
// verbs' arguments, the signals that end it, and its version.
package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
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
		return exit.Misused(err, seeHelp(cmd))
	})
	r.Flags(out.PersistentFlags())
	out.PersistentFlags().BoolVar(r.JSON, "json", false, "print JSON, for programs")
	for _, verb := range r.Verbs {
		out.AddCommand(verb())
	}
	return out
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

// Signals ends ctx at the first SIGINT or SIGTERM; the second one ends the
// process. restore gives the signals back, and must be called.
func Signals(ctx context.Context) (until context.Context, restore func()) {
	until, restore = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(until, restore)
	return until, restore
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
