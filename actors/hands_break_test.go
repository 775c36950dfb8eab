package actors

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// TestAStartThatWasPreparedTwice: the second one's take is undone, and the attempt
// that runs keeps its lease.
func TestAStartThatWasPreparedTwice(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	n := testNode(t, b, nil)
	call := events.TurnKey{Trace: "t", Turn: "u"}.Call(0)
	uses := []events.ResourceUse{{Name: "db:x", Exclusive: true}, {Name: "db:y"}}
	one, err := n.locks.takeAll(t.Context(), call, uses, "")
	if err != nil {
		t.Fatal(err)
	}
	two, err := n.locks.takeAll(t.Context(), call, uses, "")
	if err != nil {
		t.Fatal(err)
	}
	n.giveBack(holding{call: call, locks: two, boot: n.cfg.Boot}, true)
	n.giveBack(holding{call: call, locks: two, boot: n.cfg.Boot}, true) // once more does no harm
	other := events.TurnKey{Trace: "t", Turn: "u"}.Call(1)
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := n.locks.takeAll(ctx, other, uses, ""); err == nil {
		t.Error("another call got the lock of a call that holds it")
	}
	if s := lockOf(t, b, "db:x"); !s.Held(time.Now(), call.String(), n.cfg.Boot) {
		t.Errorf("the lease is gone: %+v", s)
	}
	n.giveBack(holding{call: call, locks: one, boot: n.cfg.Boot}, false)
	if _, err := n.locks.takeAll(t.Context(), other, uses, ""); err != nil {
		t.Error(err)
	}
	for _, u := range uses {
		n.locks.free(u.Name, other)
	}
	forgotten(t, n)
	freed(t, b, "db:x")
	freed(t, b, "db:y")
}

// TestAStartThatIsNotWantedAnyMore gives back what it has taken, whoever hears of
// the other first.
func TestAStartThatIsNotWantedAnyMore(t *testing.T) {
	held := holding{probe: &lifecycle.Circuit{Tool: "svc"}}
	first := &errand{stop: func() {}}
	if !first.answer(held) || !first.leave(false).any() {
		t.Error("an answer on its way was dropped, and what it held forgotten")
	}
	second := &errand{stop: func() {}}
	if second.leave(false).any() || second.answer(held) {
		t.Error("an answer that nobody waits for was sent")
	}

	b := memlog.New(memlog.Config{}).View("a")
	var ran atomic.Int64
	gate := make(chan struct{})
	write := counting("write", events.Irreversible, &ran, gate)
	write.Resources = func(args json.RawMessage) []events.ResourceUse {
		var a struct{ V int }
		if json.Unmarshal(args, &a) == nil && a.V == 0 {
			return []events.ResourceUse{{Name: "db:y", Exclusive: true}}
		}
		return []events.ResourceUse{{Name: "db:x", Exclusive: true}, {Name: "db:y", Exclusive: true}}
	}
	n := testNode(t, b, nil, write)
	k1 := submit(t, b, events.TurnSubmitted{Calls: calls("write")})
	eventually(t, "the holder of y", func() bool { return ran.Load() == 1 })
	k2 := submit(t, b, events.TurnSubmitted{Calls: []events.RawCall{{Tool: "write", Args: events.Body{Text: `{"v":1}`}}}})
	eventually(t, "one that has x and waits for y", func() bool { return lockOf(t, b, "db:x").Held(time.Now(), k2.Call(0).String(), n.cfg.Boot) })
	as(t, b, k2, lifecycle.CancelTurn{By: boss})
	wantLasts(t, ended(t, b, k2), "cancelled")
	freed(t, b, "db:x")
	close(gate)
	wantLasts(t, ended(t, b, k1), "completed")
	forgotten(t, n)
}

// TestEvidenceOfAnOpenAttempt waits until the attempt is over in the log.
func TestEvidenceOfAnOpenAttempt(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	var ran atomic.Int64
	n := testNode(t, b, nil, counting("charge", events.Irreversible, &ran, make(chan struct{})))
	key := submit(t, b, events.TurnSubmitted{Calls: calls("charge")})
	eventually(t, "the run", func() bool { return ran.Load() == 1 })
	turn := until(t, b, key, "its start", func(turn lifecycle.Turn) bool { return turn.Calls[0].Attempt == 1 })
	n.late(key.Call(0), turn.Owner, lifecycle.Settle{Call: 0, Attempt: 1, Class: events.ClassOK, Result: events.Result{Status: events.Success}})
	pause(t.Context(), 30*time.Millisecond)
	as(t, b, key, lifecycle.CancelTurn{By: boss})
	until(t, b, key, "the evidence", func(turn lifecycle.Turn) bool { return turn.Calls[0].Resolved != nil })
}

// TestNothingBeginsForAnOrphan: a call's actor that has not heard yet that its turn is
// lost must not start the attempt of an owner that is fenced off.
func TestNothingBeginsForAnOrphan(t *testing.T) {
	n := testNode(t, memlog.New(memlog.Config{}).View("a"), nil)
	turn := events.TurnKey{Trace: "t", Turn: "u"}
	over := new(atomic.Bool)
	n.hands.orphan(turn, over, nil)
	n.hands.perform(attemptKey{turn.Call(0), 1}, over, job{tool: testTool("charge", events.Irreversible, func(context.Context, tools.Invocation) (events.Result, error) {
		t.Error("it ran")
		return events.Result{}, nil
	})}, nil)
	forgotten(t, n)
}

// TestAKeysEntryThatWasKeptUnanswered: the call finds itself as the holder.
func TestAKeysEntryThatWasKeptUnanswered(t *testing.T) {
	t.Parallel()
	l := memlog.New(memlog.Config{})
	var seen, ran atomic.Int64
	l.SetFaults(&memlog.Faults{Put: func(bucket, _ string) (bool, error) {
		if bucket == bus.BucketKeys && seen.Add(1) == 1 {
			return true, bus.ErrUncertain
		}
		return true, nil
	}})
	order := counting("order", events.Irreversible, &ran, nil)
	order.Key = func(json.RawMessage) string { return "k" }
	b := l.View("a")
	testNode(t, b, nil, order)
	wantLasts(t, ended(t, b, submit(t, b, events.TurnSubmitted{Calls: calls("order")})), "completed")
	if ran.Load() != 1 {
		t.Errorf("it ran %d times", ran.Load())
	}
}
