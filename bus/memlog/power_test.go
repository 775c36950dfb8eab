package memlog_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"pgregory.net/rapid"
)

func TestPowerFailureTakesWhatTheBarrierHasNotCovered(t *testing.T) {
	c := newClock()
	l := memlog.New(memlog.Config{Now: c.now, AckWait: time.Second})
	b := l.View("one")
	ctx := t.Context()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	_, err := b.Append(ctx, commit("a"), 0)
	check("append", err)
	check("push", b.Push(ctx, bus.Item{ID: "early", Turn: turn}))
	held, _ := b.TryPull([]string{events.DefaultPlacement})
	rev, err := b.Cells().Put(ctx, bus.BucketLock, "k", []byte("old"), 0, 0)
	check("put", err)
	check("set", b.Set(ctx, "t", c.at.Add(time.Minute), bus.Item{ID: "old timer", Turn: turn}))
	check("barrier", b.Barrier().Wait(ctx))

	_, err = b.Append(ctx, commit("b"), 1)
	check("append", err)
	_, err = b.Append(ctx, commit("c"), 2)
	check("append", err)
	check("ack", held.Ack())
	check("push", b.Push(ctx, bus.Item{ID: "late", Turn: turn}))
	_, err = b.Cells().Put(ctx, bus.BucketLock, "k", []byte("new"), rev, 0)
	check("put", err)
	ref, err := b.Blobs().Put(ctx, []byte("x"), "")
	check("blob", err)
	check("set", b.Set(ctx, "t", c.at.Add(time.Hour), bus.Item{ID: "new timer", Turn: turn}))

	if n := l.LoseTail(-1); n != 2 {
		t.Fatalf("%d appends lost, want 2", n)
	}
	if got := ids(t, b); got != "[a]" {
		t.Errorf("the log holds %s, want [a]", got)
	}
	if cell, err := b.Cells().Get(ctx, bus.BucketLock, "k"); err != nil || string(cell.Value) != "old" {
		t.Errorf("the cell holds %q, %v", cell.Value, err)
	}
	if _, err := b.Blobs().Get(ctx, ref); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("the blob: %v", err)
	}
	c.add(time.Second)
	if d, ok := b.TryPull([]string{events.DefaultPlacement}); !ok || d.Item().ID != "early" {
		t.Error("what was acked but not durably so does not come back")
	}
	if d, ok := b.TryPull([]string{events.DefaultPlacement}); ok {
		t.Errorf("item %s survived", d.Item().ID)
	}
	c.add(time.Minute)
	if d, ok := b.TryPullWake(); !ok || d.Item().ID != "old timer" {
		t.Error("the timer that was durable does not fire")
	}
	if b.Generation() != 2 {
		t.Errorf("generation %d, want 2", b.Generation())
	}
}

func TestAReaderIsToldThatTheLogWasRewound(t *testing.T) {
	l := memlog.New(memlog.Config{})
	b := l.View("one")
	for i, id := range []string{"a", "b", "c"} {
		if _, err := b.Append(t.Context(), commit(id), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.LoseTail(1); n != 1 {
		t.Fatalf("%d lost, want 1", n)
	}
	s, err := b.Append(t.Context(), commit("d"), 2)
	if err != nil || s.Seq != 3 || s.Generation != 2 {
		t.Fatalf("stored at %d of generation %d, %v", s.Seq, s.Generation, err)
	}
	read := func(from events.Position) (out []string, err error) {
		err = b.Read(t.Context(), from, bus.Filter{}, false, func(s bus.Stored) error {
			out = append(out, s.Commit.ID)
			return nil
		})
		return out, err
	}
	for from, want := range map[events.Position][]string{
		{}:                                {"a", "b", "d"},
		{Generation: 1, Seq: 2}:           {"b", "d"},
		{Generation: 1, Seq: 3}:           {"d"}, // had seen nothing that was lost
		{Generation: 2, Seq: 3, Index: 0}: {"d"},
	} {
		if got, err := read(from); err != nil || !slices.Equal(got, want) {
			t.Errorf("from %v: %v, %v; want %v", from, got, err, want)
		}
	}
	for _, from := range []events.Position{{Generation: 1, Seq: 3, Index: 1}, {Generation: 1, Seq: 4}, {Generation: 3, Seq: 1}} {
		if got, err := read(from); !errors.Is(err, bus.ErrRewound) {
			t.Errorf("from %v: %v, %v; want rewound", from, got, err)
		}
	}
}

// TestAFollowerIsTold follows through a power failure.
func TestAFollowerIsTold(t *testing.T) {
	l := memlog.New(memlog.Config{})
	b := l.View("one")
	if _, err := b.Append(t.Context(), commit("a"), 0); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Read(t.Context(), events.Position{}, bus.Filter{}, true, func(s bus.Stored) error {
			seen <- s.Commit.ID
			return nil
		})
	}()
	if got := <-seen; got != "a" {
		t.Fatalf("saw %s", got)
	}
	if n := l.LoseTail(-1); n != 0 {
		t.Fatalf("%d appends lost that a reader had seen", n)
	}
	if _, err := b.Append(t.Context(), commit("b"), 1); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "b" {
		t.Fatalf("saw %s: nothing that it had seen was lost, so it goes on", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, bus.ErrUnavailable) {
		t.Errorf("the follower ended with %v", err)
	}
}

// TestNothingBehindTheBarrierIsLost appends, takes barriers and loses power in
// any order.
func TestNothingBehindTheBarrierIsLost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := memlog.New(memlog.Config{})
		b := l.View("one")
		var all []string
		durable, generation := 0, uint32(1)
		for n := range rapid.IntRange(1, 40).Draw(r, "steps") {
			switch rapid.SampledFrom([]string{"append", "append", "append", "barrier", "power"}).Draw(r, "step") {
			case "append":
				id := "c" + string(rune('A'+n))
				s, err := b.Append(t.Context(), commit(id), uint64(len(all)))
				if err != nil || s.Generation != generation {
					r.Fatalf("append: generation %d, %v", s.Generation, err)
				}
				all = append(all, id)
			case "barrier":
				if err := b.Barrier().Wait(t.Context()); err != nil {
					r.Fatal(err)
				}
				durable = len(all)
			case "power":
				lose := rapid.IntRange(0, 5).Draw(r, "lose")
				got, want := l.LoseTail(lose), min(lose, len(all)-durable)
				if got != want {
					r.Fatalf("%d lost, want %d", got, want)
				}
				all, generation = all[:len(all)-got], generation+1
				durable = len(all)
			}
		}
		var held []string
		err := b.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
			held = append(held, s.Commit.ID)
			return nil
		})
		if err != nil || !slices.Equal(held, all) {
			r.Fatalf("the log holds %v, %v; want %v", held, err, all)
		}
	})
}
