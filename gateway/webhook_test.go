package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

var hookSecret = []byte("0123456789abcdef")

// receiver is somebody else's server, which answers as it is told.
type receiver struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	got    []approvalEvent                                          // that were taken
	tries  []string                                                 // ids of all requests
	answer func(n int, w http.ResponseWriter, r *http.Request) bool // n from 1; true: it was taken
}

func newReceiver(t *testing.T, answer func(int, http.ResponseWriter, *http.Request) bool) *receiver {
	t.Helper()
	r := &receiver{t: t, answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id, stamp := req.Header.Get(HeaderWebhookID), req.Header.Get(HeaderWebhookTimestamp)
	if want := WebhookSignature(hookSecret, id, stamp, body); !slices.Contains(strings.Fields(req.Header.Get(HeaderWebhookSignature)), want) {
		r.t.Errorf("signed %q, want %q", req.Header.Get(HeaderWebhookSignature), want)
	}
	r.tries = append(r.tries, id)
	if r.answer != nil && !r.answer(len(r.tries), w, req) {
		return
	}
	var e approvalEvent
	if err := json.Unmarshal(body, &e); err != nil || e.ID != id || e.SpecVersion != "1.0" {
		r.t.Errorf("%v: %s", err, body)
	}
	r.got = append(r.got, e)
}

// told are the types and subjects of what was taken, in order.
func (r *receiver) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []string{}
	for _, e := range r.got {
		what := strings.TrimSuffix(strings.TrimPrefix(e.Type, "run.sluice.approval."), ".v1") + " " + e.Subject
		if !slices.Contains(out, what) { // at least once
			out = append(out, what)
		}
	}
	return out
}

func (r *receiver) want(t *testing.T, want ...string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("told\n%s", strings.Join(r.told(), "\n"))
		}
	}()
	poll(t, fmt.Sprintf("the receiver was told %v", want), func() bool { return len(r.told()) >= len(want) })
	if got := r.told(); !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// hooked starts a webhook that sends to the receiver.
func hooked(t *testing.T, d *Desk, r *receiver, edit ...func(*WebhookConfig)) *Webhook {
	t.Helper()
	to, err := url.Parse(r.URL)
	must(t, err)
	c := WebhookConfig{
		Desk: d, URL: to, Secrets: [][]byte{hookSecret, []byte("another secret 0")}, Holder: "h1", Timeout: 5 * time.Second,
		Pause: time.Millisecond, Look: 5 * time.Millisecond, Lease: 6 * time.Second,
	}
	for _, e := range edit {
		e(&c)
	}
	h := NewWebhook(c)
	h.Start(t.Context())
	t.Cleanup(h.Stop)
	return h
}

// asks has a turn ask about all of its calls.
func asks(t *testing.T, d *Desk, o *owner, key events.TurnKey, args ...string) {
	t.Helper()
	_, err := d.Submit(within(t), key, echo(args...))
	must(t, err)
	o.take()
	for i := range args {
		o.judge(i, events.Approval)
	}
}

func turnKey(name string) events.TurnKey { return events.TurnKey{Trace: "hook", Turn: name} }

// TestWebhookTellsAll that is asked and how it was answered, in the log's order, what
// waited before there was a webhook, too, and nothing of calls that nobody was asked about.
func TestWebhookTellsAll(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	asks(t, d, o, turnKey("before"), `{"v":1}`)
	r := newReceiver(t, nil)
	hooked(t, d, r)
	r.want(t, "requested hook/before/0@1")
	asks(t, d, o, turnKey("t"), `{"v":"rm -rf ~ #\u001b[2K\u202els"}`, `{"v":2}`, `{"v":3}`, `{"v":4}`)
	must(t, d.Approve(within(t), turnKey("t").Call(1), Approval{By: events.Principal{ID: "ann"}, Note: "fine"}))
	must(t, d.Reject(within(t), turnKey("t").Call(2), events.Principal{ID: "bob"}, "no"))
	o.load(turnKey("t"))
	o.do(lifecycle.Advance{})
	_, err := d.CancelTurn(within(t), turnKey("t"), events.Principal{}, "enough")
	must(t, err)
	o.load(turnKey("t"))
	o.do(lifecycle.Advance{})
	_, err = d.Submit(within(t), turnKey("x"), echo(`{"v":1}`))
	must(t, err)
	o.take()
	findings := make([]lifecycle.Finding, len(lifecycle.PlanGates))
	for i, g := range lifecycle.PlanGates {
		findings[i] = lifecycle.Finding{Gate: g}
	}
	o.do(lifecycle.Judge{Call: 0, Findings: findings, Asks: "do it", Expire: time.Microsecond, Verdict: events.Verdict{Tier: events.Approval, Hash: o.v.Turn.Calls[0].Hash}})
	poll(t, "it has expired", func() bool { return !time.Now().Before(o.v.Turn.Calls[0].Asked.Expires) })
	o.do(lifecycle.Expire{Call: 0})
	r.want(t, "requested hook/before/0@1",
		"requested hook/t/0@1", "requested hook/t/1@1", "requested hook/t/2@1", "requested hook/t/3@1",
		"decided hook/t/1@1", "decided hook/t/2@1", "withdrawn hook/t/0@1", "withdrawn hook/t/3@1",
		"requested hook/x/0@1", "expired hook/x/0@1")
	r.mu.Lock()
	defer r.mu.Unlock()
	page, err := d.Approval(within(t), ApprovalID{Call: turnKey("t").Call(0)})
	must(t, err)
	if e := r.got[1].Data; !strings.Contains(e.Args.Text, `\u001b[2K`) || strings.ContainsAny(e.Visible, "\x1b\u202e") || e.Asks != page.Asks {
		t.Errorf("%+v", e)
	}
	if e := r.got[5].Data; e.State != projections.ApprovalApproved && e.State != projections.ApprovalWithdrawn || e.Decision == nil || e.Decision.By.ID != "ann" || e.Decision.Note != "fine" {
		t.Errorf("%+v", e.Decision)
	}
}

