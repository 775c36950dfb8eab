package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// step is one event of a history that is made by hand.
type step struct {
	call  int
	event events.Event
	by    *events.Owner // nil: the owner, or nobody for what doors write
	seq   uint32        // 0: the next
	at    time.Time     // zero: the start
}

var (
	first  = events.Owner{Boot: "n1", Epoch: 1}
	second = events.Owner{Boot: "n2", Epoch: 2}
)

// history numbers the steps and puts each in a commit of its own.
func history(steps ...step) []events.Commit {
	seqs := map[int]uint32{}
	owner := events.Owner{}
	out := make([]events.Commit, 0, len(steps))
	for i, s := range steps {
		seqs[s.call]++
		if s.seq != 0 {
			seqs[s.call] = s.seq
		}
		by := owner
		switch e := s.event.(type) {
		case *events.TurnClaimed:
			owner, by = e.Owner, e.Owner
		case *events.TurnSubmitted, *events.Approved, *events.CancelRequested, *events.TurnCancelRequested:
			by = events.Owner{}
		case *events.InputGiven:
			if e.By != nil {
				by = events.Owner{}
			}
		}
		if s.by != nil {
			by = *s.by
		}
		at := start
		if !s.at.IsZero() {
			at = s.at
		}
		out = append(out, events.Commit{
			ID: fmt.Sprint("c", i), Turn: events.TurnKey{Trace: "t", Turn: "1"}, At: at, By: by,
			Records: []events.Record{{Call: s.call, Seq: seqs[s.call], Event: s.event}},
		})
	}
	return out
}

func turn(e events.Event) step            { return step{call: events.TurnEvent, event: e} }
func of(call int, e events.Event) step    { return step{call: call, event: e} }
func (s step) from(o events.Owner) step   { s.by = &o; return s }
func (s step) numbered(n uint32) step     { s.seq = n; return s }
func claims(o events.Owner) step          { return turn(&events.TurnClaimed{Owner: o, Why: "new"}) }
func requested(call int) step             { return of(call, &events.Requested{Tool: "tool", Hash: "h"}) }
func progress(call, n int) step           { return of(call, &events.Progress{Attempt: n}) }
func retrying(call, n int) step           { return of(call, &events.Retrying{Attempt: n}) }
func completed(call, n int) step          { return of(call, &events.Completed{Outcome: ended(n)}) }
func failed(call, n int) step             { return of(call, &events.Failed{Outcome: ended(n)}) }
func denied(call int) step                { return of(call, &events.Denied{Gate: "allow"}) }
func ended(n int) events.Outcome          { return events.Outcome{Attempt: n} }
func cancelled(call int) step             { return of(call, &events.CancelRequested{By: person}) }
func asked(call int, hash string) step    { return of(call, &events.ApprovalRequested{Hash: hash}) }
func approved(call int, hash string) step { return of(call, &events.Approved{By: person, Hash: hash}) }

func recovered(call, n int, action string) step {
	return of(call, &events.Recovered{Attempt: n, Action: action})
}

func authorized(call int, tier events.Tier, change ...func(*events.Verdict)) step {
	v := events.Verdict{Tier: tier, Hash: "h"}
	for _, c := range change {
		c(&v)
	}
	return of(call, &events.Authorized{Verdict: v, Decision: "allow"})
}

func honouring(v *events.Verdict) { v.HonoursKey, v.Key = true, "k" }

func locking(v *events.Verdict) {
	v.Resources = []events.ResourceUse{{Name: "file:a", Exclusive: true}}
}

func started(call, n int, o events.Owner, change ...func(*events.Started)) step {
	e := &events.Started{Attempt: n, Owner: o, Hash: "h"}
	for _, c := range change {
		c(e)
	}
	return of(call, e)
}

// submitted is a turn of n calls that n1 has claimed and requested.
func submitted(n int) []step {
	sub := &events.TurnSubmitted{Principal: events.Principal{ID: "agent"}}
	out := []step{turn(sub), claims(first)}
	for i := range n {
		sub.Calls = append(sub.Calls, events.RawCall{Tool: "tool"})
		out = append(out, requested(i))
	}
	return append(out, turn(&events.TurnPlanned{}))
}

// running is such a turn of one call whose first attempt is open.
func running(tier events.Tier, change ...func(*events.Verdict)) []step {
	return append(submitted(1), authorized(0, tier, change...), started(0, 1, first))
}

// TestLawsAreBroken has a history for every law that breaks it, and for every
// way to break one.
func TestLawsAreBroken(t *testing.T) {
	for _, c := range slices.Concat(brokenNumbers(), brokenStarts(), brokenAttempts(), brokenTurns(), brokenInputs()) {
		t.Run(c.law+" "+c.name, func(t *testing.T) {
			found := lifecycle.Laws(history(c.steps...))
			if len(found) == 0 {
				t.Fatal("no law was found broken")
			}
			for _, v := range found {
				if v.Law != c.law {
					t.Errorf("got %s, want only %s", v, c.law)
				}
			}
		})
	}
}

type broken struct {
	law, name string
	steps     []step
}

