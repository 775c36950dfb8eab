package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// both runs a test for each revision.
func both(t *testing.T, f func(t *testing.T, revision string)) {
	t.Helper()
	for _, r := range revisions {
		t.Run(r, func(t *testing.T) { f(t, r) })
	}
}

func TestACallIsACallOfATurn(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{})
		s := w.client(revision, nil, nil)
		r := call(t, s, "echo", map[string]any{"v": json.RawMessage(`{"id":9007199254740993}`)})
		if r.IsError || say(r) != `{"id":9007199254740993}` {
			t.Errorf("%v %q", r.IsError, say(r))
		}
		k := turnOf(t, r)
		v := w.turn(k)
		if !v.Ended() || v.Turn.Submitted.Principal.ID != "local" || !v.Turn.Submitted.CanAsk || v.Turn.Submitted.Workspace != "" {
			t.Errorf("submitted as %+v", v.Turn.Submitted)
		}
		if again := turnOf(t, call(t, s, "echo", map[string]any{"v": 1})); again.Trace != k.Trace || again.Turn == k.Turn {
			t.Errorf("the session's second call is %s, the first was %s", again, k)
		}
	})
}

// TestResults: what a call can end as, and what the model is told of it.
func TestResults(t *testing.T) {
	w := newWorld(t, making{})
	s := w.client("2026-07-28", nil, nil)
	for _, c := range []struct {
		tool, args, says string
		fails            bool
	}{
		{"echo", `{"v":""}`, lifecycle.NoOutput, false},
		{"nil", `{}`, lifecycle.NoOutput, false},
		{"echo", `{"v":null}`, lifecycle.NoOutput, false},
		{"charge", `{"order":"o","amount":1}`, "charged 1 for order o", false},
		{"echo", `{}`, "INVALID_PARAM: ", true},
		{"panic", `{}`, "EXECUTION_ERROR: ", true},
		{"unavailable", `{}`, "EXECUTION_ERROR: ", true},
		{"read", `{"path":"none"}`, "NOT_FOUND: ", true},
	} {
		r := call(t, s, c.tool, json.RawMessage(c.args))
		if r.IsError != c.fails || !strings.HasPrefix(say(r), c.says) {
			t.Errorf("%s %s: error %v, %q", c.tool, c.args, r.IsError, say(r))
		}
	}
	if r := call(t, s, "charge", json.RawMessage(`{"order":"p","amount":2}`)); fmt.Sprint(r.StructuredContent) != "map[amount:2 order:p]" {
		t.Errorf("structured content %v", r.StructuredContent)
	}
	first := call(t, s, "charge", json.RawMessage(`{"order":"q","amount":2}`))
	second := call(t, s, "charge", json.RawMessage(`{"order":"q","amount":2}`))
	if second.IsError || !strings.Contains(say(second), turnOf(t, first).String()) {
		t.Errorf("the same order again, which the tool itself knows for one: %q", say(second))
	}
	_, err := s.CallTool(within(t), &sdk.CallToolParams{Name: "no_such_tool"})
	if err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("a tool that there is not: %v", err)
	}
}

// TestUnknownIsToldInWords: an attempt that may have had its effect is no failure.
func TestUnknownIsToldInWords(t *testing.T) {
	done := make(chan struct{})
	w := newWorld(t, making{tools: []tools.Tool{{
		Spec: tools.Spec{Name: "lost", Description: "gets lost", Schema: json.RawMessage(`{"type":"object"}`), Tier: events.Irreversible},
		Run: func(context.Context, tools.Invocation) (events.Result, error) {
			defer close(done)
			return events.Result{}, &tools.Error{Code: events.MCPNetworkError, Class: events.ClassUnavailable, Effects: events.EffectsPossible, Message: "the line is dead"}
		},
	}}})
	r := call(t, w.client("2025-11-25", nil, nil), "lost", nil)
	<-done
	if !r.IsError || !strings.Contains(say(r), lifecycle.UnknownSentence) {
		t.Errorf("error %v: %q", r.IsError, say(r))
	}
}

