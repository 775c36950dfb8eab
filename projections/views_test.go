package projections

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
	"pgregory.net/rapid"
)

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func stateOf(t fataler, f Folder) string {
	t.Helper()
	b, err := json.Marshal(f.State())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func start(t fataler, v View, state json.RawMessage) Folder {
	t.Helper()
	f, err := v.New(state)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// checkIncremental folds a log in three ways that must agree at every prefix: in one go,
// from the start again, and going on from a kept state.
func checkIncremental(t fataler, v View, log []Event) {
	t.Helper()
	going := start(t, v, nil)
	kept := start(t, v, nil)
	for i, e := range log {
		going.Add(e)
		kept.Add(e)
		rebuilt := start(t, v, nil)
		for _, e := range log[:i+1] {
			rebuilt.Add(e)
		}
		want := stateOf(t, rebuilt)
		if got := stateOf(t, going); got != want {
			t.Fatalf("%s, %d events: incremental\n%s\nrebuilt\n%s", v.Name, i+1, got, want)
		}
		if got := stateOf(t, kept); got != want {
			t.Fatalf("%s, %d events: from a kept state\n%s\nrebuilt\n%s", v.Name, i+1, got, want)
		}
		kept = start(t, v, json.RawMessage(want))
	}
}

func TestIncrementalEqualsRebuilt(t *testing.T) {
	for name, log := range corpus() {
		for _, v := range All {
			t.Run(v.Name+"/"+name, func(t *testing.T) { checkIncremental(t, v, log) })
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		log := drawLog(t)
		for _, v := range All {
			checkIncremental(t, v, log)
		}
	})
}

func TestViewsAreNamedOnce(t *testing.T) {
	var names []string
	for _, v := range All {
		if v.Name == "" || v.Version < 1 || slices.Contains(names, v.Name) {
			t.Errorf("view %q, version %d", v.Name, v.Version)
		}
		names = append(names, v.Name)
		if _, err := v.New(json.RawMessage(`"x"`)); err == nil {
			t.Errorf("%s goes on from what is no state", v.Name)
		}
	}
}

func TestTimeline(t *testing.T) {
	m := Timeline.Fold(slices.Values(whole()))
	if len(m.All) != len(whole()) || len(m.Open) != 0 {
		t.Fatalf("%d moments of %d events, %d turns open", len(m.All), len(whole()), len(m.Open))
	}
	for i, e := range whole() {
		mo := m.All[i]
		if mo.Pos != e.Pos.String() || mo.Kind != e.Kind() || mo.Call != e.Call || mo.Seq != e.Seq || !mo.At.Equal(e.At) {
			t.Errorf("event %d: %+v", i, mo)
		}
	}
	completed := m.All[16]
	want := Moment{
		Pos: "1.17.0", Turn: events.TurnKey{Trace: "trace", Turn: "whole"}, Call: 0, Seq: 7, At: completed.At,
		Kind: events.KindCompleted, Tool: "fetch", Attempt: 1, AfterUS: 1000, Detail: "ok effects none",
	}
	if diff := cmp.Diff(want, completed); diff != "" {
		t.Error(diff)
	}
	details := map[events.Kind]string{
		events.KindDenied:            "authorize PERMISSION_DENIED: Not allowed. /command",
		events.KindApprovalRequested: "tier expires 2026-10-01T13:00:00Z",
		events.KindRetrying:          "unavailable MCP_NETWORK_ERROR: gone",
		events.KindRecovered:         "after started: started true, complete false, so unknown: no probe",
		events.KindUnknown:           "owner_lost ok effects possible",
		events.KindTurnPlanned:       "[[0] [1] [2] [3]]",
		events.KindResolved:          "effects done by ann",
	}
	for _, mo := range m.All {
		if want, ok := details[mo.Kind]; ok && mo.Detail != want {
			t.Errorf("%s: %q, want %q", mo.Kind, mo.Detail, want)
		}
	}
}

func TestTimelineKeepsLittle(t *testing.T) {
	long := make([]byte, 5000)
	for i := range long {
		long[i] = "é"[i%2]
	}
	m := Timeline.Fold(slices.Values(place("t", ofTurn(&events.TurnSubmitted{}), on(0, &events.Requested{Args: events.Body{Text: string(long)}}))))
	if d := m.All[1].Detail; len(d) > maxDetail || !json.Valid([]byte(`"`+d+`"`)) || d[:2] != "é" {
		t.Errorf("%d bytes: %q", len(d), d)
	}
}

// 39, 47: what waits is listed, each by itself, until a decision, a cancel or an end.
func TestInbox(t *testing.T) {
	ask := func(i int) events.Record {
		return on(i, &events.ApprovalRequested{
			Asks: "rm -rf ~ #\x1b[2K", Why: "tier", Hash: "h", ToolVersion: "1", Policy: "v7",
			Expires: noon.Add(-1), Verdict: verdict(events.Approval),
		})
	}
	submitted := ofTurn(&events.TurnSubmitted{
		Principal: events.Principal{ID: "agent"},
		Calls:     []events.RawCall{call("a", "bash"), call("a", "bash"), call("a", "charge"), call("a", "bash")},
	})
	for _, c := range []struct {
		name string
		then []events.Record
		want []int
	}{
		{"all", nil, []int{0, 1, 2, 3}},
		{"approved", []events.Record{on(2, &events.Approved{})}, []int{0, 1, 3}},
		{"denied", []events.Record{on(1, &events.Denied{Code: events.ApprovalRejected})}, []int{0, 2, 3}},
		{"expired, cancelled", []events.Record{on(0, &events.Denied{Code: events.ApprovalExpired}), on(3, &events.CancelRequested{})}, []int{1, 2}},
		{"asked again", []events.Record{on(0, &events.Approved{}), ask(0)}, []int{0, 1, 2, 3}},
		{"the turn is cancelled", []events.Record{ofTurn(&events.TurnCancelRequested{})}, nil},
		{"the turn is abandoned", []events.Record{ofTurn(&events.TurnAbandoned{})}, nil},
	} {
		w := Inbox.Fold(slices.Values(place("t", append([]events.Record{submitted, ask(0), ask(1), ask(2), ask(3)}, c.then...)...)))
		var got []int
		for _, p := range w.List() {
			got = append(got, p.Call.Offset)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	w := Inbox.Fold(slices.Values(place("t", submitted, ask(2))))
	want := Pending{
		Kind: PendingApproval, Call: events.CallKey{Trace: "trace", Turn: "t", Offset: 2}, Seq: 1, Asking: 1, Tool: "charge", ToolVersion: "1",
		Principal: events.Principal{ID: "agent"}, Asks: "rm -rf ~ #\x1b[2K", Why: "tier", Hash: "h", Tier: events.Approval,
		Operation: events.Operation{Class: events.OpExecute}, Policy: "v7", At: noon.Add(1e6), Expires: noon.Add(-1),
	}
	if diff := cmp.Diff([]Pending{want}, w.List()); diff != "" {
		t.Error(diff)
	}
}

func TestInboxListsTheSoonestFirst(t *testing.T) {
	ask := func(i, hours int) events.Record {
		return on(i, &events.ApprovalRequested{Expires: noon.Add(time.Duration(hours) * time.Hour)})
	}
	w := Inbox.Fold(slices.Values(place("t", ofTurn(&events.TurnSubmitted{Calls: make([]events.RawCall, 12)}), ask(10, 2), ask(2, 2), ask(11, 1), ask(0, 3))))
	var got []int
	for _, p := range w.List() {
		got = append(got, p.Call.Offset)
	}
	if !slices.Equal(got, []int{11, 2, 10, 0}) {
		t.Error(got)
	}
}

func TestUsage(t *testing.T) {
	c := Usage.Fold(slices.Values(slices.Concat(whole(), abandoned())))
	none, done, possible := events.EffectsNone, events.EffectsDone, events.EffectsPossible
	want := Counts{
		Turns: 2, Completed: 1, Abandoned: 1, Resolved: 1, Late: 1, Undone: 1, Input: 10, Output: 20,
		Tools: map[string]*ToolUse{
			"fetch":  {Calls: 1, Attempts: 2, Retries: 1, Ends: map[events.Kind]int{events.KindCompleted: 1}, Effects: map[events.Effects]int{none: 1}, RunUS: 1500, Bytes: 4},
			"charge": {Calls: 1, Attempts: 1, Asked: 1, Ends: map[events.Kind]int{events.KindCompleted: 1}, Effects: map[events.Effects]int{done: 1}, RunUS: 1500, Bytes: 4},
			"write":  {Calls: 1, Attempts: 1, Ends: map[events.Kind]int{events.KindUnknown: 1}, Effects: map[events.Effects]int{possible: 1}, RunUS: 1500},
			"bash": {
				Calls: 4, Attempts: 1, Asked: 1,
				Ends:    map[events.Kind]int{events.KindDenied: 1, events.KindDeduplicated: 1},
				Effects: map[events.Effects]int{none: 2},
			},
			"read": {Calls: 1, Attempts: 1, Ends: map[events.Kind]int{}, Effects: map[events.Effects]int{}},
		},
		Open: map[string][]string{},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}
