package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// breaker is the verb that shows circuits, and turns them.
func (a *app) breaker() *cobra.Command {
	cmd := &cobra.Command{
		Use: "breaker", Short: "Show the circuit breakers of tools and what they reach, close one, or switch a tool off", Args: command.Args(0, 0, "none, or one of list, show, reset, open"),
		Long: "Show the circuit breakers, which all nodes share. Without more it lists every circuit that is not closed, and those\n" +
			"that have failures; what is not listed has not failed of late. A tool that reaches many endpoints, as Fetch does, has a\n" +
			"circuit for each that fails, and one of its own, by which you switch it off as a whole.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.breakerList(cmd.Context()) },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "List the circuits", Args: command.Args(0, 0, "none"),
			RunE: func(cmd *cobra.Command, _ []string) error { return a.breakerList(cmd.Context()) },
		},
		a.breakerShow(), a.breakerReset(), a.breakerOpen(),
	)
	a.set.breakerFlags(cmd.PersistentFlags())
	return cmd
}

// withCircuits is withDesk for circuits: with the numbers of the nodes that run, by
// which a circuit's times are shown, else with those of the settings.
func (a *app) withCircuits(ctx context.Context, do func(*gateway.Desk, lifecycle.BreakerConfig) error) error {
	return a.withDesk(ctx, func(d *gateway.Desk) error {
		crew, err := d.Crew(ctx, gateway.CrewOptions{})
		if err != nil {
			return err
		}
		numbers := a.set.breaker()
		for _, n := range crew.Nodes {
			if n.Says != nil {
				numbers.Failures, numbers.Window = n.Says.Failures, time.Duration(n.Says.WindowMS)*time.Millisecond
				break
			}
		}
		return do(d, numbers)
	})
}

func (a *app) breakerList(ctx context.Context) error {
	return a.withCircuits(ctx, func(d *gateway.Desk, c lifecycle.BreakerConfig) error {
		list, err := d.Circuits(ctx, c)
		if err != nil {
			return err
		}
		return a.tellCircuits(list)
	})
}

func (a *app) tellCircuits(list []gateway.Circuit) error {
	if a.json {
		return a.printJSON(map[string]any{"breakers": list})
	}
	if len(list) == 0 {
		a.note("every circuit is closed, and no tool has failures")
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tCIRCUIT\tSTATE\tFAILURES\tUNTIL\tPROBE\tWHY") // the sink keeps the first error
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", show.Short(one.Tool, 64), endpoint(one.Circuit), one.State, one.Failures, clock(one.Until), probeOf(one), whyOpen(one))
	}
	return errors.Join(w.Flush(), a.out.failed())
}

// clock is a time for a person; "-" for none.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.RFC3339)
}

// endpoint is a circuit's name for a person; "-" for the tool's own.
func endpoint(of string) string {
	if of == "" {
		return "-"
	}
	return show.Short(of, 160)
}

// circuitIn is the circuit that the arguments of a verb name.
func circuitIn(args []string) lifecycle.Circuit {
	c := lifecycle.Circuit{Tool: args[0]}
	if len(args) > 1 {
		c.Of = args[1]
	}
	return c
}

// aCircuit is what the verbs of one circuit take.
const aCircuit = "a tool, and perhaps one of its circuits, as the list names it"

func probeOf(c gateway.Circuit) string {
	if c.Probe == "" {
		return "-"
	}
	return show.Short(c.Probe, 140) + " on " + show.Short(c.Boot, 64)
}

// whyOpen is why a circuit is not closed.
func whyOpen(c gateway.Circuit) string {
	switch {
	case c.State == lifecycle.BreakerClosed:
		return "-"
	case c.By != "" && c.Reason != "":
		return "switched off by " + show.Short(c.By, 64) + ": " + show.Short(c.Reason, 300)
	case c.By != "":
		return "switched off by " + show.Short(c.By, 64)
	}
	return "failures"
}

func (a *app) breakerShow() *cobra.Command {
	return &cobra.Command{
		Use: "show TOOL [CIRCUIT]", Short: "Show one circuit", Args: command.Args(1, 2, aCircuit),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCircuits(cmd.Context(), func(d *gateway.Desk, c lifecycle.BreakerConfig) error {
				one, err := d.Circuit(cmd.Context(), c, circuitIn(args))
				if err != nil {
					return err
				}
				return a.saidCircuit(one)
			})
		},
	}
}