// TestBinariesAndLargeAnswers: images come as they are, what is cut can be read whole, by
// nobody who may not see the turn.
func TestBinariesAndLargeAnswers(t *testing.T) {
	w := newWorld(t, making{api: ring(t, "ann", "bob")})
	s := w.client("2026-07-28", nil, bearer("ann"))
	r := call(t, s, "test_multiple_content_types", nil)
	var kinds []string
	for _, c := range r.Content {
		kinds = append(kinds, fmt.Sprintf("%T", c))
	}
	if want := []string{"*mcp.TextContent", "*mcp.ImageContent", "*mcp.EmbeddedResource"}; !slices.Equal(kinds, want) {
		t.Errorf("content %v, want %v", kinds, want)
	}
	for kind, size := range map[string]int{"text": 200_000, "binary": 300_000} {
		r = call(t, s, "blob", map[string]any{"bytes": size, "kind": kind})
		b, err := json.Marshal(r)
		must(t, err)
		if len(b) > 60_000 {
			t.Errorf("%s: an answer of %d bytes", kind, len(b))
		}
		i := slices.IndexFunc(r.Content, func(c sdk.Content) bool { _, ok := c.(*sdk.ResourceLink); return ok })
		if i < 0 {
			t.Fatalf("%s: there is no link to all of it: %s", kind, b)
		}
		uri := r.Content[i].(*sdk.ResourceLink).URI
		got, err := s.ReadResource(within(t), &sdk.ReadResourceParams{URI: uri})
		must(t, err)
		if n := len(got.Contents[0].Text) + len(got.Contents[0].Blob); n != size {
			t.Errorf("%s: read %d bytes of %d", kind, n, size)
		}
		if _, err := w.client("2026-07-28", nil, bearer("bob")).ReadResource(within(t), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: another agent reads it, too", kind)
		}
	}
	for _, uri := range []string{"sluice://turns/x", "sluice://turns/../../blobs/sha256:00", "file:///etc/passwd", "sluice://turns/a/b/blobs/" + strings.Repeat("x", 3000)} {
		if _, err := s.ReadResource(within(t), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s can be read", uri)
		}
	}
}

// TestALostRequestIsNotMadeTwice: the connection dies while the call runs; the client asks
// again, under another id, and meets the call that there is.
func TestALostRequestIsNotMadeTwice(t *testing.T) {
	for name, meta := range map[string]string{"by what is asked": "", "by key": `"` + MetaKey + `":"k1"`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, making{door: func(c *Config) { c.Linger = patience }})
			const args = `{"name":"lost","stall_ms":0}`
			gate := make(chan struct{})
			must(t, w.registry.Add(w.slowEffect("effect", gate)))
			w.known("effect")
			first := w.send(1, "effect", args, meta)
			until(t, "the effect has happened", func() bool { return len(w.lines()) == 1 })
			first.cut()
			second := w.send(2, "effect", args, meta)
			until(t, "the second request waits", func() bool { return w.waiting() == 1 })
			close(gate)
			r := second.answer(t)
			if r.IsError || r.Meta[MetaAgain] != true || len(w.lines()) != 1 {
				t.Errorf("error %v, meta %v, ledger %q", r.IsError, r.Meta, w.lines())
			}
			v := w.turn(turnOf(t, r))
			if n := len(v.Turn.Calls); n != 1 || v.Turn.Calls[0].Attempt != 1 {
				t.Errorf("%d calls, attempt %d", n, v.Turn.Calls[0].Attempt)
			}
		})
	}
}

// TestALostAnswerIsGivenOnce: the call ends with nobody there; whoever asks the same gets
// that answer, and whoever then asks the same means another call.
func TestALostAnswerIsGivenOnce(t *testing.T) {
	w := newWorld(t, making{door: func(c *Config) { c.Linger = patience }})
	gate := make(chan struct{})
	must(t, w.registry.Add(w.slowEffect("effect", gate)))
	w.known("effect")
	first := w.send(1, "effect", `{}`, "")
	until(t, "the effect has happened", func() bool { return len(w.lines()) == 1 })
	first.cut()
	close(gate)
	until(t, "the turn has ended", func() bool { return w.ended() == 1 })
	second := w.send(2, "effect", `{}`, "").answer(t)
	third := w.send(3, "effect", `{}`, "").answer(t)
	if second.Meta[MetaAgain] != true || third.Meta[MetaAgain] == true || len(w.lines()) != 2 {
		t.Errorf("second %v, third %v, ledger %q", second.Meta, third.Meta, w.lines())
	}
	if turnOf(t, second) == turnOf(t, third) {
		t.Error("both are one turn")
	}
}

