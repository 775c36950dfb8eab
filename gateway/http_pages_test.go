package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/keys"
)

// head asks, and returns the status and the header of the answer.
func (d *door) head(method, path string, headers ...string) (int, http.Header) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(within(d.t), method, d.url+path, nil)
	must(d.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(d.t, err)
	must(d.t, resp.Body.Close())
	return resp.StatusCode, resp.Header
}

// TestHTTPWaitsForATurn: GET of a turn and of its messages is answered as its end is there,
// or as it stands where the time passes first.
func TestHTTPWaitsForATurn(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"}]}`)
	d.want(200, `"state":"submitted"`, "GET", "/v1/turns/tr/tu?wait_ms=1", "")
	var wg sync.WaitGroup
	for _, below := range []string{"", "/messages", "/events"} {
		wg.Go(func() {
			d.want(200, "completed", "GET", "/v1/turns/tr/tu"+below+"?wait_ms=3600000", "")
		})
	}
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("x")
	wg.Wait()
	for _, bad := range []string{"-1", "x", "3600001", "1.5", "99999999999999999999"} {
		d.want(400, "wait_ms", "GET", "/v1/turns/tr/tu?wait_ms="+bad, "")
	}
	d.want(404, "no-turn", "GET", "/v1/turns/tr/none?wait_ms=60000", "")
}

// TestHTTPTags: what has not changed is not sent again.
func TestHTTPTags(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"}]}`)
	ref, err := d.desk.bus.Blobs().Put(within(t), []byte("bytes"), "")
	must(t, err)
	tags := map[string]string{}
	paths := []string{
		"/v1/turns/tr/tu", "/v1/turns/tr/tu/messages", "/v1/turns/tr/tu/messages?format=anthropic", "/v1/turns/tr/tu/events", "/v1/tools",
		"/v1/approvals", "/v1/blobs/" + ref.Digest, "/openapi.json",
	}
	for _, path := range paths {
		status, h := d.head("GET", path)
		if tags[path] = h.Get("ETag"); status != 200 || tags[path] == "" {
			t.Fatalf("%s: %d %q", path, status, tags[path])
		}
		for _, known := range []string{tags[path], strings.TrimPrefix(tags[path], "W/"), `"other", ` + tags[path], "*"} {
			d.want(304, "", "GET", path, "", "If-None-Match", known)
		}
		if got, h := d.head("HEAD", path, "If-None-Match", `"other"`); got != 200 || h.Get("ETag") != tags[path] {
			t.Errorf("HEAD %s: %d %q", path, got, h.Get("ETag"))
		}
		d.want(200, "", "GET", path, "", "If-None-Match", `W/"other"`)
	}
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("x")
	for i, path := range paths {
		status, h := d.head("GET", path, "If-None-Match", tags[path])
		if changed := h.Get("ETag") != tags[path]; changed != (i < 4) || (status == 200) != changed {
			t.Errorf("%s: %d, another tag: %v", path, status, changed)
		}
	}
}

// eventsOn is a page of events, in short.
type eventsOn struct {
	Events []struct {
		Type, Position, Notice string
	}
	Next string
	More bool
}

func (d *door) eventsPage(query string) (p eventsOn) {
	d.t.Helper()
	must(d.t, json.Unmarshal([]byte(d.want(200, "", "GET", "/v1/events?"+query, "")), &p))
	return p
}

