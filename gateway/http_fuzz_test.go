package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
	"github.com/sluice-run/sluice/projections/readstore"
)

// fuzzed is a door that anything may be sent to, with everything behind it. Its streams
// and waits have ended: nothing that is sent can take long.
type fuzzed struct {
	log     *memlog.Log
	desk    *Desk
	store   *readstore.Store
	dir     string
	handler http.Handler
	open    http.Handler           // where everybody is believed
	ways    *http.ServeMux         // finds the route of a request
	verbs   map[string]access.Verb // of each route
	policy  *policyTrial
	sent    int
	pattern string // of the last request's route; "": none
}

func newFuzzed(tb testing.TB, ctx context.Context) *fuzzed {
	tb.Helper()
	fatal := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	d := &fuzzed{log: memlog.New(memlog.Config{}), policy: new(policyTrial)}
	d.desk = NewDesk(DeskConfig{Bus: d.log.View("door"), Poll: 20 * time.Millisecond})
	d.desk.Start(ctx)
	var err error
	d.dir, err = os.MkdirTemp("", "sluice-fuzz-")
	fatal(err)
	d.store, err = readstore.Open(ctx, readstore.Config{Dir: d.dir, Log: d.desk.bus, Every: time.Millisecond, Rest: -1})
	fatal(err)
	d.store.Start(ctx)
	ring, err := keys.File{Principals: everyone()}.Ring()
	fatal(err)
	a := NewAPI(APIConfig{
		Desk: d.desk, Store: d.store, Keys: func() *keys.Ring { return ring }, Policy: d.policy,
		Tools:   func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`[]`), nil },
		Metrics: NewMetrics(MetricsConfig{Known: func(s string) bool { return s == "echo" }}),
	})
	a.failures.proxy = true // one address sends it all
	a.Close()
	b := NewAPI(APIConfig{Desk: d.desk, Store: d.store, Policy: d.policy})
	b.Close()
	d.open = b.Handler()
	d.handler, d.ways, d.verbs = a.Handler(), http.NewServeMux(), make(map[string]access.Verb)
	for _, rt := range a.routes() {
		d.ways.Handle(rt.pattern, http.NotFoundHandler())
		d.verbs[rt.pattern] = rt.verb
	}
	for _, id := range []string{"sub", "sub2"} {
		if got := d.send(ctx, id, "POST", "/v1/turns", "Content-Type: application/json", `{"trace":"tr","turn":"`+id+`","can_ask":true,"calls":[{"tool":"echo","args":{"v":1}}]}`); got == nil || got.Code != 202 {
			tb.Fatalf("%+v", got)
		}
	}
	d.sent = 0
	return d
}

func (d *fuzzed) close(tb testing.TB) {
	d.desk.Stop()
	if err := errors.Join(d.store.Stop(), d.log.Close(), os.RemoveAll(d.dir)); err != nil {
		tb.Error(err)
	}
}

// send sends what looks like a request, and returns the answer; nil for what net/http
// would not hand to a door.
func (d *fuzzed) send(ctx context.Context, id, method, target, headers, body string) *httptest.ResponseRecorder {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", method, target, len(body))
	for line := range strings.Lines(headers) {
		name, _, _ := strings.Cut(line, ":")
		if name = strings.ToLower(name); name != "content-length" && name != "transfer-encoding" && name != "authorization" && name != "host" {
			b.WriteString(strings.TrimRight(line, "\r\n") + "\r\n")
		}
	}
	handler := d.handler
	if id == believed {
		handler = d.open
	} else if id != "" {
		b.WriteString("Authorization: Bearer " + tokenOf(id) + "\r\n")
	}
	b.WriteString("\r\n" + body)
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(b.String())))
	if err != nil {
		return nil
	}
	r.RemoteAddr = "127.0.0.1:1"
	_, d.pattern = d.ways.Handler(r)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r.WithContext(ctx))
	d.sent++
	return w
}

// who is the identity of somebody of everyone.
func (d *fuzzed) who(id string) access.Identity {
	for _, p := range everyone() {
		if p.ID == id {
			return access.Identity{Principal: events.Principal{ID: id, Kind: p.Kind}, Roles: p.Roles}
		}
	}
	return access.Identity{}
}

