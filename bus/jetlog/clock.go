package jetlog

import (
	"context"
	"fmt"
	"time"
)

// Time is bus.Timekeeper's: the clock of the server that leads the log's stream.
func (b *Bus) Time(ctx context.Context) (time.Time, error) {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	s, err := b.streamNow(ctx, StreamLog)
	if err != nil {
		return time.Time{}, err
	}
	at := s.CachedInfo().TimeStamp
	if at.IsZero() {
		return time.Time{}, fmt.Errorf("the server tells no time with stream %s: nats-server 2.10 or newer does", StreamLog)
	}
	return at, nil
}
