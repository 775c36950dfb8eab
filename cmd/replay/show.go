package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// show is the verb that shows what happened.
func (a *app) show() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use: "show TRACE[/TURN[/CALL]]", Short: "Show what happened, as a tree of turns, batches, calls and events", Args: command.Args(1, 1, "trace, trace/turn or trace/turn/call"),
		Long: "Show what happened, as a tree of turns, batches, calls and events. Each event has its position in the log and the time\n" +
			"since the one before it of the same call, or turn. Times are UTC. What a terminal would not show as itself is\n" +
			"escaped; long texts are cut and named by their digest. With --json each event is a line, whole, as a CloudEvent,\n" +
			"in the log's order.",
		RunE: func(cmd *cobra.Command, args []string) error {
			upTo, err := parseAt(at)
			if err != nil {
				return err
			}
			t, err := parseTarget(args[0], 3)
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), false, func(st *session.Session) error { return a.runShow(cmd.Context(), st.Bus, t, upTo) })
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "`position` of the last event that is shown")
	return cmd
}

func (a *app) runShow(ctx context.Context, log source, t target, at events.Position) error {
	h, err := readTrace(ctx, log, t.trace, at)
	if err != nil {
		return err
	}
	var broken error
	for _, d := range h.damaged {
		a.complain(errors.New(d.String()))
		broken = errSaid
	}
	stories := tellAll(h)
	calls := 0
	for _, s := range stories {
		if s.key.Turn == t.turn {
			calls = len(s.turn.Calls)
		}
	}
	if err := h.has(t, calls); err != nil {
		return err
	}
	if a.json {
		err = a.showJSON(h, t)
	} else {
		a.showTree(h, stories, t)
	}
	return errors.Join(err, broken)
}

// showJSON prints each event of the target, whole.
func (a *app) showJSON(h history, t target) error {
	names := make(map[events.CallKey]string)
	for _, s := range h.commits {
		key := s.Commit.Turn
		for i, r := range s.Commit.Records {
			if sub, ok := r.Event.(*events.TurnSubmitted); ok {
				for n, c := range sub.Calls {
					names[key.Call(n)] = c.Tool
				}
			}
			if t.turn != "" && key.Turn != t.turn || t.call != noCall && r.Call != t.call {
				continue
			}
			ce, err := bus.CloudEvent(s, i, names[key.Call(r.Call)])
			if err != nil {
				return err
			}
			a.print("%s\n", ce)
		}
	}
	return nil
}

// story is what is told of one turn.
type story struct {
	key    events.TurnKey
	turn   lifecycle.Turn
	events []told
	calls  map[int][]told // by offset
	first  time.Time
	last   time.Time
}

// told is one event and how it is described.
type told struct {
	ev     projections.Event
	moment projections.Moment
}

// tellAll folds a trace.
func tellAll(h history) []*story {
	var out []*story
	of := make(map[events.TurnKey]*story)
	moments := projections.Timeline.Init()
	for _, s := range h.commits {
		key := s.Commit.Turn
		st := of[key]
		if st == nil {
			st = &story{key: key, turn: lifecycle.Turn{Key: key}, calls: make(map[int][]told), first: s.Commit.At}
			of[key] = st
			out = append(out, st)
		}
		st.last = s.Commit.At
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			moments = projections.Timeline.Apply(moments, e)
			st.add(told{e, moments.All[len(moments.All)-1]})
			moments.All = moments.All[:0]
		}
	}
	return out
}

func (st *story) add(e told) {
	st.turn = lifecycle.Evolve(st.turn, lifecycle.Meta{At: e.ev.At, By: e.ev.By}, e.ev.Record)
	if e.ev.Call == events.TurnEvent {
		st.events = append(st.events, e)
		return
	}
	st.calls[e.ev.Call] = append(st.calls[e.ev.Call], e)
}

// ended is how the turn stands, in a word or two.
func (st *story) ended() string {
	switch {
	case st.turn.Ended != nil:
		return strings.TrimPrefix(string(st.turn.Ended.Kind()), "turn_")
	case st.turn.Submitted == nil:
		return "its beginning is missing"
	case st.turn.Parked != nil:
		return "parked"
	case st.turn.Owner.Boot == "":
		return "not claimed"
	case st.turn.Submitted.Imported != "":
		return "imported, with calls that have no answer"
	}
	return "open"
}

