package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/gateway"
)

// nodes is the verb that shows who is there, and who has what.
func (a *app) nodes() *cobra.Command {
	o := gateway.CrewOptions{Log: true}
	cmd := &cobra.Command{
		Use: "nodes", Short: "Show the nodes of the log, and which turns they own", Args: command.Args(0, 0, "none"),
		Long: "Show the nodes that share the log, as their presence and they themselves tell, and the turns that have not ended,\n" +
			"as the log has them: who owns them, and which nobody does. The log is read from its beginning; with --log=false\n" +
			"only the nodes are asked. A node with --presence off is shown while it owns a turn.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkCrew(o); err != nil {
				return err
			}
			return a.withDesk(cmd.Context(), func(d *gateway.Desk) error {
				crew, err := d.Crew(cmd.Context(), o)
				if err != nil {
					return err
				}
				return a.tellCrew(crew)
			})
		},
	}
	cmd.Flags().BoolVar(&o.Turns, "turns", false, "with the turns that have not ended, one by one")
	cmd.Flags().BoolVar(&o.Log, "log", true, "count the turns that have not ended, which reads the log")
	return cmd
}

// checkCrew refuses what nobody could tell.
func checkCrew(o gateway.CrewOptions) error {
	if o.Turns && !o.Log {
		return exit.Misused(errors.New("--turns and --log=false"), "which turns there are stands in the log")
	}
	return nil
}

func (a *app) tellCrew(c gateway.Crew) error {
	if a.json {
		return a.printJSON(c)
	}
	return a.printCrew(c)
}

func (a *app) printCrew(c gateway.Crew) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tOWNS\tTURNS\tATTEMPTS\tPLACEMENTS\tCLOCK\tSINCE\tVERSION\tBOOT") // the sink keeps the first error
	for _, n := range c.Nodes {
		turns, attempts, clocks, since, version := "-", "-", "-", "-", "-"
		placements := cmp.Or(show.Short(strings.Join(n.Placements, ","), 60), "-")
		if s := n.Says; s != nil {
			turns, attempts = fmt.Sprintf("%d of %d", s.Turns, s.Room), fmt.Sprint(s.Attempts)
			since, version = clock(s.Since), show.Short(s.Version, 30)
			clocks = fmt.Sprintf("%+.1fms", *n.ClockMS)
		}
		owns := "-"
		if c.Running != nil {
			owns = fmt.Sprint(n.Owned)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", show.Short(n.Name, 40), n.State, owns, turns, attempts, placements, clocks, since, version, n.Boot)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !slices.ContainsFunc(c.Nodes, func(n gateway.NodeView) bool { return n.State == gateway.NodeLive || n.State == gateway.NodeDraining }) {
		a.note("no node answers: sluice-node serve starts one; for the nodes of another log name its --data, or its servers with --nats")
	}
	if c.Running != nil {
		a.print("\nturns that have not ended: %s owned by nodes, %s by nodes that are gone, %s parked, %s unclaimed\n",
			counted(*c.Running, c.At), counted(*c.Gone, c.At), counted(*c.Parked, c.At), counted(*c.Unclaimed, c.At))
		for _, p := range c.Waiting {
			a.print("  unclaimed in placement %s: %s\n", show.Short(p.Placement, 64), counted(p.Count, c.At))
		}
	}
	if err := a.printTurns(c); err != nil {
		return err
	}
	for _, warning := range c.Warnings {
		a.note("%s: warning: %s", name, show.Short(warning, 1000))
	}
	return a.out.failed()
}

// counted is a number of turns with the age of the oldest.
func counted(n gateway.Count, now time.Time) string {
	if n.Turns == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (oldest %v)", n.Turns, age(n.Oldest, now))
}

func age(t, now time.Time) time.Duration { return max(0, now.Sub(t)).Round(time.Second) }

// printTurns prints the turns that have not ended, where they were asked for.
func (a *app) printTurns(c gateway.Crew) error {
	if len(c.Turns) == 0 {
		return nil
	}
	names := make(map[string]string)
	for _, n := range c.Nodes {
		names[n.Boot] = n.Name
	}
	a.print("\n")
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TURN\tSTATE\tOWNER\tEPOCH\tCALLS ENDED\tRUNNING\tAGE\tPLACEMENT") // the sink keeps the first error
	for _, t := range c.Turns {
		owner, running := "-", "-"
		if t.Boot != "" {
			owner = show.Short(names[t.Boot], 40)
			if owner == "" {
				owner = t.Boot
			}
		}
		if len(t.Running) > 0 {
			running = strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Running), " ", ","), "[]")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d of %d\t%s\t%v\t%s\n",
			t.Turn, t.State, owner, t.Epoch, t.Ended, t.Calls, running, age(t.Submitted, c.At), show.Short(t.Placement, 64))
	}
	return w.Flush()
}

// How long a node that has just begun looks for the others, and how often.
const (
	lookLong  = 15 * time.Second
	lookPause = 2 * time.Second
)

// How often a node looks whether all of them are still alike, and how long they may differ
// before it says so: what is rolled out reaches one after another.
const (
	alikeEvery = 30 * time.Second
	settles    = 2 * time.Minute
)

// lookAround introduces this node to the others, and warns where they are not alike:
// each of them would only notice by messages that come again.
func (s *settings) lookAround(ctx context.Context, n *node, log *slog.Logger) {
	d := n.desk
	within, stop := context.WithTimeout(ctx, lookLong)
	defer stop()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	hello := gateway.CrewOptions{Hello: bus.Who{Name: s.nodeName(), AckWaitMS: s.ackWait.Milliseconds()}}
	crew, err := d.Crew(within, hello)
	for err == nil && slices.ContainsFunc(crew.Nodes, func(n gateway.NodeView) bool { return n.State == gateway.NodeSilent }) {
		select { // one that is busy answers later; one that has just died is not there then
		case <-tick.C:
		case <-within.Done():
		}
		more, merr := d.Crew(within, hello)
		if merr != nil {
			break
		}
		crew = more
	}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		log.Warn("the other nodes of the log cannot be asked how they are set", "err", err)
	}
	n.differ(crew, 0, log)
}

// differ says in what the nodes differ, once that has been so for a time.
func (n *node) differ(crew gateway.Crew, settles time.Duration, log *slog.Logger) {
	for _, one := range n.unlike.See(session.Steady(), settles, crew.Unlike()) {
		log.Warn("the nodes of this log are not alike", "what", one.Says)
	}
}

// watchAlike looks now and then whether the nodes are alike, until ctx ends: files are read
// anew, and nodes come.
func (n *node) watchAlike(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(alikeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		crew, err := n.desk.Crew(ctx, gateway.CrewOptions{})
		if err != nil {
			log.Debug("the other nodes of the log cannot be asked how they are set", "err", err)
			continue
		}
		n.differ(crew, settles, log)
	}
}
