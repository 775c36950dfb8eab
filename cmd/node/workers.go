package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/tools/remote"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// workers is the verb that shows who serves which tool over NATS.
func (a *app) workers() *cobra.Command {
	return &cobra.Command{
		Use: "workers", Short: "Show the workers that serve tools over NATS, and which of them are refused", Args: command.Args(0, 0, "none"),
		Long: "Show the workers that serve tools over NATS, and which of them are refused, and why. The node that runs on --data is\n" +
			"asked; otherwise the workers themselves are, for a second, and judged as a node with the default settings would.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.workerTools(cmd.Context())
			if err != nil {
				return err
			}
			return a.tellWorkers(v)
		},
	}
}

func (a *app) tellWorkers(v bus.WorkerTools) error {
	if a.json {
		return a.printJSON(v)
	}
	return a.printWorkers(v)
}

// maxTold is the size in bytes of the largest list that a node is believed.
const maxTold = 64 << 20

func (a *app) workerTools(ctx context.Context) (bus.WorkerTools, error) {
	if a.set.NATS == "" {
		running, found, err := jetlog.Find(a.set.Data)
		switch {
		case err != nil:
			return bus.WorkerTools{}, exit.Unusable(err, "")
		case found && running.HTTP != "":
			var v bus.WorkerTools
			err := askNode(ctx, running, "/v1/workers", &v)
			return v, err
		case !found:
			return bus.WorkerTools{}, exit.Unusable(errors.New("no node runs on "+a.set.Data+", and without it no worker is connected"), "name the directory of a node that runs with --data, or the servers with --nats")
		}
	}
	return a.hearWorkers(ctx)
}

// askNode gets what a running node tells at a path.
func askNode(ctx context.Context, running jetlog.Running, path string, into any) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, running.HTTP+path, nil)
	if err != nil {
		return err
	}
	resp, err := nodehttp.Client(running).Do(req)
	if err != nil {
		return exit.Unusable(fmt.Errorf("ask the node at %s: %w", running.HTTP, err), "")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTold))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the node at %s answers %s: %s", running.HTTP, resp.Status, show.Short(string(body), 300))
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// hearWorkers asks the workers themselves.
func (a *app) hearWorkers(ctx context.Context) (v bus.WorkerTools, err error) {
	log, err := a.set.logger(a.err)
	if err != nil {
		return v, err
	}
	ses, err := a.set.open(ctx, log, false)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, ses.Close()) }()
	r, err := a.set.plainRegistry()
	if err != nil {
		return v, err
	}
	roster, err := remote.New(remote.Config{Workers: ses.Bus, Registry: r, Boot: ulid.Make().String(), Quiet: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return v, err
	}
	defer roster.Stop()
	err = roster.Start(ctx, time.Second)
	return roster.View(), err
}

// silentAfter is how long nothing is heard of a worker that is still well: three of the
// announcements that it should have made.
const silentAfter = 6 * time.Second

// workerRows are the workers of all tools as a table shows them, under its heading. What a
// worker runs is said once: it is of all its tools together.
func workerRows(v bus.WorkerTools) [][]string {
	rows := [][]string{{"TOOL", "STATUS", "TIER", "DEFINITION", "WORKER", "RUNNING", "HEARD", "ABOUT"}}
	told := make(map[string]bool)
	for _, t := range v.Tools {
		tier := cmp.Or(t.Tier, "-")
		if t.Tier != t.Declared {
			tier += " (declared " + t.Declared + ")"
		}
		if len(t.Workers) == 0 {
			rows = append(rows, []string{t.Tool, t.Status, tier, cmp.Or(t.Definition, "-"), "-", "-", "-", "-"})
		}
		for _, s := range t.Workers {
			status, running := s.Status, "(see above)"
			if status == wire.StatusServing && v.At.Sub(s.Heard) > silentAfter {
				status = "silent"
			}
			if !told[s.Worker] {
				running = fmt.Sprint(s.Running)
				if s.Room > 0 {
					running += fmt.Sprintf(" of %d", s.Room)
				}
			}
			told[s.Worker] = true
			rows = append(rows, []string{
				t.Tool, status, tier, cmp.Or(s.Definition, "-"), show.Short(s.Worker, 60), running, fmt.Sprintf("%v ago", age(s.Heard, v.At)), show.Short(s.About, 60),
			})
		}
	}
	return rows
}

func (a *app) printWorkers(v bus.WorkerTools) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, row := range workerRows(v) {
		fmt.Fprintln(w, strings.Join(row, "\t")) // the sink keeps the first error
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(v.Tools) == 0 {
		a.note("no worker announces a tool")
	}
	for _, t := range v.Tools {
		for _, s := range t.Workers {
			if s.Why != "" {
				a.note("%s: %s of %s is refused: %s", name, t.Tool, show.Short(s.Worker, 60), show.Short(s.Why, 500))
			}
		}
	}
	return a.out.failed()
}
