package projections

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// TestAnswersTellOfChangedArguments: an answer that stands says so at every prefix, also
// after the call was asked about once more; an imported one is as it was recorded.
func TestAnswersTellOfChangedArguments(t *testing.T) {
	changed := &events.Approved{Hash: "sha256:theirs", Args: &events.Body{Text: `{"command":"touch made2.txt"}`}, Told: true}
	history := []events.Record{
		ofTurn(&events.TurnSubmitted{Calls: []events.RawCall{call("a", "Bash"), call("b", "Bash"), call("c", "Bash")}}),
		on(0, &events.Requested{Hash: "sha256:given"}), on(1, &events.Requested{Hash: "sha256:given"}), on(2, &events.Requested{Hash: "sha256:given"}),
		on(0, &events.ApprovalRequested{Hash: "sha256:given"}), on(1, &events.ApprovalRequested{Hash: "sha256:given"}), on(2, &events.ApprovalRequested{Hash: "sha256:given"}),
		on(0, changed), on(1, &events.Approved{Hash: "sha256:given"}), on(2, changed),
		on(0, &events.ApprovalRequested{Hash: "sha256:theirs", Asking: 2}), on(0, &events.Approved{Hash: "sha256:theirs"}),
		on(1, &events.Completed{Outcome: outcome(events.EffectsDone, "x")}), on(0, &events.Completed{Outcome: outcome(events.EffectsDone, "x")}),
		ofTurn(&events.TurnAbandoned{Reason: "it kills its node"}),
	}
	log := place("t", history...)
	for n := range len(log) + 1 {
		c := Answers.Fold(slices.Values(log[:n]))
		if len(c.Turns) == 0 {
			continue
		}
		answers, err := c.Turns[0].Answers(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			told := strings.Contains(string(lifecycle.Envelope(a)), `"args":{"command":"touch made2.txt"}`)
			if want := i != 1 && a.Standing != events.AnswerOpen; told != want {
				t.Errorf("%d events, call %d, %s: told %t, want %t", n, i, a.Standing, told, want)
			}
		}
	}
	if c := Answers.Fold(slices.Values(log)); c.Turns[0].Calls[0].Answer.Standing != events.AnswerSuccess {
		t.Errorf("%+v", c.Turns[0].Calls[0])
	}
}
