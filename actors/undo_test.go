package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

var ann = events.Principal{ID: "ann", Kind: "person"}

// undoable is a tool whose calls can be undone: how, the test says.
func undoable(undo func(ctx context.Context, in tools.Invocation, done events.Result) (events.Result, error)) tools.Tool {
	t := testTool("seat", events.Reversible, func(_ context.Context, in tools.Invocation) (events.Result, error) {
		return events.Result{Status: events.Success, Text: events.Body{Text: "reserved"}, Undo: []byte(`{"seat":7}`)}, nil
	})
	t.Compensate = undo
	return t
}

func gaveBack(context.Context, tools.Invocation, events.Result) (events.Result, error) {
	return events.Result{Status: events.Success, Text: events.Body{Text: "gave it back"}}, nil
}

// undoNode is a node that can undo calls.
func undoNode(t *testing.T, b bus.Bus, change func(*Config), list ...tools.Tool) *Node {
	t.Helper()
	return testNode(t, b, func(c *Config) {
		if change != nil {
			change(c)
		}
		undo, err := NewUndo(UndoConfig{Bus: b, Registry: c.Registry, Workspace: c.Workspace, Seen: c.Seen})
		if err == nil {
			err = c.Registry.Add(undo)
		}
		if err != nil {
			t.Fatal(err)
		}
	}, list...)
}

// ran submits calls and returns their turn at its end.
func ran(t *testing.T, b bus.Bus, s events.TurnSubmitted) lifecycle.Turn {
	t.Helper()
	return ended(t, b, submit(t, b, s))
}

// asks submits the undo of a call as a turn of its trace, and returns its turn.
func asks(t *testing.T, b bus.Bus, call events.CallKey, by events.Principal) events.TurnKey {
	t.Helper()
	key := events.TurnKey{Trace: call.Trace, Turn: "undo-" + ulid.Make().String()}
	submitAs(t, b, key, events.TurnSubmitted{Principal: by, Calls: []events.RawCall{lifecycle.Undo(call, "")}})
	return key
}

// undo asks for the undo of a call, and returns the call that undoes once it has ended.
func undo(t *testing.T, b bus.Bus, call events.CallKey, by events.Principal) *lifecycle.Call {
	t.Helper()
	return ended(t, b, asks(t, b, call, by)).Calls[0]
}

// is checks how a call ended.
func is(t *testing.T, c *lifecycle.Call, kind events.Kind, effects events.Effects, words ...string) {
	t.Helper()
	if c.Last != kind || c.Outcome == nil || c.Outcome.Effects != effects {
		t.Fatalf("it is %s, %+v; want %s with effects %s", c.Last, c.Outcome, kind, effects)
	}
	said := c.Outcome.Result.Text.Text
	if e := c.Outcome.Result.Error; e != nil {
		said = string(e.Code) + " " + e.Message
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("it says %q, without %q", said, w)
		}
	}
}

// TestACallIsUndoneOnce, with what it was given and what it answered, whoever asks.
func TestACallIsUndoneOnce(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	var given []tools.Invocation
	var mu sync.Mutex
	undoNode(t, b, nil, undoable(func(_ context.Context, in tools.Invocation, done events.Result) (events.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		given = append(given, in)
		return events.Result{
			Status: events.Success, Text: events.Body{Text: "gave back " + string(done.Undo) + " " + done.Text.Text},
			Seen: []events.Seen{{Path: "there", Digest: "sha256:1"}, {Path: "gone"}},
		}, nil
	}))
	was := ran(t, b, events.TurnSubmitted{Workspace: "/elsewhere", Calls: []events.RawCall{{Tool: "seat", Args: events.Body{Text: `{"n":1.0}`}, Key: "k"}}})
	call := was.Key.Call(0)
	c := undo(t, b, call, ann)
	is(t, c, events.KindCompleted, events.EffectsDone, "undid "+call.String()+" (seat): gave back", `{"seat":7} reserved`)
	if seen := c.Outcome.Result.Seen; len(seen) != 1 || seen[0].Path != "gone" {
		t.Errorf("of the files it passes on %+v", seen)
	}
	if len(given) != 1 || given[0].Call != call || given[0].Tool != "seat" || given[0].Workspace != "/elsewhere" || given[0].Attempt != 1 ||
		string(given[0].Args) != `{"n":1.0}` || given[0].Key != was.Calls[0].Started.Key {
		t.Fatalf("undone with %+v", given)
	}
	is(t, undo(t, b, call, events.Principal{ID: "bob", Kind: "person"}), events.KindFailed, events.EffectsNone, "CONFLICT", "undone already, by ann at ")
	again := undo(t, b, call, ann) // the same key: the first one's answer
	if again.Last != events.KindDeduplicated {
		t.Errorf("asked again by the same person it is %s", again.Last)
	}
	stored, err := b.Load(t.Context(), was.Key, 0)
	if err != nil {
		t.Fatal(err)
	}
	if by, _ := undoneBy(stored, 0); by.ID != "ann" || len(given) != 1 {
		t.Errorf("undone by %+v, %d times", by, len(given))
	}
}

