package jetlog

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-run/sluice/bus"
)

// stated is the barrier of a server that needs none: what it acknowledged is as
// durable as its mode says.
type stated string

// Wait is bus.Barrier's.
func (s stated) Wait(ctx context.Context) error { return ctx.Err() }

// Mode is bus.Barrier's.
func (s stated) Mode() string { return string(s) }

// group is the barrier of the embedded server: one goroutine syncs what was
// written, and everyone who waits shares one sync. Whoever comes while a sync
// runs waits for the next one: the running one may have passed its write.
type group struct {
	flush  func() error // makes durable what was written before it was called
	kick   chan struct{}
	quit   chan struct{}
	failed chan struct{}
	after  []func()
	wg     sync.WaitGroup

	mu   sync.Mutex
	next *round // what the next sync will answer; nil if nobody waits
	err  error  // once set, for ever
}

// round is everyone who shares one sync.
type round struct {
	done chan struct{}
	err  error // set before done is closed
}

// newGroup starts a barrier. after is called once a sync has failed, before those
// who wait are told; it must not wait for them.
func newGroup(flush func() error, after ...func()) *group {
	g := &group{flush: flush, after: after, kick: make(chan struct{}, 1), quit: make(chan struct{}), failed: make(chan struct{})}
	g.wg.Go(g.run)
	return g
}

// Wait is bus.Barrier's.
func (g *group) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := g.join()
	if err != nil {
		return err
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Mode is bus.Barrier's.
func (g *group) Mode() string { return SyncBarrier }

func (g *group) join() (*round, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return nil, g.err
	}
	if g.next == nil {
		g.next = &round{done: make(chan struct{})}
		g.kick <- struct{}{} // never full: one kick a round, and run takes both together
	}
	return g.next, nil
}

func (g *group) run() {
	for {
		select {
		case <-g.quit:
			g.end(fmt.Errorf("%w: the server is closed", bus.ErrUnavailable))
			return
		case <-g.kick:
		}
		g.mu.Lock()
		r := g.next
		g.next = nil
		g.mu.Unlock()
		if r.err = g.flush(); r.err != nil {
			r.err = fmt.Errorf("durability is lost, stop this node and look at its disk: %w", r.err)
			for _, f := range g.after { // BEFORE anyone hears of it
				f()
			}
			g.end(r.err)
			close(g.failed)
			close(r.done)
			return
		}
		close(r.done)
	}
}

// end gives an error to everyone who waits or will.
func (g *group) end(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	if g.next != nil {
		g.next.err = err
		close(g.next.done)
		g.next = nil
	}
}

// close ends the goroutine, after the sync that runs.
func (g *group) close() {
	close(g.quit)
	g.wg.Wait()
}
