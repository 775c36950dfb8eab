package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
)

func call(tool string, args any) []client.Call {
	return []client.Call{{ID: "a", Tool: tool, Args: args}}
}

type object = map[string]any

// TestRun: a turn is submitted, waited for, and read in every format.
func TestRun(t *testing.T) {
	_, c := running(t, settings{}, client.Options{})
	ctx := within(t)
	out, err := c.Run(ctx, client.Submission{Format: client.Anthropic, Calls: call("echo", object{"v": "hello"})})
	must(t, err)
	if !out.Ended() || len(out.Messages) != 1 || !strings.Contains(string(out.Messages[0]), "hello") || out.Format != client.Anthropic {
		t.Errorf("%+v %s", out, out.Messages)
	}
	turn, err := c.Get(ctx, out.Key())
	must(t, err)
	if !turn.Ended() || turn.Calls[0].State != "completed" || turn.Calls[0].Stages == nil || turn.Owner == nil || turn.SubmittedAt.IsZero() {
		t.Errorf("%+v", turn)
	}
	for _, f := range []client.Format{"", client.OpenAI, client.Responses, client.Anthropic, client.Gemini, client.Neutral} {
		m, err := c.Messages(ctx, out.Key(), f)
		must(t, err)
		if f != "" && m.Format != f || len(m.Messages) != 1 || len(m.Assistant) == 0 {
			t.Errorf("%s: %+v", f, m)
		}
	}
	again, err := c.Submit(ctx, client.Submission{Trace: out.Trace, Turn: out.Turn, Format: client.Anthropic, CanAsk: true, Calls: call("echo", object{"v": "hello"})})
	must(t, err)
	if stands, told := again.NotTaken["can_ask"]; !again.Attached || !told || stands != false || len(again.NotTaken) != 1 {
		t.Errorf("%+v", again)
	}
	_, err = c.Submit(ctx, client.Submission{Trace: out.Trace, Turn: out.Turn, Calls: call("echo", object{"v": "other"})})
	var p *client.Problem
	if !errors.Is(err, client.TurnExists) || !errors.As(err, &p) || p.Status != 409 || p.Next == "" || p.Turn != out.Turn || errors.Is(err, client.NoTurn) {
		t.Errorf("%v", err)
	}
}

// TestProviderMessages: what providers send goes in as it came.
func TestProviderMessages(t *testing.T) {
	_, c := running(t, settings{}, client.Options{})
	for format, message := range map[client.Format]string{
		client.OpenAI:    `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"echo","arguments":"{\"v\":1}"}}]}`,
		client.Anthropic: `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"echo","input":{"v":1}}],"stop_reason":"tool_use"}`,
	} {
		out, err := c.Run(within(t), client.Submission{Message: json.RawMessage(message)})
		must(t, err)
		if out.Format != format || len(out.Messages) != 1 {
			t.Errorf("%s: %+v", format, out)
		}
	}
	_, err := c.Submit(within(t), client.Submission{})
	if !errors.Is(err, client.BadRequest) {
		t.Errorf("%v", err)
	}
}

// TestBadIDsAreNotSent: what cannot be an id costs no request.
func TestBadIDsAreNotSent(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	defer s.Close()
	c, err := client.New(s.URL, client.Options{})
	must(t, err)
	defer c.Close()
	ctx, bad := within(t), events.TurnKey{Trace: "../x", Turn: "y"}
	_, submit := c.Submit(ctx, client.Submission{Trace: "a/b", Calls: call("echo", nil)})
	_, get := c.Get(ctx, bad)
	_, cancel := c.Cancel(ctx, bad, client.Act{})
	_, resolve := c.Resolve(ctx, bad.Call(0), events.EffectsDone, client.Act{})
	_, approve := c.Approve(ctx, client.Approval{Call: bad.Call(0)}, client.Yes{})
	_, approval := c.Approval(ctx, bad.Call(0), 0)
	_, negative := c.CancelCall(ctx, events.CallKey{Trace: "a", Turn: "b", Offset: -1}, client.Act{})
	_, trace := c.Trace(ctx, "a b")
	_, tool := c.ResetBreaker(ctx, "a/b", client.Act{})
	for i, err := range []error{submit, get, cancel, resolve, approve, approval, negative, trace, tool} {
		if err == nil {
			t.Errorf("%d was taken", i)
		}
	}
}