// TestWhatCannotBeUndone is refused with the reason, before anything is done.
func TestWhatCannotBeUndone(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	fails := testTool("fails", events.Reversible, func(context.Context, tools.Invocation) (events.Result, error) {
		return events.Result{}, &tools.Error{Code: events.NotFound, Message: "no"}
	})
	fails.Compensate = gaveBack
	sleeps := testTool("sleeps", events.Reversible, func(ctx context.Context, _ tools.Invocation) (events.Result, error) {
		<-ctx.Done()
		return events.Result{}, ctx.Err()
	})
	both := func(c *Config) { c.Placements = []string{events.DefaultPlacement, "other"} }
	undoNode(t, b, both, undoable(gaveBack), fails, sleeps, testTool("echo", events.Readonly, echo))
	done := ran(t, b, events.TurnSubmitted{Calls: calls("seat", "echo", "fails", "nothing")})
	open := submit(t, b, events.TurnSubmitted{Calls: calls("sleeps")})
	until(t, b, open, "its start", func(turn lifecycle.Turn) bool {
		return len(turn.Calls) > 0 && turn.Calls[0].Phase == lifecycle.PhaseStarted
	})
	defer submitCancel(t, b, open)
	agent := events.Principal{ID: "agent"}
	for name, c := range map[string]struct {
		call events.CallKey
		by   events.Principal
		want []string
	}{
		"no turn":      {events.TurnKey{Trace: "no", Turn: "turn"}.Call(0), ann, []string{"NOT_FOUND", "there is no turn no/turn"}},
		"no call":      {done.Key.Call(4), ann, []string{"NOT_FOUND", "has 4 calls, and no call 4"}},
		"no way":       {done.Key.Call(1), ann, []string{"CONFLICT", "its tool, echo, has no way to undo"}},
		"failed":       {done.Key.Call(2), ann, []string{"CONFLICT", "only a completed call can be, and it ended as failed"}},
		"denied":       {done.Key.Call(3), ann, []string{"CONFLICT", "it ended as denied"}},
		"open":         {open.Call(0), ann, []string{"CONFLICT", "it has not ended"}},
		"other trace":  {done.Key.Call(0), agent, []string{"ACCESS_DENIED", "only calls of its own trace"}},
		"not its lane": {done.Key.Call(0), ann, []string{"INVALID_PARAM", "undo it from a turn of its own placement"}},
	} {
		key := events.TurnKey{Trace: "asks-" + ulid.Make().String(), Turn: "u"}
		s := events.TurnSubmitted{Principal: c.by, Calls: []events.RawCall{lifecycle.Undo(c.call, "why")}}
		if name == "not its lane" {
			s.Placement = "other" // the queue of these tests is one
		}
		submitAs(t, b, key, s)
		t.Run(name, func(t *testing.T) { is(t, ended(t, b, key).Calls[0], events.KindFailed, events.EffectsNone, c.want...) })
	}
	for _, args := range []string{`{"call":"nonsense"}`, `{"call":"a/b/-1"}`} {
		bad := ran(t, b, events.TurnSubmitted{Principal: ann, Calls: []events.RawCall{{Tool: lifecycle.UndoTool, Args: events.Body{Text: args}}}})
		is(t, bad.Calls[0], events.KindFailed, events.EffectsNone, "INVALID_PARAM", "want trace/turn/offset")
	}
}

