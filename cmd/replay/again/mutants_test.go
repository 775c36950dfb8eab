package again_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/replay/again"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/corpus"
)

// mutant is a record that no decider of today's would have made.
type mutant struct {
	name, turn string
	event      int                               // of the turn, from 1: what is changed
	change     func(e events.Event) events.Event // nil: the event is left out
	also       func(records []events.Record)     // changes the whole commit, after that
	at         int                               // the event that must be named; 0 means event
	call       int                               // and its call
	recorded   string                            // in words
	decided    string
	field      string
}

// as changes an event of a known type.
func as[T any](do func(e *T)) func(events.Event) events.Event {
	return func(e events.Event) events.Event {
		do(any(e).(*T))
		return e
	}
}

func instead(e events.Event) func(events.Event) events.Event {
	return func(events.Event) events.Event { return e }
}

var mutants = []mutant{
	{
		name: "the arguments' hash is another's", turn: "ends/t1", event: 6, change: as(func(e *events.Requested) { e.Hash = "sha256:00" }), call: 1,
		recorded: "requested", decided: "requested", field: "/args_hash",
	},
	{
		name: "a call that does not parse shares a batch", turn: "ends/t1", event: 14, call: -1, recorded: "turn_planned", decided: "turn_planned", field: "/batches",
		change: as(func(e *events.TurnPlanned) { e.Batches = [][]int{{0, 1}, {2}, {3, 4}, {5}, {6}, {7}, {8}} }),
	},
	{
		name: "the batches are in another order", turn: "ends/t2", event: 6, call: -1, recorded: "turn_planned", decided: "turn_planned", field: "/batches/0/0",
		change: as(func(e *events.TurnPlanned) { e.Batches = [][]int{{1}, {0}, {2}} }),
	},
	{
		name: "a call of tier approval is let through unasked", turn: "people/t1", event: 10, call: 1, recorded: "authorized (allow)", decided: "approval_requested",
		change: func(e events.Event) events.Event {
			return &events.Authorized{Verdict: e.(*events.ApprovalRequested).Verdict, Decision: "allow"}
		},
	},
	{
		name: "a failure of its own is tried again", turn: "ends/t1", event: 32, call: 5, recorded: "retrying after attempt 1", decided: "failed, effects none",
		change: instead(&events.Retrying{Attempt: 1, Class: events.ClassTool, Until: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), Effects: events.EffectsNone}),
	},
	{
		name: "a refused connection is not tried again", turn: "ends/t1", event: 34, call: 6, recorded: "failed, effects none", decided: "retrying after attempt 1",
		change: instead(&events.Failed{Outcome: events.Outcome{
			Attempt: 1, Class: events.ClassUnavailable, Effects: events.EffectsNone,
			Result: events.Result{Status: events.Failure, Error: &events.Error{Code: events.ExecutionError, Message: "connection refused"}},
		}}),
	},
	{
		name: "a timeout proves that nothing happened", turn: "ends/t1", event: 40, call: 7, recorded: "completed, effects possible", decided: "timed_out, effects possible",
		change: func(e events.Event) events.Event { return &events.Completed{Outcome: e.(*events.TimedOut).Outcome} },
	},
	{
		name: "a charge that was answered had no effect", turn: "people/t1", event: 22, call: 0, recorded: "failed, effects done", decided: "completed, effects done",
		change: func(e events.Event) events.Event { return &events.Failed{Outcome: e.(*events.Completed).Outcome} },
	},
	{
		name: "the turn counts wrongly", turn: "ends/t1", event: 43, call: -1, recorded: "turn_completed", decided: "turn_completed", field: "/counts/completed",
		change: as(func(e *events.TurnCompleted) { e.Counts[events.KindCompleted] = 5 }),
	},
	{
		name: "the shared context is another", turn: "ends/t1", event: 43, call: -1, recorded: "turn_completed", decided: "turn_completed", field: "/context/cwd",
		change: as(func(e *events.TurnCompleted) { e.Context = []byte(`{"cwd":"/etc"}`) }),
	},
	{
		name: "the rest is not aborted", turn: "ends/t2", event: 8, call: 1, recorded: "authorized (allow)", decided: "cancelled, effects none",
		change: instead(&events.Authorized{Decision: "allow", Verdict: events.Verdict{Tier: events.Readonly, Hash: "sha256:1"}}),
	},
	{name: "the turn is not completed", turn: "ends/t3", event: 6, at: 5, call: -1, recorded: "", decided: "turn_completed"},
	{
		name: "the sentence of a rejection", turn: "people/t1", event: 15, call: 2, recorded: "denied APPROVAL_REJECTED by approve", decided: "denied APPROVAL_REJECTED by approve", field: "/reason",
		change: as(func(e *events.Denied) { e.Reason = "no" }),
	},
	{
		name: "other arguments were agreed to", turn: "people/t1", event: 17, call: 1, recorded: "approved", decided: "approved", field: "/args_hash",
		change: as(func(e *events.Approved) { e.Hash = "sha256:00" }),
	},
	{
		name: "who agreed to one call agreed to all", turn: "people/t1", event: 20, call: 1, recorded: "authorized (allow)", decided: "authorized (approved)", field: "/decision",
		change: as(func(e *events.Authorized) { e.Decision = "allow" }),
	},
	{
		name: "a parked turn has no timer", turn: "people/t1", event: 14, call: -1, recorded: "turn_parked", decided: "turn_parked", field: "/due",
		change: as(func(e *events.TurnParked) { e.Due = time.Time{} }),
	},
	{
		name: "a parked turn waits for others", turn: "people/t1", event: 14, call: -1, recorded: "turn_parked", decided: "turn_parked", field: "/waiting",
		change: as(func(e *events.TurnParked) { e.Waiting = []int{0} }),
	},
	{
		name: "an approval expires before its time", turn: "people/t1", event: 12, at: 14, call: -1, recorded: "turn_parked", decided: "turn_parked", field: "/due",
		change: as(func(e *events.ApprovalRequested) { e.Expires = e.Expires.Add(-30 * time.Minute) }),
	},
	{
		name: "a cancel is forgotten", turn: "people/t1", event: 26, call: 4, recorded: "started attempt 1", decided: "cancelled, effects none",
		change: instead(&events.Started{Attempt: 1, Owner: events.Owner{Boot: "boot-2", Epoch: 2}, Hash: "sha256:1"}),
	},
	{
		name: "who cancelled is another", turn: "people/t2", event: 12, call: 1, recorded: "cancelled, effects possible", decided: "cancelled, effects possible", field: "/by/id",
		change: as(func(e *events.Cancelled) { e.By.ID = "somebody" }),
	},
	{
		name: "what is readonly is not started again", turn: "owners/t1", event: 14, call: 0, recorded: "recovered (unknown)", decided: "recovered (restart)", field: "/action",
		change: as(func(e *events.Recovered) { e.Action = events.RecoverUnknown }),
	},
	{
		name: "a charge is started again", turn: "owners/t1", event: 23, call: 1, recorded: "recovered (restart)", decided: "recovered (unknown)", field: "/action",
		change: as(func(e *events.Recovered) { e.Action = events.RecoverRestart }),
	},
	{
		name: "a finding says that nothing had started", turn: "owners/t1", event: 31, call: 2, recorded: "recovered (probe)", decided: "recovered (probe)", field: "/tool_started",
		change: as(func(e *events.Recovered) { e.ToolStarted = false }),
	},
	{
		name: "an unknown end had no effect", turn: "owners/t1", event: 24, call: 1, recorded: "unknown (owner_lost), effects none", decided: "unknown (owner_lost), effects possible", field: "/effects",
		change: as(func(e *events.Unknown) { e.Effects = events.EffectsNone }),
	},
	{
		name: "a claim keeps the epoch", turn: "owners/t1", event: 22, call: -1, recorded: "turn_claimed by boot-3, epoch 2 (taken_over)", decided: "turn_claimed by boot-3, epoch 3 (taken_over)", field: "/owner/epoch",
		change: as(func(e *events.TurnClaimed) { e.Owner.Epoch = 2 }),
	},
	{
		name: "a taken over turn is a new one", turn: "owners/t1", event: 13, call: -1, recorded: "turn_claimed by boot-2, epoch 2 (new)", decided: "turn_claimed by boot-2, epoch 2 (taken_over)", field: "/takeovers",
		change: as(func(e *events.TurnClaimed) { e.Why, e.Takeovers = events.ClaimNew, 0 }),
	},
	{name: "a late success resolves nothing", turn: "owners/t1", event: 28, at: 27, call: 1, recorded: "", decided: "resolved, effects done"},
	{
		name: "a late success had no effect", turn: "owners/t1", event: 28, call: 1, recorded: "resolved, effects none", decided: "resolved, effects done", field: "/effects",
		change: as(func(e *events.Resolved) { e.Effects = events.EffectsNone }),
	},
	{
		name: "an attempt is skipped", turn: "owners/t1", event: 19, call: 0, recorded: "started attempt 3", decided: "started attempt 2", field: "/attempt",
		change: as(func(e *events.Started) { e.Attempt = 3 }),
	},
	{
		name: "a start with other arguments", turn: "ends/t1", event: 31, call: 5, recorded: "started attempt 1", decided: "started attempt 1", field: "/args_hash",
		change: as(func(e *events.Started) { e.Hash = "sha256:00" }),
	},
	{
		name: "an attempt may run past its turn's deadline", turn: "owners/t1", event: 34, call: 3, recorded: "started attempt 1", decided: "started attempt 1", field: "/deadline",
		change: as(func(e *events.Started) { e.Deadline = e.Deadline.Add(time.Hour) }),
	},
	{
		name: "an abandoned call was denied", turn: "owners/t2", event: 9, call: 1, recorded: "denied INTERNAL_ERROR by authorize", decided: "cancelled, effects none",
		change: instead(&events.Denied{Gate: "authorize", Code: events.InternalError}),
	},
	{
		name: "a second terminal", turn: "ends/t1", event: 44, call: 7, recorded: "completed, effects done", decided: "",
		change: instead(&events.Completed{Outcome: events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsDone}}),
	},
	{
		name: "an undo of what had failed", turn: "ends/t1", event: 45, call: 5, recorded: "compensated", decided: "",
		also: func(records []events.Record) { records[0].Call, records[0].Seq = 5, 5 }, change: as(func(*events.Compensated) {}),
	},
}

