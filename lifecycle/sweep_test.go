package lifecycle_test

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// TestStranded: what is under way is left alone, and what nobody has in mind is not.
func TestStranded(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	submitted := &events.TurnSubmitted{Placement: "gpu", Limits: events.Limits{DeadlineMS: 3_600_000}}
	claimed := &events.TurnClaimed{Owner: events.Owner{Boot: "n1", Epoch: 1}}
	parked := &events.TurnParked{Due: at.Add(30 * time.Minute)}
	cancelled := &events.TurnCancelRequested{}
	served := lifecycle.Around{Now: at.Add(time.Minute), Served: true}
	alone := lifecycle.Around{Now: at.Add(time.Minute)}
	with := func(a lifecycle.Around, change func(*lifecycle.Around)) lifecycle.Around {
		change(&a)
		return a
	}
	passed := with(served, func(a *lifecycle.Around) { a.Passed = true })
	for name, c := range map[string]struct {
		events []events.Event
		around lifecycle.Around
		want   lifecycle.Remedy
	}{
		"it waits in the queue":                       {[]events.Event{submitted}, served, lifecycle.RemedyNone},
		"the queue has passed it by":                  {[]events.Event{submitted}, passed, lifecycle.RemedyQueue},
		"nobody serves its placement":                 {[]events.Event{submitted}, alone, lifecycle.RemedyNone},
		"nobody serves it, and its end was asked for": {[]events.Event{submitted, cancelled}, alone, lifecycle.RemedyEnd},
		"nobody serves it, and its deadline has passed": {
			[]events.Event{submitted}, with(alone, func(a *lifecycle.Around) { a.Now = at.Add(2 * time.Hour) }), lifecycle.RemedyEnd,
		},
		"it is older than half the retention": {
			[]events.Event{submitted}, with(served, func(a *lifecycle.Around) { a.Retention = 90 * time.Second }), lifecycle.RemedyEnd,
		},
		"it runs":                        {[]events.Event{submitted, claimed}, served, lifecycle.RemedyNone},
		"it runs, and is old":            {[]events.Event{submitted, claimed}, with(served, func(a *lifecycle.Around) { a.Retention = time.Second }), lifecycle.RemedyNone},
		"its owner is gone":              {[]events.Event{submitted, claimed}, with(served, func(a *lifecycle.Around) { a.OwnerGone = true }), lifecycle.RemedyQueue},
		"its owner and all others":       {[]events.Event{submitted, claimed}, with(alone, func(a *lifecycle.Around) { a.OwnerGone = true }), lifecycle.RemedyEnd},
		"it is parked":                   {[]events.Event{submitted, claimed, parked}, with(served, func(a *lifecycle.Around) { a.OwnerGone = true }), lifecycle.RemedyNone},
		"somebody has answered since":    {[]events.Event{submitted, claimed, parked, &events.TurnCancelRequested{}}, served, lifecycle.RemedyQueue},
		"its time has come":              {[]events.Event{submitted, claimed, parked}, with(served, func(a *lifecycle.Around) { a.Now = at.Add(time.Hour) }), lifecycle.RemedyQueue},
		"its time has only just come":    {[]events.Event{submitted, claimed, parked}, with(served, func(a *lifecycle.Around) { a.Now = at.Add(30*time.Minute + time.Second) }), lifecycle.RemedyNone},
		"it was claimed again":           {[]events.Event{submitted, claimed, parked, cancelled, claimed}, served, lifecycle.RemedyNone},
		"it has ended":                   {[]events.Event{submitted, claimed, &events.TurnCompleted{}}, with(passed, func(a *lifecycle.Around) { a.OwnerGone = true }), lifecycle.RemedyNone},
		"it was imported":                {[]events.Event{&events.TurnSubmitted{Imported: "a transcript"}}, passed, lifecycle.RemedyNone},
		"its beginning is not in sight":  {[]events.Event{claimed}, with(served, func(a *lifecycle.Around) { a.OwnerGone = true }), lifecycle.RemedyNone},
		"nothing is known of its events": {nil, passed, lifecycle.RemedyNone},
	} {
		t.Run(name, func(t *testing.T) {
			var g lifecycle.Glance
			for i, e := range c.events {
				g = g.See(uint64(i+7), events.Commit{At: at, Records: []events.Record{{Call: events.TurnEvent, Event: e}}})
			}
			if got := lifecycle.Stranded(g, c.around); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if len(c.events) > 0 && (g.First != 7 || g.Last != uint64(len(c.events)+6)) {
				t.Errorf("first %d, last %d", g.First, g.Last)
			}
		})
	}
}
