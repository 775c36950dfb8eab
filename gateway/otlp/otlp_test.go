package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
	"github.com/sluice-run/sluice/test/collector"
	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/test/proc"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestEverySpanOnce, over both protocols, compressed and not, across orderly restarts.
func TestEverySpanOnce(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"http": func(*Config) {}, "http and gzip": func(c *Config) { c.Target.Gzip = true },
		"grpc": byGRPC, "grpc and gzip": func(c *Config) { byGRPC(c); c.Target.Gzip = true },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t), collector.New()
			address := c.HTTP(t)
			if strings.HasPrefix(name, "grpc") {
				address = c.GRPC(t)
			}
			with := func(c *Config) {
				change(c)
				c.Batch, c.Target.Headers = 7, map[string]string{"x-api-key": "a b"}
				c.Resource = map[string]string{"service.name": "mine", "k": "v"}
			}
			x := working(t, w.exporter(address, with))
			w.turns("one", 20)
			x.Stop() // sends what is there
			if got := len(c.Named("execute_tool ")); got != 40 {
				t.Errorf("%d attempts after a stop", got)
			}
			w.turns("two", 20) // while nobody exports
			x = working(t, w.exporter(address, with))
			w.turns("three", 20)
			x.Stop()
			if got := len(c.Named("execute_tool echo")); got != 120 || len(c.Named("turn")) != 60 || len(c.Named("call echo")) != 120 {
				t.Errorf("%d attempts, %d turns", got, len(c.Named("turn")))
			}
			if twice := repeated(c); len(twice) > 0 {
				t.Errorf("%v", twice)
			}
			if h := c.Headers(); h.Get("X-Api-Key") != "a b" || !strings.Contains(h.Get("User-Agent"), "sluice") {
				t.Errorf("%v", h)
			}
			s := c.Spans()[0]
			if diff := cmp.Diff(map[string]string{"service.name": "mine", "service.version": "v1", "k": "v"}, s.Resource); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSpansHaveTheLogsIDs: whoever knows a turn's first commit knows its spans, and what
// its tools were given as the parent of theirs.
func TestSpansHaveTheLogsIDs(t *testing.T) {
	w, c := newWorld(t), collector.New()
	x := working(t, w.exporter(c.HTTP(t)))
	key := events.TurnKey{Trace: "tr", Turn: "tu"}
	parent := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ids := events.SpansOf(key, w.now.Add(time.Millisecond), parent)
	w.begin(key, 1, parent)
	w.end(key, 1)
	w.begin(events.TurnKey{Trace: "tr", Turn: "unsampled"}, 1, parent[:53]+"00")
	w.end(events.TurnKey{Trace: "tr", Turn: "unsampled"}, 1)
	w.sync()
	x.Stop()
	got := make(map[string]string)
	for _, s := range c.Spans() {
		if fmt.Sprintf("%x", s.TraceId) != parent[3:35] || s.Attrs["gen_ai.conversation.id"] != "tr" || s.Attrs["sluice.turn"] != "tu" {
			t.Errorf("%s: %x %v", s.Name, s.TraceId, s.Attrs)
		}
		got[s.Name] = fmt.Sprintf("%x < %x %v %x", s.SpanId, s.ParentSpanId, s.Kind, s.Flags)
	}
	want := map[string]string{
		"turn":              fmt.Sprintf("%s < %s SPAN_KIND_SERVER 301", ids.Turn(), parent[36:52]),
		"call echo":         fmt.Sprintf("%s < %s SPAN_KIND_INTERNAL 101", ids.Call(0), ids.Turn()),
		"execute_tool echo": fmt.Sprintf("%s < %s SPAN_KIND_INTERNAL 101", ids.Attempt(0, 1, owner), ids.Call(0)),
		"wait queue":        fmt.Sprintf("%s < %s SPAN_KIND_INTERNAL 101", ids.Of("turn wait", 1), ids.Turn()),
		"wait gates":        fmt.Sprintf("%s < %s SPAN_KIND_INTERNAL 101", ids.Of("wait", 0, 1), ids.Call(0)),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n := x.counts.byEnd["unsampled"]; n != 5 {
		t.Errorf("%d spans of a trace that its caller does not record", n)
	}
}

// TestACollectorThatIsDown loses nothing, whatever it says, and however long.
func TestACollectorThatIsDown(t *testing.T) {
	for name, bad := range map[string]collector.Answer{
		"unavailable": {Status: 503, RetryAfter: "0", Code: codes.Unavailable}, "too many": {Status: 429, Code: codes.ResourceExhausted, RetryAfter: "1ms"},
		"not allowed": {Status: 401, Code: codes.Unauthenticated}, "not there": {Status: 404, Code: codes.Unimplemented}, "broken": {Status: 500, Code: codes.Internal},
		"elsewhere": {Status: 307, Code: codes.Aborted},
	} {
		for _, protocol := range []string{ProtocolHTTP, ProtocolGRPC} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				w, c := newWorld(t), collector.New()
				address := c.HTTP(t)
				if protocol == ProtocolGRPC {
					address = c.GRPC(t)
				}
				c.Say(func(request, _ int) collector.Answer {
					if request < 6 {
						return bad
					}
					return collector.Answer{}
				})
				var said proc.Text
				x := working(t, w.exporter(address, func(c *Config) { c.Target.Protocol, c.Log = protocol, slog.New(slog.NewTextHandler(&said, nil)) }))
				w.turns("one", 10)
				poll(t, "all spans", func() bool { return len(c.Named("turn")) == 10 })
				x.Stop()
				if twice := repeated(c); len(twice) > 0 || len(c.Named("execute_tool")) != 20 {
					t.Errorf("%v, %d attempts", twice, len(c.Named("execute_tool")))
				}
				if text := said.String(); strings.Count(text, "does not take spans") != 1 || strings.Count(text, "takes spans again") != 1 {
					t.Errorf("one line as it begins, and one as it ends: %s", text)
				}
				if n := x.counts.requests["failed"]; n < 5 {
					t.Errorf("%d failed requests", n)
				}
			})
		}
	}
}

