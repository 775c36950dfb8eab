package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

func TestACallGoesThereAndBack(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := begin(t, mcptest.Options{Revision: revision})
		if st := w.state(); st.State != Up || st.Revision != revision || st.Name != "mcptest 1" {
			t.Fatalf("%+v", st)
		}
		r := w.call("echo", `{"v":[9007199254740993,1e400,0.1,"é"]}`)
		if r.Class != events.ClassOK || r.Result.Text.Text != `[9007199254740993,1e400,0.1,"é"]` || r.Effects != events.EffectsDone || !r.Confirmed {
			t.Errorf("%+v", r)
		}
		r = w.call("meta", `{}`, func(in *tools.Invocation) { in.Key, in.Traceparent, in.Attempt = "k1", "00-a-b-01", 3 })
		var meta map[string]any
		if err := json.Unmarshal(r.Result.Data, &meta); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if meta[MetaKey] != "k1" || meta[MetaCall] != "t/u/0" || meta[MetaAttempt] != 3.0 || meta["traceparent"] != "00-a-b-01" {
			t.Errorf("%v", meta)
		}
		if w.noted("call meta") != 1 {
			t.Errorf("%v", mcptest.Lines(w.o.Journal))
		}
		_ = json.Unmarshal(w.call("meta", `{}`).Result.Data, &meta)
		if meta[MetaKey] != "t/u/0" { // the same for each attempt of the call
			t.Errorf("%v", meta)
		}
	})
}

// What a tool says, and what becomes of it.
func TestWhatAnswersMean(t *testing.T) {
	w := begin(t, mcptest.Options{})
	type want struct {
		class   events.Class
		code    events.Code
		effects events.Effects
		says    string
	}
	for call, c := range map[string]want{
		`fail {}`: {events.ClassTool, events.MCPExecutionError, events.EffectsDone, "the disk is full"},
		`perror {"code":-32602,"message":"n must be positive"}`:        {events.ClassInvalid, events.MCPParamError, events.EffectsNone, "n must be positive"},
		`perror {"code":-32602,"message":"Unknown tool: x"}`:           {events.ClassTool, events.MCPNotFound, events.EffectsNone, "Unknown tool"},
		`perror {"code":-32601,"message":"Method not found"}`:          {events.ClassTool, events.MCPNotFound, events.EffectsNone, "Method not found"},
		`perror {"code":-32603,"message":"it broke \u001b[2K inside"}`: {events.ClassTool, events.MCPExecutionError, events.EffectsPossible, `it broke \u001b[2K inside`},
		`perror {"code":-32600,"message":"what?"}`:                     {events.ClassTool, events.MCPExecutionError, events.EffectsNone, "what?"},
		`perror {"code":-32000,"message":" "}`:                         {events.ClassTool, events.MCPExecutionError, events.EffectsPossible, "it does not say why (error -32000 of server "},
		`perror {"code":-32096,"message":"its own"}`:                   {events.ClassTool, events.MCPExecutionError, events.EffectsPossible, "its own (error -32096 of server "},
		`sampling {}`:                  {events.ClassTool, events.MCPExecutionError, events.EffectsPossible, "sampling/createMessage is not offered"},
		`busy {}`:                      {events.ClassUnavailable, events.MCPNetworkError, events.EffectsPossible, "busy"},
		`odd {}`:                       {events.ClassTool, events.MCPExecutionError, events.EffectsPossible, "a kind that is not known here: task"},
		`empty {}`:                     {class: events.ClassOK, effects: events.EffectsDone},
		`nothing {}`:                   {class: events.ClassOK, effects: events.EffectsDone},
		`null {}`:                      {class: events.ClassOK, effects: events.EffectsDone},
		`blank {}`:                     {class: events.ClassOK, effects: events.EffectsDone},
		`typed {"n":9007199254740993}`: {class: events.ClassOK, effects: events.EffectsDone},
		`typed {"n":"one"}`:            {events.ClassTool, events.MCPExecutionError, events.EffectsDone, "/n must be integer"},
		`untyped {}`:                   {events.ClassTool, events.MCPExecutionError, events.EffectsDone, "there is none"},
	} {
		name, args, _ := strings.Cut(call, " ")
		r := w.call(name, args)
		if r.Class != c.class || r.Effects != c.effects {
			t.Errorf("%s: %+v", call, r)
		}
		switch {
		case c.code == "" && r.Result.Error == nil:
		case r.Result.Error == nil || r.Result.Error.Code != c.code || !strings.Contains(r.Result.Error.Message, c.says):
			t.Errorf("%s: %+v", call, r.Result.Error)
		}
	}
	if r := w.call("typed", `{"n":9007199254740993}`); string(r.Result.Data) != `{"n":9007199254740993}` || r.Result.Text.Text != "" {
		t.Errorf("%s, %q", r.Result.Data, r.Result.Text.Text)
	}
	if r := w.call("typed", `{"n":"one"}`); string(r.Result.Data) != `{"n":"one"}` {
		t.Errorf("what was answered is not kept: %+v", r.Result)
	}
}

