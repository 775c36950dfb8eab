package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Event is something that has happened, at its place in the log, or a notice about the
// reading itself.
type Event struct {
	Position events.Position // of the event; of a notice, where reading goes on
	Kind     events.Kind     // "" for a notice
	Version  int             // of the kind
	Turn     events.TurnKey
	Call     int    // the call's place in its turn; events.TurnEvent for the turn itself
	Tool     string // of the call; "" for an event of the turn
	At       time.Time
	Number   uint32 // the call's or the turn's own: 1, 2, 3 …
	Commit   string // id of the commit: events with one id were decided together
	Boot     string // of the owner; "" where nobody owned the turn
	Epoch    uint32
	Data     json.RawMessage // the event's body; see Decode

	Notice Notice          // "" for an event
	From   events.Position // of a notice: from here on something is not as the reader may think
	Reason string          // of NoticeUnreadable: why
	Bytes  int             // of NoticeTooLarge
}

// Notice is something that a reader of the log must hear about the reading.
type Notice string

// The notices.
const (
	// NoticeGap says that what stood between From and Position is not told: it is too old,
	// or the reader was too slow.
	NoticeGap Notice = "gap"
	// NoticeRewound says that the log has lost its tail: drop what was read from From on.
	NoticeRewound Notice = "rewound"
	// NoticeUnreadable says that the commit at From cannot be read; what is behind follows.
	NoticeUnreadable Notice = "unreadable"
	// NoticeTooLarge says that the event at From is larger than a page; the turn's own
	// events have it.
	NoticeTooLarge Notice = "too_large"
)

// Next is where reading goes on behind the event: Query.From of who comes back later.
func (e Event) Next() events.Position {
	if e.Notice != "" {
		return e.Position
	}
	return behind(e.Position)
}

// String is the event in one line, for whoever looks: where, when, of what, and which. Of
// its body it says no more than the size.
func (e Event) String() string {
	if e.Notice != "" {
		return strings.TrimSpace(fmt.Sprintf("%s %s from %s %s", e.Position, e.Notice, e.From, e.Reason))
	}
	of := e.Turn.String()
	if e.Call != events.TurnEvent {
		of = e.Turn.Call(e.Call).String()
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", e.Position, e.At.UTC().Format(time.RFC3339Nano), of, e.Kind, e.Tool)) + fmt.Sprintf(" (%d bytes)", len(e.Data))
}

func behind(p events.Position) events.Position {
	p.Index++
	return p
}

// Decode is the event itself, as a pointer to its struct of package events. Of a kind that
// this release does not know it is an events.Foreign without a body.
func (e Event) Decode() (events.Event, error) {
	row, known := events.KindRow(e.Kind)
	if !known || row.Version < e.Version {
		return events.Foreign{Name: e.Kind, Version: e.Version}, nil
	}
	out := row.New()
	if err := json.Unmarshal(e.Data, out); err != nil {
		return nil, fmt.Errorf("event %s: %w: %w", e.Position, ErrAnswer, err)
	}
	return out, nil
}

// Query says which events are read.
type Query struct {
	From   events.Position // the first one's place, or where reading goes on; zero: the log's beginning
	Now    bool            // instead of From: what happens from now on
	Follow bool            // go on at the log's end, and wait for more; false ends there

	Trace string   // "" means every trace
	Turn  string   // "" means every turn; needs Trace
	Kinds []string // empty means every kind
	Tools []string // empty means every tool; events of turns have none
}

func (q Query) values() url.Values {
	v := make(url.Values)
	for name, text := range map[string]string{"trace": q.Trace, "turn": q.Turn, "kind": strings.Join(q.Kinds, ","), "tool": strings.Join(q.Tools, ",")} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

// place is a position as a request names it.
func place(p events.Position) string {
	if p == (events.Position{}) {
		return "start"
	}
	return p.String()
}

// Events yields the log's events in order, each once, with the notices in their places.
// Connections that break are opened again where the reading was; that ends once as many
// tries as Options.Retry allows have brought nothing. The last pair has the error, which
// is ctx's where that has ended it; without Follow the end of the log is none.
//
// Who may not watch the log reads a turn of its own, with Trace and Turn.
func (c *Client) Events(ctx context.Context, q Query) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := c.read(ctx, q, yield)
		if err != nil && !errors.Is(err, errEnough) {
			yield(Event{}, err)
		}
	}
}

