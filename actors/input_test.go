package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// asker is a tool that asks a person once, and remembers with what it was run.
type asker struct {
	mu    sync.Mutex
	runs  []tools.Invocation
	state string
}

const askerForm = `{"type":"object","properties":{"name":{"type":"string"},"pin":{"type":"string","format":"password"}},"required":["name"]}`

func (a *asker) run(_ context.Context, in tools.Invocation) (events.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = append(a.runs, in)
	if in.Given == nil {
		return events.Result{}, &tools.InputRequired{
			Requests: []events.InputRequest{{ID: "q", Kind: events.InputForm, Message: "who?", Schema: json.RawMessage(askerForm)}},
			State:    a.state,
		}
	}
	one := in.Given.Answers[0]
	return events.Result{Status: events.Success, Text: events.Body{Text: one.Action + " " + string(one.Content) + " " + in.Given.State}}, nil
}

func (a *asker) ran() []tools.Invocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]tools.Invocation(nil), a.runs...)
}

// tool is an irreversible one, with a key and a resource.
func (a *asker) tool() tools.Tool {
	t := testTool("asker", events.Irreversible, a.run)
	t.Key = func(json.RawMessage) string { return "k" }
	t.Resources = func(json.RawMessage) []events.ResourceUse {
		return []events.ResourceUse{{Name: "thing:it", Exclusive: true}}
	}
	return t
}