// TestTwoIntendedCallsBothRun: one after the other, as fast as a program can.
func TestTwoIntendedCallsBothRun(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{})
		s := w.client(revision, nil, nil)
		for i := range 40 {
			if r := call(t, s, "counter", map[string]any{"name": "n"}); say(r) != fmt.Sprintf("n is %d", i+1) {
				t.Fatalf("call %d: %q", i+1, say(r))
			}
		}
	})
}

// TestAnotherDoorMeetsTheSame: the second request comes to another node's door, the third
// to one that has only just begun.
func TestAnotherDoorMeetsTheSame(t *testing.T) {
	w := newWorld(t, making{door: func(c *Config) { c.Linger = patience }})
	gate := make(chan struct{})
	must(t, w.registry.Add(w.slowEffect("effect", gate)))
	w.known("effect")
	first := w.send(1, "effect", `{}`, "")
	until(t, "the effect has happened", func() bool { return len(w.lines()) == 1 })
	first.cut()
	w.door.Close()
	w.reopen(making{door: func(c *Config) { c.Linger = patience }})
	second := w.send(2, "effect", `{}`, "")
	until(t, "the second request waits", func() bool { return w.waiting() == 1 })
	close(gate)
	if r := second.answer(t); r.IsError || r.Meta[MetaAgain] != true || len(w.lines()) != 1 {
		t.Errorf("error %v, meta %v, ledger %q", r.IsError, r.Meta, w.lines())
	}
}

// TestKeys: the same key is the same call, however often it is asked for; with other
// arguments it is refused.
func TestKeys(t *testing.T) {
	w := newWorld(t, making{})
	s := w.client("2025-11-25", nil, nil)
	ask := func(key any, name string) (*sdk.CallToolResult, error) {
		return s.CallTool(within(t), &sdk.CallToolParams{Name: "approveless", Arguments: map[string]any{"name": name}, Meta: sdk.Meta{MetaKey: key}})
	}
	must(t, w.registry.Add(w.effect("approveless")))
	w.known("approveless")
	first, err := ask("k", "a")
	must(t, err)
	second, err := ask("k", "a")
	must(t, err)
	if first.IsError || second.IsError || len(w.lines()) != 1 || !strings.Contains(say(second), "earlier call") {
		t.Errorf("%q, then %q; ledger %q", say(first), say(second), w.lines())
	}
	other, err := ask("k", "b")
	must(t, err)
	if !other.IsError || !strings.HasPrefix(say(other), string(events.IdempotencyConflict)) || len(w.lines()) != 1 {
		t.Errorf("other arguments: %q", say(other))
	}
	if _, err := ask("l", "a"); err != nil || len(w.lines()) != 2 {
		t.Errorf("another key: %v, ledger %q", err, w.lines())
	}
	for _, bad := range []any{7, "", strings.Repeat("k", maxKey+1), []string{"k"}} {
		if _, err := ask(bad, "a"); err == nil {
			t.Errorf("the key %v is one", bad)
		}
	}
}

// TestTraceOfTheClientsChoice: a client may name it, and its trace context goes along.
func TestTraceOfTheClientsChoice(t *testing.T) {
	w := newWorld(t, making{})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	s := w.client("2025-11-25", nil, http.Header{"Traceparent": {"00-11111111111111111111111111111111-2222222222222222-01"}})
	r, err := s.CallTool(within(t), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"v": 1}, Meta: sdk.Meta{MetaTrace: "my-run", "traceparent": parent}})
	must(t, err)
	k := turnOf(t, r)
	if got := w.turn(k).Turn.Submitted.Traceparent; k.Trace != "my-run" || got != parent {
		t.Errorf("trace %s, context %s", k.Trace, got)
	}
	r = call(t, s, "echo", map[string]any{"v": 1})
	if got := w.turn(turnOf(t, r)).Turn.Submitted.Traceparent; !strings.HasPrefix(got, "00-1111") {
		t.Errorf("the header's context: %s", got)
	}
	for _, bad := range []any{"a b", "../x", strings.Repeat("x", 65), 1} {
		if _, err := s.CallTool(within(t), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"v": 1}, Meta: sdk.Meta{MetaTrace: bad}}); err == nil {
			t.Errorf("trace %v", bad)
		}
	}
	r, err = s.CallTool(within(t), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"v": 1}, Meta: sdk.Meta{"traceparent": "nonsense"}})
	if err != nil || r.IsError {
		t.Errorf("a context that is none: %v", err)
	}
}

