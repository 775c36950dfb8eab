package lifecycle_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// tools are the names of all fixtures and one that is none.
var tools = append(slices.Sorted(maps.Keys(fixtures)), "nosuch")

// hunt looks for a counterexample for longer than rapid does by itself.
func hunt(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	for range 5 {
		rapid.Check(t, property)
	}
}

// pick draws one of 0 to n-1, all alike: rapid's ranges prefer what is small.
func pick(t *rapid.T, n int, what string) int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return rapid.SampledFrom(all).Draw(t, what)
}

// rarely is true once in n times.
func rarely(t *rapid.T, n int, what string) bool { return pick(t, n, what) == n-1 }

// anySubmission draws a turn of a few calls.
func anySubmission(t *rapid.T) lifecycle.Submit {
	sub := events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"},
		CanAsk:    rapid.Bool().Draw(t, "can ask"),
		Disjoint:  rapid.Bool().Draw(t, "disjoint"),
	}
	if rarely(t, 4, "abort rest") {
		sub.OnError = events.OnErrorAbortRest
	}
	sub.Limits.Concurrency = pick(t, 4, "concurrency")
	if rarely(t, 6, "deadline") {
		sub.Limits.DeadlineMS = int64(rapid.IntRange(1, 10_000).Draw(t, "deadline"))
	}
	for i := range rapid.SampledFrom([]int{3, 2, 5, 1}).Draw(t, "calls") {
		tool := rapid.SampledFrom(tools).Draw(t, "tool")
		on := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "on")
		c := rawCall(i, tool, on, rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key"))
		switch {
		case rarely(t, 20, "malformed"):
			c.Args.Text = `{"n":`
		case rarely(t, 20, "refused"):
			c.Refused = &events.Refusal{Code: events.TruncatedByModel, Reason: "cut"}
		}
		sub.Calls = append(sub.Calls, c)
	}
	return lifecycle.Submit{Turn: sub}
}

// act is something that anybody does to a turn at a moment.
type act struct {
	by  events.Owner
	cmd lifecycle.Command
}

// anyAct draws what is due, most of the time, and otherwise anything at all.
func anyAct(t *rapid.T, w *world) act {
	if i := slices.IndexFunc(w.turn.Calls, asks); i >= 0 && rarely(t, 4, "answer") {
		if rarely(t, 4, "no") {
			return act{cmd: lifecycle.Reject{Call: i, By: person}}
		}
		return act{cmd: lifecycle.Approve{Call: i, By: person}}
	}
	if i := slices.IndexFunc(w.turn.Calls, asksInput); i >= 0 && rarely(t, 4, "answer a tool") {
		return act{cmd: anyAnswer(t, w.turn.Calls[i])}
	}
	if due := lifecycle.Due(w.turn); len(due) > 0 && !rarely(t, 5, "odd") {
		e := rapid.SampledFrom(due).Draw(t, "effect")
		return act{w.me, anyPayment(t, w, e)}
	}
	if owned := w.turn.Owner.Boot != "" && w.turn.Parked == nil; !owned && rapid.Bool().Draw(t, "claim") {
		return act{events.Owner{}, lifecycle.Claim{Boot: fmt.Sprint("n", w.turn.Owner.Epoch)}}
	}
	return act{anyOwner(t, w), anyCommand(t, w)}
}

func asks(c *lifecycle.Call) bool { return c.Phase == lifecycle.PhaseAsking }

func asksInput(c *lifecycle.Call) bool { return c.Phase == lifecycle.PhaseInput }

// anyAnswer draws answers to what a call's tool has asked, mostly good ones.
func anyAnswer(t *rapid.T, c *lifecycle.Call) lifecycle.Answer {
	cmd := lifecycle.Answer{Call: c.Offset, By: person, Round: pick(t, 3, "round")}
	if c.Input == nil {
		cmd.Answers = []events.InputAnswer{{ID: "q0", Action: events.InputCancel}}
		return cmd
	}
	for _, r := range c.Input.Requests {
		a := events.InputAnswer{ID: r.ID, Action: rapid.SampledFrom([]string{events.InputAccept, events.InputDecline, events.InputCancel}).Draw(t, "action")}
		if a.Action == events.InputAccept && r.Kind == events.InputForm {
			a.Content = []byte(`{"a":"x"}`)
		}
		cmd.Answers = append(cmd.Answers, a)
	}
	if rarely(t, 8, "too few") {
		cmd.Answers = cmd.Answers[1:]
	}
	return cmd
}