// asks submits a call of the tool, and waits until the turn waits for a person.
func (s *safe) asks(canAsk bool) (events.TurnKey, lifecycle.Turn) {
	s.t.Helper()
	ticket, err := s.desk.Submit(s.t.Context(), events.TurnKey{}, events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"}, CanAsk: canAsk, Calls: []events.RawCall{{ProviderID: "c", Tool: "asker", Args: events.Body{Text: `{}`}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if !canAsk {
		return ticket.Key, ended(s.t, s.bus, ticket.Key)
	}
	return ticket.Key, until(s.t, s.bus, ticket.Key, "its parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
}

func (s *safe) answer(key events.TurnKey, content string) (gateway.Answered, error) {
	return s.desk.Answer(s.t.Context(), gateway.ApprovalID{Call: key.Call(0), Input: true}, gateway.Answering{
		By: events.Principal{ID: "ann"}, Action: events.InputAccept, Content: json.RawMessage(content),
	})
}

// TestAToolAsksAPerson: the call waits with nothing in memory and nothing locked, and
// goes on with the answers, its state and the same key.
func TestAToolAsksAPerson(t *testing.T) {
	a := &asker{state: "round 1"}
	s := newSafe(t, nil, a.tool())
	key, turn := s.asks(true)
	c := turn.Calls[0]
	if c.Phase != lifecycle.PhaseInput || c.Input.Effects != events.EffectsPossible || len(c.Started.Locks) != 1 {
		t.Fatalf("%s: %+v", c.Phase, c.Input)
	}
	eventually(t, "its lease to be given back", func() bool {
		_, err := s.bus.Cells().Get(t.Context(), bus.BucketLock, lockCell("thing:it"))
		return err != nil
	})
	list, err := s.desk.Inbox(t.Context())
	if err != nil || len(list) != 1 || list[0].Kind != "input" || list[0].Requests[0].Fields[1].Name != "pin" {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := s.answer(key, `{"name":1,"more":2}`); err == nil || !strings.Contains(err.Error(), "q/name: it must be a text") || !strings.Contains(err.Error(), "q/more: the form has no such field") {
		t.Errorf("%v", err)
	}
	if out, err := s.answer(key, `{"name":"ann"}`); err != nil || out.Status != gateway.AnsweredNow || out.ID != key.Call(0).String()+"@i1" {
		t.Fatalf("%+v, %v", out, err)
	}
	turn = ended(t, s.bus, key)
	c = turn.Calls[0]
	if c.Last != events.KindCompleted || c.Outcome.Result.Text.Text != `accept {"name":"ann"} round 1` || c.Outcome.Attempt != 2 {
		t.Errorf("%s %+v", c.Last, c.Outcome)
	}
	runs := a.ran()
	if len(runs) != 2 || runs[0].Key == "" || runs[0].Key != runs[1].Key || runs[1].Attempt != 2 || len(runs[1].Locks) != 1 {
		t.Errorf("%+v", runs)
	}
	if out, err := s.answer(key, `{"name":"ann"}`); err != nil || out.By.ID != "ann" {
		t.Errorf("the same again: %+v, %v", out, err)
	}
}

// TestNobodyAnswersATool: it is told so by the timer, or at once where nobody can be
// asked, and its own answer settles the call.
func TestNobodyAnswersATool(t *testing.T) {
	for _, canAsk := range []bool{true, false} {
		a := &asker{}
		s := newSafe(t, func(c *Config) { c.Approval = 300 * time.Millisecond }, a.tool())
		key, _ := s.asks(canAsk)
		c := ended(t, s.bus, key).Calls[0]
		if c.Last != events.KindCompleted || c.Outcome.Result.Text.Text != "cancel  " || c.Answered.By != nil || len(a.ran()) != 2 {
			t.Errorf("can ask %t: %s %+v", canAsk, c.Last, c.Outcome)
		}
	}
}

// TestASecretAnswerReachesTheToolAlone: a password is in no log, and nor is a state that
// holds a secret.
func TestASecretAnswerReachesTheToolAlone(t *testing.T) {
	a := &asker{state: "bearer " + theSecret}
	s := newSafe(t, nil, a.tool())
	key, _ := s.asks(true)
	const pin = "Tr0ub4dor&3-Horse"
	if _, err := s.answer(key, `{"name":"ann","pin":"`+pin+`"}`); err != nil {
		t.Fatal(err)
	}
	c := ended(t, s.bus, key).Calls[0]
	runs := a.ran()
	if c.Last != events.KindCompleted || len(runs) != 2 {
		t.Fatalf("%s %+v", c.Last, c.Terminal)
	}
	given := runs[1].Given
	if given.State != a.state || string(given.Answers[0].Content) != `{"name":"ann","pin":"`+pin+`"}` || len(given.Answers[0].Secrets) != 0 {
		t.Errorf("it was given %+v", given)
	}
	s.without(pin)
	s.without(theSecret)
	page, err := s.desk.Approval(t.Context(), gateway.ApprovalID{Call: key.Call(0), Input: true})
	if err != nil || strings.Contains(page.Visible, pin) || page.State != "answered" || !strings.Contains(page.Visible, "sluice-secret-") {
		t.Errorf("%+v, %v", page, err)
	}
}

// TestAnAnswerWaitsForANode: its owner is gone while the call waits. Nothing is lost, and
// another node goes on.
func TestAnAnswerWaitsForANode(t *testing.T) {
	log := memlog.New(memlog.Config{})
	a := &asker{state: "s"}
	first := testNode(t, log.View("n1"), nil, a.tool())
	s := &safe{t: t, log: log, bus: log.View("door")}
	s.desk = gateway.NewDesk(gateway.DeskConfig{Bus: s.bus})
	key, _ := s.asks(true)
	stopNode(t, first)
	if _, err := s.answer(key, `{"name":"ann"}`); err != nil {
		t.Fatal(err)
	}
	testNode(t, log.View("n2"), nil, a.tool())
	c := ended(t, s.bus, key).Calls[0]
	if c.Last != events.KindCompleted || len(a.ran()) != 2 {
		t.Errorf("%s, %d runs", c.Last, len(a.ran()))
	}
}

// TestACancelWhileAToolWaits: the call ends by what was possible.
func TestACancelWhileAToolWaits(t *testing.T) {
	a := &asker{}
	s := newSafe(t, nil, a.tool())
	key, _ := s.asks(true)
	if r, err := s.desk.CancelCall(t.Context(), key.Call(0), events.Principal{ID: "ann", Kind: "person"}, "enough"); err != nil || !r.Accepted {
		t.Fatal(r, err)
	}
	c := ended(t, s.bus, key).Calls[0]
	if c.Last != events.KindCancelled || c.Outcome.Effects != events.EffectsPossible || len(a.ran()) != 1 {
		t.Errorf("%s %+v", c.Last, c.Outcome)
	}
	if _, err := s.answer(key, `{"name":"ann"}`); err == nil {
		t.Error("an answer behind the end was taken")
	}
	if list, err := s.desk.Inbox(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestManyToolsAsk: each gets its own answers, whatever the order.
func TestManyToolsAsk(t *testing.T) {
	a := &asker{state: "s"}
	tool := testTool("asker", events.Readonly, a.run)
	s := newSafe(t, nil, tool)
	key := events.TurnKey{Trace: "many", Turn: "u"}
	sub := events.TurnSubmitted{Principal: events.Principal{ID: "agent"}, CanAsk: true}
	for i := range 3 {
		sub.Calls = append(sub.Calls, events.RawCall{ProviderID: fmt.Sprint("c", i), Tool: "asker", Args: events.Body{Text: fmt.Sprintf(`{"i":%d}`, i)}})
	}
	if _, err := s.desk.Submit(t.Context(), key, sub); err != nil {
		t.Fatal(err)
	}
	until(t, s.bus, key, "its parking", func(turn lifecycle.Turn) bool { return turn.Parked != nil })
	for _, i := range []int{2, 0, 1} {
		_, err := s.desk.Answer(t.Context(), gateway.ApprovalID{Call: key.Call(i), Asking: 1, Input: true}, gateway.Answering{
			By: events.Principal{ID: "ann"}, Answers: []events.InputAnswer{{ID: "q", Action: events.InputAccept, Content: json.RawMessage(fmt.Sprintf(`{"name":"n%d"}`, i))}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range ended(t, s.bus, key).Calls {
		if want := fmt.Sprintf(`accept {"name":"n%d"} s`, i); c.Outcome == nil || c.Outcome.Result.Text.Text != want {
			t.Errorf("call %d: %s %+v", i, c.Last, c.Outcome)
		}
	}
}