// TestWebhookOutlastsItsReceiver, which fails, hangs, hangs up and redirects, and no
// redirect is followed.
func TestWebhookOutlastsItsReceiver(t *testing.T) {
	elsewhere := newReceiver(t, nil)
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	held := make(chan struct{})
	r := newReceiver(t, func(n int, w http.ResponseWriter, req *http.Request) bool {
		switch n {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			http.Redirect(w, req, elsewhere.URL, http.StatusTemporaryRedirect)
		case 3:
			select { // longer than the sender waits
			case <-req.Context().Done():
			case <-held:
			}
		case 4:
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		case 5:
			w.Header().Set("Retry-After", "-1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			return true
		}
		return false
	})
	t.Cleanup(func() { close(held) })
	hooked(t, d, r, func(c *WebhookConfig) { c.Timeout = 300 * time.Millisecond })
	asks(t, d, o, turnKey("t"), `{"v":1}`, `{"v":2}`)
	r.want(t, "requested hook/t/0@1", "requested hook/t/1@1")
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(slices.Compact(slices.Clone(r.tries))) != 2 || len(elsewhere.tries) > 0 {
		t.Errorf("tried %v, and elsewhere %v", r.tries, elsewhere.tries)
	}
}

// TestWebhookGivesUp on a notice that is never taken, counts it, and goes on.
func TestWebhookGivesUp(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	r := newReceiver(t, func(n int, w http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.Header.Get(HeaderWebhookID), "/0@1") {
			w.WriteHeader(http.StatusBadRequest)
			return false
		}
		return true
	})
	var mu sync.Mutex
	counts := map[string]int{}
	hooked(t, d, r, func(c *WebhookConfig) {
		c.Attempts = 3
		c.Count = func(name string, n int) {
			mu.Lock()
			defer mu.Unlock()
			counts[name] += n
		}
	})
	asks(t, d, o, turnKey("t"), `{"v":1}`, `{"v":2}`)
	r.want(t, "requested hook/t/1@1")
	poll(t, "what was taken is counted", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return counts["webhook_sent"] == 1
	})
	mu.Lock()
	defer mu.Unlock()
	if counts["webhook_failed"] != 3 || counts["webhook_given_up"] != 1 {
		t.Errorf("%v", counts)
	}
}

// TestOneNodeSends, and where it is gone another one goes on where it was: nothing is
// lost, and what was taken is not sent again.
func TestOneNodeSends(t *testing.T) {
	d, log := newDesk(t)
	o := newOwner(t, d.bus)
	var mu sync.Mutex
	deaf := false
	r := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if deaf {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return !deaf
	})
	first := hooked(t, d, r)
	asks(t, d, o, turnKey("a"), `{"v":1}`)
	r.want(t, "requested hook/a/0@1")
	other := NewDesk(DeskConfig{Bus: log.View("other"), Poll: 20 * time.Millisecond})
	hooked(t, other, r, func(c *WebhookConfig) { c.Holder = "h2" })
	asks(t, d, o, turnKey("b"), `{"v":1}`)
	r.want(t, "requested hook/a/0@1", "requested hook/b/0@1")
	mu.Lock()
	deaf = true
	mu.Unlock()
	asks(t, d, o, turnKey("c"), `{"v":1}`)
	poll(t, "it is being sent in vain", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.tries) > 3
	})
	first.Stop()
	mu.Lock()
	deaf = false
	mu.Unlock()
	asks(t, d, o, turnKey("d"), `{"v":1}`)
	r.want(t, "requested hook/a/0@1", "requested hook/b/0@1", "requested hook/c/0@1", "requested hook/d/0@1")
}

func TestCheckWebhook(t *testing.T) {
	for raw, ok := range map[string]bool{
		"https://hooks.example/x?token=1": true, "http://127.0.0.1:9/x": true, "http://[::1]:9/": true, "http://localhost/": true,
		"http://hooks.example/": false, "http://127.0.0.1.example/": false, "http://localhost.example/": false, "http://10.0.0.1/": false,
		"https://u:p@hooks.example/": false, "https:///x": false, "ftp://127.0.0.1/": false, "file:///etc/passwd": false, "": false,
		"https://hooks.example/#x": false, "//hooks.example": false, "https://%zz/": false, "http://0.0.0.0/": false,
	} {
		u, err := CheckWebhook(raw)
		if (err == nil) != ok || ok && u == nil {
			t.Errorf("%q: %v", raw, err)
		}
		if err != nil && strings.Contains(err.Error(), "p@") {
			t.Errorf("%q: the error tells a password: %v", raw, err)
		}
	}
	for address, ok := range map[string]bool{"127.0.0.1:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true, "10.0.0.1:80": false, "x": false} {
		if err := onlyLoopback("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}
