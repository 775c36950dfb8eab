package bustest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var tailPromises = []Promise{
	{"P20 the tail is the whole log in order, and ends at its head", tailOrder},
	{"P21 the tail begins at any position", tailFrom},
	{"P22 the tail is filtered by trace and turn", tailFilter},
	{"P23 a follower sees what comes later, and stops when told", tailFollow},
	{"P24 the tail stops at a reader's error, and returns it", tailStops},
	{"P25 a position that is not in the log is told", tailRewound},
	{"P26 the head is behind every commit and before the next", tailHead},
	{"P27 a look says where the log begins", tailFirst},
}

// fill appends n commits in turns of one trace and returns them.
func fill(t *testing.T, b bus.Bus, trace string, n int) []bus.Stored {
	t.Helper()
	turns := []events.TurnKey{{Trace: trace, Turn: "a"}, {Trace: trace, Turn: "ab"}, {Trace: trace + "x", Turn: "a"}}
	last := map[events.TurnKey]uint64{}
	var out []bus.Stored
	for i := range n {
		k := turns[i%len(turns)]
		s := mustAppend(t, b, k, last[k], 1+i%3)
		last[k], out = s.Seq, append(out, s)
	}
	return out
}

// read returns what the tail yields from a position to the head.
func read(t *testing.T, b bus.Bus, from events.Position, f bus.Filter) []bus.Stored {
	t.Helper()
	var out []bus.Stored
	err := b.Read(within(t), from, f, false, func(s bus.Stored) error {
		out = append(out, s)
		return nil
	})
	must(t, "read", err)
	return out
}

// of are the commits of the given ones that keep says.
func of(all []bus.Stored, keep func(events.TurnKey) bool) []bus.Stored {
	var out []bus.Stored
	for _, s := range all {
		if keep(s.Commit.Turn) {
			out = append(out, s)
		}
	}
	return out
}

func tailOrder(t *testing.T, b bus.Bus) {
	trace := newTurn().Trace
	want := fill(t, b, trace, 30)
	all := read(t, b, events.Position{}, bus.Filter{})
	for i := 1; i < len(all); i++ {
		if all[i-1].Position(0).Compare(all[i].Position(0)) >= 0 {
			t.Fatalf("%v comes before %v", all[i-1].Position(0), all[i].Position(0))
		}
	}
	ours := of(all, func(k events.TurnKey) bool { return k.Trace == trace || k.Trace == trace+"x" })
	if diff := cmp.Diff(want, ours); diff != "" {
		t.Errorf("the tail is not what was appended:\n%s", diff)
	}
}

func tailFrom(t *testing.T, b bus.Bus) {
	all := fill(t, b, newTurn().Trace, 12)
	for i, s := range all {
		if diff := cmp.Diff(all[i:], read(t, b, s.Position(0), bus.Filter{})); diff != "" {
			t.Fatalf("from %v:\n%s", s.Position(0), diff)
		}
		next := events.Position{Generation: s.Generation, Seq: s.Seq + 1}
		got := read(t, b, next, bus.Filter{})
		if diff := cmp.Diff(all[i+1:], got); diff != "" && len(got)+len(all[i+1:]) > 0 {
			t.Fatalf("from %v:\n%s", next, diff)
		}
	}
}

func tailFilter(t *testing.T, b bus.Bus) {
	trace := newTurn().Trace
	all := fill(t, b, trace, 12)
	for _, f := range []bus.Filter{{Trace: trace}, {Trace: trace, Turn: "a"}, {Trace: trace, Turn: "ab"}, {Trace: trace + "x"}} {
		want := of(all, func(k events.TurnKey) bool { return k.Trace == f.Trace && (f.Turn == "" || k.Turn == f.Turn) })
		if diff := cmp.Diff(want, read(t, b, all[0].Position(0), f)); diff != "" {
			t.Errorf("filter %+v:\n%s", f, diff)
		}
	}
	if got := read(t, b, events.Position{}, bus.Filter{Trace: newTurn().Trace}); len(got) != 0 {
		t.Errorf("an unknown trace has %d commits", len(got))
	}
}

func tailFollow(t *testing.T, b bus.Bus) {
	turn := newTurn()
	first := mustAppend(t, b, turn, 0, 1)
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	seen := make(chan bus.Stored, 64)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Read(ctx, first.Position(0), bus.Filter{Trace: turn.Trace}, true, func(s bus.Stored) error {
			seen <- s
			return nil
		})
	}()
	want := first
	for range 20 {
		select {
		case got := <-seen:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("the follower saw something else:\n%s", diff)
			}
		case err := <-ended:
			t.Fatalf("the follower ended: %v", err)
		}
		mustAppend(t, b, newTurn(), 0, 1) // not for the follower
		want = mustAppend(t, b, turn, want.Seq, 2)
	}
	stop()
	wantIs(t, "a follower that was told to stop", <-ended, context.Canceled)
}

func tailStops(t *testing.T, b bus.Bus) {
	all := fill(t, b, newTurn().Trace, 5)
	enough := errors.New("enough")
	for _, follow := range []bool{false, true} {
		n := 0
		err := b.Read(within(t), all[0].Position(0), bus.Filter{}, follow, func(bus.Stored) error {
			if n++; n == 3 {
				return enough
			}
			return nil
		})
		wantIs(t, "read", err, enough)
		if n != 3 {
			t.Errorf("%d commits were yielded, want 3", n)
		}
	}
}

func tailRewound(t *testing.T, b bus.Bus) {
	s := mustAppend(t, b, newTurn(), 0, 1)
	for _, p := range []events.Position{
		{Generation: s.Generation + 1, Seq: s.Seq},
		{Generation: s.Generation, Seq: s.Seq + 1_000_000},
	} {
		for _, follow := range []bool{false, true} {
			err := b.Read(within(t), p, bus.Filter{}, follow, func(bus.Stored) error { return nil })
			wantIs(t, "read from "+p.String(), err, bus.ErrRewound)
		}
	}
}

func tailHead(t *testing.T, b bus.Bus) {
	turn := newTurn()
	s := mustAppend(t, b, turn, 0, 3)
	head, err := b.Head(within(t))
	must(t, "head", err)
	if head.Compare(s.Position(2)) <= 0 {
		t.Errorf("the head %v is not behind the last event %v", head, s.Position(2))
	}
	if got := read(t, b, head, bus.Filter{}); len(got) != 0 {
		t.Errorf("%d commits behind the head", len(got))
	}
	next := mustAppend(t, b, turn, s.Seq, 1)
	if head.Compare(next.Position(0)) > 0 {
		t.Errorf("the old head %v is behind the next commit %v", head, next.Position(0))
	}
	if diff := cmp.Diff([]bus.Stored{next}, read(t, b, head, bus.Filter{})); diff != "" {
		t.Errorf("from the old head:\n%s", diff)
	}
}

// tailFirst: what retention takes, each keeper's own tests take.
func tailFirst(t *testing.T, b bus.Bus) {
	mustAppend(t, b, newTurn(), 0, 1)
	all := read(t, b, events.Position{}, bus.Filter{})
	if first := b.First(); first == 0 || first > all[0].Seq {
		t.Errorf("the log begins at %d, and its first commit is at %d", first, all[0].Seq)
	}
}
