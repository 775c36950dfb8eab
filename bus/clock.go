package bus

import (
	"context"
	"sync"
	"time"
)

// Timekeeper tells the time by which a cluster goes. A Bus may be one.
type Timekeeper interface {
	// Time is the keeper's clock, at some moment during the call, or ErrUnavailable.
	Time(ctx context.Context) (time.Time, error)
}

// Clock is a process's clock, put right by a Timekeeper's, so that what nodes with
// clocks of their own write into one log can be compared. Its methods may be used from
// many goroutines.
type Clock struct {
	base func() time.Time
	mu   sync.RWMutex
	off  time.Duration
}

// NewClock is a clock that shows what base does, until it is adjusted.
func NewClock(base func() time.Time) *Clock { return &Clock{base: base} }

// tolerated is how far a clock may be off before it is moved: less is not worth a jump.
const tolerated = 100 * time.Millisecond

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.base().Add(c.off)
}

// Adjust asks the keeper, and moves the clock where it is off by more than the question
// took and 100 ms. It returns by how much it has moved it.
func (c *Clock) Adjust(ctx context.Context, k Timekeeper) (moved time.Duration, err error) {
	asked := c.base()
	there, err := k.Time(ctx)
	if err != nil {
		return 0, err
	}
	took := c.base().Sub(asked)
	off := there.Sub(asked.Add(took / 2))
	c.mu.Lock()
	defer c.mu.Unlock()
	moved = off - c.off
	if moved.Abs() <= took/2+tolerated {
		return 0, nil
	}
	c.off = off
	return moved, nil
}
