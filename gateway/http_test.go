package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
)

// door is the HTTP door of a test, and the log behind it.
type door struct {
	t    *testing.T
	desk *Desk
	log  *memlog.Log
	api  *API
	url  string
}

func newDoor(t *testing.T, change func(*APIConfig)) *door {
	t.Helper()
	d, log := newDesk(t)
	c := APIConfig{
		Desk: d, Ping: 10 * time.Millisecond,
		Tools: func(_ context.Context, format string) (json.RawMessage, error) {
			return json.RawMessage(fmt.Sprintf(`[{"format":%q}]`, format)), nil
		},
		Metrics: NewMetrics(MetricsConfig{Known: func(s string) bool { return s == "echo" }, Version: "test", Sync: "memory"}),
	}
	if change != nil {
		change(&c)
	}
	api := NewAPI(c)
	s := httptest.NewServer(held(t, api.Handler()))
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		select {
		case <-api.closing:
		default:
			api.Close()
		}
	})
	return &door{t, d, log, api, s.URL}
}

// do sends a request and returns the status and the body.
func (d *door) do(method, path, body string, headers ...string) (int, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(within(d.t), method, d.url+path, strings.NewReader(body))
	must(d.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(d.t, err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	must(d.t, err)
	if resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "application/problem+json" {
		d.t.Errorf("%s %s: %d as %s", method, path, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return resp.StatusCode, string(out)
}

// want sends a request and checks the status and a part of the body.
func (d *door) want(status int, part, method, path, body string, headers ...string) string {
	d.t.Helper()
	got, out := d.do(method, path, body, headers...)
	if got != status || !strings.Contains(out, part) {
		d.t.Errorf("%s %s %.200s\n got %d %s\nwant %d %s", method, path, body, got, out, status, part)
	}
	return out
}

const openAI = `{"role":"assistant","content":null,"refusal":null,"tool_calls":[` +
	`{"id":"call_a","type":"function","function":{"name":"echo","arguments":"{\"v\":1}"}},` +
	`{"id":"call_b","type":"function","function":{"name":"echo","arguments":"{\"v\":2}"}}]}`

func TestHTTPSubmitAndRead(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, `"trace":"tr","turn":"tu","state":"submitted","attached":false`, "POST", "/v1/turns",
		`{"trace":"tr","turn":"tu","principal":{"id":"agent"},"message":`+openAI+`}`)
	again := func(more string) string {
		return `{"trace":"tr","turn":"tu","message":` + openAI + more + `}`
	}
	for _, same := range []string{
		`,"principal":"agent"`, `,"principal":{"id":"agent","kind":"agent"},"mode":"write","placement":"default","on_error":"continue"`,
		`,"principal":"agent","allow":[],"limits":{"max_concurrency":4,"call_bytes":50000,"turn_bytes":200000},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`,
	} {
		if out := d.want(202, `"attached":true,"next":{"messages":"GET /v1/turns/tr/tu/messages?wait_ms=60000",`, "POST", "/v1/turns", again(same)); strings.Contains(out, "not_taken") {
			t.Errorf("%s: %s", same, out)
		}
	}
	d.want(202, `"attached":true,"not_taken":{"allow":[],"can_ask":false,"limits.deadline_ms":0,"mode":"write","on_error":"continue","parallel_disjoint":false,"placement":"default"}`,
		"POST", "/v1/turns", again(`,"principal":"agent","can_ask":true,"mode":"read_only","allow":["echo"],"placement":"gpu","on_error":"abort_rest","parallel_disjoint":true,"limits":{"deadline_ms":9}`))
	d.want(409, "turn-exists", "POST", "/v1/turns", again(`,"principal":{"id":"agent","kind":"service"}`))
	d.want(200, `"state":"submitted"`, "GET", "/v1/turns/tr/tu", "")
	d.want(200, `"state":"submitted"`, "GET", "/v1/turns/tr/tu/messages", "")
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("hello")
	d.want(200, `"batches":[[0],[1]]`, "GET", "/v1/turns/tr/tu", "")
	d.want(200, `"state":"completed","attached":true,"format":"openai","messages":[{"role":"tool","tool_call_id":"call_a"`, "POST", "/v1/turns", again(`,"principal":"agent"`))
	out := d.want(200, `"tool_call_id":"call_a"`, "GET", "/v1/turns/tr/tu/messages?format=openai", "")
	if !strings.Contains(out, "hello") || strings.Index(out, "call_a") > strings.Index(out, "call_b") {
		t.Errorf("messages: %s", out)
	}
	d.want(200, `"tool_use_id":"call_a"`, "GET", "/v1/turns/tr/tu/messages?format=anthropic", "")
	d.want(200, `"type":"run.sluice.turn_submitted.v1"`, "GET", "/v1/turns/tr/tu/events", "")
	d.want(400, `"next":"use one of [openai responses anthropic gemini aisdk json]"`, "GET", "/v1/turns/tr/tu/messages?format=klingon", "")
}

func TestHTTPWait(t *testing.T) {
	d := newDoor(t, nil)
	o := newOwner(t, d.log.View("node"))
	var wg sync.WaitGroup
	wg.Go(func() {
		o.take()
		o.finish("hello")
	})
	out := d.want(200, `"state":"completed"`, "POST", "/v1/turns", `{"wait_ms":15000,"tool_calls":[{"id":"x","function":{"name":"echo","arguments":""}}]}`)
	wg.Wait()
	if !strings.Contains(out, `"messages":[{"role":"tool","tool_call_id":"x"`) {
		t.Error(out)
	}
	d.want(202, `"state":"submitted"`, "POST", "/v1/turns", `{"wait_ms":1,"calls":[{"tool":"echo","args":{"v":1}}]}`)
}

func TestHTTPTraceparent(t *testing.T) {
	d := newDoor(t, nil)
	const tp = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	turns := 0
	for given, kept := range map[string]string{
		tp: tp, "cc" + tp[2:] + "-" + strings.Repeat("x", 1000): tp, "cc" + tp[2:] + "-\u00fc\\x1b[2J": tp, "ff" + tp[2:]: "", "00-xyz": "", strings.Repeat("0", 5000): "",
	} {
		key := events.TurnKey{Trace: "tr", Turn: fmt.Sprint("tu", turns)}
		turns++
		d.want(202, "", "POST", "/v1/turns", fmt.Sprintf(`{"trace":"tr","turn":%q,"calls":[{"tool":"echo"}]}`, key.Turn), "traceparent", given)
		v, err := d.desk.Get(within(t), key)
		must(t, err)
		if v.Turn.Submitted.Traceparent != kept {
			t.Errorf("%q: %q", given, v.Turn.Submitted.Traceparent)
		}
	}
	d.want(400, "traceparent", "POST", "/v1/turns", `{"traceparent":"00-xyz","calls":[{"tool":"echo"}]}`)
}

func TestHTTPRefusesBadSubmissions(t *testing.T) {
	d := newDoor(t, nil)
	call := `{"tool":"echo","args":{}}`
	many := strings.TrimSuffix(strings.Repeat(call+",", 257), ",")
	for name, c := range map[string]struct {
		status     int
		part, body string
	}{
		"malformed":          {400, "no JSON", `{"calls":[!]}`},
		"cut":                {400, "too early", `{"calls":[`},
		"empty body":         {400, "empty", ``},
		"no object":          {400, "the body is no object: array", `[1]`},
		"trailing":           {400, "behind the object", `{"calls":[` + call + `]} {}`},
		"unknown field":      {400, `unknown field \"colour\"`, `{"colour":1,"calls":[` + call + `]}`},
		"what is known":      {400, `"next":"did you mean wait_ms? known here: trace, turn, principal, `, `{"wait":1,"calls":[` + call + `]}`},
		"unknown limit":      {400, `unknown field \"limits.max\"","next":"did you mean max_concurrency? known in limits: max_concurrency, deadline_ms, `, `{"limits":{"max":1},"calls":[` + call + `]}`},
		"unknown in who":     {400, `unknown field \"principal.name\"","next":"known in principal: id, kind, parents"`, `{"principal":{"name":"x"},"calls":[` + call + `]}`},
		"unknown in a call":  {400, `colour`, `{"calls":[{"tool":"echo","colour":1}]}`},
		"via in who":         {400, `unknown field \"principal.via\"`, `{"principal":{"id":"x","via":"token"},"calls":[` + call + `]}`},
		"twice in limits":    {400, `field \"limits.deadline_ms\" stands twice`, `{"limits":{"deadline_ms":1,"deadline_ms":2},"calls":[` + call + `]}`},
		"letters in limits":  {400, `unknown field \"limits.Deadline_MS\"","next":"did you mean deadline_ms? `, `{"limits":{"Deadline_MS":1},"calls":[` + call + `]}`},
		"misspelt in a call": {400, `argz: no such field: did you mean args? there are id, tool, args, key, secrets","next":"send calls as [{`, `{"calls":[{"tool":"echo","argz":{}}]}`},
		"twice":              {400, "stands twice", `{"calls":[` + call + `],"calls":[]}`},
		"other letters":      {400, `unknown field \"Calls\"`, `{"Calls":[` + call + `]}`},
		"nothing":            {400, "nothing to run", `{}`},
		"two things":         {400, "more than one", `{"calls":[` + call + `],"message":` + openAI + `}`},
		"empty batch":        {422, "nothing-to-run", `{"calls":[]}`},
		"no calls in it":     {422, "the conversation is over", `{"message":{"role":"assistant","content":"hi"}}`},
		"too many":           {413, "256", `{"calls":[` + many + `]}`},
		"large arguments":    {413, "1048576", `{"calls":[{"tool":"echo","args":{"v":"` + strings.Repeat("x", 1<<20) + `"}}]}`},
		"large body":         {413, "8388608", `{"calls":[{"tool":"echo","args":{"v":"` + strings.Repeat("x", 9<<20) + `"}}]}`},
		"bad trace":          {400, "trace", `{"trace":"a.b","calls":[` + call + `]}`},
		"bad mode":           {422, "mode", `{"mode":"x","calls":[` + call + `]}`},
		"bad limit":          {422, "negative", `{"limits":{"call_bytes":-1},"calls":[` + call + `]}`},
		"relative path":      {400, "absolute", `{"workspace":"x","calls":[` + call + `]}`},
		"two lines":          {400, "control", `{"workspace":"/x\n/y","calls":[` + call + `]}`},
		"a path with a NUL":  {400, "control", `{"workspace":"/x\u0000","calls":[` + call + `]}`},
		"bad format":         {400, "format", `{"format":"x","message":` + openAI + `}`},
		"wrong type":         {400, "field", `{"trace":1,"calls":[` + call + `]}`},
		"wait":               {400, "wait_ms", `{"wait_ms":-1,"calls":[` + call + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			d.t = t
			d.want(c.status, c.part, "POST", "/v1/turns", c.body)
		})
	}
	d.t = t
	head, err := d.desk.bus.Head(within(t))
	must(t, err)
	if head.Seq != 1 {
		t.Errorf("something was kept: the head is %s", head)
	}
}

func TestHTTPProblems(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo","args":{"v":1}}]}`)
	d.want(409, "turn-exists", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo","args":{"v":2}}]}`)
	d.want(404, "no-turn", "GET", "/v1/turns/tr/none", "")
	d.want(400, "bad-id", "GET", "/v1/turns/tr/a.b", "")
	d.want(404, "no-call", "POST", "/v1/turns/tr/tu/calls/9/cancel", "")
	for _, call := range []string{"x", "00", "+0", "-0", "0x0", "1e0"} {
		d.want(400, "name a call by its place", "POST", "/v1/turns/tr/tu/calls/"+call+"/cancel", "")
	}
	d.want(400, "say agent, person or service", "POST", "/v1/turns", `{"principal":{"id":"bob","kind":"Person"},"calls":[{"tool":"echo","args":{"v":1}}]}`)
	d.want(400, "say agent, person or service", "POST", "/v1/turns/tr/tu/calls/0/approve", `{"principal":{"id":"bob","kind":"user"}}`)
	d.want(409, "not-asking", "POST", "/v1/turns/tr/tu/calls/0/approve", `{"principal":"anna"}`)
	d.want(400, "scope", "POST", "/v1/turns/tr/tu/calls/0/approve", `{"scope":"world"}`)
	d.want(400, "effects", "POST", "/v1/turns/tr/tu/calls/0/resolve", `{}`)
	d.want(409, "nothing-to-resolve", "POST", "/v1/turns/tr/tu/calls/0/resolve", `{"effects":"none"}`)
	d.want(404, "no-route", "GET", "/v2", "")
	d.want(404, "GET /readyz, GET /metrics", "GET", "/", "")
	d.want(405, "use POST", "GET", "/v1/turns", "")
	d.want(405, "use GET", "POST", "/v1/tools", "")
	d.want(400, `query parameter \"colour\" is not known`, "GET", "/v1/tools?colour=1", "")
	d.want(400, "digest", "GET", "/v1/blobs/sha256:12", "")
	d.want(404, "not-found", "GET", "/v1/blobs/sha256:"+strings.Repeat("0", 64), "")
	d.log.SetFaults(&memlog.Faults{Append: func(events.Commit) (bool, error) { return false, bus.ErrUnavailable }})
	d.want(503, "unavailable", "POST", "/v1/turns", `{"calls":[{"tool":"echo"}]}`)
	d.log.SetFaults(&memlog.Faults{Append: func(events.Commit) (bool, error) { return true, bus.ErrUncertain }})
	d.want(503, "uncertain", "POST", "/v1/turns", `{"trace":"tr2","turn":"tu","calls":[{"tool":"echo"}]}`)
	d.want(503, `"trace":"`, "POST", "/v1/turns", `{"calls":[{"tool":"echo"}]}`)
	d.log.SetFaults(nil)
	d.want(202, `"attached":true`, "POST", "/v1/turns", `{"trace":"tr2","turn":"tu","calls":[{"tool":"echo"}]}`)
}

func TestHTTPActs(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","can_ask":true,"calls":[{"tool":"echo","args":{"v":1}},{"tool":"echo"},{"tool":"echo"}]}`)
	o := newOwner(t, d.log.View("node"))
	key := o.take()
	for i := range 3 {
		o.judge(i, events.Approval)
	}
	out := d.want(200, `"tool":"echo"`, "GET", "/v1/approvals", "")
	if strings.Count(out, `"args_hash"`) != 3 {
		t.Errorf("inbox: %s", out)
	}
	d.want(409, "other-arguments", "POST", "/v1/turns/tr/tu/calls/0/approve", `{"args_hash":"sha256:00"}`)
	d.want(200, "approved", "POST", "/v1/turns/tr/tu/calls/0/approve", `{"principal":"anna","args_hash":"`+o.v.Turn.Calls[0].Hash+`","scope":"session"}`)
	d.want(200, "denied", "POST", "/v1/turns/tr/tu/calls/1/deny", `{"principal":{"id":"anna"},"note":"no"}`)
	d.want(202, `{"status":"accepted","by":{"id":"operator","kind":"person","via":"loopback"}}`, "POST", "/v1/turns/tr/tu/calls/2/cancel", "")
	d.want(202, `{"status":"accepted","by":{"id":"operator","kind":"person","via":"loopback"}}`, "POST", "/v1/turns/tr/tu/calls/2/cancel", `{"principal":"anna"}`)
	d.want(200, `{"status":"already_terminal","state":"denied"}`, "POST", "/v1/turns/tr/tu/calls/1/cancel", `{"reason":"x"}`)
	d.want(200, `"approvals":[]`, "GET", "/v1/approvals", "")
	d.want(202, `"status":"accepted"`, "POST", "/v1/turns/tr/tu/cancel", `{"principal":"anna"}`)
	o.load(key)
	if a := o.v.Turn.Calls[0].Approved; a == nil || a.By.ID != "anna" || a.Scope != events.ScopeSession {
		t.Errorf("%+v", a)
	}
}

func TestHTTPGuards(t *testing.T) {
	d := newDoor(t, func(c *APIConfig) { c.Hosts = []string{"sluice.internal"} })
	for _, host := range []string{"localhost:8383", "127.0.0.1", "127.8.8.8:1", "[::1]:8383", "sluice.internal", "LOCALHOST"} {
		d.want(200, "ok", "GET", "/healthz", "", "Host", host)
	}
	for _, host := range []string{"evil.example", "evil.example:8383", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example"} {
		d.want(403, "other-host", "GET", "/healthz", "", "Host", host)
	}
	own := strings.TrimPrefix(d.url, "http://")
	d.want(200, "ok", "GET", "/healthz", "", "Origin", "http://"+own, "Sec-Fetch-Site", "same-origin")
	d.want(403, "cross-origin", "GET", "/healthz", "", "Origin", "http://evil.example")
	d.want(403, "cross-origin", "GET", "/healthz", "", "Origin", "null")
	d.want(403, "cross-origin", "POST", "/v1/turns", "{}", "Sec-Fetch-Site", "cross-site")
	d.want(403, "cross-origin", "POST", "/v1/turns", "{}", "Sec-Fetch-Site", "same-site")
	resp, err := http.Get(d.url + "/healthz")
	must(t, err)
	must(t, resp.Body.Close())
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Access-Control-Allow-Origin": "",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestHTTPSmallResources(t *testing.T) {
	not := errors.New("no node")
	d := newDoor(t, func(c *APIConfig) { c.Ready = func(context.Context) error { return not } })
	d.want(200, `[{"format":"anthropic"}]`, "GET", "/v1/tools?format=anthropic", "")
	d.want(200, `[{"format":"openai"}]`, "GET", "/v1/tools", "")
	d.want(200, `"sync":"memory"`, "GET", "/healthz", "")
	d.want(503, "no node", "GET", "/readyz", "")
	not = nil
	d.want(200, "ready", "GET", "/readyz", "")
	ref, err := d.desk.bus.Blobs().Put(within(t), []byte("<script>"), "text/html")
	must(t, err)
	if _, got := d.do("GET", "/v1/blobs/"+ref.Digest, ""); got != "<script>" {
		t.Errorf("blob %q", got)
	}
}

func TestHTTPMetrics(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"},{"tool":"made_up"}]}`)
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("x")
	for _, s := range o.v.Commits {
		d.api.metrics.Committed(s, map[int]string{0: "echo", 1: "made_up"})
	}
	d.api.metrics.Count("conflicts", 2)
	out := d.want(200, `sluice_events_total{kind="started"} 2`, "GET", "/metrics", "")
	for _, want := range []string{
		`sluice_calls_ended_total{kind="completed",tool="_unknown"} 1`, `sluice_calls_ended_total{kind="completed",tool="echo"} 1`,
		`sluice_node_total{what="conflicts"} 2`, `sluice_http_requests_total{route="POST /v1/turns",status="202"} 1`,
		`sluice_info{sync="memory",version="test"} 1`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(out, "made_up") {
		t.Error("a name that a model made up is a label")
	}
}

// sse is one server-sent event.
type sse struct{ id, kind, data string }

// listen opens an event stream; next reads one event from it.
func (d *door) listen(path string, headers ...string) (next func() sse, stop func()) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(within(d.t))
	req, err := http.NewRequestWithContext(ctx, "GET", d.url+path, nil)
	must(d.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(d.t, err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		d.t.Fatalf("%s: %d %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(resp.Body)
	return func() sse {
			var e sse
			for lines.Scan() {
				name, value, _ := strings.Cut(lines.Text(), ": ")
				switch name {
				case "id":
					e.id = value
				case "event":
					e.kind = value
				case "data":
					e.data = value
				case "":
					if e != (sse{}) {
						return e
					}
				}
			}
			return sse{}
		}, func() {
			cancel()
			_ = resp.Body.Close()
		}
}

func TestHTTPEvents(t *testing.T) {
	d := newDoor(t, nil)
	live, stopLive := d.listen("/v1/events?kind=completed,turn_completed")
	defer stopLive()
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"tu","calls":[{"tool":"echo"},{"tool":"other"}]}`)
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("x")
	got := []string{live().kind, live().kind, live().kind}
	if diff := cmp.Diff([]string{"completed", "completed", "turn_completed"}, got); diff != "" {
		t.Error(diff)
	}
	whole := kinds(o.v)
	next, stop := d.listen("/v1/events?from=start&follow=false")
	defer stop()
	var all []sse
	for e := next(); e != (sse{}); e = next() {
		all = append(all, e)
	}
	for i, e := range all {
		if e.kind != string(whole[i]) || !json.Valid([]byte(e.data)) || !strings.Contains(e.data, `"position":"`+e.id+`"`) {
			t.Errorf("event %d: %+v, want %s", i, e, whole[i])
		}
	}
	if len(all) != len(whole) {
		t.Fatalf("%d events, want %d", len(all), len(whole))
	}
	for i := range all[:len(all)-1] {
		again, stop := d.listen("/v1/events?follow=false", "Last-Event-ID", all[i].id)
		if e := again(); e.id != all[i+1].id {
			t.Errorf("after %s comes %s, want %s", all[i].id, e.id, all[i+1].id)
		}
		stop()
	}
	tool, stopTool := d.listen("/v1/events?from=start&follow=false&tool=other&trace=tr")
	defer stopTool()
	n := 0
	for e := tool(); e != (sse{}); e = tool() {
		if n++; !strings.Contains(e.data, `"tool":"other"`) {
			t.Errorf("%+v", e)
		}
	}
	if n != 4 {
		t.Errorf("%d events of the tool, want 4", n)
	}
	d.want(400, "kind", "GET", "/v1/events?kind=nothing", "")
	d.want(400, "position", "GET", "/v1/events?from=x", "")
	d.want(400, "position", "GET", "/v1/events", "", "Last-Event-ID", "x")
	d.want(400, "turn without trace", "GET", "/v1/events?turn=x", "")
}

func TestHTTPEventsSayThatTheLogRewound(t *testing.T) {
	d := newDoor(t, nil)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr1","turn":"tu","calls":[{"tool":"echo"}]}`)
	view := d.log.View("node")
	lose := func(trace string) {
		key := events.TurnKey{Trace: trace, Turn: "tu"}
		s := echo(`{}`)
		_, err := view.Append(within(t), events.Commit{ID: trace, Turn: key, At: time.Now().UTC(), Records: []events.Record{{Call: events.TurnEvent, Seq: 1, Event: &s}}}, 0)
		must(t, err)
	}
	lose("lost1")
	lose("lost2")
	if n := d.log.LoseTail(2); n != 2 {
		t.Fatalf("%d were lost", n)
	}
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr2","turn":"tu","calls":[{"tool":"echo"}]}`)
	next, stop := d.listen("/v1/events", "Last-Event-ID", "1.3.0")
	defer stop()
	if e := next(); e.kind != "rewound" || e.data != `{"from":"1.2.0","to":"1.2.0"}` || e.id != "" {
		t.Errorf("first %+v", e)
	}
	if e := next(); e.kind != "turn_submitted" || e.id != "2.2.0" || !strings.Contains(e.data, "tr2") {
		t.Errorf("then %+v", e)
	}
}

func TestHTTPEventsEndWithTheDoor(t *testing.T) {
	d := newDoor(t, nil)
	next, stop := d.listen("/v1/events")
	defer stop()
	d.api.Close()
	if e := next(); e != (sse{}) {
		t.Errorf("%+v", e)
	}
	d.want(503, "stopping", "GET", "/readyz", "")
}

func TestHTTPWaitersHearThatTheDoorCloses(t *testing.T) {
	d := newDoor(t, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		d.want(503, `"trace":"tr","turn":"tu"`, "POST", "/v1/turns", `{"trace":"tr","turn":"tu","wait_ms":60000,"calls":[{"tool":"echo"}]}`)
	})
	o := newOwner(t, d.log.View("node"))
	o.take() // it is in the log, and somebody waits for it
	d.api.Close()
	wg.Wait()
}

func TestServeDrains(t *testing.T) {
	desk, log := newDesk(t)
	api := NewAPI(APIConfig{Desk: desk})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(ctx, l, time.Second) }()
	d := &door{t, desk, log, api, "http://" + l.Addr().String()}
	d.want(200, "ok", "GET", "/healthz", "")
	next, stopStream := d.listen("/v1/events")
	defer stopStream()
	stop()
	must(t, <-ended)
	if e := next(); e != (sse{}) {
		t.Errorf("%+v", e)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestHTTPTooLarge: who sends a body that is too large is told so, also where it reads
// nothing before it has sent everything.
func TestHTTPTooLarge(t *testing.T) {
	d := newDoor(t, nil)
	body := `{"reason":"` + strings.Repeat("x", 2*MaxBody) + `"}`
	for name, sent := range map[string]string{
		"of a length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
		"in chunks":   fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		"that asks":   fmt.Sprintf("Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body)),
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
		must(t, err)
		if _, err := io.WriteString(c, "POST /v1/turns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"+sent); err != nil {
			t.Errorf("a body %s cannot be sent: %v", name, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "too-large") {
			t.Errorf("a body %s: %s: %s", name, resp.Status, text)
		}
		must(t, c.Close())
	}
}