// submitCancel asks for a turn's end, as a door does.
func submitCancel(t *testing.T, b bus.Bus, key events.TurnKey) {
	t.Helper()
	stored, err := b.Load(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	recs, err := lifecycle.Decide(lifecycle.Fold(key, commits(stored)...), lifecycle.Env{Now: stored[0].Commit.At}, lifecycle.CancelTurn{By: ann})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Append(t.Context(), events.Commit{ID: ulid.Make().String(), Turn: key, At: stored[0].Commit.At, Records: recs}, stored[len(stored)-1].Seq)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Wake(t.Context(), bus.Item{ID: s.Commit.ID, Turn: key, Seq: s.Seq}); err != nil {
		t.Fatal(err)
	}
}

// TestAToolThatIsNotThereAnyMore cannot undo its calls.
func TestAToolThatIsNotThereAnyMore(t *testing.T) {
	l := memlog.New(memlog.Config{})
	b := l.View("a")
	was := ranOn(t, b, undoable(gaveBack))
	mute := undoable(nil)
	for name, list := range map[string][]tools.Tool{
		"does not have the tool seat any more": nil,
		"has no way to undo a call any more":   {mute},
	} {
		t.Run(name, func(t *testing.T) {
			undoNode(t, b, nil, list...)
			is(t, undo(t, b, was.Key.Call(0), events.Principal{ID: ulid.Make().String(), Kind: "person"}), events.KindFailed, events.EffectsNone, name)
		})
	}
}

// ranOn is a turn of one call of the tool, run by a node that has gone by then.
func ranOn(t *testing.T, b bus.Bus, tool tools.Tool) lifecycle.Turn {
	t.Helper()
	var was lifecycle.Turn
	t.Run("before", func(t *testing.T) {
		undoNode(t, b, nil, tool)
		was = ran(t, b, events.TurnSubmitted{Calls: calls(tool.Name)})
	})
	return was
}

// TestAnUndoThatFailsLeavesTheCall: after one that did nothing another may be tried;
// after one of which nobody knows, only once somebody has said that it did nothing.
func TestAnUndoThatFailsLeavesTheCall(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	var effects atomic.Value
	effects.Store(events.EffectsNone)
	var tries atomic.Int32
	undoNode(t, b, nil, undoable(func(context.Context, tools.Invocation, events.Result) (events.Result, error) {
		tries.Add(1)
		if e := effects.Load().(events.Effects); e != events.EffectsDone {
			return events.Result{}, &tools.Error{Code: events.ExecutionError, Class: events.ClassUnavailable, Effects: e, Message: "the office is closed"}
		}
		return gaveBack(t.Context(), tools.Invocation{}, events.Result{})
	}))
	call := ran(t, b, events.TurnSubmitted{Calls: calls("seat")}).Key.Call(0)
	is(t, undo(t, b, call, ann), events.KindFailed, events.EffectsNone, "stays as it was: the office is closed")
	effects.Store(events.EffectsPossible)
	maybe := asks(t, b, call, ann)
	is(t, ended(t, b, maybe).Calls[0], events.KindFailed, events.EffectsPossible, "the office is closed")
	effects.Store(events.EffectsDone)
	bob := events.Principal{ID: "bob", Kind: "person"}
	is(t, undo(t, b, call, bob), events.KindFailed, events.EffectsNone, "UNKNOWN_OUTCOME", "resolve "+maybe.Call(0).String())
	if blocked := undo(t, b, call, ann); blocked.Last != events.KindDenied {
		t.Errorf("the same person's key is %s", blocked.Last)
	}
	if tries.Load() != 2 {
		t.Fatalf("tried %d times", tries.Load())
	}
	resolveAs(t, b, maybe.Call(0), events.EffectsNone)
	is(t, undo(t, b, call, bob), events.KindCompleted, events.EffectsDone, "gave it back")
	if tries.Load() != 3 {
		t.Errorf("tried %d times", tries.Load())
	}
}

// TestAnUndoThatAPersonHasFound is recorded, and not done again.
func TestAnUndoThatAPersonHasFound(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	var tries atomic.Int32
	undoNode(t, b, nil, undoable(func(context.Context, tools.Invocation, events.Result) (events.Result, error) {
		tries.Add(1)
		return events.Result{}, fmt.Errorf("broken pipe")
	}))
	call := ran(t, b, events.TurnSubmitted{Calls: calls("seat")}).Key.Call(0)
	maybe := asks(t, b, call, ann)
	is(t, ended(t, b, maybe).Calls[0], events.KindFailed, events.EffectsPossible)
	resolveAs(t, b, maybe.Call(0), events.EffectsDone)
	is(t, undo(t, b, call, events.Principal{ID: "bob", Kind: "person"}), events.KindCompleted, events.EffectsDone, "undid")
	if c := ended(t, b, call.TurnKey()).Calls[0]; !c.Undone || tries.Load() != 1 {
		t.Errorf("undone: %t, after %d tries", c.Undone, tries.Load())
	}
}

func resolveAs(t *testing.T, b bus.Bus, call events.CallKey, e events.Effects) {
	t.Helper()
	stored, err := b.Load(t.Context(), call.TurnKey(), 0)
	if err != nil {
		t.Fatal(err)
	}
	at := stored[len(stored)-1]
	recs, err := lifecycle.Decide(lifecycle.Fold(call.TurnKey(), commits(stored)...), lifecycle.Env{Now: at.Commit.At}, lifecycle.Resolve{Call: call.Offset, By: ann, Effects: e})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Append(t.Context(), events.Commit{ID: ulid.Make().String(), Turn: call.TurnKey(), At: at.Commit.At, Records: recs}, at.Seq); err != nil {
		t.Fatal(err)
	}
}

// TestAnUndoWhileTheTurnRuns is appended behind its owner's back, and the turn goes on.
func TestAnUndoWhileTheTurnRuns(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	goOn := make(chan struct{})
	waits := testTool("waits", events.Reversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return echo(ctx, in)
	})
	undoNode(t, b, nil, undoable(gaveBack), waits)
	key := submit(t, b, events.TurnSubmitted{Calls: calls("seat", "waits", "seat")})
	until(t, b, key, "the second call", func(turn lifecycle.Turn) bool {
		return len(turn.Calls) > 1 && turn.Calls[1].Phase == lifecycle.PhaseStarted
	})
	is(t, undo(t, b, key.Call(0), ann), events.KindCompleted, events.EffectsDone, "gave it back")
	close(goOn)
	turn := ended(t, b, key)
	for i, c := range turn.Calls {
		if c.Last != events.KindCompleted || c.Undone != (i == 0) {
			t.Errorf("call %d is %s, undone: %t", i, c.Last, c.Undone)
		}
	}
}

