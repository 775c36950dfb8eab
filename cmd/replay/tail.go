package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
)

// tailer follows the log.
type tailer struct {
	app    *app
	filter gateway.FeedFilter // kinds and tools are looked at here: numbers are looked at first
	follow bool
	start  bool   // from the log's beginning
	cursor string // a file that keeps the place; "" means none

	at      events.Position // the next event to print; zero: now, or the beginning
	seen    map[events.TurnKey]*sequence
	flushed events.Position // what the cursor's file says
	quiet   bool            // it was said that the log cannot be reached
}

// tail is the verb that follows the log.
func (a *app) tail() *cobra.Command {
	t := &tailer{app: a, seen: make(map[events.TurnKey]*sequence)}
	var from, trace string
	var kinds []string
	cmd := &cobra.Command{
		Use: "tail", Short: "Follow the log: each event once, in order, from now or from a position", Args: command.Args(0, 0, "none"),
		Long: "Follow the log: each event once, in the log's order, from now on or from a position. When the node or the server goes\n" +
			"away, it is waited for, and the reading goes on where it was. Nothing is shown that is not durable. What is not there\n" +
			"any more, because the log is kept for a time only, is announced as a gap; where the log has lost its tail that is\n" +
			"announced as rewound: what was read from that position on is void. With --json each event is a line, whole, as a\n" +
			"CloudEvent with its position, and a notice is a line {\"notice\": …, \"from\": …, \"position\": …}.\n\n" +
			"  sluice-replay tail --tool charge --kind completed,unknown\n" +
			"  sluice-replay tail --cursor seen.txt --json           goes on where the last run with that file has ended",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.set.archive != "" {
				return exit.Misused(errors.New("an archive does not grow"), "show and list read it")
			}
			if err := t.parse(from, trace, kinds); err != nil {
				return err
			}
			return t.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "`position` of the first event, or start; left out: what comes from now on")
	f.StringVar(&t.cursor, "cursor", "", "`file` that keeps the place: where it exists it is gone on from there, whatever --from says")
	f.StringVar(&trace, "trace", "", "only of this `trace`, or trace/turn")
	f.StringSliceVar(&t.filter.Tools, "tool", nil, "only of calls of these `tools`")
	f.StringSliceVar(&kinds, "kind", nil, "only events of these `kinds`")
	f.BoolVar(&t.follow, "follow", true, "go on for ever; false: end at the head of the log")
	return cmd
}

func (t *tailer) parse(from, trace string, kinds []string) error {
	if trace != "" {
		of, err := parseTarget(trace, 2)
		if err != nil {
			return err
		}
		t.filter.Trace, t.filter.Turn = of.trace, of.turn
	}
	var err error
	if t.filter.Kinds, err = gateway.ParseKinds(kinds); err != nil {
		return exit.Misused(err, "the kinds are those of docs/log-format.md, for example started or completed")
	}
	if t.start = from == "start"; !t.start {
		if t.at, err = parseFrom(from); err != nil {
			return err
		}
	}
	return t.recall()
}

// recall reads the place from the cursor's file, where there is one.
func (t *tailer) recall() error {
	if t.cursor == "" {
		return nil
	}
	text, err := os.ReadFile(t.cursor)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		t.at, err = events.ParsePosition(strings.TrimSpace(string(text)))
	}
	if err != nil {
		return exit.Misused(fmt.Errorf("--cursor: %w", err), "name a file that this verb has written, or one that does not exist")
	}
	t.flushed = t.at
	return nil
}

// keep writes the place to the cursor's file, once what stands before it is out.
func (t *tailer) keep() error {
	if err := t.app.out.Flush(); err != nil {
		return err
	}
	if t.cursor == "" || t.at == t.flushed || t.at == (events.Position{}) {
		return nil
	}
	next := t.cursor + ".new"
	if err := os.WriteFile(next, []byte(t.at.String()+"\n"), 0o644); err != nil {
		return fmt.Errorf("--cursor: %w", err)
	}
	if err := os.Rename(next, t.cursor); err != nil {
		return fmt.Errorf("--cursor: %w", err)
	}
	t.flushed = t.at
	return nil
}

// Waits for a log that cannot be reached.
const (
	againFirst = 100 * time.Millisecond
	againLast  = 3 * time.Second
)

// run follows the log over as many connections as it takes. That somebody ends it
// is no error.
func (t *tailer) run(ctx context.Context) error {
	wait, opened := againFirst, false
	for {
		began := t.at
		err := t.once(ctx, &opened)
		if kept := t.keep(); kept != nil {
			return kept
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || !opened || !t.follow || !lost(err):
			return err
		}
		if t.at != began {
			wait = againFirst
		}
		if !t.quiet {
			t.quiet = true
			t.app.note("%s: the log cannot be reached, and is waited for: %s", name, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		wait = min(2*wait, againLast)
	}
}

// lost says whether an error is that of a log which may come back.
func lost(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, bus.ErrUnavailable) || errors.Is(err, bus.ErrUncertain) || exit.Code(err, false) == exit.Unavailable
}

// errGone says that the node whose log was followed has gone, or was replaced.
var errGone = errors.New("the node that kept the log has gone")

// once follows the log over one connection.
func (t *tailer) once(ctx context.Context, opened *bool) (err error) {
	st, err := t.open(ctx, *opened)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	*opened = true
	if t.quiet {
		t.quiet = false
		t.app.note("%s: the log is there again", name)
	}
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	wg.Go(func() { t.watch(ctx, st, stop) })
	err = t.read(ctx, st.Bus)
	if cause := context.Cause(ctx); errors.Is(cause, errGone) {
		return cause
	}
	return err
}

// open opens the log. A directory that is followed must have a node: nobody else
// writes there, and the directory must be free for the node that comes.
func (t *tailer) open(ctx context.Context, again bool) (*session.Session, error) {
	set := t.app.set
	if set.NATS == "" && t.follow {
		running, found, err := jetlog.Find(set.Data)
		switch {
		case again && (err != nil || !found || running.URL == ""):
			return nil, errors.Join(errGone, err)
		case err == nil && !found:
			return nil, exit.Unusable(fmt.Errorf("no node runs on %s, so nothing will come", set.Data), "start the node, or say --follow=false to read what is there")
		}
	}
	return set.open(ctx, slog.New(slog.DiscardHandler), false)
}

// watchEach is how often it is looked whether the node is still the same.
const watchEach = 500 * time.Millisecond

// watch ends the reading once the node that keeps the log has gone: its address goes
// with it.
func (t *tailer) watch(ctx context.Context, st *session.Session, stop context.CancelCauseFunc) {
	if st.Found == nil {
		return
	}
	tick := time.NewTicker(watchEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		running, found, err := jetlog.Find(t.app.set.Data)
		if err == nil && (!found || running.PID != st.Found.PID || running.URL != st.Found.URL) {
			stop(errGone)
			return
		}
	}
}