func TestPartsOfAResult(t *testing.T) {
	w := begin(t, mcptest.Options{})
	r := w.call("kinds", `{}`)
	want := strings.Join([]string{
		"a text", "[image: 6 bytes, image/png, keeps 89504e470d0a]", "[audio: its data is no base64, and was left out]",
		"[resource file:///a.txt]", "inside", "[resource file:///b.bin: 3 bytes, application/octet-stream, keeps 000102]",
		`[resource link: far away https://example.com/\u001b[2K]`, "[a part of a kind that is not known here: hologram]", "[a part that cannot be read]",
	}, "\n")
	if len(r.Result.Blobs) != 2 || r.Result.Blobs[0].Media != "image/png" || r.Result.Blobs[1].Size != 3 {
		t.Errorf("%+v", r.Result.Blobs)
	}
	if r.Class != events.ClassOK || r.Result.Text.Text != want {
		t.Errorf("%q\nwant %q", r.Result.Text.Text, want)
	}
}

func TestProgressIncreases(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := begin(t, mcptest.Options{Revision: revision})
		var seen []float64
		in := tools.Invocation{Args: json.RawMessage(`{}`), Progress: func(p events.Progress) { seen = append(seen, p.Done) }}
		if r, err := w.tool("steps").Run(t.Context(), in); err != nil || r.Text.Text != "done" {
			t.Fatalf("%+v, %v", r, err)
		}
		if fmt.Sprint(seen) != "[1 2 3]" {
			t.Errorf("%v", seen)
		}
	})
}

func TestInputIsAskedAndGiven(t *testing.T) {
	w := begin(t, mcptest.Options{})
	r := w.call("ask", `{}`)
	if r.Class != events.ClassInput || r.Input == nil || len(r.Input.Requests) != 1 || r.Input.State != "first" {
		t.Fatalf("%+v", r)
	}
	q := r.Input.Requests[0]
	if q.ID != "who" || q.Kind != events.InputForm || q.Message != "Who are you?" || !strings.Contains(string(q.Schema), `"name"`) {
		t.Errorf("%+v", q)
	}
	r = w.call("ask", `{}`, func(in *tools.Invocation) {
		in.Key, in.Attempt = "k", 2
		in.Given = &events.Given{State: r.Input.State, Answers: []events.InputAnswer{{ID: "who", Action: events.InputAccept, Content: json.RawMessage(`{"name":"Ada","n":9007199254740993}`)}}}
	})
	if r.Class != events.ClassOK || r.Result.Text.Text != `first: {"action":"accept","content":{"n":9007199254740993,"name":"Ada"}}, key k` {
		t.Errorf("%+v", r)
	}
	r = w.call("ask", `{}`, func(in *tools.Invocation) {
		in.Given = &events.Given{State: "first", Answers: []events.InputAnswer{{ID: "who", Action: events.InputCancel}}}
	})
	if r.Class != events.ClassOK || !strings.Contains(r.Result.Text.Text, `{"action":"cancel"}`) {
		t.Errorf("%+v", r)
	}
}