// mutated are the commits of a turn with the change.
func (m mutant) mutated(t *testing.T, stored []bus.Stored) []bus.Stored {
	t.Helper()
	n := 0
	for i, s := range stored {
		for k := range s.Commit.Records {
			if n++; n != m.event {
				continue
			}
			b, err := events.Encode(s.Commit)
			if err != nil {
				t.Fatal(err)
			}
			c, err := events.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if m.change == nil {
				c.Records = append(c.Records[:k:k], c.Records[k+1:]...)
			} else {
				c.Records[k].Event = m.change(c.Records[k].Event)
			}
			if m.also != nil {
				m.also(c.Records)
			}
			stored[i].Commit = c
			return stored
		}
	}
	t.Fatalf("turn %s has no event %d", m.turn, m.event)
	return nil
}

func TestTheFirstDifferenceIsNamed(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			key, err := events.ParseTurnKey(m.turn)
			if err != nil {
				t.Fatal(err)
			}
			l, err := corpus.Read("v1", key.Trace)
			if err != nil {
				t.Fatal(err)
			}
			commits, err := l.Commits()
			if err != nil {
				t.Fatal(err)
			}
			_, of := turnsOf(commits)
			stored := m.mutated(t, of[key])
			r := again.Turn(key, stored, again.Config{Strict: true})
			d := r.Difference
			if d == nil {
				t.Fatalf("no difference; stopped %+v", r.Stopped)
			}
			want := m.event
			if m.at != 0 {
				want = m.at
			}
			if d.Event != want || d.Call != m.call || d.Recorded != m.recorded || d.Decided != m.decided || d.Field != m.field {
				t.Errorf("event %d, call %d, %q, %q, %q\n%s", d.Event, d.Call, d.Recorded, d.Decided, d.Field, d)
			}
			if at := position(stored, want); d.Position != at {
				t.Errorf("position %s, event %d is at %s", d.Position, want, at)
			}
			t.Log(d)
		})
	}
}

// position is that of an event of a turn, from 1.
func position(stored []bus.Stored, n int) events.Position {
	for _, s := range stored {
		if n <= len(s.Commit.Records) {
			return s.Position(n - 1)
		}
		n -= len(s.Commit.Records)
	}
	return events.Position{}
}