// TestNobodyListens: an address where nothing is, and then a collector is.
func TestNobodyListens(t *testing.T) {
	for _, protocol := range []string{ProtocolHTTP, ProtocolGRPC} {
		w := newWorld(t)
		x := working(t, w.exporter("http://127.0.0.1:1", func(c *Config) { c.Target.Protocol, c.Target.Timeout = protocol, time.Second }))
		w.turns("one", 3)
		poll(t, "two tries", func() bool {
			n := uint64(0)
			x.counts.set(func() { n = x.counts.requests["failed"] })
			return n >= 2
		})
		x.Stop() // at once: nobody is waited for who is not there
		c := collector.New()
		next := w.exporter(c.HTTP(t), func(c *Config) { c.Holder = "next" })
		poll(t, "all spans", func() bool { return len(c.Named("turn")) == 3 })
		next.Stop()
		if n := next.counts.byEnd["repeated"]; n == 0 || n > uint64(len(c.Spans())) {
			t.Errorf("%s: %d spans counted as repeated: they may have arrived", protocol, n)
		}
	}
}

// TestACrashBetweenAnswerAndCursor sends that batch again, all of it and nothing else,
// with the same ids.
func TestACrashBetweenAnswerAndCursor(t *testing.T) {
	w, c := newWorld(t), collector.New()
	address := c.HTTP(t)
	var armed atomic.Bool
	c.Say(func(request, spans int) collector.Answer {
		armed.Store(request == 3) // while it answers the third request, the cursor is lost
		return collector.Answer{}
	})
	w.log.SetFaults(&memlog.Faults{Put: func(_, key string) (bool, error) {
		if key == cursorCell && armed.Swap(false) {
			return false, bus.ErrUnavailable
		}
		return true, nil
	}})
	x := working(t, w.exporter(address, func(c *Config) { c.Batch = 10 }))
	w.turns("one", 30)
	poll(t, "all spans", func() bool { return len(c.Named("turn")) == 30 })
	x.Stop()
	twice := 0
	for _, s := range c.Spans() {
		if s.Times > 2 {
			t.Errorf("%s came %d times", s.Name, s.Times)
		}
		twice += s.Times - 1
	}
	if twice < 1 || twice > 20 || len(c.Named("execute_tool")) != 60 {
		t.Errorf("%d spans came again, of batches of 10; %d attempts", twice, len(c.Named("execute_tool")))
	}
	if n := x.counts.byEnd["repeated"]; n != uint64(twice) {
		t.Errorf("%d counted as repeated, %d were", n, twice)
	}
}