func brokenNumbers() []broken {
	return []broken{
		{"L1", "a gap in a call's numbers", append(submitted(1), authorized(0, events.Readonly).numbered(3))},
		{"L1", "a number twice", append(submitted(1), denied(0).numbered(1))},
		{"L1", "a gap in the turn's numbers", append(submitted(1), turn(&events.TurnParked{}).numbered(9))},
		{"L1", "no request", []step{
			turn(&events.TurnSubmitted{Calls: []events.RawCall{{Tool: "tool"}}}), claims(first), denied(0),
		}},
		{"L1", "no submission", []step{claims(first)}},
		{"L1", "nothing at all", nil},
		{"L1", "submitted twice", append(submitted(1), turn(&events.TurnSubmitted{}))},
		{"L2", "two terminals", append(running(events.Readonly), completed(0, 1), failed(0, 1))},
		{"L2", "started after the end", append(running(events.Readonly), completed(0, 1), started(0, 2, first))},
		{"L2", "the turn ends twice", append(submitted(1), denied(0), turn(&events.TurnCompleted{}), turn(&events.TurnAbandoned{}))},
		{"L9", "a clock finer than the log", []step{
			{call: events.TurnEvent, event: &events.TurnSubmitted{}, at: start.Add(time.Nanosecond)},
		}},
		{"L9", "an event of a newer release", append(submitted(1), turn(events.Foreign{Name: "turn_frozen", Version: 1}))},
		{"life", "approved and never asked", append(submitted(1), approved(0, "h"))},
		{"life", "asked after it was authorized and ran", append(running(events.Readonly), asked(0, "h"))},
		{"life", "resolved before its end", append(running(events.Readonly), of(0, &events.Resolved{}))},
		{"life", "cancelled after its end", append(running(events.Readonly), completed(0, 1), cancelled(0))},
		{"life", "undone, and it had failed", append(running(events.Readonly), failed(0, 1), of(0, &events.Compensated{}))},
	}
}

func brokenStarts() []broken {
	approvedTier := append(submitted(1), asked(0, "h"), authorized(0, events.Irreversible), started(0, 1, first))
	changed := append(submitted(1), asked(0, "old"), approved(0, "old"), authorized(0, events.Irreversible), started(0, 1, first))
	otherKey := func(e *events.Started) { e.Key = "other" }
	return []broken{
		{"L3", "not authorized", append(submitted(1), started(0, 1, first))},
		{"L3", "other arguments", append(submitted(1), authorized(0, events.Readonly),
			started(0, 1, first, func(e *events.Started) { e.Hash = "other" }))},
		{"L3", "asked, and nobody answered", approvedTier},
		{"L3", "the approval was for other arguments", changed},
		{"L3", "asked again, and nobody answered that", append(submitted(1), asked(0, "h"), approved(0, "h"),
			authorized(0, events.Irreversible), asked(0, "h"), authorized(0, events.Irreversible), started(0, 1, first))},
		{"L3", "tier approval, and nobody asked", append(submitted(1), authorized(0, events.Approval))},
		{"L3", "after its cancel request", append(submitted(1), authorized(0, events.Readonly), cancelled(0), started(0, 1, first))},
		{"L3", "after the turn's cancel request", append(submitted(1), authorized(0, events.Readonly),
			turn(&events.TurnCancelRequested{By: person}), started(0, 1, first))},
		{"L3", "approved after its cancel request", append(submitted(1), asked(0, "h"), cancelled(0), approved(0, "h"))},
		{"L6", "an irreversible call starts again", append(running(events.Irreversible), retrying(0, 1), started(0, 2, first))},
		{"L6", "a reversible call whose tool honours no key", append(running(events.Reversible),
			claims(second), recovered(0, 1, events.RecoverRestart), started(0, 2, second))},
		{"L6", "another key", append(running(events.Reversible, honouring),
			retrying(0, 1), started(0, 2, first, otherKey))},
		{"L8", "before an earlier call has ended", append(submitted(2), authorized(0, events.Reversible, locking),
			authorized(1, events.Reversible, locking), started(0, 1, first), started(1, 1, first))},
		{"L8", "after a later call", append(submitted(2), authorized(1, events.Reversible, locking), started(1, 1, first),
			completed(1, 1), authorized(0, events.Reversible, locking), started(0, 1, first))},
		{"L10", "denied and started", append(submitted(1), authorized(0, events.Readonly), denied(0), started(0, 1, first))},
		{"L10", "started and denied", append(running(events.Readonly), retrying(0, 1), denied(0))},
		{"L10", "refused by its door", append(refused(), authorized(0, events.Readonly), started(0, 1, first))},
	}
}

// refused is a turn of one call that its door must not let start.
func refused() []step {
	s := submitted(1)
	s[0].event.(*events.TurnSubmitted).Calls[0].Refused = &events.Refusal{Code: events.TruncatedByModel}
	return s
}

