package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/archive"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/projections"
)

// talked has a conversation of several turns, which overlap, name ids again, end in
// many ways, and of which one is interrupted and one still waits.
func talked(t *testing.T, file string) {
	t.Helper()
	p := newPlace(t)
	n := p.serve()
	for i := range 4 {
		n.run(turn{Trace: "talk", Turn: fmt.Sprint("t", i), Calls: []call{
			{ID: "call_0", Tool: "echo", Args: args{"v": i}}, {ID: "call_1", Tool: "panic"}, {Tool: "read", Args: args{"path": "../x"}}, {ID: "call_0", Tool: "nobody"},
		}})
	}
	n.submit(turn{Trace: "talk", Turn: "long", Calls: []call{{ID: "call_0", Tool: "sleep", Args: args{"ms": forever}}, {ID: "call_9", Tool: "echo", Args: args{"v": 1}}}})
	n.until("talk", "long", "started", "0")
	n.run(turn{Trace: "talk", Turn: "beside", Calls: []call{{ID: "call_1", Tool: "echo", Args: args{"v": 2}}}})
	n.post("/v1/turns/talk/long/cancel", nil)
	n.end("talk", "long")
	n.submit(turn{Trace: "talk", Turn: "waits", CanAsk: true, Calls: []call{ask(1), {ID: "call_0", Tool: "echo", Args: args{"v": 3}}}})
	poll(t, "the turn is parked", func() bool { return n.look("talk", "waits").State == "parked" })
	replayed(t, 0, "export", "--all", "-o", file, "--data", p.data) // through the node
}

// TestAWindowNeverPartsACallFromItsAnswer: whatever event a window of a conversation
// begins at, and whatever event it is looked at from, each provider would take it: every
// call in it has its answer, once, and every answer its call.
func TestAWindowNeverPartsACallFromItsAnswer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "talk.sluice")
	talked(t, file)
	a, err := archive.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	conv := projections.Answers.Init()
	var places []events.Position
	windows := 0
	err = a.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			places = append(places, e.Pos)
			conv = projections.Answers.Apply(conv, e)
			windows += windowsAt(t, conv, e.Pos, places)
		}
		return nil
	})
	if err != nil || windows < 1000 {
		t.Errorf("%d windows, %v", windows, err)
	}
	for i := 0; i < len(places); i += 31 {
		asShown(t, file, conv, places[i])
	}
}

// window is the conversation from a place on, in a provider's form.
func window(t *testing.T, f codec.Format, conv projections.Conversation, from events.Position) []json.RawMessage {
	t.Helper()
	list := make([]codec.Turn, len(conv.Turns))
	for i, turn := range conv.Turns {
		answers, err := turn.Answers(nil)
		calls, err2 := turn.Requests(nil)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		list[i] = codec.Turn{Calls: calls, Answers: answers, CallBytes: turn.Limits.CallBytes, TurnBytes: turn.Limits.TurnBytes}
	}
	out, err := codec.Conversation(f, list, conv.Since(from))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// windowsAt checks the windows that begin at any place so far, where what is told at has
// changed, and says how many there are.
func windowsAt(t *testing.T, conv projections.Conversation, at events.Position, places []events.Position) (n int) {
	t.Helper()
	if !slices.ContainsFunc(conv.Turns, func(turn *projections.Turn) bool { return turn.Last == at }) {
		return 0
	}
	for _, f := range codec.Formats() {
		for _, from := range places {
			n++
			if err := codec.Validate(f, window(t, f, conv, from)); err != nil {
				t.Errorf("%s at %s, from %s: %v", f, at, from, err)
			}
		}
	}
	return n
}

// asShown holds a window that sluice-replay shows against the conversation.
func asShown(t *testing.T, file string, conv projections.Conversation, from events.Position) {
	t.Helper()
	for _, f := range codec.Formats() {
		out := replayed(t, 0, "messages", "talk", "--calls", "--json", "--format", string(f), "--from", from.String(), "--archive", file)
		var got struct{ Messages []json.RawMessage }
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		want := window(t, f, conv, from)
		if string(asRaw(got.Messages)) != string(asRaw(want)) {
			t.Errorf("%s from %s:\n%s\nwant\n%s", f, from, asRaw(got.Messages), asRaw(want))
		}
	}
}