// TestHTTPEventPages: pages of any size give the same events as the stream, in order, once.
func TestHTTPEventPages(t *testing.T) {
	d := newDoor(t, nil)
	o := newOwner(t, d.log.View("node"))
	for i := range 3 {
		d.want(202, "", "POST", "/v1/turns", fmt.Sprintf(`{"trace":"tr%d","turn":"tu","calls":[{"tool":"echo"},{"tool":"other"}]}`, i))
		o.take()
		o.finish("x")
	}
	for _, filter := range []string{"", "&trace=tr1", "&kind=completed,turn_completed", "&tool=other", "&kind=failed"} {
		var want []string
		next, stop := d.listen("/v1/events?follow=false&from=start" + filter)
		for e := next(); e != (sse{}); e = next() {
			want = append(want, e.id)
		}
		stop()
		if filter == "" && len(want) < 20 || filter == "&kind=failed" && want != nil {
			t.Fatalf("%s: %d events", filter, len(want))
		}
		for _, limit := range []int{1, 2, 3, 7, 1000} {
			var got []string
			from, pages := "start", 0
			for more := true; more; pages++ {
				p := d.eventsPage(fmt.Sprintf("from=%s&limit=%d%s", from, limit, filter))
				if len(p.Events) > limit || p.More && len(p.Events) == 0 {
					t.Fatalf("limit %d: %d events, more %v", limit, len(p.Events), p.More)
				}
				for _, e := range p.Events {
					got = append(got, e.Position)
				}
				from, more = p.Next, p.More
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("filter %q, limit %d: %s", filter, limit, diff)
			}
			if head, err := d.desk.bus.Head(within(t)); err != nil || from != head.String() && len(want) > 0 && limit == 1000 {
				t.Errorf("behind all of it is %s, and the head is %s, %v", from, head, err)
			}
		}
	}
	if got := d.want(200, `"events":[]`, "GET", "/v1/events", "", "Accept", "application/json"); !strings.Contains(got, `"more":false`) {
		t.Error(got)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "wait_ms=30001", "wait_ms=-1", "limit=1&follow=false", "limit=1&from=x", "limit=1&kind=nothing", "limit=1&turn=x"} {
		d.want(400, "bad-request", "GET", "/v1/events?"+bad, "")
	}
	d.want(400, "Last-Event-ID", "GET", "/v1/events?limit=1", "", "Last-Event-ID", "1.1.0")
}

// TestHTTPEventPagesWait: an empty page waits for its first event, or for the time, and ends
// with the door.
func TestHTTPEventPagesWait(t *testing.T) {
	d := newDoor(t, nil)
	now := d.eventsPage("limit=1").Next
	if p := d.eventsPage("wait_ms=1"); len(p.Events) != 0 || p.Next != now {
		t.Errorf("%+v", p)
	}
	got := make(chan eventsOn, 1)
	var wg sync.WaitGroup
	wg.Go(func() { got <- d.eventsPage("wait_ms=30000&kind=turn_submitted&from=" + now) })
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"}]}`)
	p := <-got
	wg.Wait()
	if len(p.Events) != 1 || p.Events[0].Type != "run.sluice.turn_submitted.v1" {
		t.Errorf("%+v", p)
	}
	wg.Go(func() { d.want(503, "stopping", "GET", "/v1/events?wait_ms=30000&kind=failed", "") })
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for len(d.api.streams) == 0 { // until it waits
		<-look.C
	}
	d.api.Close()
	wg.Wait()
}

// TestHTTPEventPagesOfOthers: who may not watch the log pages through a turn of its own.
func TestHTTPEventPagesOfOthers(t *testing.T) {
	d := asked(t)
	d.want(403, "role", "GET", "/v1/events?limit=10&from=start", "", as("sub")...)
	d.want(403, "role", "GET", "/v1/events?limit=10&from=start&trace=tr&turn=sub2", "", as("sub")...)
	d.want(200, `"subject":"tr/sub"`, "GET", "/v1/events?limit=10&from=start&trace=tr&turn=sub", "", as("sub")...)
}

// TestHTTPTurnEventPages: a turn's own events, page by page.
func TestHTTPTurnEventPages(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"},{"tool":"echo"}]}`)
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("x")
	type page struct {
		Events []struct{ Position string }
		Next   string
	}
	read := func(query string) (p page) {
		must(t, json.Unmarshal([]byte(d.want(200, "", "GET", "/v1/turns/tr/tu/events?"+query, "")), &p))
		return p
	}
	all := read("")
	if len(all.Events) != len(kinds(o.v)) || all.Next != "" {
		t.Fatalf("%+v", all)
	}
	for _, limit := range []int{1, 2, 5} {
		var got page
		for cursor := ""; ; {
			p := read(fmt.Sprintf("limit=%d&cursor=%s", limit, cursor))
			if got.Events = append(got.Events, p.Events...); p.Next == "" {
				break
			}
			if cursor = p.Next; len(p.Events) != limit || p.Next != p.Events[limit-1].Position {
				t.Errorf("limit %d: %+v", limit, p)
			}
		}
		if !slices.Equal(got.Events, all.Events) {
			t.Errorf("limit %d: %+v", limit, got)
		}
	}
	if p, err := o.v.eventsBehind(events.Position{}, 0, 1); err != nil || len(p.Events) != 1 || p.Next == "" {
		t.Errorf("a page of one byte: %+v, %v", p, err)
	}
	d.want(400, "cursor", "GET", "/v1/turns/tr/tu/events?cursor=x", "")
}