func brokenAttempts() []broken {
	return []broken{
		{"L4", "a result of an attempt that never started", append(submitted(1), authorized(0, events.Readonly), completed(0, 1))},
		{"L4", "a result of no attempt", append(submitted(1), authorized(0, events.Readonly), completed(0, 0))},
		{"L4", "progress of the next attempt", append(running(events.Readonly), progress(0, 2))},
		{"L4", "a late result of the next attempt", append(running(events.Readonly), of(0, &events.LateResult{Outcome: ended(2)}))},
		{"L5", "a result of the attempt before", append(running(events.Readonly), retrying(0, 1), started(0, 2, first), completed(0, 1))},
		{"L5", "a result after the attempt was over", append(running(events.Readonly), retrying(0, 1), completed(0, 1))},
		{"L5", "a result after it was to be started again", append(running(events.Readonly),
			claims(second), recovered(0, 1, events.RecoverRestart), completed(0, 1))},
		{"L5", "progress after the attempt was over", append(running(events.Readonly), retrying(0, 1), progress(0, 1))},
		{"L5", "retried twice", append(running(events.Readonly), retrying(0, 1), retrying(0, 1))},
		{"L5", "two attempts at once", append(running(events.Readonly), started(0, 2, first))},
		{"L5", "an attempt is left out", append(submitted(1), authorized(0, events.Readonly), started(0, 2, first))},
	}
}

func brokenTurns() []broken {
	lost := append(running(events.Readonly), claims(second))
	return []broken{
		{"L7", "no such call", append(submitted(1), requested(1))},
		{"L7", "requested twice", append(submitted(1), requested(0))},
		{"L7", "completed with an open call", append(submitted(1), turn(&events.TurnCompleted{}))},
		{"L7", "abandoned with an open call", append(submitted(1), turn(&events.TurnAbandoned{}))},
		{"L11", "an earlier owner settles", append(slices.Clone(lost), completed(0, 1).from(first))},
		{"L11", "an earlier owner parks", append(slices.Clone(lost), turn(&events.TurnParked{}).from(first))},
		{"L11", "an epoch is left out", append(submitted(1), claims(events.Owner{Boot: "n2", Epoch: 3}))},
		{"L11", "started for an earlier owner", append(submitted(1), authorized(0, events.Readonly), claims(second), started(0, 1, first))},
		{"L11", "nobody starts it", append(submitted(1), authorized(0, events.Readonly).from(events.Owner{}))},
		{"L11", "its owner had parked it", append(submitted(1), turn(&events.TurnParked{}), authorized(0, events.Readonly))},
	}
}

// TestLawsHold has histories that look odd and are right.
func TestLawsHold(t *testing.T) {
	withPolicy := func(e *events.TurnPlanned) []step {
		return []step{turn(&events.TurnSubmitted{Calls: []events.RawCall{{Tool: "tool"}}}), claims(first), requested(0), turn(e)}
	}
	session := &events.TurnPlanned{Inherited: events.Inherited{Approvals: []string{lifecycle.SessionApproval("tool", "h")}}}
	for name, steps := range map[string][]step{
		"an open call":      running(events.Irreversible),
		"cancelled unasked": append(submitted(1), cancelled(0), of(0, &events.Cancelled{})),
		"late evidence of an earlier owner": append(running(events.Readonly), claims(second), recovered(0, 1, events.RecoverRestart),
			of(0, &events.LateResult{Owner: first, Outcome: ended(1)}).from(first), started(0, 2, second)),
		"late evidence after the end": append(running(events.Readonly), completed(0, 1), turn(&events.TurnCompleted{}),
			of(0, &events.LateResult{Owner: first, Outcome: ended(1)})),
		"a probe found it": append(running(events.Irreversible), claims(second), recovered(0, 1, events.RecoverProbe),
			claims(events.Owner{Boot: "n3", Epoch: 3}), recovered(0, 1, events.RecoverProbe), completed(0, 1)),
		"approved for the session": append(withPolicy(session), authorized(0, events.Approval), started(0, 1, first)),
		"a denial by a person of a parked turn": append(submitted(1), asked(0, "h"), turn(&events.TurnParked{}),
			denied(0).from(events.Owner{}), claims(second), turn(&events.TurnCompleted{})),
	} {
		for _, v := range lifecycle.Laws(history(steps...)) {
			t.Errorf("%s: %s", name, v)
		}
	}
}

// TestEveryKindHasItsPlace keeps the table of a call's life complete.
func TestEveryKindHasItsPlace(t *testing.T) {
	for _, row := range events.Kinds {
		if row.Turn {
			if lifecycle.MayFollow("", row.Kind) || lifecycle.MayFollow(events.KindStarted, row.Kind) {
				t.Errorf("%s is a turn's, and may follow a call's", row.Kind)
			}
			continue
		}
		reached := slices.ContainsFunc(events.Kinds, func(before events.Row) bool {
			return lifecycle.MayFollow(before.Kind, row.Kind)
		})
		if !reached && row.Kind != events.KindRequested {
			t.Errorf("no kind may stand before %s: give it a place in transitions.go", row.Kind)
		}
		for _, next := range events.Kinds {
			if row.Terminal && next.Terminal && lifecycle.MayFollow(row.Kind, next.Kind) {
				t.Errorf("%s may follow %s: both are terminals", next.Kind, row.Kind)
			}
		}
	}
}
