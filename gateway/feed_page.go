package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Bounds of a page of events.
const (
	defaultPage  = 100
	maxPage      = 1000
	maxPageBytes = 768 << 10        // of a page's events; one that is larger by itself is only named
	maxPageWait  = 30 * time.Second // for the first event of an empty page
)

// eventsPage is a page of events.
type eventsPage struct {
	// Events are CloudEvents, and notices in their place: {"notice", "from", "to", "error"} of
	// the feed, or {"notice": "too_large", "position", "bytes"} of an event.
	Events []json.RawMessage `json:"events"`
	Next   string            `json:"next"` // where the next page begins
	More   bool              `json:"more"` // there may be more already
}

// feedAsked is what is asked of a page of events, by whichever door.
type feedAsked struct {
	from   *events.Position // nil: the head
	filter FeedFilter
	limit  int           // 1 to maxPage; 0 means defaultPage
	wait   time.Duration // for the first event of an empty page; 0: not at all
	// slot takes a place among those who wait, and gives it back; false: too many do, and an
	// empty page is an answer, too.
	slot func() (leave func(), ok bool)
}

// page is a page of the log's events. It returns the errors of Events.
func (d *Desk) page(ctx context.Context, in feedAsked) (eventsPage, error) {
	head, err := d.bus.Head(ctx)
	if err != nil {
		return eventsPage{}, err
	}
	p := &page{at: head, limit: in.limit}
	if in.from != nil {
		p.at = *in.from
	}
	if p.limit == 0 {
		p.limit = defaultPage
	}
	if err := p.fill(ctx, d, head, in.filter); err != nil {
		return eventsPage{}, err
	}
	if len(p.out.Events) == 0 && in.wait > 0 {
		if err := d.linger(ctx, p, in); err != nil {
			return eventsPage{}, err
		}
	}
	p.out.Next = p.at.String()
	return p.out, nil
}

// readAt is where a page begins whose request names a position, or start.
func readAt(from string) (*events.Position, error) {
	switch from {
	case "":
		return nil, nil
	case "start":
		return new(events.Position), nil
	}
	at, err := events.ParsePosition(from)
	if err != nil {
		return nil, BadRequest("from: "+err.Error(), "send the next of the page before, or start")
	}
	return &at, nil
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
func (d *Desk) linger(ctx context.Context, p *page, in feedAsked) error {
	leave, ok := in.slot()
	if !ok {
		return nil
	}
	defer leave()
	within, stop := context.WithTimeout(ctx, in.wait)
	defer stop()
	p.limit = 1
	err := d.Events(within, p.at, in.filter, true, p.add)
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