// waitingDoor is a door with so many turns of one call each that waits for a person.
func waitingDoor(t *testing.T, n int) *door {
	t.Helper()
	d := newDoor(t, nil)
	for i := range n {
		d.asks(fmt.Sprintf("t%d", i))
	}
	return d
}

func (d *door) asks(turn string) {
	d.t.Helper()
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"`+turn+`","can_ask":true,"calls":[{"tool":"echo"}]}`)
	o := newOwner(d.t, d.log.View("node"))
	o.take()
	o.judge(0, events.Approval)
}

type approvalsOn struct {
	Approvals []struct{ ID string }
	Next      string
}

// TestHTTPApprovalPages: pages of what waits, by count and by bytes.
func TestHTTPApprovalPages(t *testing.T) {
	d := waitingDoor(t, 7)
	read := func(query string) (p approvalsOn) {
		must(t, json.Unmarshal([]byte(d.want(200, "", "GET", "/v1/approvals?"+query, "")), &p))
		return p
	}
	all := read("")
	if len(all.Approvals) != 7 || all.Next != "" {
		t.Fatalf("%+v", all)
	}
	for _, limit := range []int{1, 2, 3, 7, 100} {
		var got approvalsOn
		for cursor := ""; ; {
			p := read(fmt.Sprintf("limit=%d&cursor=%s", limit, url.QueryEscape(cursor)))
			got.Approvals = append(got.Approvals, p.Approvals...)
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	p := read("limit=3")
	d.want(200, "approved", "POST", "/v1/turns/"+strings.TrimSuffix(p.Approvals[2].ID, "/0@1")+"/calls/0/approve", `{"principal":"ann"}`)
	if rest := read("cursor=" + url.QueryEscape(p.Next)); len(rest.Approvals) != 4 || rest.Approvals[0].ID != all.Approvals[3].ID {
		t.Errorf("behind one that is gone: %+v", rest)
	}
	list, err := d.desk.Inbox(within(t))
	must(t, err)
	if small, err := d.desk.listed(list, "", 0, 1); err != nil || len(small.Approvals) != 1 || small.Next == "" {
		t.Errorf("a page of one byte: %+v, %v", small, err)
	}
	for _, bad := range []string{"cursor=x", "cursor=2026-11-30T00:00:00Z", "cursor=2026-11-30T00:00:00Z~a/b/-1", "limit=0", "limit=1001", "wait_ms=30001", "limit=1&limit=2"} {
		d.want(400, "bad-request", "GET", "/v1/approvals?"+bad, "")
	}
}

// TestHTTPApprovalsWait: who knows the list hears of the next that comes, and of one that is
// answered.
func TestHTTPApprovalsWait(t *testing.T) {
	d := newDoor(t, nil)
	d.want(200, `"approvals":[]`, "GET", "/v1/approvals?wait_ms=1", "")
	heard := make(chan string, 1)
	var wg sync.WaitGroup
	listen := func(tag string) {
		wg.Go(func() {
			var headers []string
			if tag != "" {
				headers = []string{"If-None-Match", tag}
			}
			heard <- d.want(200, "", "GET", "/v1/approvals?wait_ms=30000", "", headers...)
		})
	}
	listen("")
	d.asks("one")
	if got := <-heard; !strings.Contains(got, `"id":"tr/one/0@1"`) {
		t.Error(got)
	}
	_, h := d.head("GET", "/v1/approvals")
	tag := h.Get("ETag")
	d.want(304, "", "GET", "/v1/approvals?wait_ms=1", "", "If-None-Match", tag)
	listen(tag)
	d.asks("two")
	if got := <-heard; !strings.Contains(got, `"id":"tr/two/0@1"`) {
		t.Error(got)
	}
	_, h = d.head("GET", "/v1/approvals")
	listen(h.Get("ETag"))
	d.want(200, "denied", "POST", "/v1/turns/tr/one/calls/0/deny", `{"principal":"ann"}`)
	if got := <-heard; strings.Contains(got, "tr/one") || !strings.Contains(got, "tr/two") {
		t.Error(got)
	}
	wg.Wait()
}

// TestHTTPWaitersAreBounded: who waits for events or approvals beyond the streams that there
// may be is answered at once.
func TestHTTPWaitersAreBounded(t *testing.T) {
	d := newDoor(t, func(c *APIConfig) { c.Limits.Streams = 1 })
	_, stop := d.listen("/v1/events")
	defer stop()
	d.want(200, `"events":[]`, "GET", "/v1/events?wait_ms=30000", "")
	d.want(200, `"approvals":[]`, "GET", "/v1/approvals?wait_ms=30000", "")
	each := newGuarded(t, func(c *APIConfig) { c.Limits.EachStreams = 1 })
	_, stopOne := each.listen("/v1/events", as("obs")...)
	defer stopOne()
	each.want(200, `"events":[]`, "GET", "/v1/events?wait_ms=30000", "", as("obs")...)
}

// TestHTTPToolPages: the tool list, whole and page by page.
func TestHTTPToolPages(t *testing.T) {
	list := `[{"type":"function","function":{"name":"a"}},{"name":"b"},{"name":"c"}]`
	d := newDoor(t, func(c *APIConfig) {
		c.Tools = func(_ context.Context, format string) (json.RawMessage, error) {
			if format == "gemini" {
				return json.RawMessage(`[{"functionDeclarations":[]}]`), nil
			}
			return json.RawMessage(list), nil
		}
	})
	for path, want := range map[string][2]string{
		"/v1/tools":         {list, ""},
		"/v1/tools?limit=3": {list, ""},
		"/v1/tools?limit=2": {`[{"type":"function","function":{"name":"a"}},{"name":"b"}]`, `</v1/tools?cursor=b&limit=2>; rel="next"`},
		"/v1/tools?limit=2&cursor=b&format=anthropic": {`[{"name":"c"}]`, ""},
		"/v1/tools?cursor=aa":                         {`[{"name":"b"},{"name":"c"}]`, ""},
		"/v1/tools?limit=1&cursor=a&format=anthropic": {`[{"name":"b"}]`, `</v1/tools?cursor=b&format=anthropic&limit=1>; rel="next"`},
		"/v1/tools?cursor=z":                          {`[]`, ""},
	} {
		if got := d.want(200, "", "GET", path, ""); strings.TrimSpace(got) != want[0] {
			t.Errorf("%s: %s", path, got)
		}
		if _, h := d.head("GET", path); h.Get("Link") != want[1] {
			t.Errorf("%s: Link %q, want %q", path, h.Get("Link"), want[1])
		}
	}
	d.want(400, "one list", "GET", "/v1/tools?limit=1&format=gemini", "")
	d.want(200, "functionDeclarations", "GET", "/v1/tools?format=gemini", "")
}

// TestHTTPOptions: each path says by which methods it is answered, to who is known.
func TestHTTPOptions(t *testing.T) {
	d := newDoor(t, nil)
	for path, want := range map[string]string{
		"/v1/turns": "POST, OPTIONS", "/v1/turns/tr/tu": "GET, HEAD, OPTIONS", "/v1/approvals": "GET, HEAD, OPTIONS",
		"/mcp": "GET, HEAD, POST, DELETE, OPTIONS", "/v1/policy/reload": "POST, OPTIONS",
	} {
		if status, h := d.head("OPTIONS", path); status != 204 || h.Get("Allow") != want {
			t.Errorf("OPTIONS %s: %d %q, want %q", path, status, h.Get("Allow"), want)
		}
		if status, h := d.head("PATCH", path); status != 405 || h.Get("Allow") != want {
			t.Errorf("PATCH %s: %d %q", path, status, h.Get("Allow"))
		}
	}
	d.want(404, "no-route", "OPTIONS", "/v1/nothing", "")
	ring := ringOf(t, everyone()...)
	g := newDoor(t, func(c *APIConfig) { c.Keys = func() *keys.Ring { return ring } })
	g.want(401, "unauthenticated", "OPTIONS", "/v1/turns", "")
}