// anyAsks draws what a tool asks.
func anyAsks(t *rapid.T) *lifecycle.Asks {
	a := &lifecycle.Asks{State: "state", Expire: time.Duration(pick(t, 3, "expire")) * time.Second}
	for i := range 1 + pick(t, 2, "requests") {
		r := events.InputRequest{ID: fmt.Sprint("q", i), Kind: events.InputForm, Schema: []byte(`{"type":"object","properties":{"a":{"type":"string"}}}`)}
		if rarely(t, 3, "page") {
			r = events.InputRequest{ID: fmt.Sprint("q", i), Kind: events.InputURL, URL: "https://example.com/x"}
		}
		a.Requests = append(a.Requests, r)
	}
	if rarely(t, 12, "too many") {
		a.Requests = nil
	}
	return a
}

func anyOwner(t *rapid.T, w *world) events.Owner {
	switch pick(t, 5, "who") {
	case 0:
		return events.Owner{Boot: "n0", Epoch: w.turn.Owner.Epoch}
	case 1:
		return events.Owner{Boot: w.turn.Owner.Boot, Epoch: w.turn.Owner.Epoch + 1}
	case 2:
		return events.Owner{}
	}
	return w.turn.Owner
}

// anyPayment draws how paying an effect may turn out.
func anyPayment(t *rapid.T, w *world, e lifecycle.Effect) lifecycle.Command {
	c := w.turn.Call(e.Call)
	switch e.Do {
	case lifecycle.DoPlan:
		return lifecycle.Plan{Facts: facts(w.turn), Policy: "p1"}
	case lifecycle.DoJudge:
		j := judged(w.turn, c)
		if rarely(t, 6, "ruled") {
			j.Findings = ruled(lifecycle.PlanGates, anyFinding(t, lifecycle.PlanGates))
		}
		return j
	case lifecycle.DoStart:
		b := begun(w.turn, c)
		if rarely(t, 6, "ruled") {
			b.Findings = ruled(lifecycle.StartGates, anyFinding(t, lifecycle.StartGates))
		}
		if rarely(t, 10, "replaced") {
			b.Verdict.ToolVersion = "2"
		}
		return b
	case lifecycle.DoPerform, lifecycle.DoStop:
		return anySettle(t, e.Call, e.Attempt)
	case lifecycle.DoProbe:
		return lifecycle.Probed{
			Call: e.Call, Attempt: e.Attempt, Found: rapid.Bool().Draw(t, "found"), Failed: rapid.Bool().Draw(t, "failed"), Result: text("found"),
		}
	case lifecycle.DoExpire:
		return lifecycle.Expire{Call: e.Call}
	case lifecycle.DoPark:
		return lifecycle.Park{}
	}
	return lifecycle.Advance{}
}

var classes = []events.Class{
	events.ClassOK, events.ClassOK, events.ClassTool, events.ClassInvalid, events.ClassConflict, events.ClassUnavailable,
	events.ClassUnavailable, events.ClassTimeout, events.ClassCancelled, events.ClassPanic, events.ClassLost, events.ClassInput, events.ClassInput,
}

func anySettle(t *rapid.T, call, attempt int) lifecycle.Settle {
	s := answered(call, attempt)
	s.Class = rapid.SampledFrom(classes).Draw(t, "class")
	s.Answered = s.Class == events.ClassOK || rapid.Bool().Draw(t, "answered")
	s.Confirmed = !rarely(t, 5, "unconfirmed")
	s.Effects = anyEffects(t)
	s.After = time.Duration(pick(t, 91, "after")) * time.Second
	s.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
	if rarely(t, 10, "found") {
		r := text("found")
		s.Found = &r
	}
	if s.Class == events.ClassInput && !rarely(t, 10, "asks nothing") {
		s.Asks, s.Answered = anyAsks(t), true
	}
	if s.Class != events.ClassOK {
		s.Result = events.Result{Status: events.Failure, Error: &events.Error{Code: events.ExecutionError, Message: string(s.Class)}}
	}
	return s
}

func anyEffects(t *rapid.T) events.Effects {
	return rapid.SampledFrom([]events.Effects{"", events.EffectsNone, events.EffectsPossible, events.EffectsDone}).Draw(t, "effects")
}

func anyFinding(t *rapid.T, order []lifecycle.Gate) lifecycle.Finding {
	f := lifecycle.Finding{
		Gate:   rapid.SampledFrom(order).Draw(t, "gate"),
		Ruling: rapid.SampledFrom([]lifecycle.Ruling{lifecycle.Deny, lifecycle.Ask, lifecycle.Wait, lifecycle.Reuse, "odd"}).Draw(t, "ruling"),
		Code:   events.AccessDenied, Reason: "because",
	}
	if f.Ruling == lifecycle.Reuse && rapid.Bool().Draw(t, "reuse") {
		f.Reuse = &events.Deduplicated{Of: "t/0/1", Key: "k", As: events.KindCompleted, Outcome: events.Outcome{Attempt: 1, Result: text("first")}}
	}
	return f
}

