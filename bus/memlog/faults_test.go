package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
)

// clock is a clock that a test drives.
type clock struct{ at time.Time }

func newClock() *clock               { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }
func (c *clock) now() time.Time      { return c.at }
func (c *clock) add(d time.Duration) { c.at = c.at.Add(d) }

var turn = events.TurnKey{Trace: "trace", Turn: "turn"}

func commit(id string) events.Commit {
	return events.Commit{ID: id, Turn: turn, At: newClock().at, Records: []events.Record{
		{Call: 0, Seq: 1, Event: &events.Progress{Attempt: 1, Text: id}},
	}}
}

func lost(events.Commit) (kept bool, err error) { return false, bus.ErrUncertain }
func kept(events.Commit) (kept bool, err error) { return true, bus.ErrUncertain }

// ids loads the turn and returns its commits' ids.
func ids(t *testing.T, b bus.Log) string {
	t.Helper()
	all, err := b.Load(t.Context(), turn, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		out = append(out, s.Commit.ID)
	}
	return fmt.Sprint(out)
}

func TestAppendFaultsComeTwice(t *testing.T) {
	for name, c := range map[string]struct {
		hook func(events.Commit) (bool, error)
		then string // in the log after the fault
	}{"lost": {lost, "[]"}, "kept": {kept, "[a]"}} {
		t.Run(name, func(t *testing.T) {
			l := memlog.New(memlog.Config{Fault: &memlog.Faults{Append: c.hook}})
			b := l.View("one")
			if _, err := b.Append(t.Context(), commit("a"), 0); !errors.Is(err, bus.ErrUncertain) {
				t.Fatalf("got error %v, want uncertain", err)
			}
			if got := ids(t, b); got != c.then {
				t.Errorf("the log holds %s, want %s", got, c.then)
			}
			l.SetFaults(nil)
			s, err := b.Append(t.Context(), commit("a"), 0)
			if err != nil || s.Seq != 1 || ids(t, b) != "[a]" {
				t.Errorf("the same commit again: sequence %d, %v; the log holds %s", s.Seq, err, ids(t, b))
			}
		})
	}
}

func TestAKeptAppendStillComparesAndSwaps(t *testing.T) {
	l := memlog.New(memlog.Config{})
	b := l.View("one")
	if _, err := b.Append(t.Context(), commit("a"), 0); err != nil {
		t.Fatal(err)
	}
	l.SetFaults(&memlog.Faults{Append: kept})
	if _, err := b.Append(t.Context(), commit("b"), 0); !errors.Is(err, bus.ErrUncertain) {
		t.Errorf("got error %v: the refusal is in the answer, and that is lost", err)
	}
	if got := ids(t, b); got != "[a]" {
		t.Errorf("the log holds %s", got)
	}
}

