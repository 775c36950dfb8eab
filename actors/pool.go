package actors

import (
	"context"
	"sync"
	"time"
)

// pool is the node's own Scheduler, by the real clock. It runs functions on
// goroutines that it keeps for a while: a new goroutine for each small step spends
// a good part of its life growing its stack. It has no bound: what cannot be taken
// by an idle goroutine gets a new one.
type pool struct {
	work chan func()
	quit chan struct{}
	wg   sync.WaitGroup

	mu     sync.RWMutex
	closed bool
}

// idleFor is how long a goroutine waits for more work before it ends.
const idleFor = 2 * time.Second

func newPool() *pool { return &pool{work: make(chan func()), quit: make(chan struct{})} }

// Go runs fn. It never blocks.
func (p *pool) Go(fn func()) {
	select {
	case p.work <- fn:
		return
	default:
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed { // an actor's last words
		go fn()
		return
	}
	p.wg.Go(func() { p.run(fn) })
}

func (p *pool) run(fn func()) {
	idle := time.NewTimer(idleFor)
	defer idle.Stop()
	for {
		fn()
		idle.Reset(idleFor)
		select {
		case fn = <-p.work:
		case <-idle.C:
			return
		case <-p.quit:
			return
		}
	}
}

// stop ends the idle goroutines and waits for the others.
func (p *pool) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.quit)
	p.wg.Wait()
}

// After is Scheduler's.
func (p *pool) After(d time.Duration, fn func()) (stop func()) {
	t := time.AfterFunc(d, fn)
	return func() { t.Stop() }
}

// Wait is Scheduler's.
func (p *pool) Wait(d time.Duration, until ...<-chan struct{}) int {
	var rings <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		rings = t.C
	}
	for i, c := range until {
		select {
		case <-c:
			return i
		default:
		}
	}
	var c [4]<-chan struct{}
	copy(c[:], until)
	select {
	case <-c[0]:
		return 0
	case <-c[1]:
		return 1
	case <-c[2]:
		return 2
	case <-c[3]:
		return 3
	case <-rings:
		return -1
	}
}

// Timeout is Scheduler's.
func (p *pool) Timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