// TestWhatACollectorRefuses is halved, and what it refuses by itself is given up.
func TestWhatACollectorRefuses(t *testing.T) {
	for _, protocol := range []string{ProtocolHTTP, ProtocolGRPC} {
		for _, bad := range []collector.Answer{{Status: 400, Code: codes.InvalidArgument}, {Status: 413, Code: codes.ResourceExhausted}} {
			w, c := newWorld(t), collector.New()
			address := c.HTTP(t)
			if protocol == ProtocolGRPC {
				address = c.GRPC(t)
			}
			c.Say(func(_, spans int) collector.Answer {
				if spans > 3 {
					return bad
				}
				return collector.Answer{}
			})
			x := working(t, w.exporter(address, func(c *Config) { c.Target.Protocol = protocol }))
			w.turns("one", 5)
			poll(t, "all spans", func() bool { return len(c.Named("turn")) == 5 })
			if twice := repeated(c); len(twice) > 0 {
				t.Errorf("%v", twice)
			}
			if bad.Code == codes.InvalidArgument {
				c.Say(func(_, spans int) collector.Answer {
					if spans > 0 {
						return bad
					}
					return collector.Answer{}
				})
				each := uint64(len(c.Spans()) / 5)
				w.turns("two", 2)
				poll(t, "they are given up", func() bool {
					n := uint64(0)
					x.counts.set(func() { n = x.counts.byEnd["given_up"] })
					return n == 2*each
				})
			}
			x.Stop()
		}
	}
}

// TestACollectorThatRefusesEverything loses nothing: what it is sent while the way to it
// is wrong comes once that is mended.
func TestACollectorThatRefusesEverything(t *testing.T) {
	for _, protocol := range []string{ProtocolHTTP, ProtocolGRPC} {
		w, c := newWorld(t), collector.New()
		address := c.HTTP(t)
		if protocol == ProtocolGRPC {
			address = c.GRPC(t)
		}
		asked := make(chan struct{}, 1000)
		c.Say(func(_, spans int) collector.Answer {
			if spans == 0 {
				select {
				case asked <- struct{}{}:
				default:
				}
			}
			return collector.Answer{Status: 400, Code: codes.InvalidArgument}
		})
		x := working(t, w.exporter(address, func(c *Config) { c.Target.Protocol = protocol }))
		w.turns("one", 5)
		for range 3 {
			<-asked
		}
		var waiting uint64
		x.counts.set(func() { waiting = max(x.counts.behind, x.counts.pending) })
		if waiting == 0 {
			t.Error("no commit is known to wait")
		}
		c.Say(func(int, int) collector.Answer { return collector.Answer{} })
		poll(t, "all spans", func() bool { return len(c.Named("turn")) == 5 })
		x.Stop()
		if n := x.counts.byEnd; n["given_up"] != 0 || len(repeated(c)) > 0 {
			t.Errorf("%v", n)
		}
	}
}

// TestLongWords: a collector that takes everything and has much to say about it is not
// sent the same again.
func TestLongWords(t *testing.T) {
	for _, protocol := range []string{ProtocolHTTP, ProtocolGRPC} {
		w, c := newWorld(t), collector.New()
		address := c.HTTP(t)
		if protocol == ProtocolGRPC {
			address = c.GRPC(t)
		}
		c.Say(func(request, _ int) collector.Answer {
			return collector.Answer{Rejected: 1, Message: strings.Repeat("too old ", 60<<10/8*4), Keep: true}
		})
		x := working(t, w.exporter(address, func(c *Config) { c.Target.Protocol = protocol }))
		w.turns("one", 1)
		poll(t, "all spans", func() bool { return len(c.Named("turn")) == 1 })
		x.Stop()
		if n := x.counts.requests; n["ok"] == 0 || n["ok"] != uint64(c.Requests()) || len(repeated(c)) > 0 {
			t.Errorf("%s: %v of %d requests", protocol, n, c.Requests())
		}
	}
}

