package jetlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// slots are places for requests whose answers are awaited. Each has an inbox of
// its own that the connection's reader fills directly, which saves a hand-over
// and a map for every answer. There are at most as many as may be in flight, and
// the one used last is used next, so that a few serve a lonely caller.
type slots struct {
	link  *link
	room  chan struct{} // one for each slot in use
	depth int           // answers that one request may have

	mu   sync.Mutex
	free []*slot
}

// slot is a place for one request at a time.
type slot struct {
	inbox string // with a dot at its end
	tries uint64
	reply string // of the request that waits
	got   chan *nats.Msg
	sub   *nats.Subscription
	timer *time.Timer
}

var (
	errNotSent  = errors.New("the request was not sent")
	errNoAnswer = errors.New("no answer in time")
	errLinkLost = errors.New("the connection was lost before an answer came")
	errNobody   = errors.New("no server answers for the stream: it has no leader, or does not exist")
)

func newSlots(l *link, n, depth int) *slots {
	return &slots{link: l, room: make(chan struct{}, n), depth: depth}
}

// take waits for a free slot.
func (s *slots) take(ctx context.Context) (*slot, error) {
	select {
	case s.room <- struct{}{}:
	default:
		select {
		case s.room <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: too many requests wait for the server: %w", errNotSent, ctx.Err())
		}
	}
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		sl := s.free[n-1]
		s.free = s.free[:n-1]
		s.mu.Unlock()
		return sl, nil
	}
	s.mu.Unlock()
	sl, err := s.open()
	if err != nil {
		<-s.room
		return nil, err
	}
	return sl, nil
}

func (s *slots) open() (*slot, error) {
	sl := &slot{inbox: s.link.nc.NewInbox() + ".", got: make(chan *nats.Msg, s.depth), timer: time.NewTimer(time.Hour)}
	sl.timer.Stop()
	sub, err := s.link.nc.ChanSubscribe(sl.inbox+"*", sl.got)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, unavailable(err))
	}
	sl.sub = sub
	return sl, nil
}

// give returns a slot. clean says that all answers to its request have come;
// otherwise the inbox is dropped with what may still arrive in it.
func (s *slots) give(sl *slot, clean bool) {
	sl.timer.Stop()
	if clean {
		s.mu.Lock()
		s.free = append(s.free, sl)
		s.mu.Unlock()
	} else {
		_ = sl.sub.Unsubscribe() // fails only on a closed connection
	}
	<-s.room
}

// send publishes the message as a request from the slot.
func (s *slots) send(sl *slot, m *nats.Msg) error {
	sl.tries++
	sl.reply = sl.inbox + strconv.FormatUint(sl.tries, 36)
	m.Reply = sl.reply
	if err := s.link.nc.PublishMsg(m); err != nil {
		return fmt.Errorf("%w: %w", errNotSent, unavailable(err))
	}
	return nil
}

// await waits for the next answer to what was sent. The error is ctx's,
// errNoAnswer, errLinkLost or errNobody.
func (s *slots) await(ctx context.Context, sl *slot, loss <-chan struct{}, limit time.Duration) (*nats.Msg, error) {
	sl.timer.Reset(limit)
	for {
		select {
		case m := <-sl.got:
			if m.Subject != sl.reply {
				continue // late, to an earlier request
			}
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nil, errNobody
			}
			return m, nil
		case <-loss:
			return nil, errLinkLost
		case <-sl.timer.C:
			return nil, errNoAnswer
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ask sends one request and waits for its one answer.
func (s *slots) ask(ctx context.Context, m *nats.Msg, limit time.Duration) (*nats.Msg, error) {
	sl, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	loss := s.link.loss()
	if err = s.send(sl, m); err != nil {
		s.give(sl, true)
		return nil, err
	}
	got, err := s.await(ctx, sl, loss, limit)
	s.give(sl, err == nil || errors.Is(err, errNobody))
	return got, err
}
