package jetlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// requeue deletes the durable consumers of the queue. An item leaves the queue
// when it is acked, so what is there now was never done with; consumers that
// are made anew deliver it at once, and not one AckWait later. Deliveries are
// hints, so one too many is harmless.
func requeue(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, StreamTurns)
	if err != nil {
		return streamError(StreamTurns, err)
	}
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if err := s.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("consumer %s of stream %s: %w", name, StreamTurns, unavailable(err))
		}
	}
	return unavailable(names.Err())
}
