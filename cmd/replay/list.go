package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections/readstore"
	"github.com/sluice-run/sluice/tools"
)

// lister is list, with what it was asked for.
type lister struct {
	app    *app
	query  readstore.Query
	before events.Position // only traces that began before it; zero: all
	limit  int             // the newest of them; 0 means all
	store  string          // directory of a read store; "" means the data directory's, "off" none
}

// list is the verb that shows what traces there are.
func (a *app) list() *cobra.Command {
	l := &lister{app: a}
	var since, until, before string
	cmd := &cobra.Command{
		Use: "list", Short: "Show the traces of the log, a line each, in the order in which they began: the newest is last", Args: command.Args(0, 0, "none"),
		Long: "Show the traces of the log, a line each, in the order in which they began: the newest is last. Filters that say\n" +
			"something of a call (--tool, --status, --principal, --text) must all fit one and the same call of the trace; each\n" +
			"may be given several times, or with commas, and then one of the values must fit. A trace is in a time if one of its\n" +
			"events may be. Where a node keeps a read store of this log that is up to date it answers at once, else the log is read;\n" +
			"the answer is the same.\n\n" +
			"  sluice-replay list --since 2h --tool charge --status unknown,failed\n" +
			"  sluice-replay list --text 'card declin*' --limit 20\n" +
			"  sluice-replay list --limit 20 --before 1.4711.0      the page before the one that begins there",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.parse(since, until, before, time.Now()); err != nil {
				return err
			}
			return a.withReading(cmd.Context(), func(r *reading) error { return l.run(cmd.Context(), r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "traces with an event at or behind this `time`: RFC 3339, a date, or how long ago (2h, 3d)")
	f.StringVar(&until, "until", "", "traces that began before this `time`")
	f.StringSliceVar(&l.query.Tools, "tool", nil, "traces with a call of one of these `tools`")
	f.StringSliceVar(&l.query.Statuses, "status", nil, "traces with a call that stands so: "+strings.Join(readstore.Statuses(), ", "))
	f.StringSliceVar(&l.query.Principals, "principal", nil, "traces with a call that one of these `principals` submitted")
	f.StringVar(&l.query.Text, "text", "", "traces with a call that holds these `words`, in its arguments, answer, error or reasons; word* is a beginning, \"…\" a phrase")
	f.IntVar(&l.limit, "limit", 0, "only the newest `traces`, so many; 0 means all")
	f.StringVar(&before, "before", "", "only traces that began before this `position`")
	f.StringVar(&l.store, "read-store", "", "`directory` of the node's read store, or off; left out: that of --data, where there is one")
	return cmd
}

func (l *lister) parse(since, until, before string, now time.Time) error {
	var err error
	if l.query.Since, err = parseWhen("since", since, now); err != nil {
		return err
	}
	if l.query.Until, err = parseWhen("until", until, now); err != nil {
		return err
	}
	if before != "" {
		if l.before, err = events.ParsePosition(before); err != nil {
			return exit.Misused(fmt.Errorf("--before: %w", err), "give the position at which a trace begins, as --json has it in from")
		}
	}
	if l.limit < 0 {
		return exit.Misused(fmt.Errorf("--limit %d: want a number of traces, or 0 for all", l.limit), "")
	}
	if err := l.query.Check(); err != nil {
		return exit.Misused(err, "see sluice-replay list --help")
	}
	return nil
}

// run lists the traces: by the read store where there is one, else by reading the log.
func (l *lister) run(ctx context.Context, r *reading) error {
	list, more, done, err := l.fromStore(ctx, r)
	var wrong error
	if err == nil && !done {
		list, more, wrong, err = l.fromLog(ctx, r)
	}
	if err != nil {
		return err
	}
	if l.app.json {
		for _, t := range list {
			if err := l.app.printJSON(t); err != nil {
				return err
			}
		}
	} else {
		l.print(list)
	}
	if more > 0 {
		l.app.note("%s began earlier: --before %s shows them", count(more, "more trace"), list[0].From)
	}
	return wrong
}

// fromLog reads the log. wrong says that a part of it could not be read; that was told.
func (l *lister) fromLog(ctx context.Context, r *reading) (list []readstore.Trace, more int, wrong, err error) {
	sums := newListing()
	match, err := readstore.NewMatcher(l.query)
	if err != nil {
		return nil, 0, nil, err
	}
	err = scan(ctx, r, bus.Filter{}, func(d damage) {
		wrong = errSaid
		l.app.complain(fmt.Errorf("%s", d))
	}, func(s bus.Stored) error {
		sums.add(s)
		match.Add(s)
		return nil
	})
	if errors.Is(err, archive.ErrDamaged) {
		l.app.complain(err)
		wrong, err = errSaid, nil
	}
	if err != nil {
		return nil, 0, nil, err
	}
	var kept []*summary
	for _, t := range sums.all {
		if l.inTime(t) && (l.before == (events.Position{}) || t.from.Compare(l.before) < 0) && match.Matches(t.trace) {
			kept = append(kept, t)
		}
	}
	if l.limit > 0 && len(kept) > l.limit {
		more = len(kept) - l.limit
		kept = kept[more:]
	}
	list = make([]readstore.Trace, len(kept))
	for i, t := range kept {
		list[i] = sums.view(t)
	}
	return list, more, wrong, nil
}

// inTime says whether a trace may have an event in the time that is asked for.
func (l *lister) inTime(t *summary) bool {
	q := l.query
	return (q.Since.IsZero() || t.last >= q.Since.UnixMicro()) && (q.Until.IsZero() || t.first < q.Until.UnixMicro())
}

// mostTools bounds the tools that are named of one trace.
const mostTools = 32

// summary is one trace. There may be millions, so it is small.
type summary struct {
	trace    string
	ends     [8]uint32 // calls by their terminal, in the order of the endings, of which there are fewer
	calls    uint32    // in all submissions
	turns    uint32
	ended    uint32 // turns that have ended
	events   uint32
	tools    []uint32 // numbers of names; at most mostTools
	more     bool     // there are more tools than that
	imported bool
	foreign  bool  // holds events of a newer release
	first    int64 // microseconds since 1970
	last     int64
	from, to events.Position
}

// listing are all of them, in the order in which they began.
type listing struct {
	all    []*summary
	of     map[string]*summary
	names  []string // of tools
	number map[string]uint32
}

func newListing() *listing {
	return &listing{of: make(map[string]*summary), number: make(map[string]uint32)}
}

// add counts a commit.
func (l *listing) add(s bus.Stored) {
	t := l.of[s.Commit.Turn.Trace]
	if t == nil {
		id := strings.Clone(s.Commit.Turn.Trace)
		t = &summary{trace: id, from: s.Position(0), first: s.Commit.At.UnixMicro()}
		l.of[id] = t
		l.all = append(l.all, t)
	}
	t.last, t.to = s.Commit.At.UnixMicro(), s.Position(len(s.Commit.Records)-1)
	t.events += uint32(len(s.Commit.Records))
	for _, r := range s.Commit.Records {
		l.count(t, r)
	}
}

func (l *listing) count(t *summary, r events.Record) {
	kind := r.Event.Kind()
	switch e := r.Event.(type) {
	case *events.TurnSubmitted:
		t.turns++
		t.calls += uint32(len(e.Calls))
		t.imported = t.imported || e.Imported != ""
		for _, c := range e.Calls {
			l.tool(t, c.Tool)
		}
	case events.Foreign:
		t.foreign = true
		return
	}
	if events.EndsTurn(kind) {
		t.ended++
	}
	if i := slices.Index(show.Endings, kind); i >= 0 && i < len(t.ends) {
		t.ends[i]++
	}
}

func (l *listing) tool(t *summary, name string) {
	n, ok := l.number[name]
	if !ok {
		name = strings.Clone(name)
		n = uint32(len(l.names))
		l.names, l.number[name] = append(l.names, name), n
	}
	switch {
	case slices.Contains(t.tools, n):
	case len(t.tools) == mostTools:
		t.more = true
	default:
		t.tools = append(t.tools, n)
	}
}

// open is how many calls have no terminal.
func (t *summary) open() int {
	n := int(t.calls)
	for _, ended := range t.ends {
		n -= int(ended)
	}
	return max(n, 0)
}

// toolNames are the tools of a trace, sorted.
func (l *listing) toolNames(t *summary) []string {
	out := make([]string, len(t.tools))
	for i, n := range t.tools {
		out[i] = l.names[n]
	}
	slices.Sort(out)
	return out
}

// view is a trace in JSON: the same form whoever answers.
func (l *listing) view(t *summary) readstore.Trace {
	out := readstore.Trace{
		Trace: t.trace, Turns: int(t.turns), OpenTurns: max(int(t.turns)-int(t.ended), 0), Calls: int(t.calls), Statuses: map[string]int{},
		Tools: l.toolNames(t), MoreTools: t.more, Events: int(t.events), Imported: t.imported, Newer: t.foreign,
		First: time.UnixMicro(t.first).UTC(), Last: time.UnixMicro(t.last).UTC(), From: t.from.String(), To: t.to.String(),
	}
	for i, kind := range show.Endings {
		if t.ends[i] > 0 {
			out.Statuses[string(kind)] = int(t.ends[i])
		}
	}
	if n := t.open(); n > 0 {
		out.Statuses[readstore.StatusOpen] = n
	}
	return out
}

// statusesOf are the ends of a trace's calls in words.
func statusesOf(t readstore.Trace) string {
	var parts []string
	for _, kind := range append(slices.Clone(show.Endings), readstore.StatusOpen) {
		if n := t.Statuses[string(kind)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// shownTools is the length of the longest list of tools that is shown in a line.
const shownTools = 60

func (l *lister) print(list []readstore.Trace) {
	a := l.app
	if len(list) == 0 {
		a.note("there are no traces in this log%s", l.narrowed())
		return
	}
	wide, ends := len("TRACE"), len("STATUSES")
	for _, t := range list {
		wide, ends = max(wide, len(t.Trace)), max(ends, len(statusesOf(t)))
	}
	a.print("%-*s  %5s  %5s  %-*s  %-27s  %-27s  %s\n", wide, "TRACE", "TURNS", "CALLS", ends, "STATUSES", "FIRST", "LAST", "TOOLS")
	for _, t := range list {
		names := strings.Join(t.Tools, ",")
		if utf8.RuneCountInString(names) > shownTools || t.MoreTools {
			names = fmt.Sprintf("%s (%d)", show.Short(names, shownTools), len(t.Tools))
		} else {
			names = tools.Visible(names)
		}
		notes := ""
		if t.Imported {
			notes += "  imported"
		}
		if t.Newer {
			notes += "  holds events of a newer release"
		}
		a.print("%-*s  %5d  %5d  %-*s  %s  %s  %s%s\n", wide, t.Trace, t.Turns, t.Calls, ends, statusesOf(t),
			stamp(t.First), stamp(t.Last), names, notes)
	}
}

// narrowed says that filters have left something out.
func (l *lister) narrowed() string {
	q := l.query
	if len(q.Tools)+len(q.Statuses)+len(q.Principals)+len(q.Text) > 0 || !q.Since.IsZero() || !q.Until.IsZero() || l.before != (events.Position{}) {
		return " that the filters let through: leave one out"
	}
	return ""
}
