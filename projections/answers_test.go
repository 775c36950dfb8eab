package projections

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
)

func standings(t *testing.T, turn *Turn) []events.Standing {
	t.Helper()
	answers, err := turn.Answers(nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []events.Standing
	for i, a := range answers {
		if a.Call != i || a.Tool != turn.Calls[i].Raw.Tool || a.ProviderID != turn.Calls[i].Raw.ProviderID {
			t.Errorf("answer %d: %+v", i, a)
		}
		out = append(out, a.Standing)
	}
	return out
}

// L7: one answer a call, in request order, at every prefix; each leaves open once.
func TestAnswersAtEveryPrefix(t *testing.T) {
	c := Answers.Init()
	before := []events.Standing{events.AnswerOpen, events.AnswerOpen, events.AnswerOpen, events.AnswerOpen}
	for i, e := range whole() {
		c = Answers.Apply(c, e)
		turn := c.Turn(e.Turn)
		if turn == nil {
			if i > 0 {
				t.Fatalf("%d events, and no turn", i+1)
			}
			continue
		}
		now := standings(t, turn)
		for j := range now {
			if before[j] != events.AnswerOpen && now[j] != before[j] {
				t.Errorf("%s: the answer to call %d turned from %s to %s", e.Kind(), j, before[j], now[j])
			}
		}
		before = now
	}
	if want := []events.Standing{events.AnswerSuccess, events.AnswerSuccess, events.AnswerDenied, events.AnswerUnknown}; !slices.Equal(before, want) {
		t.Errorf("%s, want %s", before, want)
	}
	turn := c.Turns[0]
	if turn.Open() || turn.Ended != events.KindTurnCompleted || turn.Limits.CallBytes != 9000 || turn.Format != "openai" || turn.Imported {
		t.Errorf("%+v", turn)
	}
}

func TestAnswersOfWhatIsLeft(t *testing.T) {
	c := Answers.Fold(slices.Values(abandoned()))
	turn := c.Turns[0]
	want := []events.Standing{events.AnswerUnknown, events.AnswerFailed, events.AnswerFailed, events.AnswerSuccess}
	if got := standings(t, turn); !slices.Equal(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	answers, _ := turn.Answers(nil)
	if !strings.Contains(answers[1].Result.Error.Message, "it kills its node") || answers[3].Of != "trace/whole/1" {
		t.Errorf("%+v", answers)
	}
	c = Answers.Fold(slices.Values(abandoned()[:10]))
	want = []events.Standing{events.AnswerOpen, events.AnswerOpen, events.AnswerOpen, events.AnswerSuccess}
	if got := standings(t, c.Turns[0]); !slices.Equal(got, want) {
		t.Errorf("before its end: %s, want %s", got, want)
	}
}

func TestAnswersBearOddLogs(t *testing.T) {
	c := Answers.Fold(slices.Values(odd()))
	if len(c.Turns) != 1 || !c.Turns[0].Foreign {
		t.Fatalf("%+v", c)
	}
	if got := standings(t, c.Turns[0]); !slices.Equal(got, []events.Standing{events.AnswerUnknown}) {
		t.Error(got)
	}
}

func TestImportedAnswersAreVerbatim(t *testing.T) {
	log := place("t",
		ofTurn(&events.TurnSubmitted{Imported: "file", Calls: []events.RawCall{call("a", "t"), call("b", "t")}}),
		on(0, &events.Completed{Outcome: outcome(events.EffectsDone, "")}),
		ofTurn(&events.TurnCompleted{}),
	)
	answers, err := Answers.Fold(slices.Values(log)).Turns[0].Answers(nil)
	if err != nil || !answers[0].Verbatim || answers[0].Standing != events.AnswerSuccess || answers[1].Standing != events.AnswerOpen {
		t.Errorf("%+v, %v", answers, err)
	}
}

// 66: what is by reference is fetched; what cannot be is left, and said.
func TestAnswersResolveReferences(t *testing.T) {
	far, gone := events.BlobRef{Digest: "sha256:1", Size: 3}, events.BlobRef{Digest: "sha256:2", Size: 4}
	done := func(ref *events.BlobRef) *events.Completed {
		o := outcome(events.EffectsDone, "")
		o.Result.Text = events.Body{Ref: ref}
		return &events.Completed{Outcome: o}
	}
	calls := []events.RawCall{call("a", "t"), call("b", "t"), call("c", "t")}
	calls[0].Args = events.Body{Ref: &far}
	turn := Answers.Fold(slices.Values(place("t",
		ofTurn(&events.TurnSubmitted{Calls: calls}), on(0, done(&far)), on(1, done(&gone)), on(2, &events.Completed{Outcome: outcome(events.EffectsDone, "x")}),
	))).Turns[0]
	errGone := errors.New("gone")
	blobs := func(ref events.BlobRef) ([]byte, error) {
		if ref == far {
			return []byte("far"), nil
		}
		return nil, errGone
	}
	for range 2 { // resolving leaves the state as it is
		answers, err := turn.Answers(blobs)
		if !errors.Is(err, errGone) || !strings.Contains(err.Error(), "trace/t/1") || strings.Contains(err.Error(), "trace/t/0") {
			t.Error(err)
		}
		var got []events.Body
		for _, a := range answers {
			got = append(got, a.Result.Text)
		}
		if diff := cmp.Diff([]events.Body{{Text: "far"}, {Ref: &gone}, {Text: "x"}}, got); diff != "" {
			t.Error(diff)
		}
	}
	requests, err := turn.Requests(blobs)
	if err != nil || requests[0].Args.Text != "far" || requests[1].Args.Text != "{}" {
		t.Errorf("%+v, %v", requests, err)
	}
	if _, err := turn.Requests(nil); err == nil {
		t.Error("no store, and no error")
	}
}

// 21: a window begins between two turns, and holds all that came since.
func TestSince(t *testing.T) {
	log := corpus()["one after the other"]
	c := Answers.Fold(slices.Values(log))
	for i, e := range log {
		var got, want []string
		for _, turn := range c.Turns[c.Since(e.Pos):] {
			got = append(got, turn.Key.Turn)
		}
		// whole: its last answer is its 28th event, and what is resolved later changes none.
		switch {
		case i < 28:
			want = []string{"whole", "abandoned", "odd"}
		case i < len(whole())+len(abandoned()):
			want = []string{"abandoned", "odd"}
		case i < len(whole())+len(abandoned())+10:
			want = []string{"odd"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("since event %d, %s: %s, want %s", i, e.Kind(), got, want)
		}
	}
}

// An answer that may still change is in every window.
func TestSinceHoldsWhatIsOpen(t *testing.T) {
	log := abandoned()[:10]
	c := Answers.Fold(slices.Values(log))
	if got := c.Since(events.Position{Generation: 9}); got != 0 {
		t.Errorf("since turn %d", got)
	}
	c = Answers.Fold(slices.Values(abandoned()))
	if got := c.Since(events.Position{Generation: 9}); got != 1 {
		t.Errorf("since turn %d", got)
	}
}
