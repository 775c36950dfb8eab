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
	for range 3 {
		rapid.Check(t, property)
	}
}

// anySubmission draws a turn of a few calls.
func anySubmission(t *rapid.T) lifecycle.Submit {
	sub := events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"},
		CanAsk:    rapid.Bool().Draw(t, "can ask"),
		Disjoint:  rapid.Bool().Draw(t, "disjoint"),
	}
	if rapid.Bool().Draw(t, "abort rest") {
		sub.OnError = events.OnErrorAbortRest
	}
	sub.Limits.Concurrency = rapid.IntRange(0, 3).Draw(t, "concurrency")
	if rapid.IntRange(0, 3).Draw(t, "has deadline") == 0 {
		sub.Limits.DeadlineMS = int64(rapid.IntRange(1, 10_000).Draw(t, "deadline"))
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "calls") {
		tool := rapid.SampledFrom(tools).Draw(t, "tool")
		on := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "on")
		c := rawCall(i, tool, on, rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key"))
		switch rapid.IntRange(0, 19).Draw(t, "odd") {
		case 0:
			c.Args.Text = `{"n":`
		case 1:
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
	if due := lifecycle.Due(w.turn); len(due) > 0 && rapid.IntRange(0, 2).Draw(t, "sensible") > 0 {
		e := rapid.SampledFrom(due).Draw(t, "effect")
		return act{w.me, anyPayment(t, w, e)}
	}
	return act{anyOwner(t, w), anyCommand(t, w)}
}

func anyOwner(t *rapid.T, w *world) events.Owner {
	switch rapid.IntRange(0, 4).Draw(t, "who") {
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
		if rapid.IntRange(0, 3).Draw(t, "ruled") == 0 {
			j.Findings = ruled(lifecycle.PlanGates, anyFinding(t, lifecycle.PlanGates))
		}
		return j
	case lifecycle.DoStart:
		b := begun(w.turn, c)
		if rapid.IntRange(0, 3).Draw(t, "ruled") == 0 {
			b.Findings = ruled(lifecycle.StartGates, anyFinding(t, lifecycle.StartGates))
		}
		if rapid.IntRange(0, 9).Draw(t, "replaced") == 0 {
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
	events.ClassUnavailable, events.ClassTimeout, events.ClassCancelled, events.ClassPanic, events.ClassLost,
}

func anySettle(t *rapid.T, call, attempt int) lifecycle.Settle {
	s := answered(call, attempt)
	s.Class = rapid.SampledFrom(classes).Draw(t, "class")
	s.Answered = s.Class == events.ClassOK || rapid.Bool().Draw(t, "answered")
	s.Confirmed = rapid.IntRange(0, 4).Draw(t, "confirmed") > 0
	s.Effects = anyEffects(t)
	s.After = time.Duration(rapid.IntRange(0, 90).Draw(t, "after")) * time.Second
	s.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
	if rapid.IntRange(0, 9).Draw(t, "found") == 0 {
		r := text("found")
		s.Found = &r
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

// anyCommand draws any command with any arguments, legal or not.
func anyCommand(t *rapid.T, w *world) lifecycle.Command {
	i := rapid.IntRange(0, len(w.turn.Calls)).Draw(t, "call") // one too many: no such call
	n := rapid.IntRange(0, 4).Draw(t, "attempt")
	var c *lifecycle.Call
	if c = w.turn.Call(i); c == nil {
		c = &lifecycle.Call{Offset: i}
	} else if rapid.Bool().Draw(t, "the last attempt") {
		n = c.Attempt
	}
	switch rapid.IntRange(0, 17).Draw(t, "command") {
	case 0:
		return lifecycle.Claim{Boot: fmt.Sprint("n", rapid.IntRange(0, 5).Draw(t, "boot")), Drained: rapid.Bool().Draw(t, "drained")}
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
	switch rapid.IntRange(0, 8).Draw(t, "message") {
	case 0:
		return lifecycle.Approve{Call: i, By: person, Scope: events.ScopeSession}
	case 1:
		a, err := lifecycle.Parse(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 3).Draw(t, "n")))
		if err != nil {
			t.Fatal(err)
		}
		return lifecycle.Approve{Call: i, By: person, Args: &a}
	case 2:
		return lifecycle.Reject{Call: i, By: person}
	case 3:
		return lifecycle.CancelCall{Call: i, By: person}
	case 4:
		if rapid.IntRange(0, 3).Draw(t, "whole turn") == 0 {
			return lifecycle.CancelTurn{By: person}
		}
		return lifecycle.Note{Event: &events.ModelStarted{Model: "m"}}
	case 5:
		o := events.Outcome{Attempt: n, Class: rapid.SampledFrom(classes).Draw(t, "class"), Effects: anyEffects(t), Result: text("late")}
		return lifecycle.Late{Call: i, Owner: anyOwner(t, w), Outcome: o}
	case 6:
		return lifecycle.Resolve{Call: i, By: person, Effects: anyEffects(t)}
	case 7:
		return lifecycle.Undone{Call: i, By: person, Result: text("undone")}
	}
	if rapid.IntRange(0, 9).Draw(t, "abandon") > 0 {
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
	for range rapid.SampledFrom([]int{3, 20, 60}).Draw(t, "acts") {
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "wait")) * time.Millisecond)
		if rapid.IntRange(0, 29).Draw(t, "long wait") == 0 {
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
