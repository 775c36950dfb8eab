package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluice-run/sluice/events"
)

// Approvals is everything that waits for a person, as far as the caller may see it,
// soonest expiry first. It reads page by page, and ends with the first error.
func (c *Client) Approvals(ctx context.Context) ([]Approval, error) {
	list, _, err := c.inbox(ctx, "")
	return list, err
}

// inbox is all pages of what waits, and the first one's tag. With a tag it waits a while
// for another first page than that one names, and is nil where none comes.
func (c *Client) inbox(ctx context.Context, tag string) (list []Approval, now string, err error) {
	r := request{method: http.MethodGet, path: "/v1/approvals"}
	if tag != "" {
		r.header, r.wait = http.Header{"If-None-Match": {tag}}, maxWait
	}
	for cursor := ""; ; {
		var page struct {
			Approvals []Approval `json:"approvals"`
			Next      string     `json:"next"`
		}
		r.query, r.into = waiting(url.Values{"cursor": {cursor}}, r.wait), &page
		a, err := c.do(ctx, r)
		switch {
		case err != nil:
			return nil, now, err
		case a.status == http.StatusNotModified:
			return nil, tag, nil
		case cursor == "":
			now = a.header.Get("ETag")
		}
		list = append(list, page.Approvals...)
		if cursor = page.Next; cursor == "" {
			return list, now, nil
		}
		r.header, r.wait = nil, 0
	}
}

// WatchApprovals yields everything that waits for a person, and then each new one as it
// comes, once, until ctx ends. The last pair has the error, which is ctx's where that has
// ended it. One that is answered meanwhile is not told: Approval tells how it stands.
func (c *Client) WatchApprovals(ctx context.Context) iter.Seq2[Approval, error] {
	return func(yield func(Approval, error) bool) {
		var p patience
		seen, tag := make(map[string]bool), ""
		for {
			list, now, err := c.inbox(ctx, tag)
			if err != nil {
				yield(Approval{}, err)
				return
			}
			if now == "" {
				yield(Approval{}, fmt.Errorf("%w: the list of approvals has no ETag", ErrAnswer))
				return
			}
			if now == tag {
				if err := p.rest(ctx, c, maxWait); err != nil {
					yield(Approval{}, err)
					return
				}
				continue
			}
			waits := make(map[string]bool, len(list))
			for _, a := range list {
				waits[a.ID] = true
				if !seen[a.ID] && !yield(a, nil) {
					return
				}
			}
			seen, tag = waits, now
		}
	}
}

// Approval is the whole page of one asking of a call, also of one that is over; asking 0
// means the call's last. It returns NoApproval where nothing was asked.
func (c *Client) Approval(ctx context.Context, call events.CallKey, asking int) (out Approval, err error) {
	if err := call.TurnKey().Check(); err != nil {
		return out, err
	}
	q := make(url.Values)
	if asking > 0 {
		q.Set("asking", strconv.Itoa(asking))
	}
	return out, c.get(ctx, path("v1", "approvals", call.Trace, call.Turn, strconv.Itoa(call.Offset)), q, &out)
}
