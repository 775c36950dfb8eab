package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
)

var (
	flakySeed  = flag.Uint64("seed", 0, "of the flaky server; 0 makes one")
	flakyTurns = flag.Int("turns", 60, "turns that go through the flaky server")
)

// flaky is a server that fails as networks do, by chance: it drops requests before they
// are served and answers after, answers 503, and cuts answers and streams in the middle.
type flaky struct {
	next http.Handler
	off  atomic.Bool
	mu   sync.Mutex
	rng  *rand.Rand
	did  map[string]int // what it has done, how often
}

func (f *flaky) roll() (kind int, cut int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind, cut = f.rng.IntN(10), f.rng.IntN(3000)
	if f.off.Load() {
		kind = 9
	}
	f.did[[]string{"drop", "503", "lose", "half", "cut", "", "", "", "", ""}[kind]]++
	return kind, cut
}

// ServeHTTP is http.Handler's.
func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch kind, cut := f.roll(); kind {
	case 0:
		panic(http.ErrAbortHandler)
	case 1:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprint(w, `{"type":"urn:sluice:problem:unavailable","title":"The log cannot be reached","status":503}`)
	case 2:
		f.next.ServeHTTP(&cutting{ResponseWriter: w, left: 0, quiet: true}, r)
		panic(http.ErrAbortHandler)
	case 3, 4:
		f.next.ServeHTTP(&cutting{ResponseWriter: w, left: cut / (1 + 20*(kind-3))}, r)
		panic(http.ErrAbortHandler)
	default:
		f.next.ServeHTTP(w, r)
	}
}

// cutting is a writer that lets through so many bytes, and sends them at once.
type cutting struct {
	http.ResponseWriter
	left  int
	quiet bool // not even the head goes out
}

var errCut = errors.New("cut")

// WriteHeader is http.ResponseWriter's.
func (c *cutting) WriteHeader(status int) {
	if !c.quiet {
		c.ResponseWriter.WriteHeader(status)
	}
}

// Write is http.ResponseWriter's.
func (c *cutting) Write(b []byte) (int, error) {
	n := min(c.left, len(b))
	if c.left -= n; n > 0 {
		if _, err := c.ResponseWriter.Write(b[:n]); err != nil {
			return 0, err
		}
		_ = http.NewResponseController(c.ResponseWriter).Flush()
	}
	if n < len(b) {
		return n, errCut
	}
	return n, nil
}

// Unwrap lets http.ResponseController find the writer beneath.
func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// flakyNode is a node behind a flaky server.
func flakyNode(t *testing.T) (*node, *client.Client, *flaky) {
	t.Helper()
	seed := *flakySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: go test ./client -run %s -seed %d", seed, t.Name(), seed)
	f := &flaky{rng: rand.New(rand.NewPCG(seed, 1)), did: map[string]int{}}
	n, c := running(t, settings{wrap: func(next http.Handler) http.Handler { f.next = next; return f }}, client.Options{})
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		t.Logf("%v", f.did)
		for _, kind := range []string{"drop", "503", "lose", "half", "cut"} {
			if f.did[kind] == 0 && !t.Failed() {
				t.Logf("no %s happened: too few requests", kind)
			}
		}
	})
	return n, c, f
}

// history is every event of a node's log, without the network.
func (n *node) history(t *testing.T) []events.Position {
	t.Helper()
	var out []events.Position
	for _, e := range n.all(t) {
		out = append(out, e.Position)
	}
	return out
}

// all is every event of a node's log by a client that is not troubled.
func (n *node) all(t *testing.T) []client.Event {
	t.Helper()
	calm, err := client.New(n.url, client.Options{})
	must(t, err)
	defer calm.Close()
	var out []client.Event
	for e, err := range calm.Events(within(t), client.Query{}) {
		must(t, err)
		out = append(out, e)
	}
	return out
}

