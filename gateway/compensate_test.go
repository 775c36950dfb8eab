package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// undoableTurn is a turn of one completed call that can be undone.
func undoableTurn(t *testing.T, d *Desk, o *owner, key events.TurnKey) events.CallKey {
	t.Helper()
	s := echo(`{"v":1}`)
	s.Workspace, s.Placement = "/work", "default"
	_, err := d.Submit(within(t), key, s)
	must(t, err)
	o.take()
	o.through(0, events.Verdict{Tier: events.Reversible, Undo: true})
	o.settle(0, "done")
	return key.Call(0)
}

// through lets a call through every gate, with a verdict, and starts it.
func (o *owner) through(call int, v events.Verdict) {
	o.t.Helper()
	findings := make([]lifecycle.Finding, len(lifecycle.PlanGates))
	for i, g := range lifecycle.PlanGates {
		findings[i] = lifecycle.Finding{Gate: g}
	}
	v.Hash = o.v.Turn.Calls[call].Hash
	o.do(lifecycle.Judge{Call: call, Findings: findings, Verdict: v})
	o.start(call)
}

// fails ends a call that was started.
func (o *owner) fails(call int, e events.Effects, why string) {
	o.t.Helper()
	o.do(lifecycle.Settle{
		Call: call, Attempt: 1, Class: events.ClassTool, Answered: true, Confirmed: true, Effects: e,
		Result: events.Result{Status: events.Failure, Error: &events.Error{Code: events.Conflict, Message: why}},
	})
}

// TestCompensateAsksForACallOfItsOwn, and tells what became of it.
func TestCompensateAsksForACallOfItsOwn(t *testing.T) {
	d, log := newDesk(t)
	o := newOwner(t, d.bus)
	call := undoableTurn(t, d, o, key1)
	ann := events.Principal{ID: "ann"}
	got, err := d.Compensate(within(t), Undo{Call: call, By: ann, Reason: "oops"})
	must(t, err)
	if got.Status != UndoneNotYet || got.Of != call.String() || got.Undo != "trace1/undo-turn1-0-1/0" {
		t.Errorf("%+v", got)
	}
	if lost := log.LoseTail(-1); lost != 0 {
		t.Errorf("%d appends were lost after the answer", lost)
	}
	key := o.take()
	s := o.v.Turn.Submitted
	of, ok := lifecycle.UndoOf(json.RawMessage(s.Calls[0].Args.Text))
	if key.Trace != call.Trace || !ok || of != call || s.Principal.Kind != "person" || s.Principal.ID != "ann" || s.Workspace != "/work" ||
		len(s.Allow) != 1 || s.Allow[0] != lifecycle.UndoTool || !strings.Contains(s.Calls[0].Args.Text, "oops") {
		t.Errorf("turn %s: %+v", key, s)
	}
	again, err := d.Compensate(within(t), Undo{Call: call, By: events.Principal{ID: "bob"}, Wait: time.Millisecond})
	must(t, err)
	if again != got {
		t.Errorf("asked by another meanwhile: %+v, want %+v", again, got)
	}
	ended := make(chan Undone, 1)
	go func() {
		u, err := d.Compensate(within(t), Undo{Call: call, By: ann, Wait: -1})
		if err != nil {
			t.Error(err)
		}
		ended <- u
	}()
	for waits := within(t); !d.waiting.heard(key) && waits.Err() == nil; {
		pause(waits, time.Millisecond)
	}
	o.through(0, events.Verdict{Tier: events.Irreversible})
	_, err = d.act(within(t), call.TurnKey(), lifecycle.Undone{Call: 0, By: ann, Result: events.Result{Text: events.Body{Text: "gave it back"}}})
	must(t, err)
	o.settle(0, "undid it")
	if u := <-ended; u.Status != UndoneNow || u.By == nil || u.By.ID != "ann" || u.At.IsZero() || u.Text != "gave it back" || u.Undo != got.Undo {
		t.Errorf("%+v", u)
	}
	u, err := d.Compensate(within(t), Undo{Call: call, By: events.Principal{ID: "bob"}, Wait: -1})
	must(t, err)
	if u.Status != UndoneBefore || u.By.ID != "ann" || u.At.IsZero() {
		t.Errorf("once more: %+v", u)
	}
	v, err := d.Get(within(t), call.TurnKey())
	must(t, err)
	if c := viewTurn(v).Calls[0]; c.Undone == nil || c.Undone.By.ID != "ann" {
		t.Errorf("shown as %+v", c)
	}
}

