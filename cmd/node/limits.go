package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// limits is the verb that shows the limits, and says whether a file of them loads.
func (a *app) limits() *cobra.Command {
	cmd := &cobra.Command{
		Use: "limits", Short: "Show the limits, who holds their slots, and what is left of their rates", Args: command.Args(0, 0, "none, or one of list, check"),
		Long: "Show the limits on how many calls run at once and begin in a time, with who holds their slots and how many could begin\n" +
			"now, in the whole cluster. What they are is read from --limits; without it the node that runs on --data is asked for\n" +
			"its own. Of those that only other nodes have it is shown who uses them.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.limitsList(cmd.Context()) },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List the limits", Args: command.Args(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.limitsList(cmd.Context()) },
	}, a.limitsCheck())
	a.set.limitsFlags(cmd.PersistentFlags())
	return cmd
}

func (a *app) limitsList(ctx context.Context) error {
	if a.set.NATS == "" && a.set.limit.file == "" {
		running, found, err := jetlog.Find(a.set.Data)
		switch {
		case err != nil:
			return exit.Unusable(err, "")
		case found && running.HTTP != "":
			return a.limitsOf(ctx, running)
		}
	}
	l, err := a.set.limits()
	if err != nil {
		return err
	}
	return a.withDesk(ctx, func(d *gateway.Desk) error {
		list, err := d.Limits(ctx, l)
		if err != nil {
			return err
		}
		return a.tellLimits(list)
	})
}

// limitsSaid is a node's answer.
type limitsSaid struct {
	Limits []gateway.Limit `json:"limits"`
}

// limitsOf tells the limits of a running node.
func (a *app) limitsOf(ctx context.Context, running jetlog.Running) error {
	var said limitsSaid
	if err := askNode(ctx, running, "/v1/limits", &said); err != nil {
		return err
	}
	return a.tellLimits(said.Limits)
}

// tellLimits prints limits, one bucket a line.
func (a *app) tellLimits(list []gateway.Limit) error {
	if a.json {
		return a.printJSON(map[string]any{"limits": list})
	}
	if len(list) == 0 {
		a.note("there are no limits here, and no node has used any")
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LIMIT\tOF\tLETS\tRUNNING\tWAITING\tLEFT") // the sink keeps the first error
	for _, one := range list {
		buckets := one.Buckets
		if len(buckets) == 0 {
			buckets = []gateway.LimitBucket{{}}
		}
		for _, b := range buckets {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", one.ID, limitOf(one, b), limitLets(one), limitRuns(b), b.Waiting, limitLeft(one, b))
		}
		if one.LeftOut > 0 {
			fmt.Fprintf(w, "%s\tand %d more\t\t\t\t\n", one.ID, one.LeftOut)
		}
	}
	if err := errors.Join(w.Flush(), a.out.failed()); err != nil {
		return err
	}
	a.tellHolders(list)
	return a.out.failed()
}

// tellHolders prints who holds slots.
func (a *app) tellHolders(list []gateway.Limit) {
	for _, one := range list {
		for _, b := range one.Buckets {
			for _, h := range b.Holders {
				until := "until " + clock(h.Until)
				if h.Over {
					until = "whose lease ended at " + clock(h.Until) + ": the slot is free for the next call"
				}
				a.print("%s: %s on %s, %s\n", one.ID, show.Short(h.Call, 140), show.Short(h.Boot, 64), until)
			}
		}
	}
}

// limitRuns is how many have a slot of a bucket.
func limitRuns(b gateway.LimitBucket) (n int) {
	for _, h := range b.Holders {
		if !h.Over {
			n++
		}
	}
	return n
}

// limitOf is whose calls a bucket counts.
func limitOf(l gateway.Limit, b gateway.LimitBucket) string {
	who := "everybody"
	switch {
	case b.Principal != "":
		who = show.Short(b.Principal, 80)
	case l.Principal != "":
		who = show.Short(l.Principal, 80)
	}
	if l.Each && b.Principal == "" {
		who = "each of " + who
	}
	if l.Kind != "" {
		who += " (" + l.Kind + ")"
	}
	if l.Tool != "" {
		who += ": " + show.Short(l.Tool, 64)
	}
	return who
}

// limitLets is what a limit lets run and begin.
func limitLets(l gateway.Limit) string {
	var out []string
	if l.Concurrency > 0 {
		out = append(out, fmt.Sprintf("%d at once", l.Concurrency))
	}
	if l.Rate != "" {
		rate := l.Rate
		if l.Burst > 0 {
			rate += fmt.Sprintf(" with bursts of %d", l.Burst)
		}
		out = append(out, rate)
	}
	if l.WaitMS > 0 {
		out = append(out, "wait "+(time.Duration(l.WaitMS)*time.Millisecond).String())
	}
	if !l.Here {
		return "(only other nodes know)"
	}
	return strings.Join(out, ", ")
}

// limitLeft is how many calls could begin now.
func limitLeft(l gateway.Limit, b gateway.LimitBucket) string {
	switch {
	case b.Tokens == nil && l.Rate != "":
		return "all"
	case b.Tokens == nil:
		return "-"
	case *b.Tokens == 0 && !b.Next.IsZero():
		return "0 until " + clock(b.Next)
	}
	return strconv.Itoa(*b.Tokens)
}

// checkedLimits says what a file holds. Its JSON is for programs, and grows only.
type checkedLimits struct {
	File   string `json:"file"`
	Limits int    `json:"limits"`
}

func (a *app) limitsCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]", Short: "Say whether a file of limits would load, and what is wrong with it", Args: command.Args(0, 1, "a file at most"),
		Long: "Say whether FILE, else that of --limits, would load, and what is wrong with it. Exits 2 where it would not. Where two\n" +
			"limits fit a call it is held to both; all nodes of a log should have the same file.",
		RunE: func(_ *cobra.Command, args []string) error {
			path := a.set.limit.file
			if len(args) == 1 {
				path = args[0]
			}
			if path == "" {
				return exit.Misused(errors.New("there is no file to check"), "name one, or give --limits")
			}
			l, err := readLimits(path)
			if err != nil {
				return exit.Misused(err, "mend it; docs/limits.md has the format")
			}
			if !a.json {
				a.describeLimits(l)
			}
			return a.say(checkedLimits{path, len(l.Rules())}, "%s: %d limits, and they load\n", show.Short(path, 300), len(l.Rules()))
		},
	}
}

// describeLimits prints what each rule of a file lets.
func (a *app) describeLimits(l lifecycle.Limits) {
	for _, r := range l.Rules() {
		one := gateway.Limit{
			ID: r.ID, Here: true, Principal: r.Principal, Kind: r.Kind, Each: r.Each, Tool: r.Tool, Concurrency: r.Concurrency,
			Rate: r.Rate.String(), Burst: r.Rate.Burst, WaitMS: r.Wait.Milliseconds(),
		}
		a.print("%s: %s: %s\n", r.ID, limitOf(one, gateway.LimitBucket{}), limitLets(one))
	}
}