// TestFlakyServer: turns that go through a server which fails half of the time run once,
// and everybody hears of their end; who follows the log hears of each event once, in order.
func TestFlakyServer(t *testing.T) {
	n, c, f := flakyNode(t)
	ctx := within(t)
	follow, enough := context.WithCancel(ctx)
	var got []events.Position
	var wg sync.WaitGroup
	ends := make(chan struct{}, *flakyTurns)
	wg.Go(func() {
		for e, err := range c.Events(follow, client.Query{Follow: true}) {
			switch {
			case errors.Is(err, context.Canceled):
				return
			case err != nil || e.Notice != "":
				t.Errorf("%+v, %v", e, err)
				return
			}
			got = append(got, e.Position)
			if e.Kind == events.KindTurnCompleted {
				ends <- struct{}{}
			}
		}
	})
	var turns sync.WaitGroup
	for i := range *flakyTurns {
		turns.Go(func() {
			out, err := c.Run(ctx, client.Submission{
				Trace: fmt.Sprint("flaky", i%7), Calls: call("charge", object{"order": fmt.Sprint("o", i), "amount": i}),
			})
			if err != nil || !out.Ended() || len(out.Messages) != 1 || !strings.Contains(string(out.Messages[0]), "success") {
				t.Errorf("turn %d: %+v, %v", i, out, err)
			}
		})
	}
	turns.Wait()
	for range *flakyTurns {
		select {
		case <-ends:
		case <-ctx.Done():
			t.Fatal("the follower has not heard of every end")
		}
	}
	enough()
	wg.Wait()
	f.off.Store(true)
	started := map[string]int{}
	for _, e := range n.all(t) {
		if e.Kind == events.KindStarted {
			started[e.Turn.Call(e.Call).String()]++
		}
	}
	if len(started) != *flakyTurns {
		t.Errorf("%d calls have started, of %d that were submitted", len(started), *flakyTurns)
	}
	for k, times := range started {
		if times != 1 {
			t.Errorf("%s started %d times", k, times)
		}
	}
	if want := n.history(t); !slices.Equal(got, want[:len(got)]) || len(want)-len(got) > 0 && len(got) == 0 {
		t.Errorf("the follower heard %s", cmp.Diff(want, got))
	}
}

// TestFlakyReads: lists and pages come whole, or not at all.
func TestFlakyReads(t *testing.T) {
	n, c, f := flakyNode(t)
	ctx := within(t)
	f.off.Store(true)
	for i := range 12 {
		_, err := c.Submit(ctx, client.Submission{Trace: fmt.Sprint("t", i), Turn: "u", CanAsk: true, Calls: call("approve_me", object{"v": object{"i": i}})})
		must(t, err)
	}
	seen := map[string]bool{}
	for a, err := range c.WatchApprovals(ctx) {
		must(t, err)
		if seen[a.ID] = true; len(seen) == 12 {
			break
		}
	}
	want := n.history(t)
	f.off.Store(false)
	for range 5 {
		var got []events.Position
		for e, err := range c.Events(ctx, client.Query{}) {
			must(t, err)
			got = append(got, e.Position)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		list, err := c.Approvals(ctx)
		must(t, err)
		if len(list) != 12 {
			t.Errorf("%d approvals", len(list))
		}
		traces := 0
		for tr, err := range c.Traces(ctx, client.TraceQuery{Page: 5}) {
			must(t, err)
			if traces++; tr.Turns != 1 || tr.OpenTurns != 1 {
				t.Errorf("%+v", tr)
			}
		}
		if traces != 12 {
			t.Errorf("%d traces", traces)
		}
	}
	for i := range 12 { // every answer is given once, whatever was heard of it
		list, err := c.Approvals(ctx)
		must(t, err)
		d, err := c.Approve(ctx, list[0], client.Yes{By: &events.Principal{ID: "ann", Kind: "person"}})
		if err != nil || strings.TrimPrefix(d.Status, "already_") != "approved" || len(list) != 12-i {
			t.Errorf("%d wait: %+v, %v", len(list), d, err)
		}
	}
}

const openAIStream = `data: {"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"charge","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"order\":"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"ORDER\",\"amount\":1}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`

// slowly gives a stream piece by piece, as a model does.
type slowly struct{ r *bufio.Reader }

// Read is io.Reader's.
func (s *slowly) Read(b []byte) (int, error) {
	line, err := s.r.ReadSlice('\n')
	return copy(b, line), err
}

// TestFlakyStreams: a model's stream is submitted once, however often it has to be sent, and
// is read once.
func TestFlakyStreams(t *testing.T) {
	n, c, f := flakyNode(t)
	ctx := within(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			text := strings.ReplaceAll(openAIStream, "ORDER", fmt.Sprint("s", i))
			shown := ""
			in := client.Stream{Body: &slowly{r: bufio.NewReader(strings.NewReader(text))}}
			if i%2 == 0 {
				in.Preview = func(p client.Preview) { shown += p.Delta }
			}
			out, err := c.SubmitStream(ctx, client.Submission{Trace: "streams", Turn: fmt.Sprint("t", i), Format: client.OpenAI, Wait: 20 * time.Second}, in)
			if err != nil || out.State != "completed" || len(out.Messages) != 1 || out.Stop != "tool_calls" {
				t.Errorf("stream %d: %+v, %v", i, out, err)
			}
			if want := fmt.Sprintf(`{"order":"s%d","amount":1}`, i); i%2 == 0 && shown != want {
				t.Errorf("stream %d: %q was shown, want %q", i, shown, want)
			}
		})
	}
	all.Wait()
	f.off.Store(true)
	starts := 0
	for _, e := range n.all(t) {
		if e.Kind == events.KindStarted {
			starts++
		}
	}
	if starts != 20 {
		t.Errorf("%d starts", starts)
	}
}

