package jetlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/bus"
)

const (
	pullExpires = 5 * time.Second        // of a request; it is renewed while somebody waits
	pullGrace   = 1 * time.Second        // after which a request that did not end was lost
	pullTick    = 250 * time.Millisecond // how often lost requests are looked for
)

// puller asks the server for items on behalf of the callers who wait: never for
// more than there are of them. A request cannot be taken back, so one whose
// caller has gone serves the next who comes; an item that finds nobody is given
// back at once.
//
// A caller who would take any of several lanes looks into one after the other
// first, with requests that do not wait, and only then waits at all of them:
// otherwise a full queue would hand out one item for each lane.
type puller struct {
	bus     *Bus
	inbox   string // of requests that wait, with a dot at its end; the lane's number follows
	glimpse string // of requests that do not wait, likewise
	subs    []*nats.Subscription
	kick    chan struct{}
	turn    atomic.Uint64 // where the next look begins

	mu     sync.Mutex
	lanes  []*lane
	closed bool
}

// lane is one consumer of the queue. Guarded by puller.mu.
type lane struct {
	number   int
	subject  string
	consumer string
	ready    bool // the consumer exists, as far as is known
	waiters  []*waiter
	glancing []*waiter // whose requests do not wait
	asked    []request // oldest first, as the server serves them
	open     int       // items that the requests may still bring
}

// request is a pull request on its way.
type request struct {
	left  int
	until time.Time // after which it was lost
}

// waiter is a caller who waits for an item of any of some lanes.
type waiter struct {
	lanes []*lane
	got   chan *delivery // one place; filled under puller.mu; nil says that there is none now
}

func newPuller(b *Bus) (*puller, error) {
	p := &puller{bus: b, inbox: b.work.nc.NewInbox() + ".", glimpse: b.work.nc.NewInbox() + ".", kick: make(chan struct{}, 1)}
	for inbox, take := range map[string]nats.MsgHandler{p.inbox: p.take, p.glimpse: p.glanced} {
		sub, err := b.work.nc.Subscribe(inbox+"*", take)
		if err == nil {
			err = sub.SetPendingLimits(-1, -1)
		}
		if err != nil {
			return nil, fmt.Errorf("subscribe to the queue's answers: %w", unavailable(err))
		}
		p.subs = append(p.subs, sub)
	}
	return p, nil
}

// lane finds or makes the lane of a subject.
func (p *puller) lane(subject, consumer string) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		if l.subject == subject {
			return l
		}
	}
	l := &lane{number: len(p.lanes), subject: subject, consumer: consumer}
	p.lanes = append(p.lanes, l)
	return l
}

// wait waits for an item of any of the lanes.
func (p *puller) wait(ctx context.Context, lanes []*lane) (bus.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d := p.glance(ctx, lanes); d != nil {
		return d, nil
	}
	w := &waiter{lanes: lanes, got: make(chan *delivery, 1)}
	if err := p.join(w); err != nil {
		return nil, err
	}
	var err error
	select {
	case d := <-w.got:
		return d, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.bus.ctx.Done():
		err = errClosed
	}
	p.leave(w)
	select {
	case d := <-w.got: // it came in the last moment
		_ = p.answer(d.reply, ackNak) // if it is lost, AckWait gives it back
	default:
	}
	return nil, err
}

func (p *puller) join(w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	for _, l := range w.lanes {
		l.waiters = append(l.waiters, w)
		p.ask(l)
	}
	return nil
}

func (p *puller) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	release(w)
}

// release takes a waiter off its lanes. The lock is held.
func release(w *waiter) {
	for _, l := range w.lanes {
		for _, list := range []*[]*waiter{&l.waiters, &l.glancing} {
			if i := slices.Index(*list, w); i >= 0 {
				*list = slices.Delete(*list, i, i+1)
			}
		}
	}
}

// ask sends a request for those who wait and are not covered by the ones on
// their way. The lock is held; a publish does not wait for the server.
func (p *puller) ask(l *lane) {
	n := len(l.waiters) - l.open
	if n <= 0 {
		return
	}
	if !l.ready {
		p.wake()
		return
	}
	err := p.bus.work.nc.PublishMsg(&nats.Msg{
		Subject: nextSubject(StreamTurns, l.consumer), Reply: fmt.Sprintf("%s%d", p.inbox, l.number),
		Data: fmt.Appendf(nil, `{"batch":%d,"expires":%d}`, n, pullExpires),
	})
	if err != nil {
		return // not connected: tend asks again
	}
	l.asked = append(l.asked, request{n, time.Now().Add(pullExpires + pullGrace)})
	l.open += n
}

func (p *puller) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// take is called for each answer to a request that waits, one at a time.
func (p *puller) take(m *nats.Msg) {
	if isStatus(m) {
		p.ended(m)
		return
	}
	p.hand(m, func(l *lane) *waiter {
		l.brought()
		return l.first()
	})
}

