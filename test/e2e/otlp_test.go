package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/collector"
)

var otlpCalls = flag.Int("otlp.calls", 1000, "calls whose attempts must each have one span, across SIGKILLs")

// attempts are the spans that a turn's attempts must have, by the log: id and name.
func (a *api) attempts(trace, turn string) map[string]string {
	a.t.Helper()
	list := a.events(trace, turn)
	submitted := of(list, "turn_submitted", "")
	if len(submitted) != 1 {
		a.t.Fatalf("%s/%s: %d submissions", trace, turn, len(submitted))
	}
	at, err := time.Parse(time.RFC3339Nano, submitted[0].Time)
	if err != nil {
		a.t.Fatal(err)
	}
	var sub struct{ Traceparent string }
	if err := json.Unmarshal(submitted[0].Data, &sub); err != nil {
		a.t.Fatal(err)
	}
	ids, out := events.SpansOf(events.TurnKey{Trace: trace, Turn: turn}, at, sub.Traceparent), make(map[string]string)
	for _, e := range of(list, "started", "") {
		var v struct {
			Attempt int
			Owner   events.Owner
		}
		var call int
		if _, err := fmt.Sscanf(e.Subject[strings.LastIndex(e.Subject, "/")+1:], "%d", &call); err != nil || json.Unmarshal(e.Data, &v) != nil {
			a.t.Fatalf("%+v: %v", e, err)
		}
		out[ids.Attempt(call, v.Attempt, v.Owner).String()] = "execute_tool " + e.Tool
	}
	return out
}

// attempted are the attempts' spans that a collector has.
func attempted(c *collector.Collector) (byID map[string]string, again int) {
	byID = make(map[string]string)
	for _, s := range c.Named("execute_tool ") {
		byID[s.ID()] = s.Name
		again += s.Times - 1
	}
	return byID, again
}

// swarm submits turns until all were accepted by some node.
type swarm struct {
	now   atomic.Pointer[node]
	done  atomic.Int64
	turns int
}

func (c *swarm) submit(t *testing.T, i int) {
	tu := turn{Trace: "crew", Turn: fmt.Sprint("t", i), Calls: []call{
		{Tool: "echo", Args: args{"v": i}}, {Tool: "sleep", Args: args{"ms": 2}}, {Tool: "flaky", Args: args{"fail_n": i % 2, "name": fmt.Sprint("f", i)}}, charge(fmt.Sprint("o", i), 1),
	}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for t.Context().Err() == nil {
		if status, _, err := c.now.Load().try(http.MethodPost, "/v1/turns", tu); err == nil && status < 300 {
			c.done.Add(1)
			return
		}
		<-tick.C // it is gone, and another one comes
	}
}

// TestOneSpanForEachAttempt: a collector gets the span of every attempt of a thousand
// calls, and no other, though the node is killed in the middle of an answer of the
// collector's, and once more at any moment. What it gets twice has the same id.
func TestOneSpanForEachAttempt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	p, c := newPlace(t), collector.New()
	address := c.HTTP(t)
	killed := make(chan struct{})
	cr := &swarm{turns: *otlpCalls / 4}
	var once atomic.Bool
	c.Say(func(int, int) collector.Answer {
		if int(cr.done.Load()) < cr.turns/10 || once.Swap(true) {
			return collector.Answer{}
		}
		cr.now.Load().kill() // the collector has the spans, and the node never hears that it has
		close(killed)
		return collector.Answer{Keep: true, Status: 503}
	})
	serve := func() { cr.now.Store(p.serve("--otlp", address, "--log-format", "json", "--breaker-failures", "1000")) }
	serve()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				cr.submit(t, i)
			}
		})
	}
	wg.Go(func() {
		defer close(next)
		for i := range cr.turns {
			next <- i
			if i == cr.turns/3 {
				<-killed
			}
		}
	})
	<-killed
	serve()
	from := int64(cr.turns/2) + rng.Int64N(int64(cr.turns/4))
	poll(t, "half of the turns and some", func() bool { return cr.done.Load() >= from })
	cr.now.Load().kill()
	serve()
	wg.Wait()
	n, want := cr.now.Load(), make(map[string]string)
	for i := range cr.turns {
		n.end("crew", fmt.Sprint("t", i))
		maps.Copy(want, n.attempts("crew", fmt.Sprint("t", i)))
	}
	poll(t, "all spans", func() bool { return len(c.Named("turn")) >= cr.turns && len(c.Named("execute_tool")) >= len(want) })
	got, again := attempted(c)
	if !maps.Equal(got, want) || len(want) < *otlpCalls {
		t.Errorf("%d spans of attempts, want %d", len(got), len(want))
	}
	turns := c.Named("turn")
	if len(turns) != cr.turns || len(c.Named("call ")) != 4*cr.turns {
		t.Errorf("%d spans of turns and %d of calls, want %d of turns", len(turns), len(c.Named("call ")), cr.turns)
	}
	t.Logf("%d attempts; %d of their spans came in again, with the same id; %d requests", len(want), again, c.Requests())
	linesAreNamed(t, n.log.String())
	if code := n.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// linesAreNamed: each line of a log in JSON is an object, with the names that the
