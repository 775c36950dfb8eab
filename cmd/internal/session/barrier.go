package session

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
)

// barrierName is whom other processes ask for the barrier of an embedded log.
const barrierName = "barrier"

// lend answers who asks for b's barrier until ctx ends.
func lend(ctx context.Context, b *jetlog.Bus, log *slog.Logger) {
	for ctx.Err() == nil {
		err := b.Serve(ctx, barrierName, func([]byte) []byte {
			if err := b.Barrier().Wait(ctx); err != nil {
				return []byte(err.Error())
			}
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		log.Warn("other processes cannot wait for the barrier", "error", err)
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// farBarrier is the barrier of the process that keeps the log.
type farBarrier struct {
	notes bus.Notes // nil while the bus is being opened
	mode  string
}

// farLimit is how long that process may take to answer.
const farLimit = 30 * time.Second

// Wait is bus.Barrier's.
func (f *farBarrier) Wait(ctx context.Context) error {
	if f.notes == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, farLimit)
	defer stop()
	answer, err := f.notes.Ask(ctx, barrierName, nil)
	if err == nil && len(answer) > 0 {
		err = errors.New(string(answer))
	}
	return err
}

// Mode is bus.Barrier's.
func (f *farBarrier) Mode() string { return f.mode }