// TestCancel: a client that takes its request back has the call cancelled, by a message
// where the revision has one, and by the stream's end where that is all there is.
func TestCancel(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{door: func(c *Config) { c.Linger = -1 }})
		s := w.client(revision, nil, nil)
		ctx, stop := context.WithCancel(within(t))
		ended := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": 600_000}})
			ended <- err
		}()
		until(t, "the call runs", func() bool { return w.running() == 1 })
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the client: %v", err)
		}
		until(t, "the turn has ended", func() bool { return w.ended() == 1 })
		if c := w.turn(w.turns()[0]).Turn.Calls[0]; c.Last != events.KindCancelled {
			t.Errorf("it ended as %s", c.Last)
		}
	})
}

// TestAClosedStreamLingers: a call above readonly is not cancelled at once, and is where
// nobody asks again.
func TestAClosedStreamLingers(t *testing.T) {
	w := newWorld(t, making{door: func(c *Config) { c.Linger = 50 * time.Millisecond }})
	gate := make(chan struct{})
	defer close(gate)
	must(t, w.registry.Add(w.slowEffect("effect", gate)))
	w.known("effect")
	first := w.send(1, "effect", `{}`, "")
	until(t, "the effect has happened", func() bool { return len(w.lines()) == 1 })
	first.cut()
	until(t, "the turn has ended", func() bool { return w.ended() == 1 })
	r := w.send(2, "effect", `{}`, "").answer(t)
	if !r.IsError || !strings.Contains(say(r), lifecycle.UnknownSentence) || len(w.lines()) != 1 {
		t.Errorf("who asks again is told %q; ledger %q", say(r), w.lines())
	}
}

// TestWhatWasCancelledInTimeIsMadeAgain: nothing had happened, and nobody had heard of it.
func TestWhatWasCancelledInTimeIsMadeAgain(t *testing.T) {
	w := newWorld(t, making{door: func(c *Config) { c.Linger = -1 }})
	approval := w.send(1, "approve_me", `{"v":1}`, "")
	id := w.asked()
	approval.cut()
	until(t, "the turn has ended", func() bool { return w.ended() == 1 })
	again := w.send(2, "approve_me", `{"v":1}`, "")
	next := w.asked()
	if next.Call == id.Call {
		t.Errorf("it is asked about %s again", next)
	}
	must(t, w.desk.Approve(within(t), next.Call, yes("ann")))
	if r := again.answer(t); r.IsError || len(w.lines()) != 1 {
		t.Errorf("%q, ledger %q", say(r), w.lines())
	}
}

// TestProgress: the numbers grow, and nothing is told once the call has ended.
func TestProgress(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{})
		told := make(chan *sdk.ProgressNotificationParams, 16)
		s := w.client(revision, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { told <- r.Params }}, nil)
		p := &sdk.CallToolParams{Name: "test_tool_with_progress", Arguments: map[string]any{}}
		p.SetProgressToken("tok")
		if _, err := s.CallTool(within(t), p); err != nil {
			t.Fatal(err)
		}
		last := -1.0
		for i := range 3 {
			select {
			case n := <-told:
				if n.ProgressToken != "tok" || n.Progress <= last || n.Total != 100 || n.Message == "" {
					t.Errorf("note %d: %+v", i, n)
				}
				last = n.Progress
			case <-within(t).Done():
				t.Fatalf("only %d notes", i)
			}
		}
		if last != 100 {
			t.Errorf("the last is %v", last)
		}
	})
}
