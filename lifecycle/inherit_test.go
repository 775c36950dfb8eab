package lifecycle_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// earlier is a commit of a turn of the trace.
func earlier(turn string, records ...events.Record) events.Commit {
	return events.Commit{Turn: events.TurnKey{Trace: "t", Turn: turn}, Records: records}
}

func sawFile(path, digest string) events.Record {
	o := events.Outcome{Attempt: 1, Class: events.ClassOK, Result: events.Result{Seen: []events.Seen{{Path: path, Digest: digest}}}}
	return events.Record{Event: &events.Completed{Outcome: o}}
}

func changed(context string) events.Record {
	return events.Record{Call: events.TurnEvent, Event: &events.TurnCompleted{Context: json.RawMessage(context)}}
}

// TestInherit: what a trace leaves to its next turn is the last word on each thing,
// and nothing of the turn itself or of another trace.
func TestInherit(t *testing.T) {
	agent := events.Principal{ID: "a"}
	begins := events.Record{Call: events.TurnEvent, Event: &events.TurnSubmitted{Principal: agent, Workspace: "/w"}}
	tool := events.Record{Event: &events.Requested{Tool: "deploy"}}
	ask := func(policy string) events.Record {
		return events.Record{Event: &events.ApprovalRequested{Hash: "h0", Policy: policy, Operands: []events.Seen{{Path: "s"}}, Preview: &events.Preview{Base: []events.Seen{{Path: "b"}}}}}
	}
	yes := func(hash, scope string) events.Record {
		return events.Record{Event: &events.Approved{Hash: hash, Scope: scope}}
	}
	other := earlier("1", sawFile("b", "of another trace"))
	other.Turn.Trace = "u"
	got, context := lifecycle.Inherit(events.TurnKey{Trace: "t", Turn: "9"}, []events.Commit{
		earlier("1", begins, tool, ask("p1"), yes("h1", events.ScopeSession), yes("h2", events.ScopeCall), sawFile("b", "old"), sawFile("a", "first")),
		earlier("2", begins, tool, ask("p1"), yes("h1", events.ScopeSession), ask("p2"), yes("h1", events.ScopeSession), sawFile("b", "new"), changed(`{"x":1,"y":{"z":2}}`)),
		earlier("3", begins, events.Record{Event: &events.Failed{Outcome: events.Outcome{Result: events.Result{Seen: []events.Seen{{Path: "c"}}}}}}, changed(`{"x":null,"w":"3"}`)),
		earlier("4", begins, changed("")),
		earlier("5", sawFile("b", "of a turn whose beginning is gone"), changed(`{"x":5}`)),
		other,
		earlier("9", sawFile("b", "its own")),
	})
	left := func(from, policy string) events.SessionYes {
		return events.SessionYes{Tool: "deploy", Hash: "h1", Policy: policy, Principal: agent, Workspace: "/w", From: from, Operands: []events.Seen{{Path: "s"}}, Base: []events.Seen{{Path: "b"}}}
	}
	want := events.Inherited{
		Session: []events.SessionYes{left("t/2/0", "p1"), left("t/2/0", "p2")},
		Seen:    []events.Seen{{Path: "a", Digest: "first"}, {Path: "b", Digest: "new"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("inherited (-want +got):\n%s", d)
	}
	if string(context) != `{"w":"3","y":{"z":2}}` {
		t.Errorf("the shared context is %s", context)
	}
	if got, context := lifecycle.Inherit(events.TurnKey{Trace: "t", Turn: "1"}, nil); !cmp.Equal(got, events.Inherited{}) || context != nil {
		t.Errorf("a trace without turns leaves %v, %s", got, context)
	}
}

// TestArchivesLeaveNothing to a turn that runs here: who wrote the archive has not been
// asked, and has seen no file of this workspace. Among themselves they leave what they left.
func TestArchivesLeaveNothing(t *testing.T) {
	from := func(turn string) events.Commit {
		return earlier(turn, events.Record{Call: events.TurnEvent, Event: &events.TurnSubmitted{Imported: events.ArchiveMark + "0123@1.1"}})
	}
	log := []events.Commit{
		from("1"),
		earlier("1", events.Record{Event: &events.Requested{Tool: "deploy"}}, events.Record{Event: &events.ApprovalRequested{}}, events.Record{Event: &events.Approved{Hash: "h1", Scope: events.ScopeSession}}, sawFile("b", "old"), changed(`{"x":1}`)),
		from("2"),
	}
	got, context := lifecycle.Inherit(events.TurnKey{Trace: "t", Turn: "9"}, log)
	if !cmp.Equal(got, events.Inherited{}) || context != nil {
		t.Errorf("a turn of this log inherits %v, %s", got, context)
	}
	got, context = lifecycle.Inherit(events.TurnKey{Trace: "t", Turn: "2"}, log)
	if len(got.Session) != 1 || len(got.Seen) != 1 || string(context) != `{"x":1}` {
		t.Errorf("a turn of the archive inherits %v, %s", got, context)
	}
}

// TestSeenIn: what the turn itself saw last counts, else what it inherited.
func TestSeenIn(t *testing.T) {
	w := newWorld()
	sp := &speaker{world: w}
	for _, line := range []string{"submit read read", "claim n1"} {
		sp.line(t, line)
	}
	inherited := events.Inherited{Seen: []events.Seen{{Path: "a", Digest: "inherited"}, {Path: "b", Digest: "inherited"}}}
	if _, ok := lifecycle.SeenIn(w.turn, "a"); ok {
		t.Error("seen before it was planned")
	}
	if _, err := w.do(w.me, lifecycle.Plan{Facts: facts(w.turn), Inherited: inherited}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"judge all", "begin 0 1"} {
		sp.line(t, line)
	}
	for i, digest := range []string{"of call 0", "of call 1"} {
		s := answered(i, 1)
		s.Result.Seen = []events.Seen{{Path: "a", Digest: digest}}
		if _, err := w.do(w.me, s); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"a": "of call 1", "b": "inherited", "c": ""} {
		got, ok := lifecycle.SeenIn(w.turn, path)
		if got.Digest != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t, want %q", path, got.Digest, ok, want)
		}
	}
}

// TestContextModifiers are applied in request order when the turn completes, whatever
// the order of the answers. What is no JSON changes nothing, and hinders nothing.
func TestContextModifiers(t *testing.T) {
	w := newWorld()
	sp := &speaker{world: w}
	for _, line := range []string{"submit read read read", "claim n1", "plan", "judge all", "begin 0 1 2"} {
		sp.line(t, line)
	}
	mods := [][]events.Modifier{
		{{Name: "x", Value: json.RawMessage("1")}, {Name: "gone"}},
		{{Name: "x", Value: json.RawMessage("2")}, {Name: "bad", Value: json.RawMessage("{")}},
		nil,
	}
	for _, i := range []int{1, 2, 0} {
		s := answered(i, 1)
		s.Result.Context = mods[i]
		if _, err := w.do(w.me, s); err != nil {
			t.Fatal(err)
		}
	}
	done, ok := w.turn.Ended.(*events.TurnCompleted)
	if !ok || string(done.Context) != `{"gone":null,"x":2}` {
		t.Errorf("the turn ended with %+v", w.turn.Ended)
	}
}

// TestImport: a recorded turn is a history like any other, and never run.
func TestImport(t *testing.T) {
	key := events.TurnKey{Trace: "t", Turn: "1"}
	sub := events.TurnSubmitted{
		Principal: events.Principal{ID: "recorded"}, Imported: "a transcript",
		Calls: []events.RawCall{rawCall(0, "edit", "a", ""), {Tool: "bash", Args: events.Body{Text: "{"}}, rawCall(2, "deploy", "a", "")},
	}
	one, two := text("verbatim\x00"), text("")
	for name, answers := range map[string][]*events.Result{
		"all answered": {&one, &two, &one}, "the second is open": {&one, nil, &two}, "nothing is answered": nil,
	} {
		records, err := lifecycle.Import(key, sub, answers, start)
		if err != nil {
			t.Fatal(err)
		}
		log := []events.Commit{stored(events.Commit{ID: "i", Turn: key, At: start, By: events.Owner{Boot: "import", Epoch: 1}, Records: records})}
		for _, v := range lifecycle.Laws(log) {
			t.Errorf("%s: %s", name, v)
		}
		got := lifecycle.Fold(key, log...)
		complete := name == "all answered"
		if got.Broken != "" || (got.Ended != nil) != complete {
			t.Errorf("%s: broken %q, ended %v", name, got.Broken, got.Ended)
		}
		for i, c := range got.Calls {
			answered := i < len(answers) && answers[i] != nil
			if c.Open() == answered || answered && !cmp.Equal(c.Outcome.Result, *answers[i]) {
				t.Errorf("%s: call %d is %s with %+v", name, i, c.Phase, c.Outcome)
			}
		}
		if due := lifecycle.Due(got); due != nil {
			t.Errorf("%s: %v is due, of a turn that is never run", name, due)
		}
		if _, err := lifecycle.Decide(got, lifecycle.Env{Now: start}, lifecycle.Claim{Boot: "n1"}); err == nil {
			t.Errorf("%s: somebody may claim it", name)
		}
	}
	if _, err := lifecycle.Import(key, events.TurnSubmitted{}, nil, start); err == nil {
		t.Error("a submission that is none was imported")
	}
}
