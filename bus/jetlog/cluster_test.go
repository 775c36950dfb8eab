package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// kept is an append that was acknowledged.
type kept struct {
	id string
	at uint64 // its expectation
}

// Leaders step down while two writers fight for each turn: what is acknowledged
// stands in the log exactly once, and no expectation was met twice.
func TestStepDown(t *testing.T) {
	t.Parallel()
	c := jettest.StartCluster(t)
	buses := []*jetlog.Bus{c.Open(jetlog.Config{}), c.Open(jetlog.Config{})}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	acked := map[events.TurnKey]map[uint64]kept{}
	over := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 8 {
		k := turn("step", fmt.Sprint(i/2))
		b := buses[i%2]
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				at, s, err := appendNext(ctx, b, k, fmt.Sprintf("w%d-%d", i, n))
				if err != nil {
					t.Errorf("turn %s: %v", k, err)
					return
				}
				mu.Lock()
				if acked[k] == nil {
					acked[k] = map[uint64]kept{}
				}
				acked[k][s.Seq] = kept{s.Commit.ID, at}
				mu.Unlock()
			}
		})
	}
	steps := 0
	for range 6 {
		if err := c.StepDown(ctx, jetlog.StreamLog); err == nil {
			steps++
		}
		poll(t, "the log has a leader", func() bool { return c.Leader(jetlog.StreamLog) != nil })
		poll(t, "appends go on", moreThan(&mu, acked))
	}
	close(over)
	wg.Wait()
	if steps == 0 {
		t.Error("no leader stepped down")
	}
	for k, want := range acked {
		checkAcked(t, buses[0], k, want)
	}
}

// moreThan says whether more was acknowledged than when it was made.
func moreThan(mu *sync.Mutex, acked map[events.TurnKey]map[uint64]kept) func() bool {
	count := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range acked {
			n += len(m)
		}
		return n
	}
	before := count()
	return func() bool { return count() > before+20 }
}

// appendNext appends behind the turn's last commit, whoever wrote that.
func appendNext(ctx context.Context, b *jetlog.Bus, k events.TurnKey, id string) (uint64, bus.Stored, error) {
	history, err := b.Load(ctx, k, 0)
	if err != nil {
		return 0, bus.Stored{}, err
	}
	at := uint64(0)
	if len(history) > 0 {
		at = history[len(history)-1].Seq
	}
	for {
		s, err := b.Append(ctx, note(k, id, 1), at)
		var c *bus.Conflict
		if !asConflict(err, &c) {
			return at, s, err
		}
		at = c.Last
	}
}

// checkAcked compares a turn's history with what its writers were told.
func checkAcked(t *testing.T, b *jetlog.Bus, k events.TurnKey, acked map[uint64]kept) {
	t.Helper()
	last := uint64(0)
	for seq := range acked {
		last = max(last, seq)
	}
	got, err := b.Load(t.Context(), k, last)
	if err != nil {
		t.Error(err)
		return
	}
	ids, previous := map[string]bool{}, uint64(0)
	for _, s := range got {
		if ids[s.Commit.ID] {
			t.Errorf("turn %s: commit %s stands there twice", k, s.Commit.ID)
		}
		ids[s.Commit.ID] = true
		a, ok := acked[s.Seq]
		if ok && (a.id != s.Commit.ID || a.at != previous) {
			t.Errorf("turn %s at %d: commit %s after %d, acknowledged was %s after %d", k, s.Seq, s.Commit.ID, previous, a.id, a.at)
		}
		delete(acked, s.Seq)
		previous = s.Seq
	}
	for seq, a := range acked {
		t.Errorf("turn %s: commit %s, acknowledged at %d, is not there", k, a.id, seq)
	}
}

// TestWithoutQuorum: with two servers of three gone, whoever looks hears that the log is
// unavailable, and of no error of its own kind.
func TestWithoutQuorum(t *testing.T) {
	t.Parallel()
	c := jettest.StartCluster(t)
	last := c.Nodes[0]
	b := c.Open(jetlog.Config{Connect: func(name string) (*nats.Conn, error) { return last.Dial(name) }})
	if !b.Clustered() || b.Replicas() != 3 {
		t.Errorf("clustered %t, %d replicas", b.Clustered(), b.Replicas())
	}
	for _, n := range c.Nodes[1:] {
		n.Stop()
	}
	for what, ask := range map[string]func(context.Context) error{
		"watch": func(ctx context.Context) error {
			return bus.Each(ctx, b.Cells(), bus.BucketPresence, func(bus.Cell) {})
		},
		"get":     func(ctx context.Context) error { _, err := b.Cells().Get(ctx, bus.BucketLock, "x"); return err },
		"oldest":  func(ctx context.Context) error { _, err := b.Oldest(ctx, "default"); return err },
		"measure": func(ctx context.Context) error { _, err := b.Measure(ctx, []string{"default"}); return err },
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		var err error
		poll(t, what+" is refused", func() bool { err = ask(ctx); return err != nil && !errors.Is(err, bus.ErrNotFound) })
		stop()
		if !errors.Is(err, bus.ErrUnavailable) {
			t.Errorf("%s: %v, want it to be ErrUnavailable", what, err)
		}
	}
}

// The server that leads the log dies while a node appends, follows, pulls and
// holds a cell: all of it goes on at another server, and nothing is lost.
func TestLeaderLost(t *testing.T) {
	t.Parallel()
	c := jettest.StartCluster(t)
	b := c.Open(jetlog.Config{AckWait: suiteAckWait})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	k := turn("leader", "1")
	seen := make(chan string, 1024)
	followed := make(chan error, 1)
	go func() {
		followed <- b.Read(ctx, events.Position{}, bus.Filter{}, true, func(s bus.Stored) error {
			seen <- s.Commit.ID
			return nil
		})
	}()
	pulled := make(chan string, 1024)
	pull, done := context.WithCancel(ctx)
	var puller sync.WaitGroup
	puller.Go(func() {
		for pull.Err() == nil {
			if d, err := b.Pull(pull, []string{"default"}); err == nil {
				_ = d.Ack() // if it is lost, the item comes again
				pulled <- d.Item().ID
			}
		}
	})
	at, rev := uint64(0), uint64(0)
	for n := 1; n <= 60; n++ {
		if n == 20 {
			poll(t, "the log has a leader", func() bool { return c.Leader(jetlog.StreamLog) != nil })
			c.Leader(jetlog.StreamLog).Stop()
		}
		s, err := b.Append(ctx, note(k, fmt.Sprintf("1-%d", n), uint32(n)), at)
		if err == nil {
			at = s.Seq
			err = b.Push(ctx, bus.Item{ID: fmt.Sprint("i", n), Turn: k})
		}
		if err == nil {
			rev, err = b.Cells().Put(ctx, bus.BucketLock, "held", []byte("x"), rev, 10*time.Second)
		}
		if err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
	}
	checkHistory(t, b, k, at, 60)
	for n := 1; n <= 60; n++ {
		if id := <-seen; id != fmt.Sprintf("1-%d", n) {
			t.Errorf("the follower saw %s as number %d", id, n)
		}
	}
	items := map[string]bool{}
	for len(items) < 60 {
		items[<-pulled] = true
	}
	done()
	puller.Wait()
	stop()
	<-followed
}
