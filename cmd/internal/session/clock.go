package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// adjustEach is how often a node looks whether its clock still goes with the log's.
const adjustEach = 30 * time.Second

// newClock is a clock that goes with the log's, where that is kept elsewhere: what
// several machines write must be comparable, whatever their clocks say. A keeper that
// does not answer leaves the machine's own time.
func newClock(ctx context.Context, k bus.Timekeeper, log *slog.Logger) *bus.Clock {
	c := bus.NewClock(Steady)
	adjust(ctx, c, k, log)
	return c
}

func adjust(ctx context.Context, c *bus.Clock, k bus.Timekeeper, log *slog.Logger) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	moved, err := c.Adjust(ctx, k)
	switch {
	case err != nil:
		log.Warn("the log's server does not tell its time: this machine's clock is used", "err", err)
	case moved != 0:
		log.Warn("this machine's clock differs from that of the log's server, which is used instead: look at both", "by", moved.Round(time.Millisecond))
	}
}

// Now is the time by which the log goes.
func (s *Session) Now() time.Time {
	if s.clock == nil {
		return Steady()
	}
	return s.clock.Now()
}

// KeepTime looks from time to time, until Close, whether the session's clock is right.
// It is called once, and does nothing where the log is in this process.
func (s *Session) KeepTime(ctx context.Context, log *slog.Logger) {
	if s.clock == nil {
		return
	}
	own := s.lasting(ctx)
	s.wg.Go(func() {
		tick := time.NewTicker(adjustEach)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				adjust(own, s.clock, s.Bus, log)
			case <-own.Done():
				return
			}
		}
	})
}
