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
	"github.com/sluice-run/sluice/tools"
)

// fickleKeys is a bus whose keys can go out of reach, and that hears no wake-up then.
type fickleKeys struct {
	*det.Bus
	away  *bool
	asked *int // reads of keys that failed
}

func (f fickleKeys) Cells() bus.Cells { return fickleCells{f.Bus.Cells(), f} }

func (f fickleKeys) Wake(ctx context.Context, it bus.Item) error {
	if *f.away {
		return bus.ErrUnavailable
	}
	return f.Bus.Wake(ctx, it)
}

type fickleCells struct {
	bus.Cells
	f fickleKeys
}

func (c fickleCells) Get(ctx context.Context, bucket, key string) (bus.Cell, error) {
	if bucket == bus.BucketKeys && *c.f.away {
		*c.f.asked++
		return bus.Cell{}, bus.ErrUnavailable
	}
	return c.Cells.Get(ctx, bucket, key)
}

// A turn is told that the key it waits for is free, and cannot look: the keys are out of
// reach for longer than it stays in memory. What its gate had found before is no reason
// to be parked, or nobody would wake it again.
func TestWokenWhileTheKeysAreAway(t *testing.T) {
	var w *det.World
	log := memlog.New(memlog.Config{Now: func() time.Time { return w.Now() }})
	w = det.New(det.Config{Pick: func(int) int { return 0 }, Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Changes: log.Changes})
	t.Cleanup(w.Close)
	m, door := w.Machine("n"), log.View("door")
	var away bool
	var asked int
	charge := testTool("charge", events.Irreversible, echo)
	charge.Key = func(json.RawMessage) string { return "order-7" }
	reg, err := tools.NewRegistry(charge)
	if err != nil {
		t.Fatal(err)
	}
	paid := make(chan struct{})
	ids := 0
	n, err := New(Config{
		Bus: fickleKeys{m.Connect(log), &away, &asked}, Registry: reg, Authorizer: lax{}, Boot: "n", Workspace: "/w",
		Scheduler: m, Now: m.Now, Steady: m.Now, Rand: func() float64 { return 0.5 }, ID: func() string { ids++; return fmt.Sprint("c", ids) },
		Execute: func(ctx context.Context, _ tools.Tool, in tools.Invocation, _ tools.Options) tools.Report {
			m.Wait(0, paid, ctx.Done())
			return tools.Report{Result: events.Result{Status: events.Success, Text: events.Body{Text: "paid"}}, Effects: events.EffectsDone, Answered: true, Confirmed: true}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.backstop = 1000 * time.Hour
	m.Go(func() {
		if err := n.Start(t.Context()); err != nil {
			t.Error(err)
		}
	})
	// pass lets what can happen do so until a fact has come, or some time has passed.
	pass := func(d time.Duration, come func() bool) bool {
		for end := w.Now().Add(d); !come(); {
			if w.Step() {
				continue
			}
			next, ok := w.Next()
			if at, due := log.NextDue(); due && (!ok || at.Before(next)) {
				next, ok = at, true
			}
			if !ok || next.After(end) {
				return come()
			}
			w.Advance(next)
			log.Tick()
		}
		return true
	}
	one := events.TurnSubmitted{Calls: []events.RawCall{{Tool: "charge", Args: events.Body{Text: `{"amount":10}`}}}}
	now := func(key events.TurnKey) lifecycle.Turn {
		stored, err := door.Load(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		return lifecycle.Fold(key, commits(stored)...)
	}
	first := submit(t, door, one)
	if !pass(time.Minute, func() bool { return now(first).Calls[0].Started != nil }) {
		t.Fatal("the first call does not start")
	}
	second := submit(t, door, one)
	waits := func() bool {
		cell, err := door.Cells().Get(t.Context(), bus.BucketKeys, keyCell("tester charge order-7"))
		return err == nil && strings.Contains(string(cell.Value), second.String())
	}
	if !pass(time.Minute, waits) || !pass(keyPatience/2, func() bool { return false }) && now(second).Parked != nil {
		t.Fatal("the second call does not wait for the key, or does so no more in memory")
	}
	away = true
	if err := door.Wake(t.Context(), bus.Item{ID: "told", Turn: second}); err != nil {
		t.Fatal(err)
	}
	if !pass(time.Minute, func() bool { return asked > 0 }) {
		t.Fatal("nobody hears the wake-up")
	}
	close(paid)
	pass(retryWait-time.Millisecond, func() bool { return false })
	if turn := now(second); turn.Parked != nil {
		t.Errorf("parked on what was known before the wake-up, until %s", turn.Parked.Due)
	}
	pass(time.Minute, func() bool { return false }) // the first one's owner gives up waking the others
	away = false
	if !pass(time.Minute, func() bool { return now(second).Ended != nil }) {
		t.Fatal("the second turn does not end")
	}
	if last := now(second).Calls[0].Last; last != events.KindDeduplicated {
		t.Errorf("the second call ended %s", last)
	}
}