// commands are the cases of anyCommand; the last is all of anyMessage.
var commands = []int{10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10}

// anyCommand draws any command with any arguments, legal or not.
func anyCommand(t *rapid.T, w *world) lifecycle.Command {
	i := pick(t, len(w.turn.Calls)+1, "call") // one too many: no such call
	n := pick(t, 5, "attempt")
	var c *lifecycle.Call
	if c = w.turn.Call(i); c == nil {
		c = &lifecycle.Call{Offset: i}
	} else if rapid.Bool().Draw(t, "the last attempt") {
		n = c.Attempt
	}
	switch rapid.SampledFrom(commands).Draw(t, "command") {
	case 0:
		if rarely(t, 3, "finish") {
			return lifecycle.Finish{Boot: fmt.Sprint("e", pick(t, 6, "boot")), Retention: time.Duration(pick(t, 3, "retention")) * time.Hour}
		}
		return lifecycle.Claim{Boot: fmt.Sprint("n", pick(t, 6, "boot")), Drained: rapid.Bool().Draw(t, "drained")}
	case 1:
		return lifecycle.Plan{Facts: facts(w.turn)}
	case 2:
		return judged(w.turn, c)
	case 3:
		b := begun(w.turn, c)
		b.Verdict.Hash = rapid.SampledFrom([]string{b.Verdict.Hash, "sha256:other"}).Draw(t, "hash")
		b.Verdict.Tier = rapid.SampledFrom([]events.Tier{b.Verdict.Tier, events.Approval}).Draw(t, "tier")
		return b
	case 4:
		return anySettle(t, i, n)
	case 5:
		return lifecycle.Tell{Call: i, Progress: events.Progress{Attempt: n, Done: rapid.Float64Range(0, 1).Draw(t, "done")}}
	case 6:
		return lifecycle.Probed{Call: i, Attempt: n, Found: rapid.Bool().Draw(t, "found"), Result: text("found")}
	case 7:
		return lifecycle.Expire{Call: i}
	case 8:
		return lifecycle.Park{}
	case 9:
		return lifecycle.Advance{}
	}
	return anyMessage(t, w, i, n)
}

// anyMessage draws what doors and persons send, and rarer things.
func anyMessage(t *rapid.T, w *world, i, n int) lifecycle.Command {
	switch pick(t, 10, "message") {
	case 0:
		return lifecycle.Approve{Call: i, By: person, Scope: events.ScopeSession}
	case 1:
		a, err := lifecycle.Parse(fmt.Sprintf(`{"n":%d}`, pick(t, 4, "n")))
		if err != nil {
			t.Fatal(err)
		}
		return lifecycle.Approve{Call: i, By: person, Args: &a}
	case 2:
		return lifecycle.Reject{Call: i, By: person}
	case 3:
		return lifecycle.CancelCall{Call: i, By: person}
	case 4:
		if rarely(t, 4, "whole turn") {
			return lifecycle.CancelTurn{By: person}
		}
		return lifecycle.Note{Event: &events.ModelStarted{Model: "m"}}
	case 5:
		o := events.Outcome{Attempt: n, Class: rapid.SampledFrom(classes).Draw(t, "class"), Effects: anyEffects(t), Result: text("late")}
		return lifecycle.Late{Call: i, Owner: anyOwner(t, w), Outcome: o}
	case 6:
		return lifecycle.Resolve{Call: i, By: person, Effects: anyEffects(t)}
	case 8:
		c := w.turn.Call(i)
		if c == nil {
			c = &lifecycle.Call{Offset: i}
		}
		return anyAnswer(t, c)
	case 7:
		return lifecycle.Undone{Call: i, By: person, Result: text("undone")}
	}
	if !rarely(t, 10, "abandon") {
		return lifecycle.Advance{}
	}
	return lifecycle.Abandon{Reason: "drawn"}
}

// anyHistory is a world after some acts. each is called after every act, with what
// it led to; nil is nothing.
func anyHistory(t *rapid.T, each func(w *world, a act, records []events.Record, err error)) *world {
	w := newWorld()
	if _, err := w.do(events.Owner{}, anySubmission(t)); err != nil {
		t.Fatal(err)
	}
	for range rapid.SampledFrom([]int{30, 60, 3}).Draw(t, "acts") {
		w.now = w.now.Add(time.Duration(pick(t, 401, "wait")) * time.Millisecond)
		if rarely(t, 60, "long wait") {
			w.now = w.now.Add(time.Hour)
		}
		a := anyAct(t, w)
		if ofDoors(a.cmd) {
			a.by = events.Owner{}
		}
		records, err := w.do(a.by, a.cmd)
		if each != nil {
			each(w, a, records, err)
		}
	}
	return w
}
