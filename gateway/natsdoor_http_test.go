package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

// bothDoors are the HTTP door and the NATS door of one desk, with all that they can show.
func bothDoors(t *testing.T) (*door, *NATSDoor) {
	t.Helper()
	d := newGuarded(t, func(c *APIConfig) {
		c.Store = newStore(t, c.Desk, c.Desk.bus)
		c.Policy = &policyTrial{}
		c.Explain = (&trial{}).explain
	})
	people := natsPeople()
	return d, NewNATSDoor(NATSDoorConfig{
		Desk: d.desk, Doors: d.log.View("door"), ID: "boot", Tools: d.api.tools, Explain: d.api.judged, Store: d.api.store, Policy: d.api.policy,
		Who: func(user string) (access.Identity, bool) { id, ok := people[user]; return id, ok },
	})
}

func knock(t *testing.T, n *NATSDoor, user, verb, body string) bus.Answer {
	t.Helper()
	return n.Answer(within(t), bus.Knock{User: user, Verb: verb, Body: []byte(body)})
}

// TestNATSAnswersAsHTTP: what is asked for by both doors is answered with the same bytes.
func TestNATSAnswersAsHTTP(t *testing.T) {
	d, n := bothDoors(t)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"sub","can_ask":true,"calls":[{"tool":"echo","args":{"order":"A-1"}},{"tool":"echo"}]}`, as("sub")...)
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.finish("the seat is taken")
	for _, c := range []struct{ verb, body, method, path, sent string }{
		{"turn", `{"trace":"tr","turn":"sub"}`, "GET", "/v1/turns/tr/sub", ""},
		{"turn", `{"trace":"tr","turn":"sub","wait_ms":1000}`, "GET", "/v1/turns/tr/sub?wait_ms=1000", ""},
		{"turn", `{"trace":"tr","turn":"no"}`, "GET", "/v1/turns/tr/no", ""},
		{"messages", `{"trace":"tr","turn":"sub","format":"anthropic","wait_ms":5}`, "GET", "/v1/turns/tr/sub/messages?format=anthropic&wait_ms=5", ""},
		{"history", `{"trace":"tr","turn":"sub"}`, "GET", "/v1/turns/tr/sub/events", ""},
		{"history", `{"trace":"tr","turn":"sub","limit":2,"cursor":"1.1.0"}`, "GET", "/v1/turns/tr/sub/events?limit=2&cursor=1.1.0", ""},
		{"events", `{"from":"start","limit":3,"kinds":["completed"]}`, "GET", "/v1/events?from=start&limit=3&kind=completed", ""},
		{"traces", `{}`, "GET", "/v1/traces", ""},
		{"traces", `{"text":"seat","tool":["echo","other"],"status":"completed","limit":1,"order":"oldest"}`, "GET", "/v1/traces?text=seat&tool=echo&tool=other&status=completed&limit=1&order=oldest", ""},
		{"traces", `{"limit":0}`, "GET", "/v1/traces?limit=0", ""},
		{"trace", `{"trace":"tr"}`, "GET", "/v1/traces/tr", ""},
		{"timeline", `{"trace":"tr","limit":2}`, "GET", "/v1/traces/tr/timeline?limit=2", ""},
		{"usage", `{"by":["tool","principal"]}`, "GET", "/v1/usage?by=tool&by=principal", ""},
		{"explain", `{"tool":"echo","args":{"v":1}}`, "POST", "/v1/explain", `{"tool":"echo","args":{"v":1}}`},
		{"explain", `{"args":{}}`, "POST", "/v1/explain", `{"args":{}}`},
		{"breakers", ``, "GET", "/v1/breakers", ""},
		{"limits", ``, "GET", "/v1/limits", ""},
		{"workers", ``, "GET", "/v1/workers", ""},
		{"breaker", `{"tool":"echo"}`, "GET", "/v1/breakers/echo", ""},
		{"policy", ``, "GET", "/v1/policy", ""},
		{"inbox", `{"limit":5}`, "GET", "/v1/approvals?limit=5", ""},
		{"breaker_open", `{"tool":"echo","for_ms":5}`, "POST", "/v1/breakers/echo/open", `{"for_ms":5}`},
		{"breaker_open", `{"tool":"echo","for_ms":5000,"colour":1}`, "POST", "/v1/breakers/echo/open", `{"for_ms":5000,"colour":1}`},
		{"breaker_reset", `{"tool":"echo","principal":"sub"}`, "POST", "/v1/breakers/echo/reset", `{"principal":"sub"}`},
		{"breaker_reset", `{"tool":"echo"}`, "POST", "/v1/breakers/echo/reset", ``},
		{"policy_reload", `{}`, "POST", "/v1/policy/reload", ``},
	} {
		status, want := d.do(c.method, c.path, c.sent, as("ope")...)
		a := knock(t, n, "ope", c.verb, c.body)
		plain := func(s string) string { // without what HTTP says in its header, and in its own words
			var v map[string]any
			if json.Unmarshal([]byte(s), &v) != nil {
				t.Errorf("%s: %s", c.verb, s)
			}
			delete(v, "tag")
			delete(v, "next")
			if by, is := v["by"].(map[string]any); is {
				delete(by, "via") // each door's own
			}
			out, _ := json.Marshal(v)
			return string(out)
		}
		if a.Status != status || plain(string(a.Body)) != plain(want) {
			t.Errorf("%s %s\n NATS %d %s\n HTTP %d %s", c.verb, c.body, a.Status, a.Body, status, want)
		}
	}
	if a := knock(t, n, "ope", "rebuild", ""); a.Status != 202 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := knock(t, n, "obs", "nodes", `{"turns":true,"log":true}`); a.Status != 200 || !strings.Contains(string(a.Body), `"nodes":[`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := knock(t, n, "obs", "readstore", ""); a.Status != 200 || !strings.Contains(string(a.Body), `"state":`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// TestNATSHasEveryRoute: what can be asked for over HTTP can be asked for over NATS, but for
// what is HTTP's own.
func TestNATSHasEveryRoute(t *testing.T) {
	d, n := bothDoors(t)
	verbs := map[string]string{
		"POST /v1/turns": "submit", "POST /v1/turns:stream": "submit", "GET /v1/turns/{trace}/{turn}": "turn",
		"GET /v1/turns/{trace}/{turn}/messages": "messages", "GET /v1/turns/{trace}/{turn}/events": "history",
		"POST /v1/turns/{trace}/{turn}/cancel": "cancel", "GET /v1/approvals": "inbox", "GET /v1/approvals/{trace}/{turn}/{call}": "approval",
		"GET /v1/traces": "traces", "GET /v1/traces/{trace}": "trace", "GET /v1/traces/{trace}/timeline": "timeline", "GET /v1/usage": "usage",
		"GET /v1/readstore": "readstore", "POST /v1/readstore/rebuild": "rebuild", "GET /v1/nodes": "nodes", "GET /v1/workers": "workers",
		"GET /v1/limits": "limits", "GET /v1/breakers": "breakers", "GET /v1/breakers/{tool}": "breaker",
		"POST /v1/breakers/{tool}/reset": "breaker_reset", "POST /v1/breakers/{tool}/open": "breaker_open", "GET /v1/tools": "tools",
		"GET /v1/events": "events", "GET /v1/blobs/{digest}": "blob", "POST /v1/explain": "explain", "GET /v1/policy": "policy",
		"POST /v1/policy/reload": "policy_reload", "GET /v1/whoami": "whoami",
	}
	for _, act := range []string{"cancel", "approve", "deny", "answer", "resolve", "compensate"} {
		verbs["POST /v1/turns/{trace}/{turn}/calls/{call}/"+act] = act
	}
	own := []string{"POST " + mcpPath, "GET " + mcpPath, "DELETE " + mcpPath, openAPIRoute, healthRoute, readyRoute, metricsRoute}
	for _, rt := range d.api.routes() {
		i := slices.IndexFunc(n.table(), func(v natsVerb) bool { return v.name == verbs[rt.pattern] })
		if i < 0 != slices.Contains(own, rt.pattern) {
			t.Errorf("%s: want a verb of it, and there is %q", rt.pattern, verbs[rt.pattern])
		} else if i >= 0 && n.table()[i].needs != rt.verb {
			t.Errorf("%s needs %q, and the verb %s %q", rt.pattern, rt.verb, verbs[rt.pattern], n.table()[i].needs)
		}
	}
}

// TestNATSVerbsTakeNoMore: bodies of the verbs that HTTP's handlers answer are as strict as
// any.
func TestNATSVerbsTakeNoMore(t *testing.T) {
	_, n := bothDoors(t)
	for _, c := range [][2]string{
		{"traces", `{"colour":1}`},
		{"traces", `{"limit":{"a":1}}`},
		{"traces", `{"limit":1,"limit":2}`},
		{"traces", `{"Limit":1}`},
		{"traces", `[]`},
		{"traces", `{"tool":[[1]]}`},
		{"traces", `{} {}`},
		{"trace", `{}`},
		{"trace", `{"trace":["a","b"]}`},
		{"trace", `{"trace":null}`},
		{"trace", `{"trace":"a/b"}`},
		{"breaker", `{"tool":""}`},
		{"breaker_open", `{"for_ms":1000}`},
		{"timeline", `{"trace":"tr","limit":"x"}`},
		{"nodes", `{"turns":"perhaps"}`},
		{"traces", `{"tool":["` + strings.Repeat(`a","`, 300) + `"]}`},
	} {
		if a := knock(t, n, "ope", c[0], c[1]); a.Status != 400 {
			t.Errorf("%s %.80s: %d %s", c[0], c[1], a.Status, a.Body)
		}
	}
	for _, v := range n.table() { // a verb whose route is gone would be an internal error
		if a := knock(t, n, "adm", v.name, ""); a.Status == 500 {
			t.Errorf("%s: %d %s", v.name, a.Status, a.Body)
		}
	}
}

// TestNATSBlobs: bytes come in pieces, to who may read them.
func TestNATSBlobs(t *testing.T) {
	d, n := bothDoors(t)
	whole := strings.Repeat("0123456789", 150_000)
	ref, err := d.desk.bus.Blobs().Put(within(t), []byte(whole), "")
	must(t, err)
	var got []byte
	for len(got) < len(whole) {
		a := knock(t, n, "obs", "blob", fmt.Sprintf(`{"digest":%q,"offset":%d}`, ref.Digest, len(got)))
		var p piece
		must(t, json.Unmarshal(a.Body, &p))
		if a.Status != 200 || p.Size != len(whole) || p.Offset != len(got) || len(p.Data) == 0 {
			t.Fatalf("%d %.200s", a.Status, a.Body)
		}
		got = append(got, p.Data...)
	}
	if string(got) != whole {
		t.Error("the bytes are others")
	}
	large := `{"v":"` + strings.Repeat("x", bus.MaxInline) + `"}`
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"sub","calls":[{"tool":"echo","args":`+large+`}]}`, as("sub")...)
	v, err := d.desk.Get(within(t), events.TurnKey{Trace: "tr", Turn: "sub"})
	must(t, err)
	own := v.Turn.Submitted.Calls[0].Args.Ref.Digest
	for body, want := range map[string]int{
		fmt.Sprintf(`{"digest":%q,"trace":"tr","turn":"sub"}`, own):                  200,
		fmt.Sprintf(`{"digest":%q}`, own):                                            400,
		fmt.Sprintf(`{"digest":%q,"trace":"tr","turn":"sub"}`, ref.Digest):           404,
		fmt.Sprintf(`{"digest":%q,"trace":"tr","turn":"no"}`, own):                   404,
		`{"digest":"sha256:12"}`:                                                     400,
		fmt.Sprintf(`{"digest":%q,"trace":"tr","turn":"sub","limit":9999999}`, own):  400,
		fmt.Sprintf(`{"digest":%q,"trace":"tr","turn":"sub","offset":-1}`, own):      400,
		fmt.Sprintf(`{"digest":%q,"trace":"tr","turn":"sub","offset":9999999}`, own): 200,
	} {
		if a := knock(t, n, "sub", "blob", body); a.Status != want {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if a := knock(t, n, "sub2", "blob", fmt.Sprintf(`{"digest":%q,"trace":"tr","turn":"sub"}`, own)); a.Status != 403 {
		t.Errorf("another's: %d %s", a.Status, a.Body)
	}
}

// TestNATSWaitsForNews: turns and the inbox are answered once there is something to say.
func TestNATSWaitsForNews(t *testing.T) {
	d, n := bothDoors(t)
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"sub","can_ask":true,"calls":[{"tool":"echo"}]}`, as("sub")...)
	var wg sync.WaitGroup
	defer wg.Wait()
	heard := make(chan bus.Answer, 1)
	ask := func(verb, body string) {
		wg.Go(func() {
			heard <- n.Answer(context.WithoutCancel(t.Context()), bus.Knock{User: "app", Verb: verb, Body: []byte(body)})
		})
	}
	ask("inbox", `{"wait_ms":30000}`)
	o := newOwner(t, d.log.View("node"))
	o.take()
	o.judge(0, events.Approval)
	a := <-heard
	var list struct{ Tag string }
	must(t, json.Unmarshal(a.Body, &list))
	if a.Status != 200 || list.Tag == "" || !strings.Contains(string(a.Body), `"tr/sub/0@1"`) {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	ask("inbox", fmt.Sprintf(`{"wait_ms":30000,"tag":%q}`, list.Tag))
	d.want(200, "denied", "POST", "/v1/turns/tr/sub/calls/0/deny", "", as("app")...)
	if a := <-heard; a.Status != 200 || !strings.Contains(string(a.Body), `"approvals":[]`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	d.want(202, "", "POST", "/v1/turns", `{"trace":"tr","turn":"runs","calls":[{"tool":"echo"}]}`, as("sub")...)
	ask("turn", `{"trace":"tr","turn":"runs","wait_ms":30000}`)
	o.take()
	o.finish("")
	if a := <-heard; a.Status != 200 || !strings.Contains(string(a.Body), `"state":"completed"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	for _, c := range [][2]string{{"turn", `{"trace":"tr","turn":"sub","wait_ms":-1}`}, {"inbox", `{"wait_ms":30001}`}, {"inbox", `{"limit":-1}`}, {"history", `{"trace":"tr","turn":"sub","limit":1001}`}} {
		if a := knock(t, n, "app", c[0], c[1]); a.Status != 400 {
			t.Errorf("%s %s: %d %s", c[0], c[1], a.Status, a.Body)
		}
	}
}
