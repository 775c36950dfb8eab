package actors

import (
	"context"
	"sync"
	"time"
)

// Scheduler is where a node's goroutines and its time come from. The node's own
// is made of goroutines and the real clock; package det has one that runs a
// single thing at a time, on a clock that only it moves. A node starts, waits and
// measures in no other way, and holds no lock while it waits.
type Scheduler interface {
	// Go runs fn beside the caller. It never blocks.
	Go(fn func())
	// After runs fn beside everything else once d has passed; at once if d is not
	// positive. fn must not wait. stop, which may be called at any time and more
	// than once, keeps it from running where it has not begun.
	After(d time.Duration, fn func()) (stop func())
	// Wait returns once one of until, of which there are at most four and any may be
	// nil, is closed or yields, with its index: the first such one where there are
	// several; or -1 once d has passed. A d of 0 or less never passes.
	Wait(d time.Duration, until ...<-chan struct{}) int
	// Timeout is context.WithTimeout by this scheduler's clock.
	Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

// dispatcher has actors take their messages on the scheduler.
type dispatcher struct{ s Scheduler }

// Schedule is proto.actor's.
func (d dispatcher) Schedule(fn func()) { d.s.Go(fn) }

// Throughput is how many messages an actor may take before another has its turn.
func (d dispatcher) Throughput() int { return 100 }

// pause waits; false means that ctx ended first.
func (n *Node) pause(ctx context.Context, d time.Duration) bool {
	return n.cfg.Scheduler.Wait(d, ctx.Done()) < 0
}

// after runs fn once d has passed, unless it is stopped first.
func (n *Node) after(d time.Duration, fn func()) (stop func()) {
	return n.cfg.Scheduler.After(d, fn)
}

// timeout is ctx with an end after d.
func (n *Node) timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return n.cfg.Scheduler.Timeout(ctx, d)
}

// every calls fn each d until ctx ends.
func (n *Node) every(ctx context.Context, d time.Duration, fn func()) {
	for wait := d; n.pause(ctx, wait); {
		began := n.cfg.Steady()
		fn()
		wait = min(d, max(d-n.cfg.Steady().Sub(began), time.Millisecond))
	}
}

// group counts what is under way and has to be waited for.
type group struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n comes to 0; nil while nobody waits
}

func (g *group) add() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
}

func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.zero != nil {
		close(g.zero)
		g.zero = nil
	}
}

// wait returns once nothing is under way.
func (g *group) wait(s Scheduler) {
	for zero := g.toZero(); zero != nil; zero = g.toZero() {
		s.Wait(0, zero)
	}
}

// toZero is closed when nothing is under way; nil if that is so now.
func (g *group) toZero() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n > 0 && g.zero == nil {
		g.zero = make(chan struct{})
	}
	return g.zero
}

// promise is an answer that comes once.
type promise[T any] struct {
	done chan struct{} // closed once is is there
	is   T
}

func newPromise[T any]() *promise[T] { return &promise[T]{done: make(chan struct{})} }

// keep gives the answer. It is called once.
func (p *promise[T]) keep(v T) {
	p.is = v
	close(p.done)
}

// kept says whether the answer is there.
func (p *promise[T]) kept() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