// documentation gives.
func linesAreNamed(t *testing.T, text string) {
	t.Helper()
	lines := 0
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("%v: %s", err, line)
			continue
		}
		lines++
		if m["time"] == nil || m["level"] == nil || m["msg"] == nil || m["error"] != nil {
			t.Errorf("names: %s", line)
		}
		for _, name := range []string{"trace", "turn", "call"} {
			if v, ok := m[name].(string); ok && strings.Contains(v, "/") {
				t.Errorf("%s is not by itself: %s", name, line)
			}
		}
	}
	if lines == 0 {
		t.Error("the node has logged nothing")
	}
}

// TestOTLPByEnvironment: the standard variables, gRPC, headers out of a file, the
// caller's trace, and the attempt's own span in the environment of a command.
func TestOTLPByEnvironment(t *testing.T) {
	p, c := newPlace(t), collector.New()
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("# a key\nX-Api-Key: k1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.GRPC(t))
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-other=a%20b")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	n := p.serve("--otlp-headers", headers, "--otlp-content")
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	body, err := json.Marshal(turn{Trace: "tr", Turn: "tu", CanAsk: true, WaitMS: int(patience.Milliseconds()), Calls: []call{
		{ID: "c1", Tool: "Bash", Args: args{"command": "printenv TRACEPARENT"}}, {ID: "c2", Tool: "echo", Args: args{"v": "token sk-AAAAAAAAAAAAAAAAAAAAAAAA"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	go n.agreeToAll("tr", "tu")
	req, err := http.NewRequest(http.MethodPost, n.base+"/v1/turns", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", parent)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	v := n.end("tr", "tu")
	v.Calls[0].is(t, "completed", "", "")
	if code := n.stop(); code != 0 { // which sends what is left
		t.Errorf("exit %d", code)
	}
	for _, s := range c.Spans() {
		if fmt.Sprintf("%x", s.TraceId) != parent[3:35] || s.Resource["deployment.environment.name"] != "test" || s.Resource["service.name"] != "sluice" {
			t.Errorf("%s: %x %v", s.Name, s.TraceId, s.Resource)
		}
		if s.Resource["service.instance.id"] != n.Boot || s.Resource["host.name"] == "" || s.Resource["service.version"] == "" {
			t.Errorf("%s is of %v, want the node %s", s.Name, s.Resource, n.Boot)
		}
		if strings.Contains(s.Span.String(), "sk-AAAA") {
			t.Errorf("a secret is in %s", s.Span)
		}
	}
	bash := c.Named("execute_tool Bash")
	if len(bash) != 1 {
		t.Fatalf("%d attempts: %v", len(bash), c.Spans())
	}
	own := "00-" + parent[3:35] + "-" + bash[0].ID()[0:16] + "-01"
	if said := answers(t, v.Messages)[0].Answer + answers(t, v.Messages)[0].Content.Text; !strings.Contains(said, own) {
		t.Errorf("the command sees %q, want %s", said, own)
	}
	if h := c.Headers(); h.Get("X-Api-Key") != "k1" || h.Get("X-Other") != "a b" {
		t.Errorf("%v", h)
	}
	if !slices.ContainsFunc(c.Named("wait approval"), func(collector.Span) bool { return true }) {
		t.Error("the wait for a person has no span")
	}
}

// agreeToAll says yes to whatever a turn asks, until it has ended.
func (n *node) agreeToAll(trace, turn string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n.t.Context().Err() == nil {
		status, body, err := n.try(http.MethodGet, "/v1/turns/"+trace+"/"+turn, nil)
		if err != nil {
			return
		}
		var v view
		if status == http.StatusOK && json.Unmarshal(body, &v) == nil {
			if v.State == "completed" {
				return
			}
			for _, c := range v.Calls {
				if c.State == "asking" {
					_, _, _ = n.try(http.MethodPost, fmt.Sprintf("/v1/turns/%s/%s/calls/%d/approve", trace, turn, c.Call), nil)
				}
			}
		}
		<-tick.C
	}
}