// TestStreamsThatFail: what does not end well submits nothing.
func TestStreamsThatFail(t *testing.T) {
	n, c := running(t, settings{}, client.Options{})
	ctx := within(t)
	whole := strings.ReplaceAll(openAIStream, "ORDER", "x")
	broken := errors.New("the provider has hung up")
	for name, in := range map[string]struct {
		body io.Reader
		want error
	}{
		"cut":       {strings.NewReader(whole[:len(whole)/2]), client.StreamCut},
		"broken":    {io.MultiReader(strings.NewReader(whole[:len(whole)/2]), fails{broken}), broken},
		"no stream": {strings.NewReader("hello"), client.Code("stream-format")},
		"no events": {strings.NewReader(": hello"), client.StreamCut},
		"too long":  {io.MultiReader(strings.NewReader(whole[:100]), bytes.NewReader(make([]byte, 9<<20))), nil},
	} {
		_, err := c.SubmitStream(ctx, client.Submission{Trace: "bad", Turn: strings.ReplaceAll(name, " ", "-")}, client.Stream{Body: in.body})
		if err == nil || in.want != nil && !errors.Is(err, in.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []client.Submission{{Calls: call("echo", nil)}, {Message: []byte(`{}`)}, {Trace: "a.b"}} {
		if _, err := c.SubmitStream(ctx, s, client.Stream{Body: strings.NewReader(whole)}); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
	halted := strings.NewReader(`data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"length"}]}` + "\n\ndata: [DONE]\n\n")
	var p *client.Problem
	if _, err := c.SubmitStream(ctx, client.Submission{}, client.Stream{Body: halted}); !errors.Is(err, client.ModelCut) || !errors.As(err, &p) || p.Stop != "length" {
		t.Errorf("a model that was cut off: %v", err)
	}
	nothing := `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	out, err := c.SubmitStream(ctx, client.Submission{Workspace: "", Allow: []string{"écho"}}, client.Stream{Body: strings.NewReader(nothing)})
	if err != nil || out.State != "nothing" || out.Stop != "stop" {
		t.Errorf("%+v, %v", out, err)
	}
	if all := n.all(t); len(all) != 0 {
		t.Errorf("%d events", len(all))
	}
	stuck, end := io.Pipe()
	defer end.Close()
	soon, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := c.SubmitStream(soon, client.Submission{}, client.Stream{Body: stuck}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stream that says nothing: %v", err)
	}
	must(t, stuck.Close())
}

// fails is a reader that fails.
type fails struct{ err error }

// Read is io.Reader's.
func (f fails) Read([]byte) (int, error) { return 0, f.err }