// TestAnAnswerWithParameters in its content type says what it says.
func TestAnAnswerWithParameters(t *testing.T) {
	said := &coltracepb.ExportTraceServiceResponse{PartialSuccess: &coltracepb.ExportTracePartialSuccess{RejectedSpans: 3}}
	body, err := proto.Marshal(said)
	must(t, err)
	for media, want := range map[string]int64{"application/x-protobuf": 3, "Application/X-Protobuf; charset=utf-8": 3, "application/json": 0, "": 0} {
		got, _, err := (&httpSender{}).verdict(&http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {media}}}, body)
		if got != want || err != nil {
			t.Errorf("%q: %d rejected, %v; want %d", media, got, err, want)
		}
	}
}

// TestAResourceOfAnyBytes is sent: what the environment names is not always UTF-8.
func TestAResourceOfAnyBytes(t *testing.T) {
	for _, protocol := range []string{ProtocolHTTP, ProtocolGRPC} {
		w, c := newWorld(t), collector.New()
		address := c.HTTP(t)
		if protocol == ProtocolGRPC {
			address = c.GRPC(t)
		}
		x := working(t, w.exporter(address, func(c *Config) {
			c.Target.Protocol, c.Resource = protocol, map[string]string{"team": "a\xff\x00b", "k\xff": "v"}
		}))
		w.turns("one", 1)
		poll(t, "all spans", func() bool { return len(c.Named("turn")) == 1 })
		x.Stop()
		if got := c.Named("turn")[0].Resource; got["team"] != "a\ufffd\x00b" || got["k\ufffd"] != "v" {
			t.Errorf("%s: %q", protocol, got)
		}
	}
}

// TestPartialSuccess is counted, and not sent again.
func TestPartialSuccess(t *testing.T) {
	for _, protocol := range []string{ProtocolHTTP, ProtocolGRPC} {
		w, c := newWorld(t), collector.New()
		address := c.HTTP(t)
		if protocol == ProtocolGRPC {
			address = c.GRPC(t)
		}
		c.Say(func(request, _ int) collector.Answer {
			return collector.Answer{Rejected: 2, Message: "too old\nforged=line", Keep: true}
		})
		var said proc.Text
		x := working(t, w.exporter(address, func(c *Config) { c.Target.Protocol, c.Log = protocol, slog.New(slog.NewTextHandler(&said, nil)) }))
		w.turns("one", 1)
		poll(t, "all spans", func() bool { return len(c.Named("turn")) == 1 })
		x.Stop()
		all := uint64(len(c.Spans()))
		if n := x.counts.byEnd; n["rejected"] < 2 || n["sent"]+n["rejected"] != all || len(repeated(c)) > 0 {
			t.Errorf("%v of %d", n, all)
		}
		if text := said.String(); !strings.Contains(text, "too old") || strings.Contains(text, "\nforged") {
			t.Errorf("%s", text)
		}
	}
}

// TestOneExports, however many nodes could.
func TestOneExports(t *testing.T) {
	w, c := newWorld(t), collector.New()
	address := c.HTTP(t)
	var all []*Exporter
	for i := range 4 {
		all = append(all, w.exporter(address, func(c *Config) { c.Holder = fmt.Sprint("holder", i) }))
	}
	for i := range 20 {
		w.turns(fmt.Sprint("trace", i), 3)
		if i < 3 { // who exports goes away, and another one takes the role
			poll(t, "somebody exports", func() bool { return slices.ContainsFunc(all, func(x *Exporter) bool { return x.counts.working() }) })
			at := slices.IndexFunc(all, func(x *Exporter) bool { return x.counts.working() })
			if at >= 0 {
				all[at].Stop()
				all = slices.Delete(all, at, at+1)
			}
		}
	}
	poll(t, "all spans", func() bool { return len(c.Named("turn")) == 60 })
	for _, x := range all {
		x.Stop()
	}
	if twice := repeated(c); len(twice) > 0 || len(c.Named("execute_tool")) != 120 {
		t.Errorf("%v, %d attempts", twice, len(c.Named("execute_tool")))
	}
}

