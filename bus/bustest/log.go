package bustest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var logPromises = []Promise{
	{"P01 an append names the next expectation", appendNames},
	{"P02 another expectation is refused, and the last sequence named", appendRefuses},
	{"P03 a commit tried again is kept once and returned as stored", appendRepeats},
	{"P04 of two writers at one expectation one is accepted", appendRaces},
	{"P05 turns do not disturb each other", appendApart},
	{"P06 what is returned is what was written, decoded", appendDecodes},
	{"P07 a commit that is too large leaves nothing", appendTooLarge},
	{"P08 a commit that makes no sense leaves nothing", appendNonsense},
	{"P09 an append whose caller has gone tells no lies", appendGone},
	{"P10 a load sees the sequence that it names", loadSees},
	{"P11 a load waits for the sequence that it names", loadWaits},
	{"P12 an unknown turn has no commits", loadUnknown},
	{"P13 the barrier returns for everyone, and says what it is", barrierReturns},
}

func appendNames(t *testing.T, b bus.Bus) {
	turn := newTurn()
	last := uint64(0)
	for range 5 {
		s := mustAppend(t, b, turn, last, 2)
		if s.Seq <= last {
			t.Fatalf("sequence %d after %d", s.Seq, last)
		}
		if s.Generation != b.Generation() || s.Generation == 0 {
			t.Fatalf("stored in generation %d, the log's is %d", s.Generation, b.Generation())
		}
		last = s.Seq
	}
}

func appendRefuses(t *testing.T, b bus.Bus) {
	turn := newTurn()
	first := mustAppend(t, b, turn, 0, 1)
	second := mustAppend(t, b, turn, first.Seq, 1)
	for _, at := range []uint64{0, first.Seq} {
		_, err := b.Append(within(t), newCommit(turn, 1, 1), at)
		wantIs(t, "append at an old expectation", err, bus.ErrConflict)
		c, ok := errors.AsType[*bus.Conflict](err)
		if !ok || c.Last != second.Seq {
			t.Errorf("append at %d: got %v, want a conflict that names %d", at, err, second.Seq)
		}
	}
	if got := mustLoad(t, b, turn, second.Seq); len(got) != 2 {
		t.Errorf("%d commits, want 2: a refused one was kept", len(got))
	}
}

func appendRepeats(t *testing.T, b bus.Bus) {
	turn := newTurn()
	before := mustAppend(t, b, turn, 0, 1)
	c := newCommit(turn, 2, 3)
	var mu sync.Mutex
	var all []bus.Stored
	again := func() {
		s, err := b.Append(within(t), c, before.Seq)
		if err != nil {
			t.Errorf("a try of the same commit: %v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(again)
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	after := mustAppend(t, b, turn, all[0].Seq, 1)
	again() // others have appended since
	for _, s := range all {
		if diff := cmp.Diff(all[0], s); diff != "" {
			t.Errorf("two tries of one commit differ:\n%s", diff)
		}
	}
	if got := mustLoad(t, b, turn, after.Seq); len(got) != 3 {
		t.Errorf("%d commits, want 3", len(got))
	}
}

func appendRaces(t *testing.T, b bus.Bus) {
	turn := newTurn()
	at := uint64(0)
	for round := range 200 {
		var got [2]bus.Stored
		var errs [2]error
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i], errs[i] = b.Append(within(t), newCommit(turn, 1, 1), at) })
		}
		wg.Wait()
		win := 0
		if errs[0] != nil {
			win = 1
		}
		if errs[win] != nil {
			t.Fatalf("round %d: neither is accepted: %v; %v", round, errs[0], errs[1])
		}
		if errs[1-win] == nil {
			t.Fatalf("round %d: both are accepted at %d, as %d and %d", round, at, got[0].Seq, got[1].Seq)
		}
		wantIs(t, "the one that lost", errs[1-win], bus.ErrConflict)
		at = got[win].Seq
	}
	if got := mustLoad(t, b, turn, at); len(got) != 200 {
		t.Errorf("%d commits, want 200", len(got))
	}
}

func appendApart(t *testing.T, b bus.Bus) {
	trace := newTurn().Trace
	var wg sync.WaitGroup
	for i := range 16 {
		turn := events.TurnKey{Trace: trace, Turn: "t" + strings.Repeat("t", i)}
		wg.Go(func() {
			at := uint64(0)
			for range 8 {
				s, err := b.Append(within(t), newCommit(turn, 1, 1), at)
				if err != nil {
					t.Errorf("turn %s at %d: %v", turn, at, err)
					return
				}
				at = s.Seq
			}
			got, err := b.Load(within(t), turn, at)
			if err != nil || len(got) != 8 {
				t.Errorf("turn %s: %d commits, %v; want 8", turn, len(got), err)
			}
		})
	}
	wg.Wait()
}

func appendDecodes(t *testing.T, b bus.Bus) {
	turn := newTurn()
	at := uint64(0)
	var want []bus.Stored
	for n := 1; n <= 4; n++ {
		c := newCommit(turn, 1, n)
		c.Records = append(c.Records, events.Record{
			Call: events.TurnEvent, Seq: uint32(n), Event: &events.TurnParked{Waiting: []int{n}},
		}, events.Record{
			Call: 0, Seq: 9, Event: events.Foreign{Name: "from_the_future", Version: 7, Body: []byte{0x81, 0xa1, 'x', 0x01}},
		})
		body, err := events.Encode(c)
		must(t, "encode", err)
		decoded, err := events.Decode(body)
		must(t, "decode", err)
		s, err := b.Append(within(t), c, at)
		must(t, "append", err)
		if diff := cmp.Diff(decoded, s.Commit); diff != "" || s.Size != len(body) {
			t.Fatalf("returned is not what was written, %d bytes for %d:\n%s", s.Size, len(body), diff)
		}
		want, at = append(want, s), s.Seq
	}
	if diff := cmp.Diff(want, mustLoad(t, b, turn, at)); diff != "" {
		t.Errorf("loaded is not what was returned, in order:\n%s", diff)
	}
	if diff := cmp.Diff(want, read(t, b, events.Position{}, bus.Filter{Trace: turn.Trace, Turn: turn.Turn})); diff != "" {
		t.Errorf("read is not what was returned, in order:\n%s", diff)
	}
}