// TestCompensateAfterAFailure: after one that did nothing there is another; after one
// of which nobody knows, only once somebody has said.
func TestCompensateAfterAFailure(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	call := undoableTurn(t, d, o, key1)
	ask := func() Undone {
		t.Helper()
		u, err := d.Compensate(within(t), Undo{Call: call, By: events.Principal{ID: "ann"}})
		must(t, err)
		return u
	}
	tell := func() Undone { // of the one that has ended, without asking for another
		t.Helper()
		v, err := d.Get(within(t), o.v.Turn.Key)
		must(t, err)
		u, err := d.becameOf(within(t), call, v)
		must(t, err)
		return u
	}
	ask()
	o.take()
	o.through(0, events.Verdict{Tier: events.Irreversible})
	o.fails(0, events.EffectsNone, "the file has changed")
	if u := tell(); u.Status != UndoneFailed || u.Effects != events.EffectsNone || u.Code != events.Conflict || u.Reason != "the file has changed" {
		t.Errorf("%+v", u)
	}
	if u := ask(); !strings.HasSuffix(u.Undo, "-0-2/0") {
		t.Errorf("after one that did nothing: %+v", u)
	}
	o.take()
	o.do(denial())
	if u := tell(); u.Status != UndoneDenied || u.Reason != "not you" {
		t.Errorf("%+v", u)
	}
	ask()
	third := o.take()
	o.through(0, events.Verdict{Tier: events.Irreversible})
	o.fails(0, events.EffectsPossible, "who knows")
	if u := tell(); u.Status != UndoneUnknown || u.Effects != events.EffectsPossible {
		t.Errorf("%+v", u)
	}
	_, err := d.Compensate(within(t), Undo{Call: call})
	if !errors.Is(err, ErrUndoUnknown) || !strings.Contains(err.Error(), "resolve call "+third.Call(0).String()) {
		t.Errorf("%v", err)
	}
	_, err = d.Resolve(within(t), third.Call(0), events.Principal{}, events.EffectsNone, "")
	must(t, err)
	if u := ask(); !strings.HasSuffix(u.Undo, "-0-4/0") {
		t.Errorf("after somebody has said: %+v", u)
	}
	fourth := o.take()
	o.through(0, events.Verdict{Tier: events.Irreversible})
	o.fails(0, events.EffectsPossible, "who knows")
	_, err = d.Resolve(within(t), fourth.Call(0), events.Principal{ID: "bob"}, events.EffectsDone, "the seat is free")
	must(t, err)
	if u := ask(); u.Status != UndoneNow || u.By.ID != "bob" || !strings.Contains(u.Text, "the seat is free") || u.Undo != fourth.Call(0).String() {
		t.Errorf("after somebody has found it done: %+v", u)
	}
	if u := ask(); u.Status != UndoneBefore {
		t.Errorf("once more: %+v", u)
	}
}

func denial() lifecycle.Command {
	return lifecycle.Judge{Call: 0, Findings: []lifecycle.Finding{
		{Gate: lifecycle.GateDedupe}, {Gate: lifecycle.GateAllow, Ruling: lifecycle.Deny, Code: events.PermissionDenied, Reason: "not you"},
	}}
}

// TestWhatCannotBeCompensated says why, and makes no turn.
func TestWhatCannotBeCompensated(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	_, err := d.Submit(within(t), key1, echo(`{"v":1}`, `{"v":2}`, `{"v":3}`))
	must(t, err)
	o.take()
	o.through(0, events.Verdict{Tier: events.Irreversible})
	o.settle(0, "x")
	o.through(1, events.Verdict{Tier: events.Reversible, Undo: true})
	o.fails(1, events.EffectsPossible, "x")
	head, err := d.bus.Head(within(t))
	must(t, err)
	for call, c := range map[events.CallKey]struct {
		is   error
		want string
	}{
		key1.Call(0): {lifecycle.ErrNoUndo, "its tool, echo, has no way to undo a call"},
		key1.Call(1): {lifecycle.ErrNoUndo, "it ended as failed"},
		key1.Call(2): {lifecycle.ErrNoUndo, "it has not ended"},
		key1.Call(3): {lifecycle.ErrNoCall, "call 3"},
		events.TurnKey{Trace: "no", Turn: "turn"}.Call(0): {lifecycle.ErrNoTurn, "no/turn"},
		{Trace: "a.b", Turn: "x"}:                         {events.ErrID, "a.b"},
	} {
		if _, err := d.Compensate(within(t), Undo{Call: call}); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", call, err)
		}
	}
	if _, err := d.Compensate(within(t), Undo{Call: key1.Call(0), Reason: strings.Repeat("x", lifecycle.MaxWords+1)}); !errors.Is(err, lifecycle.ErrWords) {
		t.Errorf("%v", err)
	}
	if now, err := d.bus.Head(within(t)); err != nil || now != head {
		t.Errorf("the log has grown from %v to %v, %v", head, now, err)
	}
}

