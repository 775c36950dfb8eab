package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
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
	from, err := readAt(in.From)
	if err != nil {
		return 0, nil, err
	}
	out, err := d.desk.page(ctx, feedAsked{
		from: from, filter: f, limit: in.Limit, wait: time.Duration(in.WaitMS) * time.Millisecond, slot: d.slot,
	})
	return http.StatusOK, out, err
}

// slot takes a place among the requests that wait; false: there is none left.
func (d *NATSDoor) slot() (leave func(), ok bool) {
	select {
	case d.waits <- struct{}{}:
		return func() { <-d.waits }, true
	default:
		return nil, false
	}
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
	}
	if f.Kinds, err = ParseKinds(in.Kinds); err != nil {
		return f, BadRequest(err.Error(), "use the kinds of the documentation")
	}
	return f, f.check()
}
