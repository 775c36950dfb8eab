package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

// Bounds of a page of events.
const (
	defaultPage  = 100
	maxPage      = 1000
	maxPageBytes = 768 << 10        // of a page's events; one that is larger by itself is only named
	maxPageWait  = 30 * time.Second // for the first event of an empty page
)

// eventsAsked is the body of a request for a page of events.
type eventsAsked struct {
	From   string   `json:"from,omitempty"` // a position, or start; "": the head
	Trace  string   `json:"trace,omitempty"`
	Turn   string   `json:"turn,omitempty"`
	Kinds  []string `json:"kinds,omitempty"`
	Tools  []string `json:"tools,omitempty"`
	Limit  int      `json:"limit,omitempty"`   // 1 to 1000; 0 means 100
	WaitMS int64    `json:"wait_ms,omitempty"` // how long to wait for the first event; at most 30 s
}

// eventsPage is a page of events.
type eventsPage struct {
	// Events are CloudEvents, and notices in their place: {"notice", "from", "to", "error"} of
	// the feed, or {"notice": "too_large", "position", "bytes"} of an event.
	Events []json.RawMessage `json:"events"`
	Next   string            `json:"next"` // where the next page begins
	More   bool              `json:"more"` // there may be more already
}

// events is a page of what GET /v1/events streams.
func (d *NATSDoor) events(ctx context.Context, r natsRequest) (int, any, error) {
	var in eventsAsked
	if err := r.decode(&in); err != nil {
		return 0, nil, err
	}
	f, err := in.check()
	if err != nil {
		return 0, nil, err
	}
	if err := d.mayFeed(ctx, r.who, f); err != nil {
		return 0, nil, err
	}
	head, err := d.desk.bus.Head(ctx)
	if err != nil {
		return 0, nil, err
	}
	p := &page{at: head, limit: in.Limit}
	if in.From == "start" {
		p.at = events.Position{}
	} else if in.From != "" {
		if p.at, err = events.ParsePosition(in.From); err != nil {
			return 0, nil, BadRequest("from: "+err.Error(), "send the next of the page before, or start")
		}
	}
	if p.limit == 0 {
		p.limit = defaultPage
	}
	if err := p.fill(ctx, d.desk, head, f); err != nil {
		return 0, nil, err
	}
	if len(p.out.Events) == 0 && in.WaitMS > 0 {
		if err := d.linger(ctx, p, f, time.Duration(in.WaitMS)*time.Millisecond); err != nil {
			return 0, nil, err
		}
	}
	p.out.Next = p.at.String()
	return http.StatusOK, p.out, nil
}

// mayFeed returns nil where somebody may read events: all of them, or those of a turn of
// its own.
func (d *NATSDoor) mayFeed(ctx context.Context, id access.Identity, f FeedFilter) error {
	if id.Reach(access.Watch) == access.All {
		return nil
	}
	if f.Trace == "" || f.Turn == "" {
		return access.May(id, access.Watch)
	}
	_, err := d.may(ctx, id, access.Read, events.TurnKey{Trace: f.Trace, Turn: f.Turn})
	return err
}

func (in eventsAsked) check() (FeedFilter, error) {
	f := FeedFilter{Trace: in.Trace, Turn: in.Turn, Tools: in.Tools}
	var err error
	switch {
	case in.Limit < 0 || in.Limit > maxPage:
		return f, BadRequest(fmt.Sprintf("limit %d", in.Limit), fmt.Sprintf("say 1 to %d, or nothing for %d", maxPage, defaultPage))
	case in.WaitMS < 0 || in.WaitMS > maxPageWait.Milliseconds():
		return f, BadRequest(fmt.Sprintf("wait_ms %d", in.WaitMS), fmt.Sprintf("say 0 to %d", maxPageWait.Milliseconds()))
	case in.Trace != "" && events.CheckID("trace", in.Trace) != nil:
		return f, events.CheckID("trace", in.Trace)
	case in.Turn != "" && events.CheckID("turn", in.Turn) != nil:
		return f, events.CheckID("turn", in.Turn)
	case in.Turn != "" && in.Trace == "":
		return f, BadRequest("turn without trace", "a turn's id is unique only in its trace: send both")
	}
	if f.Kinds, err = ParseKinds(in.Kinds); err != nil {
		return f, BadRequest(err.Error(), "use the kinds of the documentation")
	}
	return f, nil
}

// page gathers events until it is full.
type page struct {
	at    events.Position // where the next page begins
	limit int
	bytes int
	out   eventsPage
}

// errFull ends the reading for a page.
var errFull = errors.New("the page is full")

// fill reads what is there, up to the head as it was before.
func (p *page) fill(ctx context.Context, desk *Desk, head events.Position, f FeedFilter) error {
	p.out.Events = []json.RawMessage{}
	ctx, stop := context.WithTimeout(ctx, natsLimit)
	defer stop()
	err := desk.Events(ctx, p.at, f, false, p.add)
	switch {
	case errors.Is(err, errFull):
		p.out.More = true
		return nil
	case err != nil:
		return err
	}
	if p.at.Compare(head) < 0 {
		p.at = head // what the filter has left out is not read again
	}
	return nil
}

// linger waits for the first event of an empty page.
func (d *NATSDoor) linger(ctx context.Context, p *page, f FeedFilter, limit time.Duration) error {
	select {
	case d.waits <- struct{}{}:
		defer func() { <-d.waits }()
	default:
		return nil // too many wait: an empty page is an answer, too
	}
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	p.limit = 1
	err := d.desk.Events(within, p.at, f, true, p.add)
	if errors.Is(err, errFull) || within.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// add takes an event, or a notice.
func (p *page) add(e FeedEvent) error {
	body, err := itemOf(e)
	if err != nil {
		return err
	}
	if p.bytes+len(body) > maxPageBytes {
		return errFull // it is the next page's first
	}
	p.at = after(e.Position)
	if e.Notice != "" {
		p.at = e.Position
	}
	p.out.Events = append(p.out.Events, body)
	if p.bytes += len(body); len(p.out.Events) >= p.limit {
		return errFull
	}
	return nil
}

// itemOf is an event, or a notice, as a page holds it.
func itemOf(e FeedEvent) ([]byte, error) {
	if e.Notice != "" {
		return json.Marshal(struct {
			Notice Notice `json:"notice"`
			noticed
		}{e.Notice, noticeOfFeed(e)})
	}
	body, err := e.CloudEvent()
	if err != nil || len(body) <= maxPageBytes {
		return body, err
	}
	return json.Marshal(struct {
		Notice   string `json:"notice"`
		Position string `json:"position"`
		Bytes    int    `json:"bytes"`
	}{"too_large", e.Position.String(), len(body)})
}