func TestMirrorLagsUnlessToldHowFar(t *testing.T) {
	l := memlog.New(memlog.Config{Fault: &memlog.Faults{
		Mirror: func(_ events.TurnKey, last uint64) uint64 { return last - 1 },
	}})
	b := l.View("one")
	s, err := b.Append(t.Context(), commit("a"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(t, b); got != "[]" {
		t.Errorf("the mirror shows %s at once", got)
	}
	if all, err := b.Load(t.Context(), turn, s.Seq); err != nil || len(all) != 1 {
		t.Errorf("%d commits, %v: the sequence that was named is not there", len(all), err)
	}
}

func TestTheDrivenClockRedelivers(t *testing.T) {
	c := newClock()
	l := memlog.New(memlog.Config{Now: c.now, AckWait: 10 * time.Second})
	b := l.View("one")
	if err := b.Push(t.Context(), bus.Item{ID: "i", Turn: turn}); err != nil {
		t.Fatal(err)
	}
	pull := func(want int) bus.Delivery {
		t.Helper()
		d, ok := b.TryPull([]string{events.DefaultPlacement})
		if got := 0; !ok && want != got || ok && d.Deliveries() != want {
			t.Fatalf("pulled: %v, want delivery %d", ok, want)
		}
		return d
	}
	d := pull(1)
	pull(0)
	if at, ok := l.NextDue(); !ok || at.Sub(c.at) != 10*time.Second {
		t.Errorf("next due in %v, %v", at.Sub(c.at), ok)
	}
	c.add(9 * time.Second)
	if err := d.Extend(); err != nil {
		t.Fatal(err)
	}
	c.add(9 * time.Second)
	pull(0)
	c.add(time.Second)
	d = pull(2)
	if err := d.Nak(time.Minute); err != nil {
		t.Fatal(err)
	}
	c.add(59 * time.Second)
	pull(0)
	c.add(time.Second)
	if err := pull(3).Ack(); err != nil {
		t.Fatal(err)
	}
	if at, ok := l.NextDue(); ok {
		t.Errorf("something is due at %v after the ack", at)
	}
}

func TestTickWakesWhoWaits(t *testing.T) {
	c := newClock()
	l := memlog.New(memlog.Config{Now: c.now})
	b := l.View("one")
	if err := b.Set(t.Context(), "timer", c.at.Add(time.Hour), bus.Item{ID: "i", Turn: turn}); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.TryPullWake(); ok {
		t.Fatal("it fires early")
	}
	c.add(time.Hour)
	pulled := make(chan error, 1)
	go func() {
		_, err := b.PullWake(t.Context())
		pulled <- err
	}()
	l.Tick()
	if err := <-pulled; err != nil {
		t.Error(err)
	}
}

func TestQueueControls(t *testing.T) {
	c := newClock()
	gone := true
	l := memlog.New(memlog.Config{Now: c.now, Fault: &memlog.Faults{AckLost: func(bus.Item) bool { return gone }}})
	b := l.View("one")
	places := []string{events.DefaultPlacement}
	if err := b.Push(t.Context(), bus.Item{ID: "i", Turn: turn}); err != nil {
		t.Fatal(err)
	}
	d, _ := b.TryPull(places)
	if err := d.Ack(); err != nil {
		t.Fatal(err)
	}
	if n := l.Redeliver("other"); n != 0 {
		t.Errorf("%d messages of another id came back", n)
	}
	if n := l.Redeliver("i"); n != 1 {
		t.Errorf("%d messages came back whose ack was lost", n)
	}
	d, ok := b.TryPull(places)
	if !ok || d.Deliveries() != 2 {
		t.Fatal("it is not delivered again")
	}
	if n := l.Duplicate("i"); n != 1 {
		t.Errorf("%d duplicates", n)
	}
	twin, ok := b.TryPull(places)
	if !ok || twin.Deliveries() != 1 || twin.Item().ID != "i" {
		t.Fatal("the duplicate is not delivered")
	}
	gone = false
	for _, d := range []bus.Delivery{d, twin, d} {
		if err := d.Ack(); err != nil {
			t.Error(err)
		}
	}
	if n := l.Redeliver(""); n != 0 {
		t.Errorf("%d messages came back after their ack", n)
	}
}

func TestPushAndPutFaults(t *testing.T) {
	keep := false
	l := memlog.New(memlog.Config{Fault: &memlog.Faults{
		Push: func(bus.Item) (bool, error) { return keep, bus.ErrUncertain },
		Put:  func(string, string) (bool, error) { return keep, bus.ErrUncertain },
	}})
	b := l.View("one")
	for _, keep = range []bool{false, true} {
		if err := b.Push(t.Context(), bus.Item{ID: "i", Turn: turn}); !errors.Is(err, bus.ErrUncertain) {
			t.Errorf("push: %v", err)
		}
		if _, ok := b.TryPull([]string{events.DefaultPlacement}); ok != keep {
			t.Errorf("kept %v, delivered %v", keep, ok)
		}
		if _, err := b.Cells().Put(t.Context(), bus.BucketLock, "k", []byte("v"), 0, 0); !errors.Is(err, bus.ErrUncertain) {
			t.Errorf("put: %v", err)
		}
		if _, err := b.Cells().Get(t.Context(), bus.BucketLock, "k"); (err == nil) != keep {
			t.Errorf("kept %v, got error %v", keep, err)
		}
	}
}

func TestAFailedBarrierFailsTheTail(t *testing.T) {
	broken := errors.New("the disk is gone")
	l := memlog.New(memlog.Config{Fault: &memlog.Faults{Barrier: func() error { return broken }}})
	b := l.View("one")
	if _, err := b.Append(t.Context(), commit("a"), 0); err != nil {
		t.Fatal(err)
	}
	if err := b.Barrier().Wait(t.Context()); !errors.Is(err, broken) {
		t.Errorf("the barrier returns %v", err)
	}
	err := b.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		return fmt.Errorf("sequence %d is told before it is durable", s.Seq)
	})
	if !errors.Is(err, broken) {
		t.Errorf("the tail returns %v", err)
	}
}

