package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// gate is a barrier that counts, and fails when told.
type gate struct {
	waits  atomic.Int64
	broken atomic.Bool
}

func (g *gate) Mode() string { return "test" }
func (g *gate) Wait(context.Context) error {
	g.waits.Add(1)
	if g.broken.Load() {
		return errors.New("the disk is gone")
	}
	return nil
}

// Nothing is yielded that the barrier does not cover; a broken one ends the read.
func TestReadBarrier(t *testing.T) {
	g := &gate{}
	b := one(t, jetlog.Config{Barrier: g})
	first, err := b.Append(t.Context(), note(turn("a", "1"), "c1", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	g.broken.Store(true)
	err = b.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		t.Errorf("yielded %s past a broken barrier", s.Commit.ID)
		return nil
	})
	if err == nil {
		t.Error("a broken barrier is no error")
	}
	g.broken.Store(false)
	before := g.waits.Load()
	seen := make(chan bus.Stored, 8)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Read(t.Context(), events.Position{}, bus.Filter{}, true, func(s bus.Stored) error {
			seen <- s
			return nil
		})
	}()
	<-seen
	if g.waits.Load() == before {
		t.Error("nobody waited for the barrier")
	}
	g.broken.Store(true)
	if _, err := b.Append(t.Context(), note(turn("a", "1"), "c2", 2), first.Seq); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || len(seen) > 0 {
		t.Errorf("a follower at a broken barrier: %v, %d commits more", err, len(seen))
	}
}

// A log of several pages is read whole, whatever the filter, and a follower
// leaves no consumer behind.
func TestReadPages(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{})
	_, js := raw(t, srv.InProcess)
	const turns, commits = 3, 300
	for i := range turns {
		at := uint64(0)
		for n := range commits {
			s, err := b.Append(t.Context(), note(turn("t"+fmt.Sprint(i), "1"), fmt.Sprintf("%d-%d", i, n), uint32(n+1)), at)
			if err != nil {
				t.Fatal(err)
			}
			at = s.Seq
		}
		if got, err := b.Load(t.Context(), turn("t"+fmt.Sprint(i), "1"), at); err != nil || len(got) != commits {
			t.Errorf("load: %d commits, %v; want %d", len(got), err, commits)
		}
	}
	for _, c := range []struct {
		f    bus.Filter
		want int
	}{
		{bus.Filter{}, turns * commits},
		{bus.Filter{Trace: "t0"}, commits},
		{bus.Filter{Trace: "t1", Turn: "1"}, commits},
		{bus.Filter{Trace: "t"}, 0},
	} {
		for _, follow := range []bool{false, true} {
			if follow && c.want == 0 {
				continue
			}
			n := 0
			enough := errors.New("enough")
			err := b.Read(t.Context(), events.Position{}, c.f, follow, func(s bus.Stored) error {
				if n++; follow && n == c.want+1 {
					return enough
				}
				if follow && n == c.want {
					appendMore(t, b, c.f)
				}
				return nil
			})
			if want := c.want; follow && (!errors.Is(err, enough) || n != want+1) || !follow && (err != nil || n != want) {
				t.Errorf("filter %+v, follow %v: %d commits, %v; want %d", c.f, follow, n, err, want)
			}
		}
	}
	s, err := js.Stream(t.Context(), jetlog.StreamRead)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Consumers; n != 0 {
		t.Errorf("%d consumers are left behind", n)
	}
}

// appendMore adds one commit that passes the filter, and is the only one in its turn.
func appendMore(t *testing.T, b *jetlog.Bus, f bus.Filter) {
	t.Helper()
	k := turn("more", "1")
	if f.Trace != "" {
		k = turn(f.Trace, "more")
	}
	at := uint64(0)
	if f.Turn != "" {
		k.Turn = f.Turn
	}
	c := note(k, "more-"+k.String(), 1)
	var last *bus.Conflict
	_, err := b.Append(t.Context(), c, at)
	if asConflict(err, &last) {
		_, err = b.Append(t.Context(), c, last.Last)
	}
	if err != nil {
		t.Error(err)
	}
}

// A commit that a newer release wrote ends the read, and says so.
func TestReadNewer(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{})
	nc, _ := raw(t, srv.InProcess)
	if _, err := nc.Request("sluice.ev.a.1", []byte{0x81, 0xa1, 'f', 99}, 1e9); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Load(t.Context(), turn("a", "1"), 1); !errors.Is(err, events.ErrNewerFormat) {
		t.Errorf("load: %v, want ErrNewerFormat", err)
	}
	err := b.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(bus.Stored) error { return nil })
	if !errors.Is(err, events.ErrNewerFormat) {
		t.Errorf("read: %v, want ErrNewerFormat", err)
	}
	for _, f := range []bus.Filter{{Trace: "*"}, {Turn: "1"}, {Trace: "a", Turn: ">"}} {
		if err := b.Read(t.Context(), events.Position{}, f, false, func(bus.Stored) error { return nil }); err == nil {
			t.Errorf("filter %+v is accepted", f)
		}
	}
}

// TestRetentionTakesTheBeginning, and a look says up to where.
func TestRetentionTakesTheBeginning(t *testing.T) {
	b := one(t, jetlog.Config{Retention: 2 * time.Second})
	for i := range 3 {
		if _, err := b.Append(t.Context(), note(turn("t", fmt.Sprint(i)), fmt.Sprint("c", i), 1), 0); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, "the beginning has gone", func() bool {
		head, err := b.Head(t.Context())
		if err != nil || head.Seq != 4 || b.First() == 0 || b.First() > 4 {
			t.Fatalf("head %v, first %d, %v", head, b.First(), err)
		}
		return b.First() == 4
	})
}
