package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/gateway/keys"
)

// request is a request of a test.
func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), method, url, body)
	must(t, err)
	return r
}

// served is the answer of a handler.
func served(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// serving is a door that really listens; stop ends it and waits.
func serving(t *testing.T, c APIConfig) (base string, stop func()) {
	t.Helper()
	if c.Desk == nil {
		c.Desk, _ = newDesk(t)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- NewAPI(c).Serve(ctx, l, time.Minute) }()
	scheme := "http://"
	if c.TLS != nil {
		scheme = "https://"
	}
	return scheme + l.Addr().String(), func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestHTTPEachIdentityHasItsShare(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	d := newGuarded(t, func(c *APIConfig) {
		c.Limits = Limits{Rate: 2, Burst: 3, EachStreams: 1}
		c.Now = func() time.Time { return now }
	})
	for range 3 {
		d.want(200, "", "GET", "/v1/whoami", "", as("sub")...)
	}
	d.want(429, "sub sends more than 2 requests a second", "GET", "/v1/whoami", "", as("sub")...)
	d.want(200, "", "GET", "/v1/whoami", "", as("sub2")...) // each for itself
	now = now.Add(500 * time.Millisecond)
	d.want(200, "", "GET", "/v1/whoami", "", as("sub")...)
	d.want(429, "", "GET", "/v1/whoami", "", as("sub")...)
	now = now.Add(time.Hour) // it fills up to its size
	_, stop := d.listen("/v1/events", as("obs")...)
	defer stop()
	d.want(429, "obs has 1 event streams open", "GET", "/v1/events", "", as("obs")...)
	_, stopOther := d.listen("/v1/events", as("adm")...)
	defer stopOther()
}

func TestSharesAreBounded(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := &shares{limits: Limits{Each: 2, Rate: 1, Burst: 2}.filled(), of: map[string]*share{}}
	ring := ringOf(t, everyone()...)
	id := func(name string) (out *share, p *Problem) {
		f, err := ring.Token(tokenOf("sub"), now)
		must(t, err)
		f.Identity.Principal.ID = name
		return s.take(f.Identity, now)
	}
	a, _ := id("a")
	b, _ := id("a")
	now = now.Add(time.Hour)
	if _, p := id("a"); p == nil || p.Status != 429 || !strings.Contains(p.Title, "2 requests open") {
		t.Errorf("%+v", p)
	}
	s.give(a)
	if again, p := id("a"); p != nil || again != a {
		t.Errorf("%+v", p)
	}
	s.give(b)
	for i := range 3 * maxShares {
		sh, p := id(fmt.Sprint(i))
		if p != nil {
			t.Fatal(p)
		}
		s.give(sh)
		now = now.Add(10 * time.Second)
	}
	if n := len(s.of); n > maxShares+1 {
		t.Errorf("%d identities are remembered", n)
	}
}

// TestHTTPPlacesAreBounded: who waits takes a place, and beyond the last one only /healthz
// is answered.
func TestHTTPPlacesAreBounded(t *testing.T) {
	d := newDoor(t, func(c *APIConfig) { c.Limits = Limits{Requests: 2} })
	_, stop := d.listen("/v1/events")
	_, stopOther := d.listen("/v1/events")
	d.want(503, "as many requests as it can", "GET", "/v1/tools", "")
	d.want(200, "ok", "GET", "/healthz", "")
	stop()
	stopOther()
	for { // the door hears in its own time that readers have gone
		if status, _ := d.do("GET", "/v1/tools", ""); status == 200 {
			break
		}
	}
}

func TestHTTPBodiesAreBounded(t *testing.T) {
	desk, _ := newDesk(t)
	a := NewAPI(APIConfig{Desk: desk})
	must(t, a.bodies.Acquire(within(t), bodyBudget)) // others hold all there is
	gone, leave := context.WithCancel(t.Context())
	r := request(t, "POST", "http://localhost/v1/turns", strings.NewReader(`{"calls":[{"tool":"echo"}]}`)).WithContext(gone)
	got := make(chan *http.Response)
	go func() { got <- served(a.Handler(), r) }()
	leave()
	if resp := <-got; resp.StatusCode != 503 {
		t.Errorf("%d", resp.StatusCode)
	}
	a.bodies.Release(bodyBudget)
	for _, body := range []string{`{"calls":[{"tool":"echo"}]}`, `{"calls":[`, strings.Repeat("x", MaxBody+1), ""} {
		served(a.Handler(), request(t, "POST", "http://localhost/v1/turns", strings.NewReader(body)))
	}
	chunked := request(t, "POST", "http://localhost/v1/turns", io.MultiReader(strings.NewReader(`{"calls":[{"tool":"echo"}]}`)))
	chunked.ContentLength = -1
	served(a.Handler(), chunked)
	if !a.bodies.TryAcquire(bodyBudget) {
		t.Error("a request has ended, and its body is still held")
	}
}

func TestHTTPConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := newBounded(inner, Limits{Connections: 2, PerAddress: 1}.filled())
	taken := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(taken)
				return
			}
			taken <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		must(t, err)
		return c
	}
	for range 3 {
		defer dial().Close()
	}
	first, second := <-taken, <-taken // loopback's are many programs', whatever PerAddress says
	select {
	case <-taken:
		t.Error("a third connection was taken")
	default:
	}
	must(t, first.Close())
	_ = first.Close() // a place is given back once
	third := <-taken
	must(t, second.Close())
	must(t, third.Close())
	must(t, l.Close())
	if _, more := <-taken; more {
		t.Error("a connection after the end")
	}
	from := prefixOf("192.0.2.1:1")
	l.of[from] = 1
	if l.enter(from) || !l.enter(prefixOf("192.0.2.2:1")) {
		t.Error("an address has more connections than it may, or another has none")
	}
}

