package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/actors/det"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// fickleKeys is a bus whose keys can go out of reach, and that hears no wake-up then.
type fickleKeys struct {
	*det.Bus
	s *stage
}

func (f fickleKeys) Cells() bus.Cells { return fickleCells{f.Bus.Cells(), f} }

func (f fickleKeys) Wake(ctx context.Context, it bus.Item) error {
	if f.s.away {
		return bus.ErrUnavailable
	}
	return f.Bus.Wake(ctx, it)
}

type fickleCells struct {
	bus.Cells
	f fickleKeys
}

func (c fickleCells) Get(ctx context.Context, bucket, key string) (bus.Cell, error) {
	if s := c.f.s; bucket == bus.BucketKeys && s.away {
		s.miss++
		return bus.Cell{}, bus.ErrUnavailable
	} else if bucket == bus.BucketKeys && s.lag > 0 {
		s.lag--
		return s.old, nil
	}
	return c.Cells.Get(ctx, bucket, key)
}

// stage is one node on a clock of the test's own, over a log that a door writes to.
type stage struct {
	t    *testing.T
	w    *det.World
	log  *memlog.Log
	door *memlog.View
	away bool          // the keys are
	miss int           // reads of keys that failed
	old  bus.Cell      // what a replica has that lags
	lag  int           // how many reads of keys it still answers
	paid chan struct{} // closed: charges answer
}