// TestTwoWhoUndoAtTheSameTime on two nodes undo once, whoever they are.
func TestTwoWhoUndoAtTheSameTime(t *testing.T) {
	l := memlog.New(memlog.Config{})
	var tries atomic.Int32
	slow := undoable(func(ctx context.Context, _ tools.Invocation, _ events.Result) (events.Result, error) {
		tries.Add(1)
		pause(ctx, 5*time.Millisecond)
		return gaveBack(ctx, tools.Invocation{}, events.Result{})
	})
	for _, name := range []string{"a", "b"} {
		undoNode(t, l.View(name), nil, slow)
	}
	b := l.View("door")
	for i := range 8 {
		call := ran(t, b, events.TurnSubmitted{Calls: calls("seat")}).Key.Call(0)
		var keys []events.TurnKey
		for j := range 6 {
			keys = append(keys, asks(t, b, call, events.Principal{ID: fmt.Sprint("p", j%3), Kind: "person"}))
		}
		completed := 0
		for _, k := range keys {
			if c := ended(t, b, k).Calls[0]; c.Last == events.KindCompleted {
				completed++
			} else if c.Last != events.KindDeduplicated && c.Outcome.Effects != events.EffectsNone {
				t.Errorf("round %d: %s %+v", i, c.Last, c.Outcome)
			}
		}
		if completed != 1 || int(tries.Load()) != i+1 || !ended(t, b, call.TurnKey()).Calls[0].Undone {
			t.Fatalf("round %d: %d completed, %d tries in all", i, completed, tries.Load())
		}
	}
}

// hearing calls a function for every commit that is told.
type hearing struct {
	nobody
	heard func(bus.Stored)
}

func (h hearing) Committed(s bus.Stored, _ map[int]string) { h.heard(s) }

