package lifecycle

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
)

func TestWordsAreBounded(t *testing.T) {
	long, me := strings.Repeat("w", MaxWords+1), events.Principal{ID: "me"}
	loud := events.Principal{ID: strings.Repeat("m", MaxActor+1)}
	turn := Turn{Key: events.TurnKey{Trace: "t", Turn: "u"}}
	sub := events.TurnSubmitted{Principal: me, Calls: []events.RawCall{{Tool: "echo"}}}
	recs, err := Decide(turn, Env{Now: time.Unix(1, 0).UTC()}, Submit{Turn: sub})
	if err != nil {
		t.Fatal(err)
	}
	turn = Evolve(turn, Meta{}, recs[0])
	for _, cmd := range []Command{
		CancelTurn{By: me, Reason: long},
		CancelCall{By: me, Reason: long},
		Approve{By: me, Note: long},
		Reject{By: me, Note: long},
		Resolve{By: me, Note: long, Effects: events.EffectsNone},
		CancelTurn{By: loud},
		CancelCall{By: loud},
		Approve{By: loud},
		Undone{By: loud},
	} {
		if recs, err := Decide(turn, Env{}, cmd); !errors.Is(err, ErrWords) || recs != nil {
			t.Errorf("%T: %v, %v", cmd, recs, err)
		}
	}
	if _, err := Decide(turn, Env{}, CancelTurn{By: me, Reason: long[1:]}); err != nil {
		t.Errorf("just within the bounds: %v", err)
	}
	for _, change := range []func(*events.TurnSubmitted){
		func(s *events.TurnSubmitted) { s.Principal = loud },
		func(s *events.TurnSubmitted) { s.Principal.Parents = make([]string, MaxParents+1) },
		func(s *events.TurnSubmitted) { s.Workspace = "/" + strings.Repeat("a", MaxPath) },
		func(s *events.TurnSubmitted) { s.Allow = make([]string, MaxAllow+1) },
		func(s *events.TurnSubmitted) { s.Allow = []string{strings.Repeat("n", MaxName+1)} },
		func(s *events.TurnSubmitted) { s.Traceparent = strings.Repeat("0", MaxActor+1) },
	} {
		s := sub
		change(&s)
		if err := CheckSubmission(s); !errors.Is(err, ErrSubmission) || !errors.Is(err, ErrWords) {
			t.Errorf("%+.80v: %v", s, err)
		}
	}
}