// head is the last sequence of the log.
func (d *fuzzed) head(tb testing.TB, ctx context.Context) uint64 {
	tb.Helper()
	p, err := d.desk.bus.Head(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return p.Seq
}

// check holds an answer against what every answer is.
func checkAnswer(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	h := w.Header()
	for _, s := range securityHeaders {
		if h.Get(s[0]) != s[1] {
			t.Errorf("%s: %q", s[0], h.Get(s[0]))
		}
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("%s: %q", name, h.Get(name))
		}
		for _, v := range h[name] {
			if strings.ContainsAny(name+v, "\r\n\x00") {
				t.Errorf("a header holds a line: %q %q", name, v)
			}
		}
	}
	if w.Code >= 500 && w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w.Code >= 300 && w.Code < 400 {
		t.Errorf("sent elsewhere: %d %s", w.Code, h.Get("Location"))
	}
	if w.Code < 400 {
		return
	}
	var p Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Title == "" || p.Next == "" || h.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d as %s: %.300s, %v", w.Code, h.Get("Content-Type"), w.Body, err)
	}
	if w.Code == 401 && h.Get("WWW-Authenticate") == "" {
		t.Error("a 401 without WWW-Authenticate")
	}
}

// checkEffects sees that nothing was done by whoever may not do it.
func (d *fuzzed) checkEffects(t *testing.T, id, target string, w *httptest.ResponseRecorder, before uint64) {
	t.Helper()
	if id == believed {
		d.policy.by = nil
		return
	}
	mayWrite := map[string]bool{"sub": true, "sub2": true, "app": true, "ope": true, "adm": true}
	after := d.head(t, t.Context())
	if after != before && (!mayWrite[id] || w.Code >= 400 && w.Code != 503) {
		t.Errorf("%q has written to the log: %d %.300s", id, w.Code, w.Body)
	}
	if id == "" && w.Code < 400 && !strings.HasPrefix(target, "/healthz") {
		t.Errorf("nobody was served: %d %.300s", w.Code, w.Body)
	}
	if verb := d.verbs[d.pattern]; id != "" && verb != "" && w.Code < 400 && access.May(d.who(id), verb) != nil {
		t.Errorf("%q went %s: %d %.300s", id, d.pattern, w.Code, w.Body)
	}
	for _, by := range d.policy.by {
		if by.ID != "ope" && by.ID != "adm" {
			t.Errorf("the policy was read anew by %+v", by)
		}
	}
	for seq := before; seq < after; seq++ {
		d.checkWritten(t, id, seq)
	}
}

// checkWritten sees that what was written at a place names who wrote it.
func (d *fuzzed) checkWritten(t *testing.T, id string, seq uint64) {
	t.Helper()
	err := d.desk.bus.Read(t.Context(), events.Position{Generation: 1, Seq: seq}, bus.Filter{}, false, func(s bus.Stored) error {
		for _, rec := range s.Commit.Records {
			by := events.Principal{ID: id}
			switch e := rec.Event.(type) {
			case *events.TurnSubmitted:
				by = e.Principal
			case *events.Approved:
				by = e.By
			case *events.CancelRequested:
				by = e.By
			case *events.TurnCancelRequested:
				by = e.By
			case *events.Resolved:
				by = e.By
			}
			if by.ID != id && (len(by.Parents) == 0 || by.Parents[len(by.Parents)-1] != id) {
				t.Errorf("%s has written %s as %+v", id, rec.Event.Kind(), by)
			}
		}
		return errOneRead
	})
	if err != nil && !errors.Is(err, errOneRead) {
		t.Fatal(err)
	}
}

var errOneRead = errors.New("seen")

// believed comes in where nobody is asked.
const believed = "believed"

// renewed is how much is sent to one door: what it remembers shall not make it slow.
const renewed = 3000

