package readstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
)

// TestStanding counts what waits for people and what nobody has resolved, whatever the
// kind of its end, and nothing else that has ended.
func TestStanding(t *testing.T) {
	log := newPaper()
	s := start(t, t.TempDir(), log)
	level(t, s, log)
	nothing := Standing{Waiting: map[string]int{"approval": 0, "input": 0}}
	if diff := cmp.Diff(nothing, must(s.Standing(t.Context()))(t)); diff != "" {
		t.Errorf("an empty log: %s", diff)
	}
	ends := []events.Event{
		&events.Unknown{Why: events.UnknownOwnerLost, Outcome: events.Outcome{Effects: events.EffectsPossible}},
		&events.Failed{Outcome: events.Outcome{Effects: events.EffectsPossible}},
		&events.Unknown{Outcome: events.Outcome{Effects: events.EffectsNone}}, // of a readonly call that did not stop
		&events.Deduplicated{Of: "tr/t1/1", As: events.KindFailed, Outcome: events.Outcome{Effects: events.EffectsPossible}},
		&events.TimedOut{Outcome: events.Outcome{Effects: events.EffectsPossible}},
	}
	for i := range ends {
		at, turn := noon.Add(time.Duration(i)*time.Hour), events.TurnKey{Trace: "tr", Turn: fmt.Sprint("t", i)}
		log.put(events.Commit{ID: fmt.Sprint("a", i), Turn: turn, At: at, Records: []events.Record{
			{Call: -1, Seq: 1, Event: &events.TurnSubmitted{CanAsk: true, Calls: []events.RawCall{{Tool: "charge"}, {Tool: "charge"}}}},
			{Call: 0, Seq: 1, Event: &events.Requested{Tool: "charge"}},
			{Call: 0, Seq: 2, Event: &events.ApprovalRequested{Asks: "x", Hash: "h", Expires: at.Add(time.Hour)}},
			{Call: 1, Seq: 1, Event: &events.Requested{Tool: "charge"}},
			{Call: 1, Seq: 2, Event: ends[i]},
		}})
	}
	log.put(events.Commit{ID: "b", Turn: events.TurnKey{Trace: "tr", Turn: "t0"}, At: noon.Add(5 * time.Hour), Records: []events.Record{
		{Call: 0, Seq: 3, Event: &events.Denied{Gate: "approve", Code: events.ApprovalExpired}},
		{Call: 1, Seq: 3, Event: &events.Resolved{Effects: events.EffectsDone}},
	}})
	level(t, s, log)
	want := Standing{Waiting: map[string]int{"approval": 4, "input": 0}, Oldest: noon.Add(time.Hour), Unresolved: 2}
	if diff := cmp.Diff(want, must(s.Standing(t.Context()))(t)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for status, found := range map[string]int{StatusUnresolved: 1, string(events.KindTimedOut): 1, string(events.KindCancelled): 0} {
		if page := must(s.Traces(t.Context(), Query{Statuses: []string{status}}))(t); len(page.Traces) != found {
			t.Errorf("%s: %d traces, want %d", status, len(page.Traces), found)
		}
	}
	check(t, s.Stop())
}
