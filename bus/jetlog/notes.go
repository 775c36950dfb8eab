package jetlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
)

// asksAtOnce is how many questions a node answers at a time.
const asksAtOnce = 16

// Ask is bus.Notes'. Nobody there is known at once; silence, when ctx ends.
func (b *Bus) Ask(ctx context.Context, boot string, data []byte) ([]byte, error) {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	m, err := b.live.nc.RequestWithContext(ctx, askSubject(boot), data)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("ask node %s: %w", boot, unavailable(err))
	}
	return m.Data, nil
}

// Serve is bus.Notes'. Up to 16 questions are answered at a time.
func (b *Bus) Serve(ctx context.Context, boot string, answer func([]byte) []byte) error {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	asks := make(chan *nats.Msg, 256)
	sub, err := b.live.nc.ChanSubscribe(askSubject(boot), asks)
	if err != nil {
		return fmt.Errorf("serve node %s: %w", boot, unavailable(err))
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	var wg sync.WaitGroup
	for range asksAtOnce {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case m := <-asks:
					if !bus.InInbox(m.Reply, bus.InboxPrefix) {
						b.log.Debug("notes: a question was dropped, whose answer would go elsewhere than to an inbox", "reply", clipped(m.Reply))
						continue
					}
					if err := m.Respond(answer(m.Data)); err != nil {
						b.log.Debug("notes: answer not sent", "err", err)
					}
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func askSubject(boot string) string { return bus.AskPrefix + bus.Token(boot) }

// Publish is bus.Live's.
func (b *Bus) Publish(ctx context.Context, s bus.Stored, tools map[int]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, r := range s.Commit.Records {
		tool := tools[r.Call]
		subjects := slices.DeleteFunc(bus.LiveSubjects(r.Event, tool, s.Commit.Turn, r.Call), func(subject string) bool {
			return b.cfg.SubjectInterest != nil && !b.cfg.SubjectInterest(subject)
		})
		if len(subjects) == 0 {
			continue
		}
		body, err := bus.CloudEvent(s, i, tool)
		if err != nil {
			return fmt.Errorf("live event: %w", err)
		}
		for _, subject := range subjects {
			m := nats.Msg{Subject: subject, Data: body, Header: nats.Header{"Content-Type": {"application/cloudevents+json"}}}
			if err := b.live.nc.PublishMsg(&m); err != nil {
				return fmt.Errorf("live event on %s: %w", subject, unavailable(err))
			}
		}
	}
	return nil
}

// Listen is bus.Live's. A listener that is too slow loses events: that is
// counted (see Missed) and logged.
func (b *Bus) Listen(ctx context.Context, pattern string, yield func(subject string, cloudEvent []byte)) error {
	ctx, stop := b.ctxOf(ctx)
	defer stop()
	sub, err := b.live.nc.SubscribeSync(bus.LivePrefix + pattern)
	if err != nil {
		return fmt.Errorf("listen to %s%s: %w", bus.LivePrefix, pattern, unavailable(err))
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	dropped := 0
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			yield(m.Subject, m.Data)
		case errors.Is(err, nats.ErrSlowConsumer):
			n, _ := sub.Dropped() // fails only on a closed subscription
			b.missed.Add(uint64(n - dropped))
			b.log.Warn("live: a listener is too slow, events were dropped", "pattern", pattern, "dropped", n-dropped)
			dropped = n
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			return fmt.Errorf("listen to %s%s: %w", bus.LivePrefix, pattern, unavailable(err))
		}
	}
}
