package jetlog_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
)

// A watch goes on where the server was started again: it tells what was changed and
// deleted meanwhile, and says only once that it has told all that there was.
func TestWatchAcrossRestart(t *testing.T) {
	t.Parallel()
	srv := jettest.Start(t)
	watcher, writer := srv.Open(jetlog.Config{Connect: srv.Dial}), srv.Open(jetlog.Config{Connect: srv.Dial})
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	told := make(chan bus.Cell, 1024)
	over := make(chan error, 1)
	go func() {
		over <- watcher.Cells().Watch(ctx, bus.BucketPresence, "", func(c bus.Cell) error {
			told <- c
			return nil
		})
	}()
	marks := 0
	hear := func(what string, want bus.Cell) {
		t.Helper()
		for {
			select {
			case c := <-told:
				if c.Key == "" {
					marks++
				}
				if c.Key == want.Key && slices.Equal(c.Value, want.Value) && (c.Value == nil) == (want.Value == nil) {
					return
				}
			case err := <-over:
				t.Fatalf("the watch ends before it tells %s: %v", what, err)
			case <-ctx.Done():
				t.Fatalf("it does not tell %s", what)
			}
		}
	}
	hear("that it has begun", bus.Cell{})
	put := func(key, value string, rev uint64) uint64 {
		t.Helper()
		rev, err := writer.Cells().Put(ctx, bus.BucketPresence, key, []byte(value), rev, 0)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	stays, goes := put("stays", "1", 0), put("goes", "1", 0)
	hear("a change", bus.Cell{Key: "goes", Value: []byte("1")})
	for range 3 {
		srv.Stop()
		srv.Start()
		if err := writer.Cells().Delete(ctx, bus.BucketPresence, "goes", goes); err != nil {
			t.Fatal(err)
		}
		hear("a deletion", bus.Cell{Key: "goes"})
		goes = put("goes", "again", 0)
		stays = put("stays", "2", stays)
		hear("a change", bus.Cell{Key: "stays", Value: []byte("2")})
	}
	if marks != 1 {
		t.Errorf("it says %d times that it has told all that there was", marks)
	}
}
