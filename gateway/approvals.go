package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// Bounds of a page of approvals.
const (
	maxApprovals      = 1000
	maxApprovalsBytes = 4 << 20 // one that is larger by itself is a page
)

// approvalList is what every door gives of what waits, soonest expiry first.
type approvalList struct {
	Approvals []projections.Page `json:"approvals"`
	Next      string             `json:"next,omitempty"` // cursor of the next page; "": there is none
	Tag       string             `json:"tag,omitempty"`  // names which approvals these are, however long they have waited; over HTTP it is the ETag
}

// approvalPlace is where an approval stands in the list, and a cursor behind it.
type approvalPlace struct {
	expires time.Time
	call    events.CallKey
}

func placeOf(p projections.Pending) approvalPlace { return approvalPlace{p.Expires, p.Call} }

// String is the place as a cursor.
func (p approvalPlace) String() string {
	return p.expires.UTC().Format(time.RFC3339Nano) + "~" + p.call.String()
}

func (p approvalPlace) compare(o approvalPlace) int {
	return cmp.Or(
		p.expires.Compare(o.expires),
		cmp.Compare(p.call.Trace, o.call.Trace), cmp.Compare(p.call.Turn, o.call.Turn), cmp.Compare(p.call.Offset, o.call.Offset),
	)
}

func parsePlace(cursor string) (p approvalPlace, err error) {
	when, call, _ := strings.Cut(cursor, "~")
	if p.expires, err = time.Parse(time.RFC3339Nano, when); err == nil {
		p.call, err = events.ParseCallKey(call)
	}
	if err != nil {
		return p, BadRequest(fmt.Sprintf("cursor %.80q", cursor), "send the next of the page before, or none for the first page")
	}
	return p, nil
}

// listed is a page of a list, as every door gives it: what is behind the cursor ("": all
// of it), at most limit (0: as many as a page may have) and as many bytes, but one. What
// comes into the list before the cursor is not on later pages.
func (d *Desk) listed(list []projections.Pending, cursor string, limit, bytes int) (approvalList, error) {
	if cursor != "" {
		behind, err := parsePlace(cursor)
		if err != nil {
			return approvalList{}, err
		}
		i, found := slices.BinarySearchFunc(list, behind, func(p projections.Pending, at approvalPlace) int { return placeOf(p).compare(at) })
		if found {
			i++
		}
		list = list[i:]
	}
	out := approvalList{Approvals: []projections.Page{}}
	var names strings.Builder
	now, size := d.now(), 0
	for i, p := range list {
		page := projections.Pages([]projections.Pending{p}, now)[0]
		text, err := json.Marshal(page)
		if err != nil {
			return approvalList{}, err
		}
		if i > 0 && (i >= cmp.Or(limit, maxApprovals) || size+len(text) > bytes) {
			out.Next = placeOf(list[i-1]).String()
			break
		}
		out.Approvals, size = append(out.Approvals, page), size+len(text)
		fmt.Fprintln(&names, page.ID)
	}
	out.Tag = tagOf([]byte(names.String() + out.Next))
	return out, nil
}

// stirs are the kinds of events that may change what waits for a person. Most ends of
// calls do not: who asks has not begun.
var stirs = []events.Kind{
	events.KindApprovalRequested, events.KindApproved, events.KindDenied, events.KindInputRequested, events.KindInputGiven, events.KindCancelRequested, events.KindCancelled, events.KindTimedOut,
	events.KindTurnCancelRequested, events.KindTurnAbandoned,
}

// stirred returns once an event that may change what waits stands at the position or behind
// it. It returns ctx's error, or what the log says.
func (d *Desk) stirred(ctx context.Context, from events.Position) error {
	err := d.bus.Read(ctx, from, bus.Filter{}, true, func(s bus.Stored) error {
		for _, r := range s.Commit.Records {
			if slices.Contains(stirs, r.Event.Kind()) {
				return errSeen
			}
		}
		return nil
	})
	var bad *bus.Unreadable
	if errors.Is(err, errSeen) || errors.Is(err, bus.ErrRewound) || errors.As(err, &bad) {
		return nil // look again
	}
	return err
}

// approvalsAsked is what is asked of the list, by whichever door.
type approvalsAsked struct {
	cursor string
	limit  int // 0: as many as a page may have
	bytes  int
	wait   time.Duration // until the list is worth an answer; 0: not at all
	stale  func(tag string) bool
	list   func(context.Context) ([]projections.Pending, error) // what the caller may see
	// slot takes a place among those who wait, and gives it back; false: too many do, and
	// the list as it stands is an answer, too.
	slot func() (leave func(), ok bool)
}

