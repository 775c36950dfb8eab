package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Trace is a trace as a search finds it.
type Trace struct {
	Trace     string         `json:"trace"`
	Turns     int            `json:"turns"`
	OpenTurns int            `json:"open_turns"`
	Calls     int            `json:"calls"`
	Statuses  map[string]int `json:"statuses"` // calls by how they ended, or open
	Tools     []string       `json:"tools"`    // at most 32, sorted
	MoreTools bool           `json:"more_tools"`
	Events    int            `json:"events"`
	Imported  bool           `json:"imported"`
	Newer     bool           `json:"newer"` // it holds events of a newer release
	First     time.Time      `json:"first"`
	Last      time.Time      `json:"last"`
	From      string         `json:"from"` // positions
	To        string         `json:"to"`
}

// TraceQuery says which traces are looked for. Tool, principal, status and text must meet
// in one call; several of one kind mean any of them.
type TraceQuery struct {
	Tools, Principals []string
	// Statuses are the kinds of ends, open for calls that have none, and unresolved for those
	// whose effects are possible, whatever the kind of their end, and that nobody has resolved.
	Statuses     []string
	Text         string    // words, and phrases in double quotes
	Since, Until time.Time // by their last and first events; zero: no bound
	Oldest       bool      // the oldest first; the newest otherwise
	Page         int       // traces of one request, 1 to 1000; 0 means 100
}

func (q TraceQuery) values() url.Values {
	v := url.Values{"tool": q.Tools, "principal": q.Principals, "status": q.Statuses}
	set(v, "text", q.Text)
	times(v, q.Since, q.Until, time.RFC3339Nano)
	if q.Oldest {
		v.Set("order", "oldest")
	}
	limit(v, q.Page)
	return v
}

func set(v url.Values, name, text string) {
	if text != "" {
		v.Set(name, text)
	}
}

func limit(v url.Values, n int) {
	if n != 0 {
		set(v, "limit", jsonText(n))
	}
}

func times(v url.Values, since, until time.Time, form string) {
	for name, t := range map[string]time.Time{"since": since, "until": until} {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(form))
		}
	}
}

// jsonText is a number or a word as JSON has it.
func jsonText(v any) string {
	text, _ := json.Marshal(v) // it has a JSON form
	return string(text)
}

// Traces yields the traces that pass, page by page. The last pair has the error, if there
// is one; NoStore is that of a node without a read store.
func (c *Client) Traces(ctx context.Context, q TraceQuery) iter.Seq2[Trace, error] {
	return func(yield func(Trace, error) bool) {
		v := q.values()
		for {
			var page struct {
				Traces []Trace `json:"traces"`
				Next   string  `json:"next"`
			}
			if err := c.get(ctx, "/v1/traces", v, &page); err != nil {
				yield(Trace{}, err)
				return
			}
			for _, t := range page.Traces {
				if !yield(t, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			v.Set("cursor", page.Next)
		}
	}
}

// Trace is one trace as a search finds it. It returns NoTrace where there is none.
func (c *Client) Trace(ctx context.Context, trace string) (out Trace, err error) {
	if err := events.CheckID("trace", trace); err != nil {
		return out, err
	}
	return out, c.get(ctx, path("v1", "traces", trace), nil, &out)
}

// Moment is an event of a timeline, in a line.
type Moment struct {
	Position string         `json:"pos"`
	Turn     events.TurnKey `json:"turn"`
	Call     int            `json:"call"` // events.TurnEvent for the turn
	Seq      uint32         `json:"seq"`
	At       time.Time      `json:"at"`
	Kind     events.Kind    `json:"kind"`
	Tool     string         `json:"tool"`
	Attempt  int            `json:"attempt"`
	AfterUS  int64          `json:"after_us"` // since the event before of the same call or turn
	Detail   string         `json:"detail"`   // control characters as they came
}

// Timeline yields the events of a trace as lines, page by page. The last pair has the
// error, if there is one.
func (c *Client) Timeline(ctx context.Context, trace string) iter.Seq2[Moment, error] {
	return func(yield func(Moment, error) bool) {
		if err := events.CheckID("trace", trace); err != nil {
			yield(Moment{}, err)
			return
		}
		v := make(url.Values)
		for {
			var page struct {
				Moments []Moment `json:"moments"`
				Next    string   `json:"next"`
			}
			if err := c.get(ctx, path("v1", "traces", trace, "timeline"), v, &page); err != nil {
				yield(Moment{}, err)
				return
			}
			for _, m := range page.Moments {
				if !yield(m, nil) {
					return
				}
			}
			if page.Next == "" || page.Next == v.Get("cursor") {
				return
			}
			v.Set("cursor", page.Next)
		}
	}
}

// Use is a row of usage. Days are those of the submissions, UTC.
type Use struct {
	Day       string `json:"day"` // 2026-11-30; "" where days are not told apart
	Tool      string `json:"tool"`
	Principal string `json:"principal"`

	// Of turns; 0 where usage is told apart by tool, but in the row without one.
	Turns          int64 `json:"turns"`
	TurnsCompleted int64 `json:"turns_completed"`
	TurnsAbandoned int64 `json:"turns_abandoned"`
	InputTokens    int64 `json:"input_tokens"`
	OutputTokens   int64 `json:"output_tokens"`

	// Of calls.
	Calls       int64            `json:"calls"`
	Attempts    int64            `json:"attempts"`
	Retries     int64            `json:"retries"`
	Asked       int64            `json:"asked"` // approvals asked for
	RunUS       int64            `json:"run_us"`
	OutputBytes int64            `json:"output_bytes"`
	Late        int64            `json:"late"`
	Resolved    int64            `json:"resolved"`
	Undone      int64            `json:"undone"`
	Ends        map[string]int64 `json:"ends"`
	Effects     map[string]int64 `json:"effects"`
}

// UsageQuery says whose usage is asked for, and by what it is told apart.
type UsageQuery struct {
	By                []string  // any of day, tool and principal; none: one row
	Since, Until      time.Time // days, both included; zero: no bound
	Tools, Principals []string  // only of these; none: of all
	Limit             int       // rows, 1 to 1000; 0 means 1000
}

// Usage is what was used. more says that there are more rows than the limit.
func (c *Client) Usage(ctx context.Context, q UsageQuery) (rows []Use, more bool, err error) {
	v := url.Values{"by": q.By, "tool": q.Tools, "principal": q.Principals}
	times(v, q.Since, q.Until, time.DateOnly)
	limit(v, q.Limit)
	var out struct {
		Usage []Use `json:"usage"`
		More  bool  `json:"more"`
	}
	err = c.get(ctx, "/v1/usage", v, &out)
	return out.Usage, out.More, err
}
