package memlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// wakeName is the wake-up queue's: no placement has a dot.
const wakeName = ".wake"

// replyPrefix begins the reply subjects of deliveries: <queue>/<sequence>/<delivery>.
const replyPrefix = "$MEM.ACK."

// message is an item in a queue.
type message struct {
	q          *queue
	seq        uint64 // in its queue
	item       bus.Item
	deliveries int
	out        bool      // in somebody's hands
	until      time.Time // deliverable again from then on; zero if it is ready
	done       bool      // acked, or its push was taken back
}

// queue is the messages of one placement, or the wake-ups.
type queue struct {
	name  string
	last  uint64
	live  map[uint64]*message
	ready []*message // by sequence
	ids   map[string]bool
	known []pushed // those ids, oldest first
}

// pushed is an id and how long it is remembered.
type pushed struct {
	id    string
	until time.Time
}

func newQueue(name string) *queue {
	return &queue{name: name, live: map[uint64]*message{}, ids: map[string]bool{}}
}

func bySeq(m *message, seq uint64) int { return cmp.Compare(m.seq, seq) }

// offer makes a message deliverable.
func (q *queue) offer(m *message) {
	m.out, m.until = false, time.Time{}
	i, found := slices.BinarySearchFunc(q.ready, m.seq, bySeq)
	if !found {
		q.ready = slices.Insert(q.ready, i, m)
	}
}

// remove ends a message.
func (q *queue) remove(m *message) {
	m.done = true
	delete(q.live, m.seq)
	if i, found := slices.BinarySearchFunc(q.ready, m.seq, bySeq); found {
		q.ready = slices.Delete(q.ready, i, i+1)
	}
}

// add puts an item at the end. The lock is held.
func (l *Log) add(q *queue, it bus.Item) {
	it.Commit = slices.Clone(it.Commit)
	q.last++
	m := &message{q: q, seq: q.last, item: it}
	q.live[m.seq] = m
	q.offer(m)
	l.note(false, func() { q.remove(m) })
	l.announce()
}

// hold keeps a message from being delivered until a time. The lock is held.
func (l *Log) hold(m *message, until time.Time) {
	m.until = until
	void := func() bool { return m.done || !m.until.Equal(until) }
	l.due.add(until, void, func() { m.q.offer(m) })
}

// repeated says whether an id was pushed within the window, and remembers it.
func (l *Log) repeated(q *queue, id string) bool {
	now := l.now()
	for len(q.known) > 0 && !q.known[0].until.After(now) {
		delete(q.ids, q.known[0].id)
		q.known = q.known[1:]
	}
	if q.ids[id] {
		return true
	}
	q.ids[id] = true
	q.known = append(q.known, pushed{id, now.Add(l.window)})
	l.note(false, func() { delete(q.ids, id) })
	return false
}

func (l *Log) placement(name string) *queue {
	name = cmp.Or(name, events.DefaultPlacement)
	q := l.queues[name]
	if q == nil {
		q = newQueue(name)
		l.queues[name] = q
	}
	return q
}

// Push is bus.Queue's.
func (v *View) Push(ctx context.Context, it bus.Item) error {
	return v.push(ctx, it, func() *queue { return v.log.placement(it.Placement) })
}

// Wake is bus.Queue's.
func (v *View) Wake(ctx context.Context, it bus.Item) error {
	return v.push(ctx, it, func() *queue { return v.log.wake })
}

func (v *View) push(ctx context.Context, it bus.Item, to func() *queue) error {
	if err := checkItem(it); err != nil {
		return fmt.Errorf("queue turn %s: %w", it.Turn, err)
	}
	kept, fault := true, error(nil)
	if hook := v.log.faults.Load().Push; hook != nil {
		kept, fault = hook(it)
	}
	if fault == nil || kept {
		if err := v.enter(ctx); err != nil {
			return fmt.Errorf("queue turn %s: %w", it.Turn, err)
		}
		if q := to(); !v.log.repeated(q, it.ID) {
			v.log.add(q, it)
		}
		v.log.mu.Unlock()
	}
	if fault != nil {
		return fmt.Errorf("queue turn %s: %w", it.Turn, fault)
	}
	return nil
}

func checkItem(it bus.Item) error {
	if it.ID == "" {
		return errors.New("an item needs an id")
	}
	return it.Turn.Check()
}

// Pull is bus.Queue's. Of several placements the first with an item is served.
func (v *View) Pull(ctx context.Context, placements []string) (bus.Delivery, error) {
	if len(placements) == 0 {
		return nil, errors.New("pull: name at least one placement")
	}
	return v.pull(ctx, func() *message { return v.log.takeAny(placements) })
}

// PullWake is bus.Queue's.
func (v *View) PullWake(ctx context.Context) (bus.Delivery, error) {
	return v.pull(ctx, func() *message { return v.log.take(v.log.wake) })
}

func (v *View) pull(ctx context.Context, take func() *message) (bus.Delivery, error) {
	var d *delivery
	err := v.wait(ctx, func() bool {
		m := take()
		if m != nil {
			d = newDelivery(v, m)
		}
		return m != nil
	})
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	return d, nil
}

// TryPull is Pull for whoever must not wait: ok is false if there is nothing
// now, or the node is cut off.
func (v *View) TryPull(placements []string) (d bus.Delivery, ok bool) {
	return v.tryPull(func() *message { return v.log.takeAny(placements) })
}