// TestALostOwnersUndo is not made again: where the call's turn says that it was
// undone, its new owner finds that; else nobody knows.
func TestALostOwnersUndo(t *testing.T) {
	for name, c := range map[string]struct {
		recorded bool
		want     events.Kind
		effects  events.Effects
	}{
		"before the record": {false, events.KindUnknown, events.EffectsPossible},
		"behind the record": {true, events.KindCompleted, events.EffectsDone},
	} {
		t.Run(name, func(t *testing.T) {
			l := memlog.New(memlog.Config{})
			door := l.View("door")
			var tries atomic.Int32
			ctx, die := context.WithCancel(t.Context())
			defer die()
			tool := undoable(func(context.Context, tools.Invocation, events.Result) (events.Result, error) {
				tries.Add(1)
				if !c.recorded {
					die()
					return events.Result{}, context.Canceled
				}
				return gaveBack(t.Context(), tools.Invocation{}, events.Result{})
			})
			reg, err := tools.NewRegistry(tool)
			if err != nil {
				t.Fatal(err)
			}
			b := l.View("dies")
			h := hearing{heard: func(s bus.Stored) {
				if slices.ContainsFunc(s.Commit.Records, func(r events.Record) bool { return r.Event.Kind() == events.KindCompensated }) {
					die()
				}
			}}
			u, err := NewUndo(UndoConfig{Bus: b, Registry: reg, Workspace: "/", Seen: h})
			if err == nil {
				err = reg.Add(u)
			}
			if err != nil {
				t.Fatal(err)
			}
			first, err := New(Config{Bus: b, Registry: reg, Authorizer: lax{}, Boot: "dies", Workspace: t.TempDir(), Presence: time.Second})
			if err == nil {
				err = first.Start(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer stopNode(t, first)
			call := ran(t, door, events.TurnSubmitted{Calls: calls("seat")}).Key.Call(0)
			key := asks(t, door, call, ann)
			<-ctx.Done()
			undoNode(t, l.View("next"), func(cfg *Config) { cfg.Presence = time.Second }, tool)
			is(t, ended(t, door, key).Calls[0], c.want, c.effects)
			if got := ended(t, door, call.TurnKey()).Calls[0].Undone; got != c.recorded || tries.Load() != 1 {
				t.Errorf("undone: %t, after %d tries", got, tries.Load())
			}
		})
	}
}

// TestWhoMayUndo: a person in a turn that names the tool, an agent only where each of
// its lists does.
func TestWhoMayUndo(t *testing.T) {
	named, all, other := []string{lifecycle.UndoTool}, []string{"*"}, []string{"Read"}
	for name, c := range map[string]struct {
		kind  string
		lists [][]string
		may   bool
	}{
		"an agent with no list":             {"", nil, false},
		"an agent with the glob":            {"", [][]string{all}, false},
		"an agent that is named":            {"agent", [][]string{named}, true},
		"an agent, and a list that is none": {"", [][]string{named, nil}, true},
		"an agent whose parent has a glob":  {"", [][]string{named, all}, false},
		"an agent whose parent is named":    {"", [][]string{named, named}, true},
		"a service is an agent":             {"service", [][]string{named, all}, false},
		"a person with no list":             {"person", nil, false},
		"a person with the glob":            {"person", [][]string{all}, false},
		"a person in a turn that names it":  {"person", [][]string{named, all}, true},
		"a person with another list":        {"person", [][]string{other}, false},
	} {
		r := policy.Request{
			Principal: events.Principal{ID: "x", Kind: c.kind}, Allowlists: c.lists, Tool: lifecycle.UndoTool, Known: true,
			Tier: events.Irreversible, Op: events.Operation{Class: events.OpExecute},
		}
		v := append(policy.New(policy.Config{}), UndoRule()).Authorize(r)
		if got := v.Decision == policy.Allow; got != c.may {
			t.Errorf("%s: %s: %s", name, v.Decision, v.Reason)
		}
		r.Tool = "charge"
		if v := append(policy.New(policy.Config{}), UndoRule()).Authorize(r); v.Decision != policy.Allow {
			t.Errorf("%s: another tool is %s: %s", name, v.Decision, v.Reason)
		}
	}
}