// TestALostTail: an exporter that had read what the log lost goes on where the log took
// another way, and what came instead has ids of its own.
func TestALostTail(t *testing.T) {
	w, c := newWorld(t), collector.New()
	x := working(t, w.exporter(c.HTTP(t)))
	w.turns("kept", 2)
	key := events.TurnKey{Trace: "open", Turn: "t"}
	w.begin(key, 1, "")
	w.sync()
	x.Stop()
	w.end(key, 1)
	lost, err := w.bus.Head(t.Context())
	must(t, err)
	if n := w.log.LoseTail(1); n != 1 {
		t.Fatalf("%d commits lost", n)
	}
	cell, err := w.bus.Cells().Get(t.Context(), bus.BucketLock, cursorCell)
	must(t, err)
	_, err = w.bus.Cells().Put(t.Context(), bus.BucketLock, cursorCell, []byte(`{"next":"`+lost.String()+`"}`), cell.Revision, 0)
	must(t, err)
	w.seqs[key.Call(0)], w.seqs[key.Call(events.TurnEvent)] = 3, 2
	stored, err := w.bus.Load(t.Context(), key, 0)
	must(t, err)
	w.at[key] = stored[len(stored)-1].Seq
	next := events.Owner{Boot: "next", Epoch: 2}
	w.keep(key, on(events.TurnEvent, &events.TurnClaimed{Owner: next, Why: events.ClaimTakenOver}),
		on(0, &events.Recovered{LastStage: events.KindStarted, Attempt: 1, ToolStarted: true, Action: events.RecoverRestart}),
		on(0, &events.Started{Attempt: 2, Owner: next}))
	w.end(key, 1)
	w.turns("after", 2)
	var said proc.Text
	x = working(t, w.exporter(c.HTTP(t), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&said, nil)) }))
	poll(t, "all spans", func() bool { return len(c.Named("turn")) == 5 })
	x.Stop()
	if twice := repeated(c); len(twice) > 0 || len(c.Named("execute_tool")) != 10 || !strings.Contains(said.String(), "lost its tail") {
		t.Errorf("%v, %d attempts, %s", twice, len(c.Named("execute_tool")), said.String())
	}
}

// TestSecretsStayBehind, with contents and without: arguments, results, errors and
// reasons. A call's id is no secret, whatever it looks like.
func TestSecretsStayBehind(t *testing.T) {
	const secret, id = "sk-AAAAAAAAAAAAAAAAAAAAAAAA", "sk-BBBBBBBBBBBBBBBBBBBBBBBB"
	for _, content := range []bool{false, true} {
		w, c := newWorld(t), collector.New()
		x := working(t, w.exporter(c.HTTP(t), func(c *Config) { c.Content = content }))
		key := events.TurnKey{Trace: "tr", Turn: "tu"}
		text := "x \x00\xff " + secret + " https://u:hunter2@h/ y"
		w.keep(key, on(events.TurnEvent, &events.TurnSubmitted{Calls: []events.RawCall{{ProviderID: id, Tool: "echo"}}}),
			on(0, &events.Requested{ProviderID: id, Tool: "echo", Args: events.Body{Text: `{"token":"` + secret + `"}`}}),
			on(0, &events.Started{Attempt: 1, Owner: owner}), on(0, &events.CancelRequested{Reason: text}))
		w.keep(key, on(0, &events.Failed{Outcome: events.Outcome{Attempt: 1, Result: events.Result{
			Text: events.Body{Text: strings.Repeat("界", 60_000) + text}, Error: &events.Error{Code: events.ExecutionError, Message: text},
		}}}), on(events.TurnEvent, &events.TurnAbandoned{Reason: text}))
		w.sync()
		x.Stop()
		ids, contents := 0, 0
		for _, s := range c.Spans() {
			whole := s.Span.String()
			if strings.Contains(whole, secret) || strings.Contains(whole, "hunter2") {
				t.Errorf("content %t: a secret is in %s", content, whole)
			}
			if s.Attrs["gen_ai.tool.call.id"] == id {
				ids++
			}
			for key, most := range map[string]int{"gen_ai.tool.call.arguments": 200, "gen_ai.tool.call.result": maxContent} {
				if v, ok := s.Attrs[key].(string); ok {
					contents++
					if len(v) > most || !strings.HasPrefix(s.Name, "execute_tool") {
						t.Errorf("%s of %s: %d bytes", key, s.Name, len(v))
					}
				}
			}
		}
		if ids < 2 || contents != map[bool]int{true: 2}[content] {
			t.Errorf("content %t: %d spans have the call's id, %d contents", content, ids, contents)
		}
	}
}

