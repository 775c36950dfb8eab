package jetlog_test

import (
	"errors"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
)

// A commit that cannot be decoded is named by its sequence, and those around it
// can be read.
func TestUnreadableNamesItsCommit(t *testing.T) {
	srv := jettest.Start(t)
	b := srv.Open(jetlog.Config{})
	good, bad := turn("a", "good"), turn("a", "bad")
	if _, err := b.Append(t.Context(), note(good, "c1", 1), 0); err != nil {
		t.Fatal(err)
	}
	_, js := raw(t, srv.InProcess)
	if _, err := js.Publish(t.Context(), bus.EventSubject(bad), []byte("no commit")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Append(t.Context(), note(good, "c2", 2), 1); err != nil {
		t.Fatal(err)
	}
	var seen []uint64
	read := func(from events.Position) error {
		return b.Read(t.Context(), from, bus.Filter{}, false, func(s bus.Stored) error {
			seen = append(seen, s.Seq)
			return nil
		})
	}
	var u *bus.Unreadable
	if err := read(events.Position{}); !errors.As(err, &u) || u.Seq != 2 || !errors.Is(err, events.ErrFormat) {
		t.Fatalf("read: %v, want commit 2 unreadable", err)
	}
	if err := read(events.Position{Generation: b.Generation(), Seq: u.Seq + 1}); err != nil || len(seen) != 2 || seen[0] != 1 || seen[1] != 3 {
		t.Errorf("read %v, %v, want 1 and 3", seen, err)
	}
	u = nil
	if _, err := b.Load(t.Context(), bad, 2); !errors.As(err, &u) || u.Seq != 2 || !errors.Is(err, events.ErrFormat) {
		t.Errorf("load: %v, want commit 2 unreadable", err)
	}
}