func TestAPageToVisitFirst(t *testing.T) {
	w := begin(t, mcptest.Options{Revision: mcptest.Old})
	r := w.call("visit", `{}`)
	if r.Class != events.ClassInput || r.Input.Requests[0].URL != "https://example.com/consent" || r.Input.Requests[0].Kind != events.InputURL {
		t.Fatalf("%+v", r)
	}
	given := func(action string) func(*tools.Invocation) {
		return func(in *tools.Invocation) {
			in.Given = &events.Given{Answers: []events.InputAnswer{{ID: "e1", Action: action}}}
		}
	}
	if r := w.call("visit", `{}`, given(events.InputDecline)); r.Class != events.ClassTool || r.Effects != events.EffectsNone || w.noted("call visit") != 1 {
		t.Errorf("%+v", r)
	}
	if r := w.call("visit", `{}`, given(events.InputAccept)); r.Class != events.ClassOK || r.Result.Text.Text != "thank you" {
		t.Errorf("%+v", r)
	}
}

func TestWhatAServerAsksItsClientIsDeclined(t *testing.T) {
	w := begin(t, mcptest.Options{Revision: mcptest.Old})
	r := w.call("elicits", `{}`)
	lines := strings.Split(r.Result.Text.Text, "\n")
	if len(lines) != 4 || lines[0] != "ping {}" {
		t.Fatalf("%+v", r)
	}
	for _, line := range lines[1:] {
		if !strings.Contains(line, "-32600") || !strings.Contains(line, "Sluice does not offer") {
			t.Error(line)
		}
	}
	var said bool
	for _, line := range mcptest.Lines(w.o.Journal) {
		if strings.HasPrefix(line, "initialize") {
			said = true
			if strings.Contains(line, "elicitation") || strings.Contains(line, "sampling") {
				t.Error(line)
			}
		}
	}
	if !said {
		t.Error("no initialize")
	}
}

// Two calls in flight, one is cancelled: the server hears of that one, the other ends as
// it would have, and the server goes on.
func TestACancelIsOneCalls(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := begin(t, mcptest.Options{Revision: revision}, tierOf(events.Readonly))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ends := make(chan tools.Report, 2)
		go func() { ends <- w.callWithin(ctx, "held", `{}`) }()
		other := make(chan tools.Report, 1)
		go func() { other <- w.call("sleep", `{"ms":400}`) }()
		until(t, "both calls are there", func() bool { return w.noted("call ") == 2 })
		cancel()
		if r := <-ends; r.Class != events.ClassCancelled || !r.Confirmed || r.Answered {
			t.Errorf("%+v", r)
		}
		until(t, "the server hears of it", func() bool { return w.noted("cancelled ") == 1 })
		if r := <-other; r.Class != events.ClassOK || r.Result.Text.Text != "slept" {
			t.Errorf("the other: %+v", r)
		}
		select {
		case r := <-w.late:
			if r.Class != events.ClassOK || r.Result.Text.Text != "too late" || !r.Answered {
				t.Errorf("%+v", r)
			}
		case <-time.After(patience):
			t.Fatal("the late answer is lost")
		}
		if r := w.call("echo", `{"v":1}`); r.Class != events.ClassOK || w.noted("list") != 1 {
			t.Errorf("the server has begun anew: %+v", r)
		}
	})
}

func TestADeadlineIsToldToTheServer(t *testing.T) {
	w := begin(t, mcptest.Options{}, func(_ *world, s *Server, _ *Config) { s.Limits.Wall = 4 * time.Second })
	r := w.call("held", `{}`)
	if r.Class != events.ClassTimeout || r.Result.Error.Code != events.MCPTimeout || r.Effects != events.EffectsPossible || !r.Confirmed {
		t.Errorf("%+v", r)
	}
	until(t, "the server hears of it", func() bool { return w.noted("cancelled ") == 1 })
	select {
	case r := <-w.late:
		if r.Result.Text.Text != "too late" {
			t.Errorf("%+v", r)
		}
	case <-time.After(patience):
		t.Fatal("the late answer is lost")
	}
}

