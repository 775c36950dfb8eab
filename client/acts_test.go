package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/client"
	"github.com/sluice-run/sluice/events"
)

var ann = &events.Principal{ID: "ann", Kind: "person"}

// TestPeopleAnswer: what waits is seen, answered once, and goes on as it was answered.
func TestPeopleAnswer(t *testing.T) {
	_, as := guarded(t)
	planner, people, ctx := as("planner"), as("ann"), within(t)
	submit := func(turn string, calls ...client.Call) {
		t.Helper()
		_, err := planner.Submit(ctx, client.Submission{Trace: "p", Turn: turn, CanAsk: true, Calls: calls})
		must(t, err)
	}
	one := func(v int) client.Call { return client.Call{Tool: "approve_me", Args: object{"v": object{"x": v}}} }
	submit("t1", one(1), one(2))
	got := map[string]client.Approval{}
	for a, err := range people.WatchApprovals(ctx) {
		must(t, err)
		if got[a.ID] = a; len(got) == 2 {
			submit("t2", one(3)) // the watch goes on to what comes later
		}
		if len(got) == 3 {
			break
		}
	}
	a := got["p/t1/0@1"]
	if a.Kind != client.KindApproval || a.Tool != "approve_me" || a.ArgsHash == "" || a.Principal.ID != "planner" || !strings.Contains(a.Visible, "approve_me") || a.LeftS == 0 {
		t.Errorf("%+v", a)
	}
	if _, err := planner.Approve(ctx, a, client.Yes{}); !errors.Is(err, client.NotAllowed) {
		t.Errorf("an agent approves: %v", err)
	}
	forged := a
	forged.ArgsHash = "sha256:00"
	if _, err := people.Approve(ctx, forged, client.Yes{}); !errors.Is(err, client.OtherArguments) {
		t.Errorf("other arguments: %v", err)
	}
	d, err := people.Approve(ctx, a, client.Yes{Args: object{"v": object{"x": 10}}, Note: "ten is enough"})
	if err != nil || d.Status != "approved" || d.By.ID != "ann" || d.AskedHash != a.ArgsHash {
		t.Errorf("%+v, %v", d, err)
	}
	no, err := people.Deny(ctx, got["p/t1/1@1"], client.No{Note: "not today"})
	if err != nil || no.Status != "denied" {
		t.Errorf("%+v, %v", no, err)
	}
	turn, err := planner.Wait(ctx, events.TurnKey{Trace: "p", Turn: "t1"})
	if err != nil || turn.Calls[0].State != "completed" || turn.Calls[1].State != "denied" || turn.Calls[1].Code != events.ApprovalRejected {
		t.Errorf("%+v, %v", turn, err)
	}
	again, err := people.Approve(ctx, a, client.Yes{Args: object{"v": object{"x": 10}}, Note: "ten is enough"})
	if err != nil || again.Status != "already_approved" {
		t.Errorf("the same again, after its end: %+v, %v", again, err)
	}
	page, err := people.Approval(ctx, a.Call, 0)
	if err != nil || page.State != "approved" || page.Decision == nil || page.Decision.Note != "ten is enough" {
		t.Errorf("%+v, %v", page, err)
	}
	c, err := planner.Cancel(ctx, events.TurnKey{Trace: "p", Turn: "t2"}, client.Act{Reason: "enough"})
	if err != nil || !c.Accepted() {
		t.Errorf("%+v, %v", c, err)
	}
	if turn, err = planner.Wait(ctx, events.TurnKey{Trace: "p", Turn: "t2"}); err != nil || turn.Calls[0].State != "cancelled" {
		t.Errorf("%+v, %v", turn, err)
	}
	if c, err = planner.CancelCall(ctx, events.CallKey{Trace: "p", Turn: "t2"}, client.Act{}); err != nil || c.Accepted() || c.State != events.KindCancelled {
		t.Errorf("%+v, %v", c, err)
	}
	if list, err := people.Approvals(ctx); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestToolsAsk: what a tool asks a person for comes with its form, and the answers reach it.
func TestToolsAsk(t *testing.T) {
	_, c := running(t, settings{}, client.Options{})
	ctx := within(t)
	_, err := c.Submit(ctx, client.Submission{Trace: "i", Turn: "t", CanAsk: true, Calls: call("ask", object{"message": "who pays?", "fields": []string{"name", "age:integer?"}})})
	must(t, err)
	var a client.Approval
	for a, err = range c.WatchApprovals(ctx) {
		must(t, err)
		break
	}
	if a.Kind != client.KindInput || len(a.Requests) != 1 || a.Requests[0].Message != "who pays?" || len(a.Requests[0].Fields) != 2 || !a.Requests[0].Fields[0].Required {
		t.Fatalf("%+v", a)
	}
	var p *client.Problem
	_, err = c.Answer(ctx, a, client.InputAnswers{By: ann, Action: events.InputAccept, Content: object{"age": "old"}})
	if !errors.Is(err, client.AnswersRefused) || !errors.As(err, &p) || len(p.Fields) == 0 {
		t.Errorf("%v", err)
	}
	if _, err := c.Approve(ctx, a, client.Yes{By: ann}); err == nil {
		t.Error("an input was approved")
	}
	out, err := c.Answer(ctx, a, client.InputAnswers{By: ann, Action: events.InputAccept, Content: object{"name": "Bo", "age": 7}})
	if err != nil || out.By.ID != "ann" || len(out.Answers) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	turn, err := c.Wait(ctx, events.TurnKey{Trace: "i", Turn: "t"})
	if err != nil || turn.Calls[0].State != "completed" || turn.Calls[0].Attempt != 2 {
		t.Errorf("%+v, %v", turn, err)
	}
}

// TestUndoAndResolve: a completed call is undone once; an end that nobody knows is settled.
func TestUndoAndResolve(t *testing.T) {
	_, c := running(t, settings{}, client.Options{})
	ctx := within(t)
	out, err := c.Run(ctx, client.Submission{Trace: "u", Calls: call("reserve", object{"item": "seat 4"})})
	must(t, err)
	u, err := c.Compensate(ctx, out.Key().Call(0), time.Minute, client.Act{By: ann, Reason: "wrong seat"})
	if err != nil || u.Status != "compensated" || u.By == nil || u.By.ID != "ann" {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err = c.Compensate(ctx, out.Key().Call(0), 0, client.Act{}); err != nil || u.Status != "already_compensated" {
		t.Errorf("%+v, %v", u, err)
	}
	turn, err := c.Get(ctx, out.Key())
	if err != nil || turn.Calls[0].Compensated == nil || turn.Calls[0].Compensated.By.ID != "ann" {
		t.Errorf("%+v, %v", turn, err)
	}
	if _, err := c.Resolve(ctx, out.Key().Call(0), events.EffectsDone, client.Act{By: ann}); !errors.Is(err, client.NothingToResolve) {
		t.Errorf("%v", err)
	}
	late, err := c.Run(ctx, client.Submission{Trace: "u", Limits: events.Limits{CallMS: 500}, Calls: call("bash", object{"command": "touch there; sleep 60"})})
	must(t, err)
	turn, err = c.Get(ctx, late.Key())
	must(t, err)
	if turn.Calls[0].Effects != events.EffectsPossible {
		t.Fatalf("%+v", turn.Calls[0])
	}
	r, err := c.Resolve(ctx, late.Key().Call(0), events.EffectsDone, client.Act{By: ann, Reason: "the file is there"})
	if err != nil || r.Status != "resolved" || r.By.ID != "ann" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReaders: what has happened, by every way to read it.
func TestReaders(t *testing.T) {
	_, c := running(t, settings{}, client.Options{})
	ctx := within(t)
	out, err := c.Run(ctx, client.Submission{Trace: "r", Calls: call("blob", object{"bytes": 300_000, "kind": "text"})})
	must(t, err)
	turn, err := c.Get(ctx, out.Key())
	must(t, err)
	whole := turn.Calls[0].Whole
	if whole == nil {
		t.Fatalf("%+v", turn.Calls[0])
	}
	b, err := c.Blob(ctx, whole.Digest, events.TurnKey{})
	if err != nil || int64(len(b)) != whole.Size {
		t.Errorf("%d bytes of %d, %v", len(b), whole.Size, err)
	}
	if _, err := c.Blob(ctx, "sha256:"+strings.Repeat("0", 64), out.Key()); !errors.Is(err, client.NotFound) {
		t.Errorf("%v", err)
	}
	tr, err := c.Trace(ctx, "r")
	if err != nil || tr.Calls != 1 || tr.Statuses["completed"] != 1 {
		t.Errorf("%+v, %v", tr, err)
	}
	if _, err := c.Trace(ctx, "none"); !errors.Is(err, client.NoTrace) {
		t.Errorf("%v", err)
	}
	var kinds []events.Kind
	for m, err := range c.Timeline(ctx, "r") {
		must(t, err)
		kinds = append(kinds, m.Kind)
	}
	var told []events.Kind
	for e, err := range c.TurnEvents(ctx, out.Key()) {
		must(t, err)
		told = append(told, e.Kind)
		if ev, err := e.Decode(); err != nil || ev.Kind() != e.Kind {
			t.Errorf("%+v, %v", ev, err)
		}
	}
	if fmt.Sprint(kinds) != fmt.Sprint(told) || len(told) < 6 {
		t.Errorf("%v\n%v", kinds, told)
	}
	rows, more, err := c.Usage(ctx, client.UsageQuery{By: []string{"tool", "principal"}, Tools: []string{"blob"}, Since: time.Now().Add(-48 * time.Hour)})
	if err != nil || more || len(rows) == 0 || rows[len(rows)-1].Calls != 1 {
		t.Errorf("%+v %v, %v", rows, more, err)
	}
}

// TestOperators: what is there, and what is switched.
func TestOperators(t *testing.T) {
	n, c := running(t, settings{}, client.Options{})
	ctx := within(t)
	tools, err := c.Tools(ctx, client.OpenAI)
	var list []json.RawMessage
	if err != nil || json.Unmarshal(tools, &list) != nil || len(list) < 10 {
		t.Errorf("%.200s, %v", tools, err)
	}
	crew, err := c.Nodes(ctx, true)
	if err != nil || len(crew.Nodes) != 1 || crew.Nodes[0].Says == nil || crew.Running == nil {
		t.Errorf("%+v, %v", crew, err)
	}
	s, err := c.OpenBreaker(ctx, "echo", time.Minute, client.Act{By: ann, Reason: "maintenance"})
	if err != nil || s.Status != "open" {
		t.Errorf("%+v, %v", s, err)
	}
	breakers, err := c.Breakers(ctx)
	if err != nil || len(breakers) != 1 || breakers[0].OpenedBy != "ann" || breakers[0].State != "open" {
		t.Errorf("%+v, %v", breakers, err)
	}
	if s, err = c.ResetBreaker(ctx, "echo", client.Act{}); err != nil || s.Status != "closed" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.OpenBreaker(ctx, "ecko", time.Minute, client.Act{By: ann}); !errors.Is(err, client.Code("no-tool")) || !strings.Contains(err.Error(), "echo") {
		t.Errorf("%v", err)
	}
	if s, err = c.OpenBreaker(ctx, "ecko", time.Minute, client.Act{By: ann, Force: true}); err != nil || s.Status != "open" {
		t.Errorf("%+v, %v", s, err)
	}
	who, err := c.Whoami(ctx)
	if err != nil || who.Via != "loopback" || who.Principal != nil {
		t.Errorf("%+v, %v", who, err)
	}
	must(t, c.Ready(ctx))
	n.api.Close()
	n.stops = n.stops[:len(n.stops)-1]
	n.stops = append(n.stops, func() error { n.server.CloseClientConnections(); n.server.Close(); return nil })
	if err := c.Ready(ctx); !errors.Is(err, client.Code("not-ready")) {
		t.Errorf("%v", err)
	}
}

// TestEventsFromNow: what happens between the question and the stream is heard, too; who
// stops early stops the reading.
func TestEventsFromNow(t *testing.T) {
	_, c := running(t, settings{}, client.Options{})
	ctx := within(t)
	_, err := c.Run(ctx, client.Submission{Trace: "before", Calls: call("echo", object{"v": 1})})
	must(t, err)
	heard, submitted := make(chan struct{}), make(chan error, 1)
	turns := 1
	go func() { // one after the other, until somebody listens
		for err := error(nil); ; turns++ {
			select {
			case <-heard:
				submitted <- err
				return
			default:
			}
			if _, err = c.Run(ctx, client.Submission{Trace: "after", Calls: call("echo", object{"v": 1})}); err != nil {
				submitted <- err
				return
			}
		}
	}()
	for e, err := range c.Events(ctx, client.Query{Now: true, Follow: true, Trace: "after"}) {
		must(t, err)
		if e.Turn.Trace != "after" {
			t.Errorf("%+v", e)
		}
		if e.Kind == events.KindTurnCompleted {
			break
		}
	}
	close(heard)
	must(t, <-submitted)
	var last client.Event
	for e, err := range c.Events(ctx, client.Query{}) {
		must(t, err)
		last = e
	}
	for e, err := range c.Events(ctx, client.Query{From: last.Next()}) {
		t.Errorf("behind the last: %+v, %v", e, err)
	}
	n := 0
	for e, err := range c.Events(ctx, client.Query{Kinds: []string{"turn_completed"}}) {
		must(t, err)
		if n++; e.Kind != events.KindTurnCompleted {
			t.Errorf("%+v", e)
		}
	}
	if n != turns {
		t.Errorf("%d turns have ended, want %d", n, turns)
	}
	for _, err := range c.Events(ctx, client.Query{Kinds: []string{"nothing"}, Follow: true}) {
		if !errors.Is(err, client.BadRequest) {
			t.Errorf("%v", err)
		}
	}
}

// TestEventsOfOthers: who may not watch reads its own turn, and nothing else.
func TestEventsOfOthers(t *testing.T) {
	_, as := guarded(t)
	ctx := within(t)
	_, err := as("planner").Run(ctx, client.Submission{Trace: "o", Turn: "t", Calls: call("echo", object{"v": 1})})
	must(t, err)
	for _, err := range as("planner").Events(ctx, client.Query{}) {
		if !errors.Is(err, client.NotAllowed) {
			t.Errorf("%v", err)
		}
	}
	n := 0
	for e, err := range as("planner").Events(ctx, client.Query{Trace: "o", Turn: "t"}) {
		must(t, err)
		if n++; e.Turn.Turn != "t" {
			t.Errorf("%+v", e)
		}
	}
	if n < 5 {
		t.Errorf("%d events", n)
	}
	if _, err := as("nobody").Whoami(ctx); !errors.Is(err, client.Unauthenticated) {
		t.Errorf("%v", err)
	}
	who, err := as("planner").Whoami(context.WithoutCancel(ctx))
	if err != nil || who.Principal.ID != "planner" || who.May["submit"] != "own" {
		t.Errorf("%+v, %v", who, err)
	}
}

// TestHowANodeStands: what an operator asks a node for, and has it do.
func TestHowANodeStands(t *testing.T) {
	n, c := running(t, settings{}, client.Options{})
	ctx := within(t)
	seat, err := n.log.View("box").Seat(ctx, bus.Worker{User: "w", Instance: "1"}, "saw")
	must(t, err)
	defer seat.Close()
	must(t, seat.Announce("saw", []byte(`{"v":1,"type":"here","about":"a saw","tool":{"schema":{"type":"object"},"tier":"readonly"}}`)))
	var workers client.RemoteTools
	for len(workers.Tools) == 0 {
		workers, err = c.Workers(ctx)
		must(t, err)
	}
	if w := workers.Tools[0]; w.Tool != "saw" || w.Status != "serving" || w.Declared != "readonly" || w.Tier != "irreversible" || len(w.Workers) != 1 ||
		w.Workers[0].Worker != "w.1" || w.Workers[0].About != "a saw" || w.Counts != (client.RemoteCounts{}) {
		t.Errorf("%+v", w)
	}
	store, err := c.ReadStore(ctx)
	if err != nil || store.State == "" || store.Dir == "" {
		t.Errorf("%+v, %v", store, err)
	}
	if _, err := c.RebuildReadStore(ctx, client.Act{}); err != nil {
		t.Error(err)
	}
	for name, ask := range map[string]func() (client.Policy, error){
		"the policy": func() (client.Policy, error) { return c.Policy(ctx) }, "a reload": func() (client.Policy, error) { return c.ReloadPolicy(ctx, client.Act{}) },
	} {
		if p, err := ask(); err != nil || p.Version != "test" || string(p.State) != `{"version":"test"}` {
			t.Errorf("%s: %q %s, %v", name, p.Version, p.State, err)
		}
	}
	if b, err := c.Breaker(ctx, "echo", ""); err != nil || b.Tool != "echo" || b.State != "closed" {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := c.Explain(ctx, client.Supposition{}); !errors.Is(err, client.BadRequest) {
		t.Errorf("a call of no tool is explained: %v", err)
	}
	if x, err := c.Explain(ctx, client.Supposition{Tool: "echo", Args: `{"v":1}`, CanAsk: true, Time: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}); err != nil || x.Decision != "allow" || len(x.Texts) != 1 {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestASubmitterAsksAboutItself: what the policy's texts say is not everybody's, and what a
// node hears is an observer's.
func TestASubmitterAsksAboutItself(t *testing.T) {
	_, as := guarded(t)
	ctx := within(t)
	if x, err := as("planner").Explain(ctx, client.Supposition{Tool: "echo", Args: map[string]any{"v": 1}}); err != nil || x.Decision != "allow" || x.Texts != nil {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := as("planner").Explain(ctx, client.Supposition{Tool: "echo", Principal: &events.Principal{ID: "eye"}}); !errors.Is(err, client.OtherName) {
		t.Errorf("a submitter asks about another one: %v", err)
	}
	for name, ask := range map[string]func(*client.Client) error{
		"limits":  func(c *client.Client) error { return errOf(c.Limits(ctx)) },
		"workers": func(c *client.Client) error { return errOf(c.Workers(ctx)) },
		"policy":  func(c *client.Client) error { return errOf(c.Policy(ctx)) },
	} {
		if err := ask(as("planner")); !errors.Is(err, client.NotAllowed) {
			t.Errorf("a submitter asks for the %s: %v", name, err)
		}
		must(t, ask(as("eye")))
	}
	if _, err := as("eye").ReloadPolicy(ctx, client.Act{}); !errors.Is(err, client.NotAllowed) {
		t.Errorf("an observer has the policy read anew: %v", err)
	}
}

func errOf[V any](_ V, err error) error { return err }