// TestNew: addresses and options that no client can be made of.
func TestNew(t *testing.T) {
	for address, o := range map[string]client.Options{
		"": {}, "node:8383": {}, "ftp://node": {}, "http://": {}, "http://u:p@node": {}, "http://node?x=1": {}, "http://node#x": {}, "http://no de": {},
		"http://node:8383": {Token: "t"}, "http://10.0.0.1": {Token: "t"}, "http://127.0.0.1.evil.example": {Token: "t"},
		"https://node": {Token: "a b"}, "https://node/x": {Token: "a\r\nHost: b"},
	} {
		if _, err := client.New(address, o); !errors.Is(err, client.ErrOptions) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for address, o := range map[string]client.Options{
		"http://127.0.0.1:1": {Token: "t"}, "http://[::1]:1/": {Token: "t"}, "http://localhost": {Token: "t"}, "https://node": {Token: "t"},
		"http://node": {Token: "t", PlainText: true}, "http://node/below/": {},
	} {
		c, err := client.New(address, o)
		must(t, err)
		c.Close()
	}
}

// TestTokensGoNowhereElse: a redirect is not followed, and no other host hears the token.
func TestTokensGoNowhereElse(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the token went elsewhere") }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret-token" {
			t.Errorf("%q", r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Token: "secret-token"})
	must(t, err)
	defer c.Close()
	_, err = c.Submit(within(t), client.Submission{Calls: call("echo", nil)})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 307 || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("%v", err)
	}
}

// TestAnswersAreBounded: an endless answer, an endless problem, and what is no JSON.
func TestAnswersAreBounded(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch {
		case strings.HasSuffix(r.URL.Path, "/problem"):
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, strings.Repeat("\x1b[2Jx", 1<<20))
		case strings.HasSuffix(r.URL.Path, "/page"):
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, "<html>sign in\x1b[2J</html>")
		default:
			w.Header().Set("Content-Type", "application/json")
			for i := 0; i < 100_000; i++ {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1000)); err != nil {
					return
				}
			}
		}
	}))
	defer s.Close()
	c, err := client.New(s.URL, client.Options{MaxAnswer: 1 << 20})
	must(t, err)
	defer c.Close()
	for turn, want := range map[string]error{"endless": client.ErrAnswer, "problem": nil, "page": client.ErrAnswer} {
		asked.Store(0)
		_, err := c.Get(within(t), events.TurnKey{Trace: "t", Turn: turn})
		var p *client.Problem
		switch {
		case want != nil && !errors.Is(err, want), want == nil && (!errors.As(err, &p) || p.Status != 404 || p.Code() != ""):
			t.Errorf("%s: %v", turn, err)
		case len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\x1b\n"):
			t.Errorf("%s: %d bytes: %q", turn, len(err.Error()), err)
		case asked.Load() != 1:
			t.Errorf("%s: asked %d times: it is no better the next time", turn, asked.Load())
		}
	}
}

