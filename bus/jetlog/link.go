package jetlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/sluice-run/sluice/bus"
)

// link is a connection that says when it was lost: answers that were on their
// way then will never come.
type link struct {
	nc     *nats.Conn
	status chan nats.Status

	mu   sync.Mutex
	lost chan struct{} // closed at the next loss
}

func newLink(nc *nats.Conn) *link {
	return &link{
		nc: nc, lost: make(chan struct{}),
		status: nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED),
	}
}

// watch runs until the connection is closed for good.
func (l *link) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.status:
			l.mu.Lock()
			close(l.lost)
			l.lost = make(chan struct{})
			l.mu.Unlock()
		}
	}
}

// loss is closed at the next loss of the connection.
func (l *link) loss() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// backoff is a wait that doubles, with jitter, up to a limit.
type backoff struct{ next, limit time.Duration }

// wait waits for the next step, or returns ctx's error.
func (b *backoff) wait(ctx context.Context) error {
	d := b.next/2 + rand.N(b.next)
	b.next = min(2*b.next, b.limit)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// unavailable makes an ErrUnavailable of an error that says that nothing was
// reached, and leaves others as they are.
func unavailable(err error) error {
	switch {
	case err == nil || errors.Is(err, bus.ErrUnavailable):
		return err
	case leaderless(err), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrInvalidConnection):
		return fmt.Errorf("%w: %w", bus.ErrUnavailable, err)
	}
	return err
}

// leaderless says whether JetStream answers that it cannot serve now: it has no leader, or
// no quorum. The client's watches are of its older interface, which has errors of its own.
func leaderless(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.Code == 503
	}
	api, ok := errors.AsType[*nats.APIError](err)
	return ok && api.Code == 503
}
