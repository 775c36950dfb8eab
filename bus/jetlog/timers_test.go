package jetlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

// A timer that was waiting survives a restart of the server; one whose wake-up
// was done with before does not come again.
func TestTimersRestart(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{Connect: srv.Dial})
	set := func(id string, at time.Time) {
		if err := b.Set(t.Context(), id, at, bus.Item{ID: id, Turn: turn("timer", id)}); err != nil {
			t.Fatal(err)
		}
	}
	wake := func() string {
		d, err := b.PullWake(t.Context())
		if err == nil {
			err = d.Ack()
		}
		if err != nil {
			t.Fatal(err)
		}
		return d.Item().ID
	}
	set("done", time.Now())
	if id := wake(); id != "done" {
		t.Fatalf("woken by %q", id)
	}
	at := time.Now().Add(time.Second)
	set("waiting", at)
	_, js := raw(t, srv.Dial)
	poll(t, "the ack has come", func() bool {
		s, err := js.Stream(t.Context(), jetlog.StreamTurns)
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
	srv.Stop()
	srv.Start()
	if id := wake(); id != "waiting" {
		t.Errorf("woken by %q after the restart", id)
	}
	if early := time.Until(at); early > 0 {
		t.Errorf("woken %v early", early)
	}
	ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	if d, err := b.PullWake(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("woken again: %v, %v", d, err)
	}
}
