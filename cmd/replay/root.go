package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
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

// name is what this command is called.
const name = "sluice-replay"

// run runs the command and returns its exit code. The first SIGINT or SIGTERM
// ends ctx; the second one ends the process.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	ctx, restore := command.Signals(ctx)
	defer restore()
	a := &app{in: in, out: bufio.NewWriterSize(out, 64<<10), err: errw, set: newSettings()}
	err := a.root().Run(ctx, args, in, a.out, errw)
	if ctx.Err() != nil && err != nil {
		err = errors.New("it was interrupted")
	}
	if flushed := a.out.Flush(); flushed != nil { // half an output must not look like a whole one
		err = errors.Join(err, fmt.Errorf("write the output: %w", flushed))
	}
	if err == nil {
		return exit.OK
	}
	a.tell(err)
	return exit.Code(err, exit.UnknownVerb(err))
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
var errSaid error = &exit.Failure{Err: errors.New("some of it is wrong"), Code: exit.Failed}

// complain prints an error, and what to do about it.
func (a *app) complain(err error) { exit.Complain(a.err, name, err, hint(err)) }

func (a *app) root() command.Root {
	return command.Root{
		Name: name, Short: "Read, check and import recorded traces; no tool is ever run",
		About: "Every verb takes --data DIR (a running node is found through it) or --nats URL,\n" +
			"and --json. The flags that say where the log is can stand in the environment, too: SLUICE_DATA, SLUICE_NATS, …\n\n" + exitHelp,
		Flags: a.set.Flags, Complete: a.set.complete, JSON: &a.json,
		Verbs: []func() *cobra.Command{a.importing, a.exporting, a.list, a.show, a.opening, a.messages, a.diff, a.tail, a.verify, a.fault, a.decide, a.whatif, a.version},
	}
}

// version is the verb that says what this is.
func (a *app) version() *cobra.Command {
	return command.VersionVerb(name, command.Version(), a.say)
}

// hint is what to do about an error, "" if its text says it.
func hint(err error) string {
	if h := exit.Hint(err); h != "" {
		return h
	}
	switch {
	case exit.UnknownVerb(err):
		return "see " + name + " --help"
	case errors.Is(err, events.ErrNewerFormat):
		return "use the sluice-replay of the release that wrote it, or a newer one"
	case errors.Is(err, events.ErrID):
		return "sluice-replay list shows the traces"
	case errors.Is(err, archive.ErrHostile):
		return "it was not written by sluice-replay export: do not trust where it came from"
	case errors.Is(err, archive.ErrDamaged):
		return "what could be read was; get the file once more from where it came from"
	case errors.Is(err, bus.ErrRewound):
		return "the log lost its tail while it was read: run this again"
	case errors.Is(err, bus.ErrUnavailable), errors.Is(err, bus.ErrUncertain):
		return "try again: reading changes nothing, and importing the same again is safe"
	}
	return ""
}