// FuzzHTTP sends anything to the door, as anybody: it never fails, always tells a problem
// as one, always says how an answer must be taken, and lets nobody do what is not theirs.
func FuzzHTTP(f *testing.F) {
	seedHTTP(f)
	ctx, stop := context.WithCancel(context.Background())
	var mu sync.Mutex
	var d *fuzzed
	f.Cleanup(func() {
		if d != nil {
			d.close(f)
		}
		stop()
	})
	ids := []string{"", "mon", "sub", "sub2", "obs", "app", "ope", "adm", believed}
	f.Fuzz(func(t *testing.T, as uint8, method, target, headers, body string) {
		mu.Lock()
		defer mu.Unlock()
		if d == nil || d.sent > renewed {
			if d != nil {
				d.close(t)
			}
			d = newFuzzed(t, ctx)
		}
		id := ids[int(as)%len(ids)]
		before := d.head(t, ctx)
		w := d.send(ctx, id, method, target, headers, body)
		if w == nil {
			return
		}
		checkAnswer(t, w)
		d.checkEffects(t, id, target, w, before)
	})
}

// seedHTTP adds a request for each route, and what attackers have tried elsewhere.
func seedHTTP(f *testing.F) {
	const media = "Content-Type: application/json"
	bodies := []string{
		"", `{}`, `{"calls":[{"tool":"echo","args":{"v":1}}]}`, `{"trace":"tr","turn":"x","wait_ms":5,"principal":{"id":"kid","parents":["sub"]},"tool_calls":[{"id":"a","function":{"name":"echo","arguments":"{}"}}]}`,
		`{"principal":"adm","reason":"x"}`, `{"effects":"none","note":"x"}`, `{"scope":"session","args_hash":"sha256:00","args":{"v":2}}`, `{"for_ms":60000}`, `{"a":1,"a":2}`, "\xff{", strings.Repeat("[", 10_000),
	}
	for i, rt := range NewAPI(APIConfig{}).routes() {
		method, path := plainRoute(rt, "sub")
		for j, body := range bodies {
			if method == http.MethodGet {
				body = ""
			}
			f.Add(uint8(i+j), method, path, media, body)
		}
		for _, name := range strings.Fields(rt.query) {
			f.Add(uint8(3), method, path+"?"+name+"=1.1.0", media, "")
			f.Add(uint8(3), method, path+"?"+name+"=%22a*%20b&"+name+"=-1h", media, "")
		}
	}
	for _, target := range []string{
		"//v1/turns", "/v1/../v1/turns", "/v1/turns/tr%2fsub/x", "/v1/turns/%2e%2e/sub", "/v1/turns/%74r/sub", "/v1/turns/tr/sub%00", "/v1/turns/tr/sub/",
		"/v1/turns/tr/sub;x=1", "/v1/turns/tr/sub?a;b", "/v1/turns/tr/sub?%zz", "http://localhost/v1/turns/tr/sub", "*", "/%", "/v1\\turns", "/v1/traces?text=" + strings.Repeat("%22", 500),
		"/v1/events?from=start&follow=false", "/v1/events?from=99999999.99999999999999999999.1", "/v1/breakers/%c3%28/reset", "/v1/turns/tr/sub/calls/99999999999999999999/cancel", "/v1/turns/tr/sub/calls/-1/cancel",
	} {
		for as := range uint8(8) {
			f.Add(as, "GET", target, "", "")
			f.Add(as, "POST", target, media, `{}`)
		}
	}
	for _, headers := range []string{
		"Origin: http://evil.example", "Sec-Fetch-Site: cross-site", "Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded", "Last-Event-ID: 1.1.0",
		"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: evil", "X-HTTP-Method-Override: POST", "Expect: 100-continue", "Content-Encoding: gzip", "Connection: upgrade\r\nUpgrade: h2c", "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	} {
		f.Add(uint8(1), "POST", "/v1/turns", headers, `{"calls":[{"tool":"echo"}]}`)
		f.Add(uint8(0), "GET", "/v1/events?follow=false", headers, "")
	}
	for _, method := range []string{"HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "PATCH", "get", "PROPFIND"} {
		f.Add(uint8(6), method, "/v1/turns", media, "")
		f.Add(uint8(0), method, "/v1/events", "", "")
	}
}
