package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// list is the verb that shows what traces there are.
func (a *app) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show every trace of the log, a line each, in the order in which they began", Args: command.Args(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), false, func(st *session.Session) error { return a.runList(cmd.Context(), st.Bus) })
		},
	}
}

func (a *app) runList(ctx context.Context, log source) error {
	l := newListing()
	broken := false
	err := scan(ctx, log, bus.Filter{}, func(d damage) {
		broken = true
		a.complain(fmt.Errorf("%s", d))
	}, func(s bus.Stored) error {
		l.add(s)
		return nil
	})
	if err != nil {
		return err
	}
	if a.json {
		err = l.printJSON(a)
	} else {
		l.print(a)
	}
	if err == nil && broken {
		err = errSaid
	}
	return err
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

// traceLine is a trace in JSON. Scripts read it.
type traceLine struct {
	Trace     string         `json:"trace"`
	Turns     int            `json:"turns"`
	OpenTurns int            `json:"open_turns"`
	Calls     int            `json:"calls"`
	Statuses  map[string]int `json:"statuses"` // calls by their terminal, or open
	Tools     []string       `json:"tools"`
	MoreTools bool           `json:"more_tools,omitempty"` // than are named
	Events    int            `json:"events"`
	Imported  bool           `json:"imported,omitempty"`
	Newer     bool           `json:"newer,omitempty"` // holds events of a newer release
	First     time.Time      `json:"first"`
	Last      time.Time      `json:"last"`
	From      string         `json:"from"` // positions
	To        string         `json:"to"`
}

func (l *listing) printJSON(a *app) error {
	for _, t := range l.all {
		line := traceLine{
			Trace: t.trace, Turns: int(t.turns), OpenTurns: max(int(t.turns)-int(t.ended), 0), Calls: int(t.calls), Statuses: map[string]int{},
			Tools: l.toolNames(t), MoreTools: t.more, Events: int(t.events), Imported: t.imported, Newer: t.foreign,
			First: time.UnixMicro(t.first).UTC(), Last: time.UnixMicro(t.last).UTC(), From: t.from.String(), To: t.to.String(),
		}
		for i, kind := range show.Endings {
			if t.ends[i] > 0 {
				line.Statuses[string(kind)] = int(t.ends[i])
			}
		}
		if n := t.open(); n > 0 {
			line.Statuses["open"] = n
		}
		if err := a.printJSON(line); err != nil {
			return err
		}
	}
	return nil
}

// statuses are the ends of a trace's calls in words.
func (t *summary) statuses() string {
	var parts []string
	for i, kind := range show.Endings {
		if t.ends[i] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t.ends[i], kind))
		}
	}
	if n := t.open(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d open", n))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// shownTools is the length of the longest list of tools that is shown in a line.
const shownTools = 60

func (l *listing) print(a *app) {
	if len(l.all) == 0 {
		a.note("there are no traces in this log")
		return
	}
	wide, ends := len("TRACE"), len("STATUSES")
	for _, t := range l.all {
		wide, ends = max(wide, len(t.trace)), max(ends, len(t.statuses()))
	}
	a.print("%-*s  %5s  %5s  %-*s  %-27s  %-27s  %s\n", wide, "TRACE", "TURNS", "CALLS", ends, "STATUSES", "FIRST", "LAST", "TOOLS")
	for _, t := range l.all {
		names := strings.Join(l.toolNames(t), ",")
		if utf8.RuneCountInString(names) > shownTools || t.more {
			names = fmt.Sprintf("%s (%d)", show.Short(names, shownTools), len(t.tools))
		} else {
			names = tools.Visible(names)
		}
		notes := ""
		if t.imported {
			notes += "  imported"
		}
		if t.foreign {
			notes += "  holds events of a newer release"
		}
		a.print("%-*s  %5d  %5d  %-*s  %s  %s  %s%s\n", wide, t.trace, t.turns, t.calls, ends, t.statuses(),
			stamp(time.UnixMicro(t.first)), stamp(time.UnixMicro(t.last)), names, notes)
	}
}