func isStatus(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") != "" }

// hand gives an item to whom choose says, or back to the queue if to nobody.
// choose is called with the lock held.
func (p *puller) hand(m *nats.Msg, choose func(*lane) *waiter) {
	d, err := newDelivery(p, m)
	p.mu.Lock()
	var w *waiter
	if l := p.laneOf(m.Subject); l != nil {
		w = choose(l)
		switch {
		case w == nil:
		case err == nil:
			release(w)
			w.got <- d
		case slices.Contains(l.glancing, w):
			release(w)
			w.got <- nil // its request was used up
		}
		p.ask(l)
	}
	p.mu.Unlock()
	switch {
	case err != nil:
		p.bus.log.Error("queue: dropped a message that is no item", "subject", m.Subject, "err", err)
		_ = p.answer(m.Reply, ackTerm) // if it is lost, it comes again and is dropped again
	case w == nil:
		_ = p.answer(m.Reply, ackNak) // nobody waits any more; if it is lost, AckWait gives it back
	}
}

// first is the one who waits longest, nil if nobody does. The lock is held.
func (l *lane) first() *waiter {
	if len(l.waiters) == 0 {
		return nil
	}
	return l.waiters[0]
}

// laneOf finds the lane of an item's subject. The lock is held.
func (p *puller) laneOf(subject string) *lane {
	for _, l := range p.lanes {
		prefix, pattern := strings.CutSuffix(l.subject, ">")
		if l.subject == subject || pattern && strings.HasPrefix(subject, prefix) {
			return l
		}
	}
	return nil
}

// brought counts an item against the oldest request.
func (l *lane) brought() {
	if len(l.asked) == 0 {
		return // of a request that was given up as lost
	}
	l.open--
	if l.asked[0].left--; l.asked[0].left == 0 {
		l.asked = slices.Delete(l.asked, 0, 1)
	}
}

// drop forgets the oldest request.
func (l *lane) drop() {
	if len(l.asked) > 0 {
		l.open -= l.asked[0].left
		l.asked = slices.Delete(l.asked, 0, 1)
	}
}

// numbered finds the lane that a status is about. The lock is held.
func (p *puller) numbered(m *nats.Msg, inbox string) *lane {
	n, err := strconv.Atoi(strings.TrimPrefix(m.Subject, inbox))
	if err != nil || n < 0 || n >= len(p.lanes) {
		return nil
	}
	return p.lanes[n]
}

// ended handles the end of a request: it expired, or the consumer is not there,
// or has moved.
func (p *puller) ended(m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.numbered(m, p.inbox)
	if l == nil {
		return
	}
	switch status := m.Header.Get("Status"); status {
	case "100":
		return
	case "408", "404":
		l.drop()
		p.ask(l)
	default: // 503, or 409 in its many forms: see that the consumer is there, then ask again
		p.bus.log.Debug("queue: requests ended", "consumer", l.consumer, "status", status, "why", m.Header.Get("Description"))
		l.asked, l.open, l.ready = nil, 0, false
		p.wake()
	}
}

// tend keeps consumers there and requests alive until the bus closes.
func (p *puller) tend() {
	tick := time.NewTicker(pullTick)
	defer tick.Stop()
	loss := p.bus.work.loss()
	pause := backoff{20 * time.Millisecond, time.Second}
	for {
		select {
		case <-p.bus.ctx.Done():
			return
		case <-loss:
			loss = p.bus.work.loss()
			p.forget()
		case <-tick.C:
		case <-p.kick:
		}
		if p.prepare() {
			pause.next = 20 * time.Millisecond
		} else if pause.wait(p.bus.ctx) != nil {
			return
		}
		p.renew()
	}
}

// forget drops all requests: the connection that carried them is gone.
func (p *puller) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		l.asked, l.open = nil, 0
	}
}

// prepare makes the consumers that somebody waits for and that are not known to
// exist. It returns false if that failed.
func (p *puller) prepare() bool {
	p.mu.Lock()
	var missing []*lane
	for _, l := range p.lanes {
		if !l.ready && len(l.waiters) > 0 {
			missing = append(missing, l)
		}
	}
	p.mu.Unlock()
	for _, l := range missing {
		if err := p.ensure(p.bus.ctx, l); err != nil {
			p.bus.log.Warn("queue: consumer not ready, trying again", "consumer", l.consumer, "err", err)
			p.wake()
			return false
		}
	}
	return true
}

// ensure makes a lane's consumer.
func (p *puller) ensure(ctx context.Context, l *lane) error {
	ctx, stop := context.WithTimeout(ctx, answerLimit)
	defer stop()
	if _, err := p.bus.admin.CreateOrUpdateConsumer(ctx, StreamTurns, p.bus.consumer(l)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.ready = true
	return nil
}

// renew drops requests that were lost and asks for whoever is not covered.
func (p *puller) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, l := range p.lanes {
		for len(l.asked) > 0 && now.After(l.asked[0].until) {
			l.drop()
		}
		p.ask(l)
	}
}

// answer publishes the answer to a delivery.
func (p *puller) answer(reply string, what []byte) error {
	if err := p.bus.work.nc.Publish(reply, what); err != nil {
		return fmt.Errorf("answer a delivery: %w", unavailable(err))
	}
	return nil
}

// close ends the subscriptions and lets nobody join any more.
func (p *puller) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, s := range p.subs {
		if err := s.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			p.bus.log.Debug("queue: unsubscribe", "err", err)
		}
	}
}
