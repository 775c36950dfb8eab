package jetlog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// glanceLimit is how long a look into one lane may take before the caller goes
// on; what comes of it later goes to whoever waits there.
const glanceLimit = time.Second

// glance looks for an item in one lane after the other, without waiting for one
// to come. It begins at another lane each time, so that none is starved.
func (p *puller) glance(ctx context.Context, lanes []*lane) *delivery {
	if len(lanes) < 2 {
		return nil // to wait there is the same, and one request less
	}
	begin := int(p.turn.Add(1) % uint64(len(lanes)))
	for i := range lanes {
		if d := p.look(ctx, lanes[(begin+i)%len(lanes)]); d != nil {
			return d
		}
	}
	return nil
}

// look looks into one lane.
func (p *puller) look(ctx context.Context, l *lane) *delivery {
	w, err := p.peer(ctx, l)
	if w == nil || err != nil {
		return nil // whoever waits there hears of it
	}
	late := time.NewTimer(glanceLimit)
	defer late.Stop()
	select {
	case d := <-w.got:
		return d
	case <-late.C:
	case <-ctx.Done():
	case <-p.bus.ctx.Done():
	}
	p.leave(w)
	select {
	case d := <-w.got:
		return d
	default:
		return nil
	}
}

// peer sends the request of a look. It sends none where others wait already:
// there is nothing to find.
func (p *puller) peer(ctx context.Context, l *lane) (*waiter, error) {
	p.mu.Lock()
	ready, busy := l.ready, len(l.waiters) > 0 || p.closed
	p.mu.Unlock()
	if busy {
		return nil, nil
	}
	if !ready {
		if err := p.ensure(ctx, l); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.bus.work.nc.PublishMsg(&nats.Msg{
		Subject: nextSubject(StreamTurns, l.consumer), Reply: fmt.Sprintf("%s%d", p.glimpse, l.number),
		Data: []byte(`{"batch":1,"no_wait":true}`),
	})
	if err != nil {
		return nil, err
	}
	w := &waiter{lanes: []*lane{l}, got: make(chan *delivery, 1)}
	l.glancing = append(l.glancing, w)
	return w, nil
}

// glanced is called for each answer to a request that does not wait, one at a time.
func (p *puller) glanced(m *nats.Msg) {
	if !isStatus(m) {
		p.hand(m, func(l *lane) *waiter {
			if len(l.glancing) > 0 {
				return l.glancing[0]
			}
			return l.first()
		})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.numbered(m, p.glimpse)
	if l == nil || len(l.glancing) == 0 {
		return
	}
	if s := m.Header.Get("Status"); s != "404" && s != "408" {
		l.ready = false // the consumer is not there
	}
	w := l.glancing[0]
	l.glancing = slices.Delete(l.glancing, 0, 1)
	w.got <- nil
}
