package projections_test

import (
	"fmt"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// A view of one's own: how often each gate said no.
func ExampleProjection() {
	refusals := projections.Projection[map[string]int]{
		Name: "refusals", Version: 1,
		Init: func() map[string]int { return map[string]int{} },
		Apply: func(s map[string]int, e projections.Event) map[string]int {
			if d, ok := e.Event.(*events.Denied); ok {
				s[d.Gate]++
			}
			return s
		},
	}
	commit := events.Commit{Records: []events.Record{
		{Call: 0, Event: &events.Denied{Gate: "allow"}},
		{Call: 1, Event: &events.Denied{Gate: "authorize"}},
		{Call: 2, Event: &events.Denied{Gate: "allow"}},
	}}
	fmt.Println(refusals.Fold(projections.Events(1, 1, commit)))
	// Output: map[allow:2 authorize:1]
}

// What the model is told of each call of a turn, at any time.
func ExampleTurn_Answers() {
	turn := events.TurnKey{Trace: "trace", Turn: "turn"}
	commit := events.Commit{Turn: turn, Records: []events.Record{
		{Call: events.TurnEvent, Event: &events.TurnSubmitted{Calls: []events.RawCall{{Tool: "a"}, {Tool: "b"}}}},
		{Call: 1, Event: &events.Unknown{Outcome: events.Outcome{Effects: events.EffectsPossible}}},
	}}
	c := projections.Answers.Fold(projections.Events(1, 1, commit))
	answers, err := c.Turn(turn).Answers(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range answers {
		fmt.Println(a.Tool, a.Standing)
	}
	// Output:
	// a open
	// b unknown
}
