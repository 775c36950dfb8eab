package memlog

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// TestUnreadableNamesItsCommit: bytes that are no commit are told as bus/jetlog does.
func TestUnreadableNamesItsCommit(t *testing.T) {
	l := New(Config{})
	b := l.View("boot")
	defer l.Close()
	key := events.TurnKey{Trace: "trace", Turn: "turn"}
	last := uint64(0)
	for _, id := range []string{"a", "b", "c"} {
		s, err := b.Append(t.Context(), events.Commit{ID: id, Turn: key, At: time.Unix(0, 0), Records: []events.Record{
			{Call: 0, Seq: 1, Event: &events.Progress{Attempt: 1, Text: id}},
		}}, last)
		if err != nil {
			t.Fatal(err)
		}
		last = s.Seq
	}
	l.entries[1].body = []byte("no commit")
	var u *bus.Unreadable
	var seen []uint64
	err := b.Read(t.Context(), events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
		seen = append(seen, s.Seq)
		return nil
	})
	if !errors.As(err, &u) || u.Seq != 2 || !errors.Is(err, events.ErrFormat) || len(seen) != 1 {
		t.Errorf("read: %v after %v, want commit 2 unreadable after the first", err, seen)
	}
	u = nil
	if _, err := b.Load(t.Context(), key, 0); !errors.As(err, &u) || u.Seq != 2 {
		t.Errorf("load: %v, want commit 2 unreadable", err)
	}
}
