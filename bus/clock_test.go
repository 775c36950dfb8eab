package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// keeper answers halfway through a question that takes a while.
type keeper struct {
	now  *time.Time
	off  time.Duration
	took time.Duration
	err  error
}

func (k keeper) Time(context.Context) (time.Time, error) {
	*k.now = k.now.Add(k.took / 2)
	at := k.now.Add(k.off)
	*k.now = k.now.Add(k.took / 2)
	return at, k.err
}

func TestClock(t *testing.T) {
	for name, c := range map[string]struct{ off, took, want time.Duration }{
		"an hour behind":          {time.Hour, 20 * time.Millisecond, time.Hour},
		"an hour ahead":           {-time.Hour, 20 * time.Millisecond, -time.Hour},
		"right":                   {0, 20 * time.Millisecond, 0},
		"not worth a jump":        {90 * time.Millisecond, 0, 0},
		"less than nobody knows":  {time.Second, 4 * time.Second, 0},
		"more than the way there": {5 * time.Second, 4 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			clock := bus.NewClock(func() time.Time { return now })
			for range 2 { // the second time there is nothing left to do
				if _, err := clock.Adjust(t.Context(), keeper{now: &now, off: c.off, took: c.took}); err != nil {
					t.Fatal(err)
				}
				if got := clock.Now().Sub(now); got != c.want {
					t.Errorf("moved by %v, want %v", got, c.want)
				}
			}
			if _, err := clock.Adjust(t.Context(), keeper{now: &now, err: bus.ErrUnavailable}); err == nil {
				t.Error("no error where nobody answers")
			}
			if got := clock.Now().Sub(now); got != c.want {
				t.Errorf("moved by %v after an error, want %v", got, c.want)
			}
		})
	}
}