// errEnough says that the caller wants no more.
var errEnough = errors.New("enough")

func (c *Client) read(ctx context.Context, q Query, yield func(Event, error) bool) error {
	at := q.From
	if q.Now { // BEFORE the stream: what happens until it is open is not missed
		p, err := c.page(ctx, q, "", 1)
		if err != nil {
			return err
		}
		if at, err = events.ParsePosition(p.Next); err != nil {
			return fmt.Errorf("%w: %w", ErrAnswer, err)
		}
	}
	if q.Follow {
		return c.follow(ctx, q, at, yield)
	}
	for {
		p, err := c.page(ctx, q, place(at), 0)
		if err != nil {
			return err
		}
		for _, raw := range p.Events {
			e, err := parseEvent(raw)
			if err != nil {
				return err
			}
			if !yield(e, nil) {
				return errEnough
			}
		}
		next, err := events.ParsePosition(p.Next)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrAnswer, err)
		case !p.More:
			return nil
		case next == at:
			return fmt.Errorf("%w: a page that says there is more, and brings nothing", ErrAnswer)
		}
		at = next
	}
}

// eventsPage is a page of the log.
type eventsPage struct {
	Events []json.RawMessage `json:"events"`
	Next   string            `json:"next"`
	More   bool              `json:"more"`
}

// page is a page of the log from a position on; "" is its end. limit 0 leaves it to the node.
func (c *Client) page(ctx context.Context, q Query, from string, limit int) (eventsPage, error) {
	v := q.values()
	if from != "" {
		v.Set("from", from)
	}
	v.Set("limit", "1000")
	if limit > 0 {
		v.Set("limit", fmt.Sprint(limit))
	}
	var out eventsPage
	err := c.get(ctx, "/v1/events", v, &out)
	return out, err
}

// follow reads streams, one after the other, until ctx ends or too many bring nothing.
func (c *Client) follow(ctx context.Context, q Query, at events.Position, yield func(Event, error) bool) error {
	failed := 0
	for {
		next, err := c.stream(ctx, q, at, yield)
		if next != at {
			at, failed = next, 0
		}
		failed++
		switch {
		case errors.Is(err, errEnough):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !passing(err):
			return fmt.Errorf("events from %s on: %w", place(at), err)
		case failed >= c.o.Retry.Attempts:
			return fmt.Errorf("events from %s on: after %d tries: %w", place(at), failed, err)
		}
		if err := sleep(ctx, c.o.Retry.pause(failed, err)); err != nil {
			return err
		}
	}
}

// errCut is the end of a stream that should not have ended.
var errCut = errors.New("the event stream was cut")

// stream reads one stream, and returns where reading goes on.
func (c *Client) stream(ctx context.Context, q Query, at events.Position, yield func(Event, error) bool) (events.Position, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silence := time.AfterFunc(c.o.Timeout, func() { stop(errCut) })
	defer silence.Stop()
	v := q.values()
	v.Set("from", place(at))
	resp, err := c.open(ctx, request{
		method: http.MethodGet, path: "/v1/events", query: v, header: http.Header{"Accept": {"text/event-stream"}},
	}, nil)
	if err != nil {
		return at, err
	}
	defer resp.Body.Close()
	if media := resp.Header.Get("Content-Type"); !strings.HasPrefix(media, "text/event-stream") {
		return at, fmt.Errorf("%w but %.60q: does a node answer at that address?", errMedia, media)
	}
	alive := func() { silence.Reset(c.o.Silence) }
	alive()
	for m, err := range messages(resp.Body, alive) {
		if err != nil {
			return at, errors.Join(context.Cause(ctx), err)
		}
		e, err := m.event()
		if err != nil {
			return at, err
		}
		at = e.Next()
		silence.Stop() // however long the caller takes, the node is not silent
		if !yield(e, nil) {
			return at, errEnough
		}
		alive()
	}
	return at, errCut
}