// saidCircuit prints one circuit.
func (a *app) saidCircuit(one gateway.Circuit) error {
	if a.json {
		return a.printJSON(one)
	}
	a.print("tool      %s\ncircuit   %s\nstate     %s\nfailures  %d\nopened    %s\nuntil     %s\nprobe     %s\nwhy       %s\n",
		show.Short(one.Tool, 64), endpoint(one.Circuit), one.State, one.Failures, clock(one.OpenedAt), clock(one.Until), probeOf(one), whyOpen(one))
	a.noted(one.Note)
	return a.out.failed()
}

// noted tells what is to be known beside an answer that is no error, if anything is.
func (a *app) noted(note string) {
	if note != "" && !a.json {
		a.note("%s: note: %s", name, show.Short(note, 300))
	}
}

// saidReset prints what became of a reset.
func (a *app) saidReset(s gateway.Switched) error {
	a.noted(s.Note)
	of := lifecycle.Circuit{Tool: s.Tool, Of: s.Circuit}
	switch {
	case s.Status == "already_closed":
		return a.say(s, "%s: was closed already, without failures\n", of)
	case s.Endpoints > 0:
		return a.say(s, "%s: closed; it was %s, with %d failures; %d circuits of its endpoints are closed, too\n", of, s.Was.State, s.Was.Failures, s.Endpoints)
	}
	return a.say(s, "%s: closed; it was %s, with %d failures\n", of, s.Was.State, s.Was.Failures)
}

// saidOpen prints that a circuit is open for a time.
func (a *app) saidOpen(s gateway.Switched, off time.Duration) error {
	return a.say(s, "%s: open for %v; it was %s\n", lifecycle.Circuit{Tool: s.Tool, Of: s.Circuit}, off, s.Was.State)
}

func (a *app) breakerReset() *cobra.Command {
	var by string
	cmd := &cobra.Command{
		Use: "reset TOOL [CIRCUIT]", Short: "Close a circuit now, and forget its failures", Args: command.Args(1, 2, aCircuit),
		Long: "Close a circuit now, in the whole cluster, and forget its failures: once its other side is mended. Without CIRCUIT it\n" +
			"closes the tool's own and those of all its endpoints.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withCircuits(cmd.Context(), func(d *gateway.Desk, c lifecycle.BreakerConfig) error {
				of := circuitIn(args)
				s, err := d.ResetCircuit(cmd.Context(), c, of, me(by))
				if err != nil {
					return err
				}
				return a.saidReset(s)
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", "", whoSays)
	return cmd
}

// whoSays is the help of --by.
const whoSays = "`name` of who says so; left out: the user"

func (a *app) breakerOpen() *cobra.Command {
	var off time.Duration
	var by, reason string
	var force bool
	cmd := &cobra.Command{
		Use: "open TOOL [CIRCUIT] --for DURATION", Short: "Switch a tool off for a while, or one of its endpoints", Args: command.Args(1, 2, aCircuit),
		Long: "Switch a tool off for a while, in the whole cluster: its calls are denied with CIRCUIT_OPEN, and it leaves the list of\n" +
			"tools; with CIRCUIT only what reaches that endpoint is denied. What runs already goes on. After that time one call is let\n" +
			"through as a probe, as after any failure. A name that no node knows is refused: it would switch nothing off.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOff(off); err != nil {
				return err
			}
			return a.withCircuits(cmd.Context(), func(d *gateway.Desk, c lifecycle.BreakerConfig) error {
				of := circuitIn(args)
				if !force {
					if err := d.KnownTool(cmd.Context(), of.Tool); err != nil {
						return err
					}
				}
				s, err := d.OpenCircuit(cmd.Context(), c, of, off, me(by), reason)
				if err != nil {
					return err
				}
				return a.saidOpen(s, off)
			})
		},
	}
	f := cmd.Flags()
	f.DurationVar(&off, "for", 0, "how long: 1s to 720h")
	f.StringVar(&by, "by", "", whoSays)
	f.StringVar(&reason, "reason", "", "a `sentence` for whoever looks at it")
	f.BoolVar(&force, "force", false, "though no node that runs now knows the tool")
	return cmd
}
