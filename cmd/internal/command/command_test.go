package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// trial is a command whose verb notes what happened.
func trial(log *strings.Builder, complete error) Root {
	say := func(v any, format string, args ...any) error {
		fmt.Fprintf(log, format, args...)
		fmt.Fprintf(log, "%v\n", v)
		return nil
	}
	json := false
	return Root{
		Name: "trial", Short: "Try", About: "About it.", JSON: &json,
		Flags: func(f *pflag.FlagSet) { f.String("place", "here", "`where`") },
		Complete: func(f *pflag.FlagSet) error {
			fmt.Fprintf(log, "place %s, ", f.Lookup("place").Value)
			return complete
		},
		Verbs: []func() *cobra.Command{
			func() *cobra.Command { return VersionVerb("trial", "v1", say) },
			func() *cobra.Command {
				return &cobra.Command{Use: "do ONE [TWO]", Args: Args(1, 2, "one, or two"), RunE: func(_ *cobra.Command, args []string) error {
					fmt.Fprintf(log, "did %v, json %t", args, json)
					return nil
				}}
			},
		},
	}
}

func TestRoot(t *testing.T) {
	for _, c := range []struct {
		args             string
		log, wrong, hint string
	}{
		{args: "do a --place there --json", log: "place there, did [a], json true"},
		{args: "do a b", log: "place here, did [a b], json false"},
		{args: "version", log: "place here, trial v1, log format 1\nmap[format:1 version:v1]\n"},
		{args: "do", wrong: "0 arguments: want one, or two", hint: "see trial do --help"},
		{args: "do a b c", wrong: "3 arguments: want one, or two", hint: "see trial do --help"},
		{args: "version x", wrong: "1 arguments: want none", hint: "see trial version --help"},
		{args: "do --colour", wrong: "unknown flag: --colour", hint: "see trial do --help"},
		{args: "--colour", wrong: "unknown flag: --colour", hint: "see trial --help"},
	} {
		var log, out, errw strings.Builder
		err := trial(&log, nil).Run(t.Context(), strings.Fields(c.args), strings.NewReader(""), &out, &errw)
		switch {
		case out.String() != "" || errw.String() != "":
			t.Errorf("%s: prints %q and %q", c.args, out.String(), errw.String())
		case c.wrong == "" && (err != nil || log.String() != c.log):
			t.Errorf("%s: %q, %v, want %q", c.args, log.String(), err, c.log)
		case c.wrong != "" && (err == nil || err.Error() != c.wrong || exit.Hint(err) != c.hint || exit.Code(err, false) != exit.Usage):
			t.Errorf("%s: %v, hint %q", c.args, err, exit.Hint(err))
		}
	}
}

func TestRootWithoutAVerb(t *testing.T) {
	var log, out, errw strings.Builder
	if err := trial(&log, nil).Run(t.Context(), nil, strings.NewReader(""), &out, &errw); err != nil || !strings.HasPrefix(out.String(), "Try.\n\nAbout it.\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := trial(&log, nil).Run(t.Context(), []string{"shw"}, strings.NewReader(""), &out, &errw); err == nil || !exit.UnknownVerb(err) {
		t.Errorf("%v", err)
	}
	broken := errors.New("SLUICE_PLACE is wrong")
	log.Reset()
	if err := trial(&log, broken).Run(t.Context(), []string{"do", "a"}, strings.NewReader(""), &out, &errw); !errors.Is(err, broken) || strings.Contains(log.String(), "did") {
		t.Errorf("%v, %q", err, log.String())
	}
}

func TestSignalsEndTheContext(t *testing.T) {
	ctx, restore := Signals(t.Context())
	defer restore()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%v", ctx.Err())
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil { // the same, told twice: this process is still there
		t.Fatal(err)
	}
}

func TestVersionSaysSomething(t *testing.T) {
	if v := Version(); v == "" || strings.TrimSpace(v) != v {
		t.Errorf("%q", v)
	}
}
