package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/lifecycle"
)

// rateActors is how many actors change the cells of rates: each has its share of them,
// so that the calls of this node do not get into each other's way.
const rateActors = 8

// rates are the buckets of tokens of all limits, which the cluster shares.
type rates struct {
	n    *Node
	mu   sync.Mutex
	pids [rateActors]*actor.PID
}

// useRate is what the actor of a rate is asked.
type useRate struct {
	ctx  context.Context
	cell string
	rate lifecycle.Rate // of a token that is taken; zero: one is given back
	wait time.Duration  // that its taker has
	done *promise[usedRate]
}

type usedRate struct {
	at  time.Time     // when the token is due
	in  time.Duration // how long that is
	ok  bool          // it is taken
	err error
}

// take takes a token of the limit's rate, and waits until it is due. ok is false where
// that is only in a time, longer than until.
func (r *rates) take(ctx context.Context, u lifecycle.LimitUse, until time.Time) (in time.Duration, ok bool, err error) {
	is := r.use(useRate{ctx: ctx, cell: bus.LimitCell(bus.RateCells, u.ID, u.Bucket), rate: u.Rate, wait: max(0, until.Sub(r.n.cfg.Steady()))})
	if is.err != nil || !is.ok {
		return is.in, false, is.err
	}
	if wait := is.at.Sub(r.n.cfg.Now()); wait > 0 && !r.n.pause(ctx, wait) {
		r.giveBack(u.ID, u.Bucket)
		return 0, false, ctx.Err()
	}
	return 0, true, nil
}

// giveBack gives back a token with which nothing was begun. It is tried once: one that is
// given back twice would let one too many begin, and one that is not flows in again.
func (r *rates) giveBack(rule, principal string) {
	ctx, stop := r.n.timeout(context.WithoutCancel(r.n.ctx), 5*time.Second)
	defer stop()
	if is := r.use(useRate{ctx: ctx, cell: bus.LimitCell(bus.RateCells, rule, principal)}); is.err != nil {
		r.n.log.Info("a start was not given back to its limit: it comes again by itself", "limit", rule, "err", is.err)
	}
}

// use has the cell changed by its actor.
func (r *rates) use(m useRate) usedRate {
	m.done = newPromise[usedRate]()
	r.n.root.Send(r.actor(m.cell), m)
	if r.n.cfg.Scheduler.Wait(0, m.done.done, m.ctx.Done()) == 0 {
		return m.done.is
	}
	return usedRate{err: m.ctx.Err()}
}

func (r *rates) actor(cell string) *actor.PID {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cell)) // it never fails
	r.mu.Lock()
	defer r.mu.Unlock()
	pid := &r.pids[h.Sum32()%rateActors]
	if *pid == nil {
		r.n.shared.add()
		*pid = r.n.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &rateActor{r.n} }, actor.WithDispatcher(dispatcher{r.n.cfg.Scheduler})))
	}
	return *pid
}

// stop ends the actors. Node.shared says when they have ended.
func (r *rates) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pid := range r.pids {
		if pid != nil {
			r.n.root.Poison(pid)
		}
	}
}

// rateActor changes its share of the cells, one after another.
type rateActor struct{ n *Node }

// Receive is proto.actor's.
func (a *rateActor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Stopped:
		a.n.shared.done()
	case useRate:
		m.done.keep(a.use(m))
	}
}

// rateCellTTL is how long the cell of a rate stays that nobody uses: far longer than any
// bucket takes to be full, and than a marker of an expiry can be late.
const rateCellTTL = 100 * time.Hour

// use changes a cell by compare-and-swap.
func (a *rateActor) use(m useRate) usedRate {
	ctx, stop := a.n.timeout(m.ctx, 5*time.Second) // others wait behind it
	defer stop()
	cells := a.n.cfg.Bus.Cells()
	for {
		cell, err := cells.Get(ctx, bus.BucketLock, m.cell)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			return usedRate{err: err}
		}
		var was lifecycle.RateState
		if len(cell.Value) > 0 {
			if err := json.Unmarshal(cell.Value, &was); err != nil {
				return usedRate{err: fmt.Errorf("the cell %s: %w", m.cell, err)}
			}
		}
		next, is := a.next(m, was)
		if next == was {
			return is
		}
		value, err := json.Marshal(next)
		if err != nil {
			return usedRate{err: err}
		}
		_, err = cells.Put(ctx, bus.BucketLock, m.cell, value, cell.Revision, rateCellTTL)
		switch {
		case errors.Is(err, bus.ErrConflict):
		case err != nil:
			return usedRate{err: err}
		default:
			return is
		}
	}
}

// next is the cell's next state, and what whoever asks has then.
func (a *rateActor) next(m useRate, was lifecycle.RateState) (lifecycle.RateState, usedRate) {
	if m.rate == (lifecycle.Rate{}) {
		return was.Return(), usedRate{}
	}
	now := a.n.cfg.Now().UTC()
	next, at, ok := was.Take(m.rate, now, m.wait)
	return next, usedRate{at: at, in: at.Sub(now), ok: ok}
}
