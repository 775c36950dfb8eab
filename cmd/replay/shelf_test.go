package main

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// shelf is a log in memory whose commits may be missing, or of any generation.
type shelf struct {
	commits []bus.Stored
	bad     map[uint64]bool // sequences that cannot be read
	reads   int
}

func (s *shelf) Generation() uint32 {
	if len(s.commits) == 0 {
		return 1
	}
	return s.commits[len(s.commits)-1].Generation
}

// Read is bus.Tail's, with the errors that bus/jetlog has.
func (s *shelf) Read(ctx context.Context, from events.Position, f bus.Filter, _ bool, yield func(bus.Stored) error) error {
	s.reads++
	if from != (events.Position{}) && !s.holds(from) {
		return bus.ErrRewound
	}
	for _, c := range s.commits {
		key := c.Commit.Turn
		if c.Seq < from.Seq || f.Trace != "" && key.Trace != f.Trace || f.Turn != "" && key.Turn != f.Turn {
			continue
		}
		if s.bad[c.Seq] {
			return &bus.Unreadable{Seq: c.Seq, Err: fmt.Errorf("%w: of a test", events.ErrFormat)}
		}
		if err := yield(c); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// holds says whether a position is one of its generation.
func (s *shelf) holds(p events.Position) bool {
	last := uint64(0)
	for _, c := range s.commits {
		if c.Generation > p.Generation {
			return p.Seq <= c.Seq
		}
		last = c.Seq
	}
	return p.Seq <= last+1
}

// place puts commits on the shelf, from a sequence on.
func (s *shelf) place(commits ...events.Commit) *shelf {
	for _, c := range commits {
		next := uint64(1)
		if n := len(s.commits); n > 0 {
			next = s.commits[n-1].Seq + 1
		}
		s.commits = append(s.commits, bus.Stored{Generation: 1, Seq: next, Commit: c})
	}
	return s
}

// quick is a lawful turn of one call in two commits: submitted, and all the rest.
func quick(trace, turn string) []events.Commit {
	key := events.TurnKey{Trace: trace, Turn: turn}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	owner := events.Owner{Boot: "b", Epoch: 1}
	v := events.Verdict{Operation: events.Operation{Class: events.OpRead}, Tier: events.Readonly, Hash: "h", Policy: "1"}
	o := events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsNone, Result: events.Result{Status: events.Success, Text: events.Body{Text: "fine"}}}
	turnEvent := func(seq uint32, e events.Event) events.Record {
		return events.Record{Call: events.TurnEvent, Seq: seq, Event: e}
	}
	return []events.Commit{
		{ID: trace + turn + "-1", Turn: key, At: at, Records: []events.Record{turnEvent(1, &events.TurnSubmitted{
			Principal: events.Principal{ID: "a"}, Calls: []events.RawCall{{ProviderID: "x", Tool: "Read", Args: events.Body{Text: "{}"}}},
		})}},
		{ID: trace + turn + "-2", Turn: key, At: at, By: owner, Records: []events.Record{
			turnEvent(2, &events.TurnClaimed{Owner: owner, Why: events.ClaimNew}),
			{Call: 0, Seq: 1, Event: &events.Requested{ProviderID: "x", Tool: "Read", Args: events.Body{Text: "{}"}, Hash: "h"}},
			turnEvent(3, &events.TurnPlanned{Batches: [][]int{{0}}}),
			{Call: 0, Seq: 2, Event: &events.Authorized{Verdict: v, Decision: "allow"}},
			{Call: 0, Seq: 3, Event: &events.Started{Attempt: 1, Owner: owner, Deadline: at, Hash: "h"}},
			{Call: 0, Seq: 4, Event: &events.Completed{Outcome: o}},
			turnEvent(4, &events.TurnCompleted{Counts: map[events.Kind]int{events.KindCompleted: 1}}),
		}},
	}
}
