package jetlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

func push(t *testing.T, b *jetlog.Bus, placement, id string) {
	t.Helper()
	if err := b.Push(t.Context(), bus.Item{ID: id, Turn: turn("q", id), Placement: placement}); err != nil {
		t.Fatal(err)
	}
}

// Every item is handed out once while many callers come and go.
func TestPullMany(t *testing.T) {
	b := one(t, jetlog.Config{})
	const items = 2000
	seen := make(chan string, items)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				own, leave := ctx, context.CancelFunc(func() {})
				if i%4 == 0 { // some are impatient
					own, leave = context.WithTimeout(ctx, 3*time.Millisecond)
				}
				d, err := b.Pull(own, []string{"default", "gpu"})
				leave()
				if err != nil {
					if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("pull: %v", err)
					}
					continue
				}
				if err := d.Ack(); err != nil {
					t.Errorf("ack: %v", err)
				}
				seen <- d.Item().ID
			}
		})
	}
	for i := range items {
		push(t, b, []string{"", "gpu"}[i%2], fmt.Sprint("i", i))
	}
	got := map[string]int{}
	for range items {
		id := <-seen
		if got[id]++; got[id] > 1 {
			t.Errorf("item %s was handed out twice", id)
		}
	}
	stop()
	wg.Wait()
}

// A message that is no item is dropped, and does not block what is behind it.
func TestPullPoison(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{})
	nc, js := raw(t, srv.InProcess)
	if _, err := nc.Request(bus.QueuePrefix+"default", []byte("no item"), time.Minute); err != nil {
		t.Fatal(err)
	}
	push(t, b, "", "good")
	began := time.Now()
	d, err := b.Pull(t.Context(), []string{"default"})
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the item behind came after %v", took)
	}
	if err != nil || d.Item().ID != "good" {
		t.Fatalf("pull: %v, %v, want the item behind", d, err)
	}
	if err := d.Ack(); err != nil {
		t.Fatal(err)
	}
	poll(t, "the queue is empty", func() bool {
		s, err := js.Stream(t.Context(), jetlog.StreamTurns)
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
}

// Callers who wait survive that somebody deletes the consumer, and a restart.
func TestPullSurvives(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{Connect: srv.Dial})
	pulled := make(chan string, 1)
	pull := func() {
		d, err := b.Pull(t.Context(), []string{"default"})
		if err != nil {
			t.Errorf("pull: %v", err)
			pulled <- ""
			return
		}
		if err := d.Ack(); err != nil {
			t.Errorf("ack: %v", err)
		}
		pulled <- d.Item().ID
	}
	go pull()
	push(t, b, "", "first")
	if id := <-pulled; id != "first" {
		t.Fatalf("got %q", id)
	}
	_, js := raw(t, srv.Dial)
	go pull()
	poll(t, "the caller waits", func() bool {
		c, err := js.Consumer(t.Context(), jetlog.StreamTurns, "turns_default")
		return err == nil && c.CachedInfo().NumWaiting == 1
	})
	if err := js.DeleteConsumer(t.Context(), jetlog.StreamTurns, "turns_default"); err != nil {
		t.Fatal(err)
	}
	push(t, b, "", "second")
	if id := <-pulled; id != "second" {
		t.Fatalf("got %q after the consumer was deleted", id)
	}
	poll(t, "the ack has come", func() bool {
		s, err := js.Stream(t.Context(), jetlog.StreamTurns)
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
	go pull()
	srv.Stop()
	srv.Start()
	push(t, b, "", "third")
	if id := <-pulled; id != "third" {
		t.Fatalf("got %q after a restart", id)
	}
}

func TestQueueRefuses(t *testing.T) {
	b := one(t, jetlog.Config{})
	for what, err := range map[string]error{
		"no turn":     b.Push(t.Context(), bus.Item{ID: "x"}),
		"placement":   b.Push(t.Context(), bus.Item{ID: "x", Turn: turn("a", "1"), Placement: "a.b"}),
		"id":          b.Push(t.Context(), bus.Item{ID: "x\r\nNats-TTL: 1s", Turn: turn("a", "1")}),
		"wake":        b.Wake(t.Context(), bus.Item{ID: "x", Turn: turn("*", ">")}),
		"reply":       b.Return(t.Context(), "sluice.ev.a.1"),
		"wild reply":  b.Return(t.Context(), "$JS.ACK.>"),
		"timer":       b.Set(t.Context(), "", time.Now(), bus.Item{Turn: turn("a", "1")}),
		"timer, turn": b.Set(t.Context(), "x", time.Now(), bus.Item{}),
		"pull":        second(b.Pull(t.Context(), nil)),
		"pull of all": second(b.Pull(t.Context(), []string{">"})),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func second(_ bus.Delivery, err error) error { return err }
