package actors

import (
	"sync"
	"time"
)

// pool runs functions on goroutines that it keeps for a while: a new goroutine
// for each small step spends a good part of its life growing its stack. It has
// no bound: what cannot be taken by an idle goroutine gets a new one.
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

// Schedule and Throughput make the pool a proto.actor dispatcher.
func (p *pool) Schedule(fn func()) { p.Go(fn) }

// Throughput is how many messages an actor may take before another has its turn.
func (p *pool) Throughput() int { return 100 }
