package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
	"github.com/sluice-run/sluice/projections/readstore"
)

// newStore keeps a read store of the desk's log until the test ends.
func newStore(t *testing.T, d *Desk, log readstore.Source) *readstore.Store {
	t.Helper()
	s, err := readstore.Open(t.Context(), readstore.Config{Dir: t.TempDir(), Log: log, Every: 2 * time.Millisecond, Rest: -1})
	must(t, err)
	s.Start(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { must(t, s.Stop()) })
	return s
}

// newSearched is a door with a read store.
func newSearched(t *testing.T) *door {
	t.Helper()
	return newDoor(t, func(c *APIConfig) {
		c.Store = newStore(t, c.Desk, c.Desk.bus)
		c.Metrics.Store(func() (readstore.Status, error) { return c.Store.Status(within(t)) })
	})
}

// tracesIn are the ids of the traces of an answer.
func tracesIn(t *testing.T, body string) []string {
	t.Helper()
	var page struct {
		Traces []struct{ Trace string }
	}
	must(t, json.Unmarshal([]byte(body), &page))
	out := []string{}
	for _, tr := range page.Traces {
		out = append(out, tr.Trace)
	}
	return out
}

// TestHTTPSearches: what was just submitted is found at once, by each of its sides.
func TestHTTPSearches(t *testing.T) {
	d := newSearched(t)
	for i := range 3 {
		d.want(202, "", "POST", "/v1/turns", fmt.Sprintf(`{"trace":"tr%d","turn":"tu","principal":"agent%d","calls":[{"tool":"echo","args":{"order":"A-%d"}}]}`, i, i%2, i))
		got := d.want(200, "", "GET", "/v1/traces?limit=1", "")
		if diff := cmp.Diff([]string{fmt.Sprint("tr", i)}, tracesIn(t, got)); diff != "" {
			t.Fatalf("read behind one's own write: %s", diff)
		}
	}
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("the seat is taken")
	d.want(202, "", "POST", "/v1/turns/tr2/tu/cancel", `{"principal":"ann","reason":"too slow"}`)
	for path, want := range map[string][]string{
		"":                             {"tr2", "tr1", "tr0"},
		"order=oldest":                 {"tr0", "tr1", "tr2"},
		"limit=2":                      {"tr2", "tr1"},
		"tool=echo":                    {"tr2", "tr1", "tr0"},
		"tool=charge":                  {},
		"status=completed":             {"tr0"},
		"status=open,completed":        {"tr2", "tr1", "tr0"},
		"status=open&principal=agent0": {"tr2"},
		"principal=agent0":             {"tr2", "tr0"},
		"text=seat":                    {"tr0"},
		"text=a-1":                     {"tr1"},
		"text=%22too+slow%22":          {"tr2"},
		"text=seat&principal=agent1":   {},
		"since=1h":                     {"tr2", "tr1", "tr0"},
		"until=1h":                     {},
		"since=2020-01-01&until=2h":    {},
		"since=" + url.QueryEscape(time.Now().Add(-time.Minute).Format(time.RFC3339)): {"tr2", "tr1", "tr0"},
	} {
		got := d.want(200, "", "GET", "/v1/traces?"+path, "")
		if diff := cmp.Diff(want, tracesIn(t, got)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
		if strings.Contains(got, `"behind"`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	var page struct{ Next string }
	must(t, json.Unmarshal([]byte(d.want(200, "", "GET", "/v1/traces?limit=2", "")), &page))
	if got := tracesIn(t, d.want(200, "", "GET", "/v1/traces?limit=2&cursor="+page.Next, "")); len(got) != 1 || got[0] != "tr0" {
		t.Errorf("the second page: %v", got)
	}
	d.want(200, `{"trace":"tr0","turns":1,"open_turns":0,"calls":1,"statuses":{"completed":1},"tools":["echo"],`, "GET", "/v1/traces/tr0", "")
}

// TestHTTPTimelines come in pages.
func TestHTTPTimelines(t *testing.T) {
	d := newSearched(t)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"},{"tool":"echo"}]}`)
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("done")
	var all []projections.Moment
	for cursor, pages := "", 0; ; pages++ {
		var page struct {
			Summary readstore.Trace
			Moments []projections.Moment
			Next    string
		}
		must(t, json.Unmarshal([]byte(d.want(200, "", "GET", "/v1/traces/tr/timeline?limit=3&cursor="+cursor, "")), &page))
		if page.Summary.Trace != "tr" || page.Summary.Events != 4+2*4 || len(page.Moments) > 3 {
			t.Fatalf("%+v", page)
		}
		all = append(all, page.Moments...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	want := projections.Timeline.Init()
	must(t, d.desk.Bus().Read(within(t), events.Position{}, bus.Filter{Trace: "tr"}, false, func(s bus.Stored) error {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			want = projections.Timeline.Apply(want, e)
		}
		return nil
	}))
	if diff := cmp.Diff(want.All, all); diff != "" {
		t.Error(diff)
	}
}

// TestHTTPUsage is told apart as is asked for.
func TestHTTPUsage(t *testing.T) {
	d := newSearched(t)
	for i := range 2 {
		d.want(202, "", "POST", "/v1/turns", fmt.Sprintf(`{"trace":"tr%d","turn":"tu","principal":"agent%d","calls":[{"tool":"echo"},{"tool":"other"}]}`, i, i))
	}
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("done")
	d.want(200, `{"usage":[{"turns":2,"turns_completed":1,"turns_abandoned":0,`, "GET", "/v1/usage", "")
	d.want(200, `{"tool":"echo","turns":0,`, "GET", "/v1/usage?by=tool", "")
	d.want(200, `"calls":2,"attempts":1`, "GET", "/v1/usage?by=tool&tool=echo", "")
	today := time.Now().UTC().Format(time.DateOnly)
	d.want(200, `{"day":"`+today+`","tool":"other","principal":"agent1",`, "GET", "/v1/usage?by=day,tool,principal&principal=agent1&since=24h", "")
	d.want(200, `"more":true`, "GET", "/v1/usage?by=tool,principal&limit=1", "")
	d.want(200, `{"usage":[]}`, "GET", "/v1/usage?by=tool&until=2001-01-01", "")
}

// TestHTTPStoreProblems say what to do.
func TestHTTPStoreProblems(t *testing.T) {
	d := newSearched(t)
	d.want(400, "status", "GET", "/v1/traces?status=gone", "")
	d.want(400, "send 1 to 1000", "GET", "/v1/traces?limit=0", "")
	d.want(400, "how long ago", "GET", "/v1/traces?since=yesterday", "")
	d.want(400, "newest or oldest", "GET", "/v1/traces?order=up", "")
	d.want(400, "known here", "GET", "/v1/traces?colour=red", "")
	d.want(400, "no letter and no digit", "GET", "/v1/traces?text=%2D%2D", "")
	d.want(400, "cursor", "GET", "/v1/traces?cursor=x", "")
	d.want(400, "cursor", "GET", "/v1/traces/tr/timeline?cursor=x", "")
	d.want(400, "bad-id", "GET", "/v1/traces/a.b", "")
	d.want(404, "no-trace", "GET", "/v1/traces/nobody", "")
	d.want(404, "no-trace", "GET", "/v1/traces/nobody/timeline", "")
	d.want(400, "by", "GET", "/v1/usage?by=week", "")
	none := newDoor(t, nil)
	for _, path := range []string{"/v1/traces", "/v1/traces/tr", "/v1/traces/tr/timeline", "/v1/usage", "/v1/readstore"} {
		none.want(404, "--read-store", "GET", path, "")
	}
	none.want(404, "--read-store", "POST", "/v1/readstore/rebuild", "")
}

// TestHTTPRebuild: the store is built anew while it answers, and says so.
func TestHTTPRebuild(t *testing.T) {
	d := newSearched(t)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"}]}`)
	d.want(200, `"trace":"tr"`, "GET", "/v1/traces", "")
	d.want(200, `store-1.db`, "GET", "/v1/readstore", "")
	d.want(202, `{"status":"accepted"}`, "POST", "/v1/readstore/rebuild", "")
	poll(t, "another file is read", func() bool {
		d.want(200, `"trace":"tr"`, "GET", "/v1/traces", "")
		_, body := d.do("GET", "/v1/readstore", "")
		return strings.Contains(body, "store-2.db") && strings.Contains(body, `"state":"following"`)
	})
	for _, m := range []string{"lag_commits 0", "lag_seconds 0", `state{state="following"} 1`, "bytes ", "errors_total 0"} {
		d.want(200, "sluice_read_store_"+m, "GET", "/metrics", "")
	}
}

// poll waits for a fact.
func poll(t *testing.T, what string, fact func() bool) {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(60*time.Second)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// stuck is a log that cannot be read, though it says how far it goes.
type stuck struct{ bus.Bus }

func (stuck) Read(context.Context, events.Position, bus.Filter, bool, func(bus.Stored) error) error {
	return errors.New("not now")
}

// TestApprovalsWithoutAStoreThatIsLevel are folded from the log: what waits for a
// person is never missed.
func TestApprovalsWithoutAStoreThatIsLevel(t *testing.T) {
	d := newDoor(t, func(c *APIConfig) { c.Store = newStore(t, c.Desk, stuck{c.Desk.bus}) })
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","can_ask":true,"calls":[{"tool":"echo","args":{"v":1}}]}`)
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.judge(0, events.Approval)
	d.want(200, `"call":{"trace":"tr","turn":"tu","call":0}`, "GET", "/v1/approvals", "")
	d.want(503, "store-building", "GET", "/v1/traces", "")
}

// TestHTTPActsWithAStore: the inbox knows of each act when its answer is there.
func TestHTTPActsWithAStore(t *testing.T) {
	d := newSearched(t)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","can_ask":true,"calls":[{"tool":"echo","args":{"v":1}},{"tool":"echo"}]}`)
	o := newOwner(t, d.log.View("node"))
	o.take()
	for i := range 2 {
		o.judge(i, events.Approval)
	}
	out := d.want(200, `"tool":"echo"`, "GET", "/v1/approvals", "")
	if strings.Count(out, `"args_hash"`) != 2 {
		t.Errorf("inbox: %s", out)
	}
	d.want(200, "approved", "POST", "/v1/turns/tr/tu/calls/0/approve", "")
	d.want(200, `"call":{"trace":"tr","turn":"tu","call":1}`, "GET", "/v1/approvals", "")
	d.want(200, "denied", "POST", "/v1/turns/tr/tu/calls/1/deny", "")
	d.want(200, `{"approvals":[]}`, "GET", "/v1/approvals", "")
}
