package jetlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
)

// maxTimerID is the length in bytes of the longest timer id.
const maxTimerID = 200

// cancelSubject carries cancellations. No timer has it: a token never begins
// with an underscore.
const cancelSubject = bus.TimerPrefix + "_cancel"

// Set is bus.Timers'. The item is up to 300 ms late.
func (b *Bus) Set(ctx context.Context, id string, at time.Time, it bus.Item) error {
	subject, err := timerSubject(id)
	if err != nil {
		return err
	}
	body, err := encodeItem(it)
	if err != nil {
		return fmt.Errorf("timer %s: %w", id, err)
	}
	_, err = b.puts.store(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		headerSchedule:    {"@at " + at.UTC().Format(time.RFC3339Nano)},
		headerTarget:      {dueSubjects + it.Turn.Trace + "." + it.Turn.Turn},
		headerScheduleTTL: {firedTTL},
	}})
	if err != nil {
		return fmt.Errorf("set timer %s: %w", id, unavailable(err))
	}
	return nil
}

// Stop is bus.Timers'.
func (b *Bus) Stop(ctx context.Context, id string) error {
	subject, err := timerSubject(id)
	if err != nil {
		return err
	}
	_, err = b.puts.store(ctx, &nats.Msg{Subject: cancelSubject, Header: nats.Header{
		headerNext:      {"purge"},
		headerScheduler: {subject},
	}})
	if err != nil {
		return fmt.Errorf("stop timer %s: %w", id, unavailable(err))
	}
	return nil
}

func timerSubject(id string) (string, error) {
	if id == "" || len(id) > maxTimerID {
		return "", errors.New("timer id must be 1 to 200 bytes")
	}
	return bus.TimerPrefix + bus.Token(id), nil
}