// TryPullWake is PullWake for whoever must not wait.
func (v *View) TryPullWake() (d bus.Delivery, ok bool) {
	return v.tryPull(func() *message { return v.log.take(v.log.wake) })
}

func (v *View) tryPull(take func() *message) (bus.Delivery, bool) {
	if v.reach() != nil {
		return nil, false
	}
	defer v.log.mu.Unlock()
	m := take()
	if m == nil {
		return nil, false
	}
	return newDelivery(v, m), true
}

func (l *Log) takeAny(placements []string) *message {
	for _, p := range placements {
		if m := l.take(l.placement(p)); m != nil {
			return m
		}
	}
	return nil
}

// take delivers a queue's first message. The lock is held.
func (l *Log) take(q *queue) *message {
	if len(q.ready) == 0 {
		return nil
	}
	m := q.ready[0]
	q.ready[0] = nil
	q.ready = q.ready[1:]
	m.deliveries++
	m.out = true
	l.hold(m, l.now().Add(l.ackWait))
	return m
}

// Return is bus.Queue's. What is not out any more stays as it is.
func (v *View) Return(ctx context.Context, reply string) error {
	name, seq, err := parseReply(reply)
	if err != nil {
		return err
	}
	if err := v.enter(ctx); err != nil {
		return err
	}
	defer v.log.mu.Unlock()
	q := v.log.wake
	if name != wakeName {
		q = v.log.placement(name)
	}
	if m := q.live[seq]; m != nil && m.out {
		q.offer(m)
		v.log.announce()
	}
	return nil
}

func parseReply(reply string) (queue string, seq uint64, err error) {
	rest, ok := strings.CutPrefix(reply, replyPrefix)
	parts := strings.Split(rest, "/")
	if ok && len(parts) == 3 {
		if seq, err = strconv.ParseUint(parts[1], 10, 64); err == nil {
			return parts[0], seq, nil
		}
	}
	return "", 0, fmt.Errorf("return %q: no reply subject of a delivery", reply)
}

// delivery is a message in a node's hands. What it sends is not fenced: as with
// the real queue, an ack after somebody else's delivery is accepted.
type delivery struct {
	view  *View
	m     *message
	item  bus.Item
	reply string
	count int
}

func newDelivery(v *View, m *message) *delivery {
	it := m.item
	it.Commit = slices.Clone(it.Commit)
	reply := fmt.Sprintf("%s%s/%d/%d", replyPrefix, m.q.name, m.seq, m.deliveries)
	return &delivery{view: v, m: m, item: it, reply: reply, count: m.deliveries}
}

func (d *delivery) Item() bus.Item  { return d.item }
func (d *delivery) Reply() string   { return d.reply }
func (d *delivery) Deliveries() int { return d.count }

func (d *delivery) Of(reply string) bool {
	name, seq, err := parseReply(reply)
	return err == nil && name == d.m.q.name && seq == d.m.seq
}

func (d *delivery) Extend() error {
	return d.send(func(l *Log) {
		if d.m.out {
			l.hold(d.m, l.now().Add(l.ackWait))
		}
	})
}

func (d *delivery) Ack() error {
	lost := d.view.log.faults.Load().AckLost
	if lost != nil && lost(d.item) {
		return nil
	}
	return d.send(func(l *Log) {
		q, m := d.m.q, d.m
		q.remove(m)
		l.note(false, func() {
			m.done, m.out = false, true
			q.live[m.seq] = m
			l.hold(m, l.now().Add(l.ackWait))
		})
	})
}

func (d *delivery) Nak(delay time.Duration) error {
	return d.send(func(l *Log) {
		switch {
		case !d.m.out: // it waits for another delivery already
		case delay <= 0:
			d.m.q.offer(d.m)
		default:
			l.hold(d.m, l.now().Add(delay))
		}
	})
}

// send does something to the message unless it is acked.
func (d *delivery) send(do func(*Log)) error {
	if err := d.view.reach(); err != nil {
		return fmt.Errorf("answer for turn %s: %w", d.item.Turn, err)
	}
	defer d.view.log.mu.Unlock()
	if d.m.done {
		return nil
	}
	do(d.view.log)
	d.view.log.announce()
	return nil
}

// Redeliver makes deliverable again at once what is in somebody's hands with
// that item id ("" means everything), in both queues, as if AckWait had passed.
// It returns how many messages that were.
func (l *Log) Redeliver(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.messages(id) {
		if m.out {
			m.q.offer(m)
			n++
		}
	}
	l.announce()
	return n
}

// Duplicate adds a copy of a message with that item id that is not acked ("" means one of
// each id), in each queue that has one, whatever the window: one, however many there are,
// or repeating it would double them each time. It returns how many those were.
func (l *Log) Duplicate(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	type one struct {
		queue *queue
		id    string
	}
	done := make(map[one]bool)
	for _, m := range l.messages(id) {
		if k := (one{m.q, m.item.ID}); !done[k] {
			done[k] = true
			l.add(m.q, m.item)
		}
	}
	return len(done)
}

// messages are those with an item id, or all, in a fixed order. The lock is held.
func (l *Log) messages(id string) []*message {
	var out []*message
	for _, q := range append([]*queue{l.wake}, sorted(l.queues)...) {
		for _, m := range sorted(q.live) {
			if id == "" || m.item.ID == id {
				out = append(out, m)
			}
		}
	}
	return out
}

// sorted are a map's values in the order of their keys.
func sorted[K cmp.Ordered, V any](m map[K]V) []V {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]V, len(keys))
	for i, k := range keys {
		out[i] = m[k]
	}
	return out
}
