package readstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Query says which traces are asked for. Its zero value is the newest hundred. A
// trace passes if its time does, and ONE of its calls passes tool, status, principal
// and text together; without any of these four it need not have a call.
type Query struct {
	Since time.Time // not those whose last event is before it; zero: no bound
	Until time.Time // not those whose first event is at it or behind; zero: no bound
	// Tools, Statuses and Principals are what a call may have, any of each; empty
	// means all. A status is the kind of a call's first terminal, StatusOpen or
	// StatusUnresolved; a principal is the id of who submitted the turn.
	Tools      []string
	Statuses   []string
	Principals []string
	// Text is words and, in double quotes, phrases, which must all stand in the texts
	// of the call. A star behind one says that it is only a beginning. Letters' case
	// and everything but letters and digits does not count. What came behind a call's
	// end is a text by itself.
	Text   string
	Oldest bool   // the oldest first, by their first commits; otherwise the newest
	Cursor string // Page.Next of the page before, or where some trace begins (its From); "": the first page
	Limit  int    // traces of a page; 0 means DefaultLimit
}

// Bounds of a query.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
	maxValues    = 16      // of each filter
	maxValue     = 4 << 10 // bytes of one
	maxText      = 1 << 10 // bytes
	maxTerms     = 16
)

// Statuses are all that can be asked for.
func Statuses() []string {
	out := []string{StatusOpen, StatusUnresolved}
	for _, k := range endings {
		out = append(out, string(k))
	}
	return out
}

// Check returns nil for a query that can be asked, or an ErrQuery that says what is
// wrong.
func (q Query) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, args...))
	}
	for _, s := range q.Statuses {
		if !slices.Contains(Statuses(), s) {
			return wrong("status %.80q: want %s", s, strings.Join(Statuses(), ", "))
		}
	}
	for name, list := range map[string][]string{"tools": q.Tools, "statuses": q.Statuses, "principals": q.Principals} {
		if len(list) > maxValues {
			return wrong("%d %s: at most %d", len(list), name, maxValues)
		}
		for _, v := range list {
			if len(v) > maxValue {
				return wrong("one of the %s has %d bytes: at most %d", name, len(v), maxValue)
			}
		}
	}
	switch terms := termsOf(q.Text); {
	case len(q.Text) > maxText:
		return wrong("a text of %d bytes: at most %d", len(q.Text), maxText)
	case len(terms) > maxTerms:
		return wrong("a text of %d words: at most %d", len(terms), maxTerms)
	case len(terms) == 0 && strings.TrimSpace(q.Text) != "":
		return wrong("the text %.80q has no letter and no digit", q.Text)
	}
	if q.Limit < 0 || q.Limit > MaxLimit {
		return wrong("limit %d: want 1 to %d", q.Limit, MaxLimit)
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return wrong("since %s is not before until %s", q.Since.Format(time.RFC3339), q.Until.Format(time.RFC3339))
	}
	_, err := q.after()
	return err
}

// after is the id of the last trace of the page before; 0 for the first page.
func (q Query) after() (int64, error) {
	if q.Cursor == "" {
		return 0, nil
	}
	p, err := events.ParsePosition(q.Cursor)
	if err != nil || p.Seq == 0 || p.Seq > maxSeq {
		return 0, fmt.Errorf("%w: cursor %.80q: take it from the page before, or give the position where a trace begins", ErrQuery, q.Cursor)
	}
	return int64(p.Seq), nil
}

// maxSeq is the last sequence that leaves room in the numbers of rows.
const maxSeq = 1<<41 - 1

func (q Query) limit() int {
	if q.Limit == 0 {
		return DefaultLimit
	}
	return q.Limit
}

// ofCalls says whether calls decide.
func (q Query) ofCalls() bool {
	return len(q.Tools)+len(q.Statuses)+len(q.Principals) > 0 || len(termsOf(q.Text)) > 0
}

// Trace is a trace in a list. Its JSON form is a line of sluice-replay list --json.
type Trace struct {
	Trace     string         `json:"trace"`
	Turns     int            `json:"turns"`
	OpenTurns int            `json:"open_turns"`
	Calls     int            `json:"calls"`
	Statuses  map[string]int `json:"statuses"` // calls by their terminal, or open
	Tools     []string       `json:"tools"`    // at most 32, sorted
	MoreTools bool           `json:"more_tools,omitempty"`
	Events    int            `json:"events"`
	Imported  bool           `json:"imported,omitempty"`
	Newer     bool           `json:"newer,omitempty"` // holds events of a newer release
	First     time.Time      `json:"first"`           // UTC
	Last      time.Time      `json:"last"`
	From      string         `json:"from"` // positions
	To        string         `json:"to"`
}

// Page is some traces, in the order that was asked for.
type Page struct {
	Traces []Trace `json:"traces"`
	Next   string  `json:"next,omitempty"` // cursor of the next page, a position; "": there is none
}

// view is a trace's line.
func (t *trace) view(tools []string) Trace {
	m := &t.sums
	out := Trace{
		Trace: t.name, Turns: int(m.turns), OpenTurns: int(max(m.turns-m.ended, 0)), Calls: int(m.calls), Statuses: map[string]int{},
		Tools: tools, MoreTools: t.more, Events: int(m.events), Imported: m.imported, Newer: m.newer,
		First: time.UnixMicro(m.first).UTC(), Last: time.UnixMicro(m.last).UTC(), From: m.from.String(), To: m.to.String(),
	}
	slices.Sort(out.Tools)
	open := m.calls
	for i, n := range m.ends {
		if open -= n; n > 0 {
			out.Statuses[string(endings[i])] = int(n)
		}
	}
	if open > 0 {
		out.Statuses[StatusOpen] = int(open)
	}
	return out
}

// positionOf is the position that a row's number stands for.
func positionOf(generation uint32, id int64) events.Position {
	return events.Position{Generation: generation, Seq: uint64(id >> 16), Index: int(id & 0xffff)}
}
