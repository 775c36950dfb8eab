package fault

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// limitedTape is a turn of one call that a limit did not let through: at its first start,
// or at a further attempt.
func limitedTape(t *testing.T, attempts int) Trace {
	const reason = "the limit few lets 3 calls of svc run at once, and so many run: it was not run; try again once one of them has ended, in 5 seconds or later"
	p := newTape(t)
	p.turn("u", taped{tool: "svc", verdict: events.Verdict{Tier: events.Readonly, Retries: 2}, ends: []end{
		{class: events.ClassUnavailable, text: "no route"}, {class: events.ClassUnavailable, text: "gone for good"},
	}})
	limits := []events.Limit{{Rule: "few", Slot: events.Lock{Resource: "limit:few", Boot: "b1", Revision: 3}}}
	var kept []events.Record
	by := p.trace.Commits[2].Commit.By
	p.trace.Commits, p.seq = p.trace.Commits[:3], 3 // submitted, planned, authorized
	if attempts == 0 {
		kept = append(kept, events.Record{Call: 0, Seq: 3, Event: &events.Denied{Gate: string(lifecycle.GateLimit), Code: events.RateLimited, Reason: reason, Policies: []string{"few"}}})
		p.add(p.trace.Commits[0].Commit.Turn, by, append(kept, events.Record{Call: events.TurnEvent, Seq: 4, Event: &events.TurnCompleted{Counts: map[events.Kind]int{events.KindDenied: 1}}})...)
		return p.trace
	}
	key := p.trace.Commits[0].Commit.Turn
	verdict := p.trace.Commits[2].Commit.Records[0].Event.(*events.Authorized).Verdict
	p.add(key, by, events.Record{Call: 0, Seq: 3, Event: &events.Started{Attempt: 1, Owner: by, Deadline: p.at.Add(30 * time.Second), Hash: verdict.Hash, Limits: limits, LimitWaitMS: 12}})
	p.add(key, by, events.Record{Call: 0, Seq: 4, Event: &events.Retrying{Attempt: 1, Class: events.ClassUnavailable, Error: failure(events.ExecutionError, "no route").Error, Until: p.at.Add(time.Second), Effects: events.EffectsNone}})
	p.at = p.at.Add(time.Second)
	o := events.Outcome{Attempt: 1, Class: events.ClassUnavailable, Effects: events.EffectsNone, Result: failure(events.RateLimited, "attempt 1 failed, and another one"+lifecycle.NotLetThrough+reason)}
	p.add(key, by, events.Record{Call: 0, Seq: 5, Event: &events.Failed{Outcome: o}}, events.Record{Call: events.TurnEvent, Seq: 4, Event: &events.TurnCompleted{Counts: map[events.Kind]int{events.KindFailed: 1}}})
	return p.trace
}

// TestWhatALimitDidNotLetThrough is told the same when it is played, whatever strikes.
func TestWhatALimitDidNotLetThrough(t *testing.T) {
	for name, attempts := range map[string]int{"at_its_start": 0, "at_a_further_attempt": 1} {
		t.Run(name, func(t *testing.T) {
			pl := planOf(t, limitedTape(t, attempts), Options{})
			got := pairNames(pl.Turns[0], 0)
			if want := map[int]string{0: "start requested authorized denied", 1: "start requested authorized started retrying failed"}[attempts]; got != want {
				t.Errorf("its stages: %s", got)
			}
			sum := all(t, pl)
			for _, s := range sum.Sentences() {
				if strings.Contains(s.Now, "unknown") {
					t.Errorf("it ends as %+v", s)
				}
			}
		})
	}
}