// approvals is a page of what waits, once it is not stale, or a time has passed.
func (d *Desk) approvals(ctx context.Context, in approvalsAsked) (approvalList, error) {
	within, stop := context.WithTimeout(ctx, in.wait)
	defer stop()
	waits := false
	for {
		head, err := d.bus.Head(ctx) // BEFORE the list: what comes meanwhile stirs
		if err != nil {
			return approvalList{}, err
		}
		list, err := in.list(ctx)
		if err != nil {
			return approvalList{}, err
		}
		out, err := d.listed(list, in.cursor, in.limit, in.bytes)
		if err != nil || within.Err() != nil || !in.stale(out.Tag) {
			return out, errors.Join(err, ctx.Err())
		}
		if !waits {
			leave, ok := in.slot()
			if !ok {
				return out, nil
			}
			defer leave()
			waits = true
		}
		if err := d.stirred(within, head); err != nil && within.Err() == nil {
			return out, err
		}
	}
}

// emptyTag is the tag of a list of nothing.
var emptyTag = tagOf(nil)

// getApprovals is GET /v1/approvals: of the read store, or of a fold of the log where
// there is none that has all of it. With wait_ms it is answered once the list is another
// one than If-None-Match names or, without that, once anything waits.
func (a *API) getApprovals(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	wait, err := waitOf(q, maxPageWait)
	if err != nil {
		return err
	}
	ctx, stop := a.until(r)
	defer stop()
	out, err := a.desk.approvals(ctx, approvalsAsked{
		cursor: q.Get("cursor"), limit: limit, bytes: maxApprovalsBytes, wait: wait,
		stale: func(tag string) bool {
			return tagged(r, tag) || len(r.Header["If-None-Match"]) == 0 && tag == emptyTag
		},
		list: func(ctx context.Context) ([]projections.Pending, error) {
			list, err := a.pending(ctx)
			return ownOnly(who(r), list), err
		},
		slot: func() (func(), bool) { return a.slot(r) },
	})
	if err == nil && !unchanged(w, r, out.Tag) {
		out.Tag = ""
		ok(w, out)
	}
	return err
}

// pending is everything that waits, of the read store where that has it all.
func (a *API) pending(ctx context.Context) ([]projections.Pending, error) {
	if a.store != nil {
		if behind, err := a.level(ctx); err == nil && behind == 0 {
			if list, err := a.store.Approvals(ctx); err == nil {
				return list, nil
			}
		}
	}
	return a.desk.Inbox(ctx)
}

// inbox is a page of what waits for a person, as far as who asks may see it.
func (d *NATSDoor) inbox(ctx context.Context, r natsRequest) (int, any, error) {
	var in struct {
		Cursor string `json:"cursor,omitempty"`
		Limit  int    `json:"limit,omitempty"`   // 1 to 1000; 0 means as many as a page holds
		WaitMS int64  `json:"wait_ms,omitempty"` // how long to wait for another list than Tag names; at most 30 s
		Tag    string `json:"tag,omitempty"`     // of a list that is known; "" is that of none
	}
	if err := r.decode(&in); err != nil {
		return 0, nil, err
	}
	switch {
	case in.Limit < 0 || in.Limit > maxApprovals:
		return 0, nil, BadRequest(fmt.Sprintf("limit %d", in.Limit), fmt.Sprintf("say 1 to %d, or nothing for as many as a page holds", maxApprovals))
	case in.WaitMS < 0 || in.WaitMS > maxPageWait.Milliseconds():
		return 0, nil, BadRequest(fmt.Sprintf("wait_ms %d", in.WaitMS), fmt.Sprintf("say 0 to %d", maxPageWait.Milliseconds()))
	}
	out, err := d.desk.approvals(ctx, approvalsAsked{
		cursor: in.Cursor, limit: in.Limit, bytes: maxPageBytes, wait: time.Duration(in.WaitMS) * time.Millisecond, slot: d.slot,
		stale: func(tag string) bool { return tag == cmp.Or(in.Tag, emptyTag) },
		list: func(ctx context.Context) ([]projections.Pending, error) {
			list, err := d.api.pending(ctx)
			return ownOnly(r.who, list), err
		},
	})
	return http.StatusOK, out, err
}
