package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote"
)

// shop is a NATS server, and a node's half of the contract with workers.
type shop struct {
	nats   *server.Server
	bus    *jetlog.Bus
	reg    *tools.Registry
	roster *remote.Roster
	url    string
	wg     sync.WaitGroup
}

// silence is how long a worker may say nothing: one that is well beats many times meanwhile.
const silence = 5 * time.Second

// openShop opens one whose streams live in memory, below dir.
func openShop(ctx context.Context, dir string) (*shop, error) {
	s := &shop{reg: &tools.Registry{}}
	var err error
	s.nats, err = server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	s.nats.Start()
	if !s.nats.ReadyForConnections(time.Minute) {
		return s, errors.New("the NATS server does not start")
	}
	s.url = s.nats.ClientURL()
	connect := func(name string) (*nats.Conn, error) { return nats.Connect(s.url, jetlog.Options(name, nil)...) }
	if s.bus, err = jetlog.Open(ctx, jetlog.Config{Connect: connect, Memory: true}); err != nil {
		return s, err
	}
	s.roster, err = remote.New(remote.Config{Workers: s.bus, Registry: s.reg, Boot: "boot", Trust: remote.Trust{Declared: true}, Silence: silence})
	if err != nil {
		return s, err
	}
	return s, s.roster.Start(ctx, 0)
}

func (s *shop) close() {
	s.wg.Wait()
	if s.roster != nil {
		s.roster.Stop()
	}
	if s.bus != nil {
		_ = s.bus.Close() // what it was to keep is in memory
	}
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}

// call has an attempt of a tool made, once it is there.
func (s *shop) call(ctx context.Context, tool, args string) tools.Report {
	return s.attempt(ctx, tool, tools.Invocation{Args: json.RawMessage(args)}, tools.Options{})
}

func (s *shop) attempt(ctx context.Context, tool string, in tools.Invocation, o tools.Options) tools.Report {
	changed := s.reg.Changed()
	t, there := s.reg.Lookup(tool)
	for !there {
		select {
		case <-changed:
		case <-ctx.Done():
			return tools.Report{Result: events.Result{Error: &events.Error{Message: tool + " is not there"}}}
		}
		changed = s.reg.Changed()
		t, there = s.reg.Lookup(tool)
	}
	in.Call, in.Attempt = events.CallKey{Trace: "tr", Turn: "tu"}, max(in.Attempt, 1)
	return tools.Execute(ctx, t, in, o)
}

func newShop(t *testing.T) (*shop, context.Context) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(stop)
	s, err := openShop(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s, ctx
}