// sized is a commit of exactly size encoded bytes.
func sized(t *testing.T, turn events.TurnKey, size int) events.Commit {
	t.Helper()
	c := newCommit(turn, 1, 1)
	fill := size - 1000
	for range 3 {
		c.Records[0].Event = &events.Progress{Attempt: 1, Text: strings.Repeat("x", fill)}
		body, err := events.Encode(c)
		must(t, "encode", err)
		if len(body) == size {
			return c
		}
		fill += size - len(body)
	}
	t.Fatalf("cannot make a commit of %d bytes", size)
	return c
}

func appendTooLarge(t *testing.T, b bus.Bus) {
	turn := newTurn()
	_, err := b.Append(within(t), sized(t, turn, bus.MaxCommit+1), 0)
	wantIs(t, "append of a byte too much", err, bus.ErrTooLarge)
	s, err := b.Append(within(t), sized(t, turn, bus.MaxCommit), 0)
	must(t, "append of the largest commit", err)
	if got := mustLoad(t, b, turn, s.Seq); len(got) != 1 {
		t.Errorf("%d commits, want 1", len(got))
	}
}

func appendNonsense(t *testing.T, b bus.Bus) {
	turn := newTurn()
	if _, err := b.Append(within(t), events.Commit{ID: "c", Turn: turn}, 0); err == nil {
		t.Error("a commit without events is accepted")
	}
	for _, bad := range []string{"", "*", ">", "a.b", "a b", "a\r\nPUB x", strings.Repeat("x", 65), "ü"} {
		for _, k := range []events.TurnKey{{Trace: bad, Turn: turn.Turn}, {Trace: turn.Trace, Turn: bad}} {
			if _, err := b.Append(within(t), newCommit(k, 1, 1), 0); err == nil {
				t.Errorf("a commit of turn %q is accepted", k)
			}
			if got, err := b.Load(within(t), k, 0); err == nil || len(got) > 0 {
				t.Errorf("load of turn %q: %d commits, error %v; want an error", k, len(got), err)
			}
		}
	}
	mustAppend(t, b, turn, 0, 1) // nothing of it is in the way
}

func appendGone(t *testing.T, b bus.Bus) {
	turn := newTurn()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newCommit(turn, 1, 1)
	_, err := b.Append(ctx, c, 0)
	if err == nil || !errors.Is(err, bus.ErrUnavailable) && !errors.Is(err, bus.ErrUncertain) {
		t.Fatalf("append by nobody: got error %v, want unavailable or uncertain", err)
	}
	s, again := b.Append(within(t), c, 0)
	must(t, "the same commit, tried again", again)
	if got := mustLoad(t, b, turn, s.Seq); len(got) != 1 {
		t.Errorf("%d commits, want 1", len(got))
	}
}

func mustLoad(t *testing.T, b bus.Bus, turn events.TurnKey, atLeast uint64) []bus.Stored {
	t.Helper()
	got, err := b.Load(within(t), turn, atLeast)
	must(t, "load", err)
	return got
}

func loadSees(t *testing.T, b bus.Bus) {
	turn, at := newTurn(), uint64(0)
	for n := range 50 {
		s := mustAppend(t, b, turn, at, 1)
		got := mustLoad(t, b, turn, s.Seq)
		if len(got) != n+1 || got[n].Seq != s.Seq {
			t.Fatalf("%d commits after append %d", len(got), n+1)
		}
		at = s.Seq
	}
}

func loadWaits(t *testing.T, b bus.Bus) {
	turn := newTurn()
	s := mustAppend(t, b, turn, 0, 1)
	if got, err := b.Load(lasting(t, short), turn, s.Seq+1); err == nil {
		t.Fatalf("got %d commits while sequence %d does not exist", len(got), s.Seq+1)
	}
	loaded := make(chan error, 1)
	var got []bus.Stored
	go func() {
		var err error
		got, err = b.Load(within(t), turn, s.Seq+1)
		loaded <- err
	}()
	next := mustAppend(t, b, turn, s.Seq, 1)
	for at := next.Seq; at < s.Seq+1; { // a keeper may number its own messages too
		at = mustAppend(t, b, newTurn(), 0, 1).Seq
	}
	must(t, "load", <-loaded)
	if len(got) != 2 {
		t.Errorf("%d commits, want 2", len(got))
	}
}

func loadUnknown(t *testing.T, b bus.Bus) {
	known := mustAppend(t, b, newTurn(), 0, 1)
	for _, atLeast := range []uint64{0, known.Seq} {
		if got := mustLoad(t, b, newTurn(), atLeast); len(got) != 0 {
			t.Errorf("an unknown turn has %d commits", len(got))
		}
	}
}

func barrierReturns(t *testing.T, b bus.Bus) {
	if b.Barrier().Mode() == "" {
		t.Error("the barrier does not say what it is")
	}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 3 {
				if _, err := b.Append(within(t), newCommit(newTurn(), 1, 1), 0); err != nil {
					t.Errorf("append: %v", err)
				}
				if err := b.Barrier().Wait(within(t)); err != nil {
					t.Errorf("barrier: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("the barrier does not return for everyone")
	}
}