// TestFoldsAreBounded: with next to no memory the spans are the same, since the log has
// what was forgotten.
func TestFoldsAreBounded(t *testing.T) {
	w := newWorld(t)
	var keys []events.TurnKey
	for i := range 12 {
		keys = append(keys, events.TurnKey{Trace: "tr", Turn: fmt.Sprint("t", i)})
	}
	for _, k := range keys {
		w.begin(k, 3, "")
	}
	for _, k := range slices.Backward(keys) {
		w.end(k, 3)
	}
	w.keep(keys[0], on(0, &events.LateResult{Owner: owner})) // of a turn that has ended
	w.sync()
	spans := func(limit int) (out []projections.Span, most int) {
		f := newFolds(w.bus, false)
		f.max = limit
		must(t, w.bus.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
			done, err := f.add(t.Context(), s)
			out = append(out, done...)
			most = max(most, f.order.Len())
			return err
		}))
		if f.order.Len() > 1 || len(f.byKey) != f.order.Len() {
			t.Errorf("%d folds of turns that have ended", f.order.Len())
		}
		return out, most
	}
	want, all := spans(foldBytes)
	got, few := spans(1)
	if diff := cmp.Diff(want, got); diff != "" || all != 12 || few != 1 || len(want) < 12*7 {
		t.Errorf("%d and %d folds at most, %d spans: %s", all, few, len(want), diff)
	}
}

