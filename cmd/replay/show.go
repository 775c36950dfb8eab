package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
)

// shower is show, with what it was asked for.
type shower struct {
	app     *app
	want    choice
	whole   bool   // --json without --from or --limit: everything
	limited bool   // --limit was given
	svg     string // a file for the picture; "" means none
	html    string
}

// show is the verb that shows what happened.
func (a *app) show() *cobra.Command {
	s := &shower{app: a}
	var at, from string
	cmd := &cobra.Command{
		Use: "show TRACE[/TURN[/CALL]]", Short: "Show what happened, as a tree of turns, batches, calls and events", Args: command.Args(1, 1, "trace, trace/turn or trace/turn/call"),
		Long: "Show what happened, as a tree of turns, batches, calls and events. Each event has its position in the log and the time\n" +
			"since the one before it of the same call, or turn. Times are UTC. What a terminal would not show as itself is\n" +
			"escaped; long texts are cut and named by their digest. A long trace is shown page by page: what stands before and\n" +
			"behind a page is said, and where it begins. With --json each event is a line, whole, as a CloudEvent, in the log's\n" +
			"order, and all of them unless --from or --limit says otherwise.\n\n" +
			"The exit status is 1 where something is wrong with what was recorded: the rest is shown.\n\n" +
			"  sluice-replay show TRACE --at 1.42.3          as it stood when that event had just happened\n" +
			"  sluice-replay show TRACE --html page.html     one page with a picture, that can be mailed",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if s.want.target, err = parseTarget(args[0], 3); err != nil {
				return err
			}
			if s.want.at, err = parseAt(at); err != nil {
				return err
			}
			if s.want.from, err = parseFrom(from); err != nil {
				return err
			}
			if s.want.limit < 0 {
				return exit.Misused(fmt.Errorf("--limit %d: want a number of events, or 0 for all", s.want.limit), "")
			}
			s.limited = cmd.Flags().Changed("limit")
			s.whole = a.json && from == "" && !s.limited
			return a.withReading(cmd.Context(), func(r *reading) error { return s.run(cmd.Context(), r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&at, "at", "", "`position` of the last event that is shown")
	f.StringVar(&from, "from", "", "`position` of the first event that is shown")
	f.IntVar(&s.want.limit, "limit", shownEvents, "most `events` that are shown; 0 means all")
	f.StringVar(&s.svg, "svg", "", "write the picture of it to a `file`, instead; - is standard output")
	f.StringVar(&s.html, "html", "", "write one page with picture, events and messages to a `file`, instead; - is standard output")
	return cmd
}

// parseFrom reads the position of the first event; "" is the zero position.
func parseFrom(s string) (events.Position, error) {
	if s == "" {
		return events.Position{}, nil
	}
	p, err := events.ParsePosition(s)
	if err != nil {
		return p, exit.Misused(fmt.Errorf("--from: %w", err), "give a position as show has it before each event, for example 1.42.0")
	}
	return p, nil
}

func (s *shower) run(ctx context.Context, r *reading) error {
	if s.svg != "" || s.html != "" {
		return s.draw(ctx, r)
	}
	if s.app.json {
		return s.lines(ctx, r)
	}
	b, err := openBook(ctx, r, s.want.trace, s.want.at)
	if err != nil {
		return err
	}
	p, err := b.page(ctx, s.want)
	if err != nil {
		return err
	}
	s.app.tree(p, r.redacted)
	return s.app.faults(b, s.want.target)
}

// mostFaults bounds the complaints about one trace.
const mostFaults = 20

// faults complains of what is wrong with what was recorded of the target.
func (a *app) faults(b *book, t target) error {
	var list []string
	for _, d := range b.damaged {
		list = append(list, d.String())
	}
	if b.torn != nil {
		list = append(list, b.torn.Error())
	}
	for _, c := range b.turns {
		if c.fault != "" && (t.turn == "" || t.turn == c.key.Turn) {
			list = append(list, fmt.Sprintf("turn %s, at %s: %s", c.key, c.faultAt, c.fault))
		}
	}
	for i, one := range list {
		if i == mostFaults {
			a.complain(fmt.Errorf("and %d more", len(list)-i))
			break
		}
		a.complain(errors.New(one))
	}
	if len(list) > 0 {
		return errSaid
	}
	return nil
}

// lines prints each event of the target, whole.
func (s *shower) lines(ctx context.Context, r *reading) error {
	want := s.want
	if s.whole {
		want.limit = 0
	}
	l := &liner{app: s.app, want: want, names: make(map[events.TurnKey][]string), states: make(map[string]*sequence)}
	err := scan(ctx, r, bus.Filter{Trace: want.trace}, l.damaged, func(c bus.Stored) error { return l.commit(c) })
	if err == nil {
		err = l.missing(ctx, r)
	}
	if err == nil && l.wrong {
		err = errSaid
	}
	return err
}

// tree prints a page.
func (a *app) tree(p *page, redacted bool) {
	root := &node{text: fmt.Sprintf("trace %s  %s, %s, %s", p.choice.trace, count(p.turns, "turn"), count(p.calls, "call"), count(p.events, "event"))}
	if redacted {
		root.more = append(root.more, "redacted: bodies are placeholders, and digests do not fit what was there")
	}
	if p.book.cut || p.choice.at.Compare(p.book.last) < 0 {
		root.more = append(root.more, "up to the event that --at names; there is more behind it")
	}
	for _, d := range p.book.damaged {
		root.more = append(root.more, show.Short(d.String(), 300))
	}
	if p.before > 0 {
		root.add(fmt.Sprintf("… %s before: --from %s", count(p.before, "event"), p.earlier()))
	}
	for _, st := range p.stories {
		st.tree(root, p.choice.call, p.choice.at)
	}
	if p.after > 0 {
		root.add(fmt.Sprintf("… %s more: --from %s", count(p.after, "event"), p.next()))
	}
	root.write(func(line string) { a.print("%s\n", line) }, "", "")
}

// tree hangs the turn below the trace. call is the one that is shown, or noCall.
func (st *story) tree(root *node, call int, at events.Position) {
	text := fmt.Sprintf("turn %s  %s  %s, took %s", st.key.Turn, st.standing(), stamp(st.first), took(st.until().Sub(st.first)))
	if st.turn.Ended == nil {
		text += " so far"
	}
	if st.parked > 0 {
		text += ", parked " + took(st.parked)
	}
	n := root.add(text, st.about()...)
	if call != noCall {
		st.call(n, call)
		return
	}
	if st.hidden > 0 {
		n.add(fmt.Sprintf("… %s of it before", count(st.hidden, "event")))
	}
	planned := false
	for _, e := range st.events {
		line(n, e)
		if _, ok := e.ev.Event.(*events.TurnPlanned); ok && !planned {
			planned = true
			st.batches(n)
		}
	}
	if !planned && st.hidden > 0 && st.turn.Planned != nil {
		planned = true
		st.batches(n)
	}
	st.strays(n, planned)
	if more := st.count - st.hidden - st.kept; more > 0 {
		n.add(fmt.Sprintf("… %s of it behind", count(more, "event")))
	}
}

// about is what the turn was submitted with.
func (st *story) about() []string {
	s := st.turn.Submitted
	var out []string
	if st.fault != "" {
		out = append(out, "WRONG: at "+st.faultAt.String()+" "+show.Short(st.fault, 200)+"; sluice-replay verify names the law")
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
		var b *node
		for _, call := range batch {
			if !st.onPage(call) {
				continue
			}
			if b == nil {
				b = n.add(fmt.Sprintf("batch %d of %d: %s", i+1, len(st.turn.Planned.Batches), count(len(batch), "call")))
			}
			st.call(b, call)
		}
	}
}

// onPage says whether a call has an event on the page, or all of its turn is there.
func (st *story) onPage(call int) bool {
	return len(st.told(call)) > 0 || st.count == st.kept
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
		if !in[i] && st.onPage(i) {
			st.call(n, i)
		}
	}
	for _, offset := range sortedKeys(st.calls) {
		if offset >= len(st.turn.Calls) && len(st.told(offset)) > 0 {
			st.call(n, offset)
		}
	}
}

// line hangs one event below a node.
func line(n *node, e told) {
	after := ""
	if e.ev.Seq > 1 {
		after = "+" + took(e.after)
	}
	text := fmt.Sprintf("%-9s %10s  %-21s", e.ev.Pos, after, show.Short(string(e.ev.Kind()), 64))
	if d := describe(e); d != "" {
		text += "  " + d
	}
	n.add(text)
}