// cloudEvent is an event as it is sent.
type cloudEvent struct {
	Type     string          `json:"type"`
	Subject  string          `json:"subject"`
	Time     time.Time       `json:"time"`
	Position string          `json:"position"`
	Number   uint32          `json:"number,string"`
	Commit   string          `json:"commit"`
	Tool     string          `json:"tool"`
	Boot     string          `json:"boot"`
	Epoch    json.RawMessage `json:"epoch"`
	Data     json.RawMessage `json:"data"`

	Notice Notice `json:"notice"` // of a page's notices
	From   string `json:"from"`
	To     string `json:"to"`
	Error  string `json:"error"`
	Bytes  int    `json:"bytes"`
}

// parseEvent reads a CloudEvent, or a notice of a page.
func parseEvent(raw []byte) (e Event, err error) {
	var ce cloudEvent
	if err := json.Unmarshal(raw, &ce); err != nil {
		return e, fmt.Errorf("%w: an event: %w", ErrAnswer, err)
	}
	if ce.Notice != "" {
		return ce.notice()
	}
	kind, version, _ := strings.Cut(strings.TrimPrefix(ce.Type, "run.sluice."), ".v")
	e = Event{
		Kind: events.Kind(kind), Call: events.TurnEvent, Tool: ce.Tool, At: ce.Time, Number: ce.Number, Commit: ce.Commit, Boot: ce.Boot, Data: ce.Data,
	}
	if _, err := fmt.Sscan(version, &e.Version); err != nil {
		return e, fmt.Errorf("%w: an event of type %.100q", ErrAnswer, ce.Type)
	}
	if len(ce.Epoch) > 0 {
		_, err = fmt.Sscan(strings.Trim(string(ce.Epoch), `"`), &e.Epoch)
	}
	if call, callErr := events.ParseCallKey(ce.Subject); callErr == nil {
		e.Turn, e.Call = call.TurnKey(), call.Offset
	} else if err == nil {
		e.Turn, err = events.ParseTurnKey(ce.Subject)
	}
	if err == nil {
		e.Position, err = events.ParsePosition(ce.Position)
	}
	if err != nil {
		return e, fmt.Errorf("%w: an event: %w", ErrAnswer, err)
	}
	return e, nil
}

// notice is what a page has in the place of an event.
func (ce cloudEvent) notice() (Event, error) {
	e := Event{Notice: ce.Notice, Call: events.TurnEvent, Reason: ce.Error, Bytes: ce.Bytes}
	var err error
	if ce.Notice == NoticeTooLarge {
		e.From, err = events.ParsePosition(ce.Position)
		e.Position = behind(e.From)
	} else if e.From, err = events.ParsePosition(ce.From); err == nil {
		e.Position, err = events.ParsePosition(ce.To)
	}
	if err != nil {
		return e, fmt.Errorf("%w: a notice: %w", ErrAnswer, err)
	}
	return e, nil
}

// TurnEvents are all events of one turn, in order, page by page.
func (c *Client) TurnEvents(ctx context.Context, key events.TurnKey) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		at, err := pathOf(key, "events")
		for cursor := ""; err == nil; {
			var page struct {
				Events []json.RawMessage `json:"events"`
				Next   string            `json:"next"`
			}
			if err = c.get(ctx, at, url.Values{"cursor": {cursor}}, &page); err != nil {
				break
			}
			for _, raw := range page.Events {
				e, bad := parseEvent(raw)
				if bad != nil {
					err = bad
					break
				}
				if !yield(e, nil) {
					return
				}
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if err != nil {
			yield(Event{}, err)
		}
	}
}