// A server that is stuck with one tool's call: what comes behind it says nothing of its own
// tool, goes to the server that is begun anew, and before the call that may do it again.
func TestCallsBehindOneThatHangs(t *testing.T) {
	w := begin(t, mcptest.Options{}, func(_ *world, s *Server, c *Config) {
		s.Limits.Wall = 8 * time.Second
		c.Times.Ping, c.Times.Pong, c.Times.Patience = time.Hour, 200*time.Millisecond, 6*time.Second // the held one waits longer, and then for the new server
	})
	within := func(wall time.Duration, attempt int) func(*tools.Invocation) {
		return func(in *tools.Invocation) {
			in.Call.Offset, in.Attempt, in.Deadline = attempt, attempt, time.Now().Add(wall)
		}
	}
	reports := map[string]chan tools.Report{}
	starts := func(as, name string, edit ...func(*tools.Invocation)) {
		ends := make(chan tools.Report, 1)
		reports[as] = ends
		go func() { ends <- w.call(name, `{"v":1}`, edit...) }()
	}
	starts("hangs", "stall")
	until(t, "the server hangs", func() bool { return w.noted("call stall") == 1 })
	server := w.host.all()[0]
	until(t, "it is asked whether it is there", func() bool { return server.session.tap.hearing.doubt() != nil })
	starts("short", "echo", within(500*time.Millisecond, 1))
	starts("held", "echo", within(patience, 2))
	for _, c := range []struct {
		as     string
		class  events.Class
		absent bool
	}{{"short", events.ClassTimeout, true}, {"hangs", events.ClassTimeout, false}, {"held", events.ClassOK, false}} {
		if r := <-reports[c.as]; r.Class != c.class || r.Absent != c.absent {
			t.Errorf("%s: %+v", c.as, r)
		}
	}
	if n := w.noted("call echo"); n != 1 {
		t.Errorf("%d calls were sent", n)
	}
	if !server.yields(events.TurnKey{Trace: "t", Turn: "u"}.Call(0)) {
		t.Error("the call that hung is not known")
	}
}

// What was sent into the pipe of a server that is stuck already is no evidence for its own
// tool; what the server was stuck with is, and so is a silence that is one call's alone.
func TestWhoseSilenceItIs(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		between       func(h *hearing, first *waiting)
		behind, over  bool
	}{
		"behind another tool's":          {"hang", "echo", nil, true, false},
		"behind its own":                 {"hang", "hang", nil, false, false},
		"behind one whose time is over":  {"hang", "echo", func(h *hearing, w *waiting) { h.ends(w, false, true) }, true, true},
		"behind one that was cancelled":  {"hang", "echo", func(h *hearing, w *waiting) { h.ends(w, false, false) }, true, true},
		"behind one that was answered":   {"fast", "echo", func(h *hearing, w *waiting) { h.says(); h.ends(w, true, false) }, false, true},
		"beside one, and the server can": {"long", "echo", func(h *hearing, _ *waiting) { h.says() }, false, false},
	} {
		h := &hearing{}
		first := h.begins(events.CallKey{}, c.first)
		second := h.begins(events.CallKey{}, c.second)
		if c.between != nil {
			c.between(h, first)
		}
		behind := h.ends(second, false, true)
		if behind != c.behind || h.over != c.over {
			t.Errorf("%s: behind %t, over %t", name, behind, h.over)
		}
	}
}

func TestACallThatCannotBeSentHasDoneNothing(t *testing.T) {
	w := begin(t, mcptest.Options{}, func(_ *world, s *Server, _ *Config) { s.AtOnce, s.Limits.Wall = 1, 5*time.Second })
	first := make(chan tools.Report, 1)
	go func() { first <- w.call("held", `{}`) }()
	until(t, "the first call is there", func() bool { return w.noted("call ") == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if r := w.callWithin(ctx, "charge", `{}`); !r.Absent || r.Effects != events.EffectsNone || r.Class != events.ClassCancelled {
		t.Errorf("%+v", r)
	}
	<-first
	if w.noted("call charge") != 0 {
		t.Error("it was sent")
	}
}