// showTree prints the stories of the target.
func (a *app) showTree(h history, stories []*story, t target) {
	root := &node{text: header(h, stories)}
	if h.cut {
		root.more = append(root.more, "up to the event that --at names; there is more behind it")
	}
	for _, d := range h.damaged {
		root.more = append(root.more, show.Short(d.String(), 300))
	}
	for _, st := range stories {
		if t.turn == "" || t.turn == st.key.Turn {
			st.tree(root, t.call)
		}
	}
	root.write(func(line string) { a.print("%s\n", line) }, "", "")
}

func header(h history, stories []*story) string {
	calls, n := 0, 0
	for _, st := range stories {
		calls += len(st.turn.Calls)
		n += len(st.events)
		for _, list := range st.calls {
			n += len(list)
		}
	}
	return fmt.Sprintf("trace %s  %s, %s, %s", h.trace, count(len(stories), "turn"), count(calls, "call"), count(n, "event"))
}

// tree hangs the turn below the trace. call is the one that is shown, or noCall.
func (st *story) tree(root *node, call int) {
	n := root.add(fmt.Sprintf("turn %s  %s  %s, took %s", st.key.Turn, st.ended(), stamp(st.first), took(st.last.Sub(st.first))), st.about()...)
	if call != noCall {
		st.call(n, call)
		return
	}
	planned := false
	for _, e := range st.events {
		line(n, e)
		if _, ok := e.ev.Event.(*events.TurnPlanned); ok && !planned {
			planned = true
			st.batches(n)
		}
	}
	st.strays(n, planned)
}

// about is what the turn was submitted with.
func (st *story) about() []string {
	s := st.turn.Submitted
	var out []string
	if st.turn.Broken != "" {
		out = append(out, "its history is not one that any release writes: "+show.Short(st.turn.Broken, 200)+": sluice-replay verify names the law")
	}
	if st.turn.Foreign {
		out = append(out, "it holds events of a newer release: they are shown, and not understood")
	}
	if s == nil {
		return out
	}
	who := "by " + show.Short(s.Principal.ID, 64)
	if s.Principal.Kind != "" {
		who += " (" + show.Short(s.Principal.Kind, 32) + ")"
	}
	if len(s.Principal.Parents) > 0 {
		who += " of " + show.Short(strings.Join(s.Principal.Parents, ", "), 200)
	}
	parts := []string{who}
	for _, p := range [][2]string{
		{"mode", s.Mode},
		{"format", s.Format},
		{"workspace", s.Workspace},
		{"placement", s.Placement},
		{"imported from", s.Imported},
		{"allowed", strings.Join(s.Allow, ", ")},
		{"on error", s.OnError},
	} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+show.Short(p[1], 200))
		}
	}
	if s.CanAsk {
		parts = append(parts, "somebody can be asked")
	}
	return append(out, strings.Join(parts, ", "))
}

// batches hangs the batches below the turn, each with its calls.
func (st *story) batches(n *node) {
	if st.turn.Planned == nil {
		return
	}
	for i, batch := range st.turn.Planned.Batches {
		b := n.add(fmt.Sprintf("batch %d of %d: %s", i+1, len(st.turn.Planned.Batches), count(len(batch), "call")))
		for _, call := range batch {
			st.call(b, call)
		}
	}
}

// strays hangs calls below the turn that are in no batch.
func (st *story) strays(n *node, planned bool) {
	in := make(map[int]bool)
	if planned && st.turn.Planned != nil {
		for _, batch := range st.turn.Planned.Batches {
			for _, call := range batch {
				in[call] = true
			}
		}
	}
	for i := range st.turn.Calls {
		if !in[i] && (planned || len(st.calls[i]) > 0) {
			st.call(n, i)
		}
	}
	for _, offset := range sortedKeys(st.calls) {
		if offset >= len(st.turn.Calls) {
			st.call(n, offset)
		}
	}
}

// line hangs one event below a node.
func line(n *node, e told) {
	after := ""
	if e.ev.Seq > 1 {
		after = "+" + took(time.Duration(e.moment.AfterUS)*time.Microsecond)
	}
	text := fmt.Sprintf("%-9s %10s  %-21s", e.ev.Pos, after, show.Short(string(e.ev.Kind()), 64))
	if d := describe(e); d != "" {
		text += "  " + d
	}
	n.add(text)
}