// TestRetries: what is answered again, how often, and how long after.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		status, times int
		after         string
		least         time.Duration
	}{
		{503, 4, "", 0},
		{429, 4, "", 0},
		{502, 4, "", 0},
		{504, 4, "", 0},
		{500, 1, "", 0},
		{409, 1, "", 0},
		{404, 1, "", 0},
		{401, 1, "", 0},
		{503, 2, "1", time.Second},
	} {
		var asked atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Content-Type", "application/problem+json")
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.WriteHeader(c.status)
			_, _ = fmt.Fprintf(w, `{"type":"urn:sluice:problem:x-%d","title":"No","status":%d}`, c.status, c.status)
		}))
		cl, err := client.New(s.URL, client.Options{Retry: client.Retry{Attempts: c.times + btoi(c.times == 1)*3, First: time.Millisecond, Most: 2 * time.Millisecond}})
		must(t, err)
		began := time.Now()
		_, err = cl.Whoami(within(t))
		if !errors.Is(err, client.Code(fmt.Sprint("x-", c.status))) || int(asked.Load()) != c.times || time.Since(began) < c.least {
			t.Errorf("%+v: %d times, %v: %v", c, asked.Load(), time.Since(began), err)
		}
		cl.Close()
		s.Close()
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestTLSIsTold: what two sides do not agree on is said at once, and not tried again.
func TestTLSIsTold(t *testing.T) {
	var asked atomic.Int32
	count := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); next.ServeHTTP(w, r) })
	}
	quiet := func(s *httptest.Server) *httptest.Server {
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Config.ConnState = func(_ net.Conn, at http.ConnState) {
			if at == http.StateNew {
				asked.Add(1)
			}
		}
		t.Cleanup(s.Close)
		return s
	}
	plain := quiet(httptest.NewUnstartedServer(count(http.NotFoundHandler())))
	plain.Start()
	secure := quiet(httptest.NewUnstartedServer(count(http.NotFoundHandler())))
	secure.StartTLS()
	wants := quiet(httptest.NewUnstartedServer(count(http.NotFoundHandler())))
	wants.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	wants.StartTLS()
	trusts := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	trusts.RootCAs.AddCert(wants.Certificate())
	for address, c := range map[string]struct {
		tls  *tls.Config
		part string
	}{
		strings.Replace(plain.URL, "http:", "https:", 1): {nil, "HTTP response to HTTPS client"},
		secure.URL: {nil, "certificate"},
		wants.URL:  {trusts, "certificate required"},
		strings.Replace(secure.URL, "https:", "http:", 1): {nil, "HTTP request to an HTTPS server"},
	} {
		asked.Store(0)
		cl, err := client.New(address, client.Options{TLS: c.tls, Retry: client.Retry{Attempts: 5, First: time.Millisecond}})
		must(t, err)
		_, err = cl.Whoami(within(t))
		if err == nil || !strings.Contains(err.Error(), c.part) || asked.Load() > 2 {
			t.Errorf("%s: %d times, %v", address, asked.Load(), err)
		}
		cl.Close()
	}
}

// TestContextEndsEverything: each wait ends with its context, and says so.
func TestContextEndsEverything(t *testing.T) {
	n, c := running(t, settings{}, client.Options{})
	key := events.TurnKey{Trace: "long", Turn: "one"}
	_, err := c.Submit(within(t), client.Submission{Trace: key.Trace, Turn: key.Turn, CanAsk: true, Calls: call("approve_me", object{"v": object{"x": 1}})})
	must(t, err)
	down, err := client.New("http://127.0.0.1:1", client.Options{Retry: client.Retry{Attempts: 1 << 20}})
	must(t, err)
	defer down.Close()
	var wg sync.WaitGroup
	for name, do := range map[string]func(ctx context.Context) error{
		"wait": func(ctx context.Context) error { _, err := c.Wait(ctx, key); return err },
		"run": func(ctx context.Context) error {
			_, err := c.Run(ctx, client.Submission{CanAsk: true, Calls: call("approve_me", object{"v": object{"x": 2}})})
			return err
		},
		"events": func(ctx context.Context) error {
			for _, err := range c.Events(ctx, client.Query{Now: true, Follow: true, Trace: "none"}) {
				return err
			}
			return nil
		},
		"approvals": func(ctx context.Context) error {
			for _, err := range c.WatchApprovals(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"retry": func(ctx context.Context) error { _, err := down.Whoami(ctx); return err },
	} {
		wg.Go(func() {
			ctx, stop := context.WithTimeout(within(t), 300*time.Millisecond)
			defer stop()
			if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	turn, err := c.WaitFor(within(t), key, time.Millisecond)
	if err != nil || turn.Ended() {
		t.Errorf("%+v, %v", turn, err)
	}
	_ = n
}