func TestACutNodeReachesNothingAndAges(t *testing.T) {
	c := newClock()
	l := memlog.New(memlog.Config{Now: c.now, AckWait: time.Second})
	cut, well := l.View("cut"), l.View("well")
	stop, err := cut.Answer(t.Context(), "boot", func(b []byte) []byte { return b })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := cut.Push(t.Context(), bus.Item{ID: "i", Turn: turn}); err != nil {
		t.Fatal(err)
	}
	held, ok := cut.TryPull([]string{events.DefaultPlacement})
	if !ok {
		t.Fatal("nothing pulled")
	}
	cut.Disconnect()
	ctx := t.Context()
	_, loadErr := cut.Load(ctx, turn, 0)
	_, appendErr := cut.Append(ctx, commit("a"), 0)
	_, getErr := cut.Cells().Get(ctx, bus.BucketLock, "k")
	_, askErr := well.Ask(ctx, "boot", nil)
	_, pullErr := cut.Pull(ctx, []string{events.DefaultPlacement})
	for what, err := range map[string]error{
		"load": loadErr, "append": appendErr, "get": getErr, "ask": askErr, "pull": pullErr,
		"extend": held.Extend(), "ack": held.Ack(), "nak": held.Nak(0), "serve": cut.Serve(ctx, "x", nil),
		"read":   cut.Read(ctx, events.Position{}, bus.Filter{}, true, nil),
		"watch":  cut.Cells().Watch(ctx, bus.BucketLock, "", nil),
		"listen": cut.Listen(ctx, ">", nil),
	} {
		if !errors.Is(err, bus.ErrUnavailable) {
			t.Errorf("%s: got error %v, want unavailable", what, err)
		}
	}
	c.add(time.Second)
	if d, ok := well.TryPull([]string{events.DefaultPlacement}); !ok || d.Deliveries() != 2 {
		t.Error("another node does not get what a node that was cut off held")
	}
	cut.Connect()
	if got := ids(t, cut); got != "[]" {
		t.Errorf("the log holds %s: the append of a node that was cut off came through", got)
	}
	if err := held.Ack(); err != nil { // a late ack is accepted: it proves nothing
		t.Error(err)
	}
	if n := l.Redeliver(""); n != 0 {
		t.Errorf("%d messages left after the late ack", n)
	}
}

func TestCloseEndsWhoWaits(t *testing.T) {
	for name, end := range map[string]func(*memlog.Log, *memlog.View) error{
		"the view": func(_ *memlog.Log, v *memlog.View) error { return v.Close() },
		"the log":  func(l *memlog.Log, _ *memlog.View) error { return l.Close() },
		"the net":  func(_ *memlog.Log, v *memlog.View) error { v.Disconnect(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := memlog.New(memlog.Config{})
			v := l.View("one")
			ended := make(chan error, 3)
			ctx := context.WithoutCancel(t.Context())
			go func() { _, err := v.Pull(ctx, []string{"p"}); ended <- err }()
			go func() { ended <- v.Read(ctx, events.Position{}, bus.Filter{}, true, nil) }()
			go func() { ended <- v.Cells().Watch(ctx, bus.BucketLock, "", func(bus.Cell) error { return nil }) }()
			if err := end(l, v); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := <-ended; !errors.Is(err, bus.ErrUnavailable) {
					t.Errorf("got error %v, want unavailable", err)
				}
			}
		})
	}
}