// TestATurnFromBefore: a log that was there before the exporter is told from its head,
// and what was open then is told whole as it ends.
func TestATurnFromBefore(t *testing.T) {
	w, c := newWorld(t), collector.New()
	w.turns("before", 3)
	key := events.TurnKey{Trace: "open", Turn: "t"}
	w.begin(key, 1, "")
	w.sync()
	began := w.now
	x := working(t, w.exporter(c.HTTP(t)))
	w.end(key, 1)
	w.sync()
	x.Stop()
	got := make(map[string]time.Time)
	for _, s := range c.Spans() {
		got[s.Name] = time.Unix(0, int64(s.StartTimeUnixNano)).UTC()
	}
	want := map[string]time.Time{"turn": began.Add(-time.Millisecond), "call echo": began.Add(-time.Millisecond), "execute_tool echo": began}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestExporterMetrics: their form, and how far it is behind.
func TestExporterMetrics(t *testing.T) {
	w, c := newWorld(t), collector.New()
	c.Say(func(int, int) collector.Answer { return collector.Answer{Status: 503} })
	var skew atomic.Int64
	x := working(t, w.exporter(c.HTTP(t), func(cfg *Config) {
		start := w.now
		cfg.Now = func() time.Time { return start.Add(time.Duration(skew.Load())) }
	}))
	w.turns("one", 1)
	poll(t, "a request", func() bool { return c.Requests() > 0 })
	skew.Store(int64(time.Hour))
	found := func(name string) float64 {
		families, err := testutil.CollectAndLint(x)
		must(t, err)
		if len(families) > 0 {
			t.Errorf("%v", families)
		}
		return metric(t, x, name)
	}
	if lag := found("sluice_otlp_lag_seconds"); lag < 3599 || lag > 3601 {
		t.Errorf("%v seconds behind", lag)
	}
	if found("sluice_otlp_exporting") != 1 {
		t.Error("it does not say that it exports")
	}
	c.Say(nil)
	poll(t, "the spans", func() bool { return len(c.Named("turn")) == 1 })
	poll(t, "nothing is behind", func() bool { return found("sluice_otlp_lag_seconds") == 0 && found("sluice_otlp_lag_commits") == 0 })
	x.Stop()
	if found("sluice_otlp_exporting") != 0 {
		t.Error("it says that it exports")
	}
}

// TestStopDoesNotHang, whatever the collector does.
func TestStopDoesNotHang(t *testing.T) {
	w := newWorld(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := collector.New()
	c.Say(func(int, int) collector.Answer {
		once.Do(func() { close(begun) })
		<-release
		return collector.Answer{}
	})
	x := working(t, w.exporter(c.HTTP(t), func(c *Config) { c.Grace = 10 * time.Millisecond }))
	w.turns("one", 1)
	<-begun
	x.Stop()
	close(release)
}

// TestTargets: what is an address, and what is made of it.
func TestTargets(t *testing.T) {
	for in, want := range map[string]string{
		"http://h:4318": "http://h:4318/v1/traces", "https://h/otlp/": "https://h/otlp/v1/traces", "http://h/v1/traces": "http://h/v1/traces",
		"https://h/x?key=1": "https://h/x/v1/traces?key=1",
		"grpc http://h":     "http://h:4317", "grpc https://h:1": "https://h:1",
		"h:4318": "", "ftp://h": "", "http://": "", "http://u:p@h": "", "http://h/#f": "", "http://[": "", "carrier http://h": "",
	} {
		protocol, address, ok := strings.Cut(in, " ")
		if !ok {
			protocol, address = "", in
		}
		got, err := ParseTarget(address, protocol)
		if err == nil && got.URL.String() != want || (err != nil) != (want == "") {
			t.Errorf("%q: %v, %v, want %q", in, got.URL, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("a password is in %q", err)
		}
	}
	w := newWorld(t)
	for name, value := range map[string]string{"a\nb": "x", "a": "x\r\ny: z", "": "x"} {
		target, err := ParseTarget("http://h", "")
		must(t, err)
		target.Headers = map[string]string{name: value}
		if _, err := New(Config{Desk: w.desk, Bus: w.bus, Target: target}); err == nil {
			t.Errorf("header %q: %q is taken", name, value)
		}
	}
}

// TestRetryAfter: seconds, or a date by the collector's own clock.
func TestRetryAfter(t *testing.T) {
	const now = "Sun, 06 Nov 1994 08:49:37 GMT"
	for in, want := range map[string]time.Duration{
		"3": 3 * time.Second, "0": 0, "-1": 0, "x": 0, "": 0, "999999999": maxAfter, "99999999999999999999": maxAfter, "-99999999999999999999": 0, "Sun, 06 Nov 1994 08:50:07 GMT": 30 * time.Second,
		"Sun, 06 Nov 1994 08:49:07 GMT": 0, "Sun, 06 Nov 2094 08:49:07 GMT": maxAfter,
	} {
		if got := retryAfter(in, now); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
	if got := retryAfter("Sun, 06 Nov 1994 08:50:07 GMT", ""); got != 0 {
		t.Errorf("without the collector's time: %v", got)
	}
}

// TestHostileAnswers: a collector cannot fill this node's memory, nor send it elsewhere.
func TestHostileAnswers(t *testing.T) {
	var asked atomic.Int32
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	big := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Header().Set("Location", elsewhere)
		if strings.Contains(r.URL.Path, "moved") {
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		for range 64 {
			_, _ = w.Write(bytes.Repeat([]byte{0xff}, 64<<10))
		}
	})
	for _, path := range []string{"", "/moved"} {
		target, err := ParseTarget(big+path, "")
		must(t, err)
		s := newHTTPSender(target, frame{})
		rejected, why, err := s.send(t.Context(), nil)
		var f *failure
		if path == "" && (err != nil || rejected != 0 || why != "") || path != "" && (!errors.As(err, &f) || f.refused) {
			t.Errorf("%q: %d %q %v", path, rejected, why, err)
		}
		s.close()
	}
	if asked.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func serve(t *testing.T, f http.HandlerFunc) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}