// TestUndoTurnsHaveIds that are valid, and a caller's own turn with such an id is left
// alone.
func TestUndoTurnsHaveIds(t *testing.T) {
	d, _ := newDesk(t)
	o := newOwner(t, d.bus)
	long := events.TurnKey{Trace: strings.Repeat("t", 64), Turn: strings.Repeat("u", 64)}
	call := undoableTurn(t, d, o, long)
	u, err := d.Compensate(within(t), Undo{Call: call})
	must(t, err)
	if k, err := events.ParseCallKey(u.Undo); err != nil || k.TurnKey().Check() != nil {
		t.Errorf("%s: %v", u.Undo, err)
	}
	o.take()
	call = undoableTurn(t, d, o, key1)
	_, err = d.Submit(within(t), undoTurn(call, 1), echo(`{}`))
	must(t, err)
	if u, err = d.Compensate(within(t), Undo{Call: call}); err != nil || !strings.HasSuffix(u.Undo, "-0-2/0") {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestHTTPCompensate is the same at the door.
func TestHTTPCompensate(t *testing.T) {
	d := newDoor(t, nil)
	o := newOwner(t, d.desk.bus)
	call := undoableTurn(t, d.desk, o, key1)
	at := "/v1/turns/trace1/turn1/calls/0/compensate"
	d.want(400, "wait_ms -1", "POST", at, `{"wait_ms":-1}`)
	d.want(400, "unknown field", "POST", at, `{"note":"x"}`)
	d.want(404, "no-call", "POST", "/v1/turns/trace1/turn1/calls/7/compensate", ``)
	d.want(202, `{"status":"accepted","of":"trace1/turn1/0","undo":"trace1/undo-turn1-0-1/0"}`, "POST", at, `{"principal":"ann","reason":"oops"}`)
	o.take()
	o.through(0, events.Verdict{Tier: events.Irreversible})
	_, err := d.desk.act(within(t), call.TurnKey(), lifecycle.Undone{By: o.v.Turn.Submitted.Principal})
	must(t, err)
	o.settle(0, "undid it")
	d.want(200, `"status":"already_compensated"`, "POST", at, `{"wait_ms":1}`)
	d.want(200, `"compensated":{"by":{"id":"ann","kind":"person","via":"loopback"},"at":"`, "GET", "/v1/turns/trace1/turn1", ``)
	d.want(409, "nothing-to-undo", "POST", "/v1/turns/trace1/undo-turn1-0-1/calls/0/compensate", ``)
}

// TestNothingIsUndoneThatCameFromElsewhere: an imported turn's effects are not this
// house's, and a history that is not whole says too little about them.
func TestNothingIsUndoneThatCameFromElsewhere(t *testing.T) {
	d, _ := newDesk(t)
	turn := func(imported string, from int) events.TurnKey {
		key := events.TurnKey{Trace: "t", Turn: fmt.Sprintf("u%d", from)}
		v := events.Verdict{Tier: events.Reversible, Undo: true}
		records := []events.Record{
			{Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{Principal: events.Principal{ID: "a"}, Calls: []events.RawCall{{Tool: "reserve"}}, Imported: imported}},
			{Call: 0, Seq: 1, Event: &events.Requested{Tool: "reserve"}},
			{Call: 0, Seq: 2, Event: &events.Authorized{Verdict: v}},
			{Call: 0, Seq: 3, Event: &events.Started{Attempt: 1}},
			{Call: 0, Seq: 4, Event: &events.Completed{Outcome: events.Outcome{Attempt: 1, Effects: events.EffectsDone, Result: events.Result{Status: events.Success}}}},
		}
		_, err := d.bus.Append(within(t), events.Commit{ID: key.Turn, Turn: key, At: time.Now().UTC(), Records: records[from:]}, 0)
		must(t, err)
		return key
	}
	for key, c := range map[events.TurnKey]struct {
		is   error
		want string
	}{
		turn(events.ArchiveMark+"0123@1.1", 0): {lifecycle.ErrNoUndo, "it was imported"},
		turn("", 1):                            {lifecycle.ErrNoTurn, "its beginning is not in the log"},
	} {
		if _, err := d.Compensate(within(t), Undo{Call: key.Call(0)}); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
