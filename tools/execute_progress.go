package tools

import (
	"math"
	"sync"

	"github.com/sluice-run/sluice/events"
)

// maxProgressText is the length in bytes of the longest progress text.
const maxProgressText = 512

// news holds a tool's newest progress until somebody takes it. Older ones are
// overwritten, so that the tool never waits.
type news struct {
	attempt int
	ready   chan struct{} // holds one while there is something to take

	mu     sync.Mutex
	last   events.Progress
	closed bool
}

func newNews(attempt int) *news {
	return &news{attempt: attempt, ready: make(chan struct{}, 1)}
}

func (n *news) put(p events.Progress) {
	p.Attempt = n.attempt
	p.Text, _, _ = CutText(cleanText(p.Text), Limits{Text: maxProgressText})
	p.Done, p.Total = finite(p.Done), finite(p.Total)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.last = p
	select {
	case n.ready <- struct{}{}:
	default: // the one before was not taken yet, and is replaced
	}
}

func (n *news) take() (events.Progress, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last, !n.closed
}

func (n *news) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}

// finite is f, or 0 for what JSON cannot hold.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}
