package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Bounds of an event stream's spool.
const (
	spoolSize     = 256              // events that wait for their reader
	spoolPatience = 10 * time.Second // for a reader who takes none of them
)

// spool stands between the log and one reader. A reader who is slow slows the
// reading of the log; one who takes nothing for longer than the patience misses
// what comes, until everything that waits was taken, and hears of that as a gap.
type spool struct {
	size     int
	patience time.Duration // 0: no end of it, and never a gap

	mu    sync.Mutex
	queue []FeedEvent
	gap   *FeedEvent
	more  chan struct{} // room for one: there may be something to take
	room  chan struct{} // room for one: something was taken
}

func newSpool(size int, patience time.Duration) *spool {
	return &spool{size: size, patience: patience, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds an event, or misses it. It returns ctx's error.
func (s *spool) put(ctx context.Context, e FeedEvent) error {
	if s.try(e) {
		return nil
	}
	var late <-chan time.Time
	if s.patience > 0 {
		timer := time.NewTimer(s.patience)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-s.room:
			if s.try(e) {
				return nil
			}
		case <-late:
			s.miss(e)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try adds an event if there is room. While a gap is open everything is missed.
func (s *spool) try(e FeedEvent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gap != nil && e.Notice == "":
		s.gap.Position = after(e.Position)
	case len(s.queue) >= s.size && e.Notice == "":
		return false
	default:
		s.queue = append(s.queue, e)
	}
	signal(s.more)
	return true
}

func (s *spool) miss(e FeedEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gap = &FeedEvent{Notice: NoticeGap, From: e.Position, Position: after(e.Position)}
	signal(s.more)
}

// take returns what waits: events, or the gap once all before it were taken.
func (s *spool) take() []FeedEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.queue
	s.queue = nil
	if len(out) == 0 && s.gap != nil {
		out, s.gap = []FeedEvent{*s.gap}, nil
	}
	if len(out) > 0 {
		signal(s.room)
	}
	if s.gap != nil {
		signal(s.more)
	}
	return out
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// after is the position behind an event.
func after(p events.Position) events.Position {
	p.Index++
	return p
}