// serve serves tools until leave is called, which returns Serve's error.
func (s *shop) serve(t *testing.T, ctx context.Context, cfg client.WorkerConfig, list ...client.WorkerTool) (leave func() error) {
	t.Helper()
	nc, err := nats.Connect(s.url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	cfg.Conn = nc
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	s.wg.Go(func() { ended <- client.Serve(ctx, cfg, list...) })
	leave = sync.OnceValue(func() error {
		stop()
		return <-ended
	})
	t.Cleanup(func() { _ = leave() }) // a test that wants to know asks
	return leave
}

type greetIn struct {
	Name  string `json:"name" jsonschema_description:"whom to greet"`
	Loud  bool   `json:"loud,omitempty"`
	Times []int  `json:"times,omitempty"`
}

func greet(_ context.Context, _ client.Task, in greetIn) (string, error) {
	if in.Loud {
		return strings.ToUpper("hello " + in.Name), nil
	}
	return "hello " + in.Name, nil
}

// TestServe: what tools answer, and how they fail, arrives.
func TestServe(t *testing.T) {
	s, ctx := newShop(t)
	fail := func(err error) client.WorkerTool {
		return client.WorkerTool{Run: func(context.Context, client.Task) (client.Output, error) { return client.Output{}, err }}
	}
	list := []client.WorkerTool{client.Handle("greet", "Greets.", events.Readonly, greet)}
	ends := map[string]struct {
		tool    client.WorkerTool
		class   events.Class
		effects events.Effects
		part    string
	}{
		"plain":   {fail(errors.New("just so")), events.ClassTool, events.EffectsPossible, "just so"},
		"refused": {fail(&client.ToolError{Class: events.ClassInvalid, Code: events.NotFound, Message: "no such order", Path: "/order"}), events.ClassInvalid, events.EffectsNone, "no such order"},
		"away": {
			fail(&client.ToolError{Class: events.ClassUnavailable, Message: "closed", Effects: events.EffectsNone, After: 3 * time.Second, Output: &client.Output{Text: "half"}}),
			events.ClassUnavailable, events.EffectsNone, "closed",
		},
		"asks": {fail(&client.InputNeeded{State: "s", Requests: []events.InputRequest{{ID: "a", Kind: events.InputURL, URL: "https://x.org/"}}}), events.ClassInput, events.EffectsPossible, ""},
		"partial": {client.WorkerTool{Run: func(context.Context, client.Task) (client.Output, error) {
			return client.Output{Status: events.Partial, Text: "some", Data: json.RawMessage(`[1.50]`)}, nil
		}}, events.ClassOK, events.EffectsDone, "some"},
		"broken": {client.WorkerTool{Run: func(context.Context, client.Task) (client.Output, error) {
			return client.Output{Data: json.RawMessage(`{`)}, nil
		}}, events.ClassTool, events.EffectsPossible, "JSON"},
		"vast": {client.WorkerTool{Run: func(context.Context, client.Task) (client.Output, error) {
			return client.Output{Text: strings.Repeat("x", 17<<20)}, nil
		}}, events.ClassTool, events.EffectsPossible, "answer with less"},
	}
	for name, e := range ends {
		e.tool.Name = name
		list = append(list, e.tool)
	}
	leave := s.serve(t, ctx, client.WorkerConfig{}, list...)
	if r := s.call(ctx, "greet", `{"name":"ann","loud":true}`); r.Result.Text.Text != "HELLO ANN" || r.Class != events.ClassOK {
		t.Errorf("%+v", r)
	}
	if r := s.call(ctx, "greet", `{"name":7}`); r.Class != events.ClassInvalid || r.Result.Error.Code != events.InvalidParam {
		t.Errorf("arguments of another kind: %+v", r)
	}
	for name, e := range ends {
		r := s.call(ctx, name, `{}`)
		words := r.Result.Text.Text
		if r.Result.Error != nil {
			words += r.Result.Error.Message
		}
		if r.Class != e.class || r.Effects != e.effects || !strings.Contains(words, e.part) {
			t.Errorf("%s: %s, effects %s, %q; want %s, %s, %q", name, r.Class, r.Effects, words, e.class, e.effects, e.part)
		}
	}
	if err := leave(); err != nil {
		t.Error(err)
	}
	if r := s.call(ctx, "greet", `{"name":"ann"}`); r.Class != events.ClassUnavailable || r.Effects != events.EffectsNone {
		t.Errorf("a worker that has left: %+v", r)
	}
}

// TestServeTask: a task carries what a tool needs to know, progress goes back, and a cancel
// ends the context.
func TestServeTask(t *testing.T) {
	s, ctx := newShop(t)
	seen, begun := make(chan client.Task, 8), make(chan struct{}, 8)
	s.serve(t, ctx, client.WorkerConfig{}, client.WorkerTool{
		Name: "wait", Tier: events.Irreversible,
		Run: func(ctx context.Context, task client.Task) (client.Output, error) {
			task.Progress("half", 1, 2)
			seen <- task
			begun <- struct{}{}
			<-ctx.Done()
			return client.Output{}, context.Cause(ctx)
		},
	})
	one, stop := context.WithCancel(ctx)
	told := make(chan events.Progress, 8)
	go func() {
		<-begun
		select {
		case <-told:
		case <-ctx.Done():
		}
		stop()
	}()
	in := tools.Invocation{
		Args: json.RawMessage(`{"n":1.50}`), Attempt: 3, Key: "k", Mode: "write", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Given: &events.Given{State: "s", Answers: []events.InputAnswer{{ID: "a", Action: events.InputAccept}}},
	}
	r := s.attempt(one, "wait", in, tools.Options{Progress: func(p events.Progress) { told <- p }})
	if r.Class != events.ClassCancelled || !r.Confirmed {
		t.Errorf("%+v", r)
	}
	task := <-seen
	if task.Call != "tr/tu/0" || task.Attempt != 3 || task.Key != "k" || task.Mode != "write" || string(task.Args) != `{"n":1.50}` ||
		task.Traceparent != in.Traceparent || task.Given == nil || task.Given.Answers[0].Action != events.InputAccept || time.Until(task.Deadline) > 3*time.Minute {
		t.Errorf("the task is %+v", task)
	}
	in.Deadline = time.Now().Add(300 * time.Millisecond)
	if r := s.attempt(ctx, "wait", in, tools.Options{}); r.Class != events.ClassTimeout || !r.Confirmed {
		t.Errorf("past its deadline: %+v", r)
	}
}

// TestServeDrains: who is to leave lets its attempts end, takes no others, and ends in time
// those that do not.
func TestServeDrains(t *testing.T) {
	s, ctx := newShop(t)
	var running atomic.Int32
	go1, begun := make(chan struct{}), make(chan struct{}, 8)
	leave := s.serve(t, ctx, client.WorkerConfig{Drain: 3 * time.Second, Room: 2}, client.WorkerTool{
		Name: "hold", Tier: events.Readonly,
		Run: func(ctx context.Context, task client.Task) (client.Output, error) {
			running.Add(1)
			defer running.Add(-1)
			begun <- struct{}{}
			if string(task.Args) == `{"for":"ever"}` {
				<-ctx.Done()
				return client.Output{}, context.Cause(ctx)
			}
			<-go1
			return client.Output{Text: "held"}, nil
		},
	})
	first, second := make(chan tools.Report, 1), make(chan tools.Report, 1)
	go func() { first <- s.call(ctx, "hold", `{"for":"a moment"}`) }()
	go func() { second <- s.call(ctx, "hold", `{"for":"ever"}`) }()
	<-begun
	<-begun
	if r := s.call(ctx, "hold", `{}`); r.Class != events.ClassUnavailable || !strings.Contains(r.Result.Error.Message, "busy") {
		t.Errorf("a worker without room: %+v", r)
	}
	left := make(chan error, 1)
	go func() { left <- leave() }()
	close(go1)
	if r := <-first; r.Result.Text.Text != "held" {
		t.Errorf("what ran as the worker was to leave: %+v", r)
	}
	if r := <-second; r.Class != events.ClassCancelled {
		t.Errorf("what would not end: %+v", r)
	}
	if err := <-left; err != nil || running.Load() != 0 {
		t.Errorf("%d run, %v", running.Load(), err)
	}
}

// TestServeComesBack: a worker whose connection breaks serves on.
func TestServeComesBack(t *testing.T) {
	s, ctx := newShop(t)
	s.serve(t, ctx, client.WorkerConfig{Every: 50 * time.Millisecond}, client.Handle("greet", "", events.Readonly, greet))
	if r := s.call(ctx, "greet", `{"name":"ann"}`); r.Class != events.ClassOK {
		t.Fatalf("%+v", r)
	}
	connections, err := s.nats.Connz(&server.ConnzOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range connections.Conns {
		if c.Name == "" { // the node's have names
			if err := s.nats.DisconnectClientByID(c.Cid); err != nil {
				t.Fatal(err)
			}
		}
	}
	for {
		r := s.call(ctx, "greet", `{"name":"ann"}`)
		if r.Class == events.ClassOK {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("it does not come back: %+v", r)
		}
	}
}

// TestServeRefuses what no node could work with, at once and with a reason.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(deadAddress(t), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	run := func(context.Context, client.Task) (client.Output, error) { return client.Output{}, nil }
	good := client.WorkerTool{Name: "good", Run: run}
	for name, c := range map[string]struct {
		cfg  client.WorkerConfig
		list []client.WorkerTool
		part string
	}{
		"no connection":  {client.WorkerConfig{}, []client.WorkerTool{good}, "Conn"},
		"no tool":        {client.WorkerConfig{Conn: nc}, nil, "0 tools"},
		"a bad instance": {client.WorkerConfig{Conn: nc, Instance: "a.b"}, []client.WorkerTool{good}, "instance"},
		"a name twice":   {client.WorkerConfig{Conn: nc}, []client.WorkerTool{good, good}, "twice"},
		"a bad name":     {client.WorkerConfig{Conn: nc}, []client.WorkerTool{{Name: "a.b", Run: run}}, "a name is"},
		"a server's":     {client.WorkerConfig{Conn: nc}, []client.WorkerTool{{Name: "a__b", Run: run}}, "a name is"},
		"no code":        {client.WorkerConfig{Conn: nc}, []client.WorkerTool{{Name: "a"}}, "Run"},
		"no schema":      {client.WorkerConfig{Conn: nc}, []client.WorkerTool{{Name: "a", Run: run, Schema: json.RawMessage("{")}}, "JSON"},
		"no tier":        {client.WorkerConfig{Conn: nc}, []client.WorkerTool{{Name: "a", Run: run, Tier: "harmless"}}, "tier"},
		"nobody there":   {client.WorkerConfig{Conn: nc}, []client.WorkerTool{good}, "NATS"},
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		err := client.Serve(ctx, c.cfg, c.list...)
		stop()
		if !errors.Is(err, client.ErrWorker) || !strings.Contains(fmt.Sprint(err), c.part) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// deadAddress is one where nobody listens.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "nats://" + l.Addr().String()
}

type loop struct {
	Next *loop `json:"next"`
}

func TestHandleDerivesTheSchema(t *testing.T) {
	tool := client.Handle("greet", "", events.Readonly, greet)
	var s struct {
		Properties           map[string]struct{ Type, Description string }
		Required             []string
		AdditionalProperties *bool
	}
	if err := json.Unmarshal(tool.Schema, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Properties) != 3 || s.Properties["name"].Description != "whom to greet" || len(s.Required) != 1 || s.AdditionalProperties == nil || *s.AdditionalProperties {
		t.Errorf("%s", tool.Schema)
	}
	for name, make := range map[string]func(){
		"a type that contains itself": func() {
			client.Handle("x", "", "", func(context.Context, client.Task, loop) (string, error) { return "", nil })
		},
		"no struct": func() {
			client.Handle("x", "", "", func(context.Context, client.Task, int) (string, error) { return "", nil })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s has a schema", name)
				}
			}()
			make()
		}()
	}
}