// TestHTTPSlowSenders: whoever does not send what it has begun is not waited for.
func TestHTTPSlowSenders(t *testing.T) {
	desk, _ := newDesk(t)
	a := NewAPI(APIConfig{Desk: desk, Keys: func() *keys.Ring { return ringOf(t, everyone()...) }})
	s := a.server()
	if s.ReadHeaderTimeout != headerLimit || s.IdleTimeout <= 0 || s.MaxHeaderBytes != maxHeaders || s.HTTP2.MaxConcurrentStreams <= 0 || s.HTTP2.WriteByteTimeout <= 0 {
		t.Errorf("%+v", s)
	}
	base, stop := serving(t, APIConfig{Desk: desk, Keys: func() *keys.Ring { return ringOf(t, everyone()...) }})
	defer stop()
	for name, text := range map[string]string{
		"no proof, and a body that never comes": "POST /v1/turns HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{",
		"a body where there is none":            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
		"no host":                               "GET /healthz HTTP/1.0\r\n\r\n",
		"a huge body":                           "POST /v1/turns HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + tokenOf("sub") + "\r\nContent-Length: 99999999999\r\n\r\n",
		"huge headers":                          "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n",
		"two lengths":                           "POST /v1/turns HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nxxxxx",
		"a header with a line in it":            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n",
		"everything":                            "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a tunnel":                              "CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"another's address":                     "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			must(t, err)
			defer c.Close()
			_, err = io.WriteString(c, text)
			must(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			must(t, err)
			must(t, resp.Body.Close())
			if resp.StatusCode < 400 || resp.StatusCode >= 500 {
				t.Errorf("%d", resp.StatusCode)
			}
		})
	}
}

// TestHTTPBodiesThatAreCutShort: why is told without anybody's address.
func TestHTTPBodiesThatAreCutShort(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 8383}
	for want, err := range map[string]error{
		"the body did not come whole within 30s": &net.OpError{Op: "read", Net: "tcp", Source: at, Addr: at, Err: os.ErrDeadlineExceeded},
		"the body ended early":                   &net.OpError{Op: "read", Net: "tcp", Source: at, Addr: at, Err: io.ErrClosedPipe},
		"the body ended early: unexpected EOF":   io.ErrUnexpectedEOF,
	} {
		if got := cutShort(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// timed is an answer's writer that notes the deadlines of its connection.
type timed struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (w *timed) SetReadDeadline(at time.Time) error {
	w.read = append(w.read, at)
	return nil
}

func (w *timed) SetWriteDeadline(at time.Time) error {
	w.write = append(w.write, at)
	return nil
}

// TestHTTPEveryPhaseHasItsEnd: a body that does not come, also one that nobody reads, and an
// answer that nobody takes.
func TestHTTPEveryPhaseHasItsEnd(t *testing.T) {
	d := newGuarded(t, func(c *APIConfig) { c.Open = []string{"/metrics"} })
	for name, c := range map[string]struct {
		method, path, body, id string
		status, reads          int // how often the reading deadline is set; its last is none where the body was read
	}{
		"a body that is read":        {"POST", "/v1/turns", `{"calls":[{"tool":"echo"}]}`, "sub", 202, 3},
		"a body of nobody":           {"POST", "/v1/turns", `{"calls":[{"tool":"echo"}]}`, "", 401, 1},
		"a body of somebody else's":  {"POST", "/v1/turns", `{"calls":[{"tool":"echo"}]}`, "obs", 403, 1},
		"a body where there is none": {"GET", "/healthz", "{}", "", 400, 1},
		"no body":                    {"GET", "/v1/tools", "", "sub", 200, 0},
		"metrics":                    {"GET", "/metrics", "", "", 200, 0},
		"a blob that is not there":   {"GET", "/v1/blobs/sha256:" + strings.Repeat("0", 64), "", "obs", 404, 0},
		"events":                     {"GET", "/v1/events?follow=false&from=start", "", "obs", 200, 0},
	} {
		var body io.Reader
		if c.body != "" {
			body = strings.NewReader(c.body)
		}
		r := request(t, c.method, "http://localhost"+c.path, body)
		if c.id != "" {
			r.Header.Set("Authorization", "Bearer "+tokenOf(c.id))
		}
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		before := time.Now()
		d.api.Handler().ServeHTTP(w, r)
		after := time.Now()
		if w.Code != c.status || len(w.read) != c.reads {
			t.Errorf("%s: %d, reading until %v", name, w.Code, w.read)
			continue
		}
		for i, at := range w.read {
			if last := i == 2; last != at.IsZero() || !last && (at.Before(before.Add(bodyLimit)) || at.After(after.Add(bodyLimit))) {
				t.Errorf("%s: reading until %v", name, w.read)
			}
		}
		if n := len(w.write); n < 2 || !w.write[0].IsZero() || w.write[n-1].Before(before.Add(writeLimit)) || w.write[n-1].After(after.Add(writeLimit)) {
			t.Errorf("%s: writing until %v", name, w.write)
		}
	}
}
