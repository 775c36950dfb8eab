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
	yields  int // commits
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
		s.yields++
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

// composer writes the commits of one turn, with the numbers that they must have.
type composer struct {
	key  events.TurnKey
	at   time.Time
	step time.Duration // between two commits
	by   events.Owner
	seqs map[int]uint32
	out  []events.Commit
}

func compose(trace, turn string) *composer {
	return &composer{
		key: events.TurnKey{Trace: trace, Turn: turn}, at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), step: 1500 * time.Microsecond,
		by: events.Owner{Boot: "boot-1", Epoch: 1}, seqs: make(map[int]uint32),
	}
}

// add is one commit: events of the turn, and others of the call.
func (c *composer) add(call int, list ...events.Event) {
	records := make([]events.Record, len(list))
	for i, e := range list {
		records[i] = events.Record{Call: call, Event: e}
		if row, known := events.KindRow(e.Kind()); known && row.Turn {
			records[i].Call = events.TurnEvent
		}
	}
	c.put(records...)
}

// put is one commit of records, which are numbered.
func (c *composer) put(records ...events.Record) {
	c.at = c.at.Add(c.step)
	for i := range records {
		c.seqs[records[i].Call]++
		records[i].Seq = c.seqs[records[i].Call]
	}
	by := c.by
	if len(c.out) == 0 {
		by = events.Owner{} // a door has submitted it
	}
	c.out = append(c.out, events.Commit{ID: fmt.Sprintf("%s-%s-%d", c.key.Trace, c.key.Turn, len(c.out)), Turn: c.key, At: c.at, By: by, Records: records})
}

// begin submits calls of a tool, and goes on to where each is let through.
func (c *composer) begin(tier events.Tier, calls ...events.RawCall) {
	c.add(events.TurnEvent, &events.TurnSubmitted{Principal: events.Principal{ID: "agent-7"}, Calls: calls})
	c.add(events.TurnEvent, &events.TurnClaimed{Owner: c.by, Node: "n1", Why: events.ClaimNew})
	var asked, let []events.Record
	batch := make([]int, len(calls))
	for i, raw := range calls {
		batch[i] = i
		asked = append(asked, events.Record{Call: i, Event: &events.Requested{ProviderID: raw.ProviderID, Tool: raw.Tool, Args: raw.Args, Hash: "h"}})
		let = append(let, events.Record{Call: i, Event: &events.Authorized{Decision: "allow", Verdict: events.Verdict{
			Operation: events.Operation{Class: events.OpRead, Paths: []string{"src"}}, Tier: tier, Hash: "h", Policies: []string{"tier-" + string(tier)}, Policy: "default-1",
		}}})
	}
	c.put(append(asked, events.Record{Call: events.TurnEvent, Event: &events.TurnPlanned{Batches: [][]int{batch}, Policy: "default-1"}})...)
	c.put(let...)
}

// start starts an attempt of a call.
func (c *composer) start(call, attempt int) {
	c.add(call, &events.Started{Attempt: attempt, Owner: c.by, Deadline: c.at.Add(time.Minute), Hash: "h"})
}

// outcome is how an attempt ended that has an answer.
func outcome(attempt int, class events.Class, text string) events.Outcome {
	o := events.Outcome{Attempt: attempt, Class: class, Effects: events.EffectsNone, Result: events.Result{Status: events.Success, Text: events.Body{Text: text}}}
	if class != events.ClassOK {
		o.Result = events.Result{Status: events.Failure, Error: &events.Error{Code: events.ExecutionError, Message: text}}
	}
	return o
}

// end completes the turn, with what its calls' ends were.
func (c *composer) end() []events.Commit {
	counts := make(map[events.Kind]int)
	for _, one := range c.out {
		for _, r := range one.Records {
			if k := r.Event.Kind(); events.IsTerminal(k) {
				counts[k]++
			}
		}
	}
	c.add(events.TurnEvent, &events.TurnCompleted{Counts: counts})
	return c.out
}

// rawCalls are calls of a tool, with ids a, b, c …
func rawCalls(tool string, n int) []events.RawCall {
	out := make([]events.RawCall, n)
	for i := range out {
		out[i] = events.RawCall{ProviderID: string(rune('a' + i)), Tool: tool, Args: events.Body{Text: fmt.Sprintf(`{"n":%d}`, i)}}
	}
	return out
}