func newStage(t *testing.T, change func(*stage, *det.Machine, *Config)) *stage {
	s := &stage{t: t, paid: make(chan struct{})}
	s.log = memlog.New(memlog.Config{Now: func() time.Time { return s.w.Now() }})
	s.w = det.New(det.Config{Pick: func(int) int { return 0 }, Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Changes: s.log.Changes})
	t.Cleanup(s.w.Close)
	s.door = s.log.View("door")
	charge := testTool("charge", events.Irreversible, echo)
	charge.Key = func(json.RawMessage) string { return "order-7" }
	reg, err := tools.NewRegistry(charge)
	if err != nil {
		t.Fatal(err)
	}
	m, ids := s.w.Machine("n"), 0
	cfg := Config{
		Bus: fickleKeys{m.Connect(s.log), s}, Registry: reg, Authorizer: lax{}, Boot: "n", Workspace: "/w",
		Scheduler: m, Now: m.Now, Steady: m.Now, Rand: func() float64 { return 0.5 }, ID: func() string { ids++; return fmt.Sprint("c", ids) },
		Execute: func(ctx context.Context, _ tools.Tool, _ tools.Invocation, _ tools.Options) tools.Report {
			m.Wait(0, s.paid, ctx.Done())
			return tools.Report{Class: events.ClassOK, Result: events.Result{Status: events.Success, Text: events.Body{Text: "paid"}}, Effects: events.EffectsDone, Answered: true, Confirmed: true}
		},
	}
	if change != nil {
		change(s, m, &cfg)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.backstop = 1000 * time.Hour
	m.Go(func() {
		if err := n.Start(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// until lets what can happen do so until a fact has come, at most for some time.
func (s *stage) until(d time.Duration, what string, come func() bool) {
	s.t.Helper()
	if !s.pass(d, come) {
		s.t.Fatalf("waited for %s in vain", what)
	}
}

func (s *stage) pass(d time.Duration, come func() bool) bool {
	for end := s.w.Now().Add(d); !come(); {
		if s.w.Step() {
			continue
		}
		next, ok := s.w.Next()
		if at, due := s.log.NextDue(); due && (!ok || at.Before(next)) {
			next, ok = at, true
		}
		if !ok || next.After(end) {
			return come()
		}
		s.w.Advance(next)
		s.log.Tick()
	}
	return true
}

// key says whether a turn is named by the key's entry.
func (s *stage) key(turn events.TurnKey) bool {
	cell, err := s.door.Cells().Get(s.t.Context(), bus.BucketKeys, keyCell("tester charge order-7"))
	return err == nil && strings.Contains(string(cell.Value), turn.String())
}

func never() bool { return false }

func (s *stage) turn(key events.TurnKey) lifecycle.Turn {
	stored, err := s.door.Load(s.t.Context(), key, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return lifecycle.Fold(key, commits(stored)...)
}

// A turn is told that the key it waits for is free, and cannot look: the keys are out of
// reach for longer than it stays in memory. What its gate had found before is no reason
// to be parked, or nobody would wake it again.
func TestWokenWhileTheKeysAreAway(t *testing.T) {
	s := newStage(t, nil)
	one := events.TurnSubmitted{Calls: []events.RawCall{{Tool: "charge", Args: events.Body{Text: `{"amount":10}`}}}}
	first := submit(t, s.door, one)
	s.until(time.Minute, "the first call's start", func() bool { return s.turn(first).Calls[0].Started != nil })
	second := submit(t, s.door, one)
	s.until(time.Minute, "the second call's place at the key", func() bool { return s.key(second) })
	s.pass(keyPatience/2, never)
	if s.turn(second).Parked != nil {
		t.Fatal("the second turn does not wait in memory")
	}
	s.away = true
	if err := s.door.Wake(t.Context(), bus.Item{ID: "told", Turn: second}); err != nil {
		t.Fatal(err)
	}
	s.until(time.Minute, "somebody who hears the wake-up", func() bool { return s.miss > 0 })
	close(s.paid)
	s.pass(retryWait-time.Millisecond, never)
	if turn := s.turn(second); turn.Parked != nil {
		t.Errorf("parked on what was known before the wake-up, until %s", turn.Parked.Due)
	}
	s.pass(time.Minute, never) // the first one's owner gives up waking the others
	s.away = false
	s.until(time.Minute, "the second turn's end", func() bool { return s.turn(second).Ended != nil })
	if last := s.turn(second).Calls[0].Last; last != events.KindDeduplicated {
		t.Errorf("the second call ended %s", last)
	}
}

// The holder ends, and a replica says that nobody waits: that is an older entry, and the
// one who waits is woken all the same.
func TestWokenThoughAReplicaLags(t *testing.T) {
	s := newStage(t, nil)
	one := events.TurnSubmitted{Calls: []events.RawCall{{Tool: "charge", Args: events.Body{Text: `{"amount":10}`}}}}
	first := submit(t, s.door, one)
	s.until(time.Minute, "the first call's start", func() bool { return s.turn(first).Calls[0].Started != nil })
	var err error
	if s.old, err = s.door.Cells().Get(t.Context(), bus.BucketKeys, keyCell("tester charge order-7")); err != nil {
		t.Fatal(err)
	}
	second := submit(t, s.door, one)
	s.until(time.Minute, "the second turn's park", func() bool { return s.key(second) && s.turn(second).Parked != nil })
	s.lag = 2
	close(s.paid)
	s.until(time.Minute, "the second turn's end", func() bool { return s.turn(second).Ended != nil })
	if last := s.turn(second).Calls[0].Last; last != events.KindDeduplicated || s.lag > 0 {
		t.Errorf("the second call ended %s, %d old answers were not asked for", last, s.lag)
	}
}

// slow is a policy that thinks about its first question until it is told to go on, and
// says no to that.
type slow struct {
	lax
	m     *det.Machine
	on    <-chan struct{}
	asked *int
}

func (s slow) Authorize(r policy.Request) policy.Verdict {
	if *s.asked++; *s.asked > 1 {
		return s.lax.Authorize(r)
	}
	s.m.Wait(0, s.on)
	return policy.Verdict{Decision: policy.Deny, Code: events.PermissionDenied, Gate: policy.GateAuthorize, Reason: "no", Version: "lax"}
}

// A call that took the key is denied before it has a verdict: who waits for the key is
// told, and runs.
func TestWokenByACallThatIsDenied(t *testing.T) {
	on, asked := make(chan struct{}), 0
	s := newStage(t, func(s *stage, m *det.Machine, c *Config) {
		c.Authorizer = slow{m: m, on: on, asked: &asked}
		close(s.paid)
	})
	one := events.TurnSubmitted{Calls: []events.RawCall{{Tool: "charge", Args: events.Body{Text: `{"amount":10}`}}}}
	first := submit(t, s.door, one)
	s.until(time.Minute, "the first call's key", func() bool { return s.key(first) && asked == 1 })
	second := submit(t, s.door, one)
	s.until(time.Minute, "the second turn's park", func() bool { return s.key(second) && s.turn(second).Parked != nil })
	close(on)
	s.until(time.Minute, "the second turn's end", func() bool { return s.turn(second).Ended != nil })
	if a, b := s.turn(first).Calls[0].Last, s.turn(second).Calls[0].Last; a != events.KindDenied || b != events.KindCompleted {
		t.Errorf("the first call %s, the second %s: %+v", a, b, s.turn(second).Calls[0].Outcome)
	}
}
