package jetlog

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// TestTime: the server on this machine has this machine's time.
func TestTime(t *testing.T) {
	b, _ := opened(t, ServerConfig{Dir: t.TempDir()})
	before := time.Now()
	at, err := b.Time(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after := time.Now(); at.Before(before) || at.After(after) {
		t.Errorf("%v, asked between %v and %v", at, before, after)
	}
	ahead := bus.NewClock(func() time.Time { return time.Now().Add(time.Hour) })
	if _, err := ahead.Adjust(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if off := time.Until(ahead.Now()); off.Abs() > time.Minute {
		t.Errorf("a clock an hour ahead is still off by %v", off)
	}
}
