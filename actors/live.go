package actors

import (
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// publisher tells whoever listens of this node's commits, in order, once they
// are past the barrier. Progress does not wait. What comes faster than it can be
// told is dropped and counted: live events are best effort.
type publisher struct {
	n    *Node
	news chan struct{} // room for one: something waits

	mu sync.Mutex
	in []told
}

type told struct {
	stored  bus.Stored
	tools   map[int]string
	durable bool // past the barrier already
}

// maxTold bounds the commits that wait to be told.
const maxTold = 4096

func newPublisher(n *Node) *publisher { return &publisher{n: n, news: make(chan struct{}, 1)} }

func (p *publisher) tell(s bus.Stored, tools map[int]string, durable bool) {
	if !p.n.cfg.Bus.Wanted(s, tools) {
		return
	}
	p.mu.Lock()
	full := len(p.in) >= maxTold
	if !full {
		p.in = append(p.in, told{s, tools, durable})
	}
	p.mu.Unlock()
	if full {
		p.n.cfg.Seen.Count("live_dropped", 1)
		return
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (p *publisher) run() {
	for p.n.cfg.Scheduler.Wait(0, p.n.ctx.Done(), p.news) != 0 {
		p.mu.Lock()
		all := p.in
		p.in = nil
		p.mu.Unlock()
		p.batch(all)
	}
}

// batch publishes what has gathered behind one barrier.
func (p *publisher) batch(all []told) {
	if needsBarrier(all) {
		if err := p.n.cfg.Bus.Barrier().Wait(p.n.ctx); err != nil {
			p.n.barrierFailed(p.n.ctx, err)
			return
		}
	}
	for _, t := range all {
		if err := p.n.cfg.Bus.Publish(p.n.ctx, t.stored, t.tools); err != nil && p.n.ctx.Err() == nil {
			p.n.log.Warn("live events not sent", "turn", t.stored.Commit.Turn.String(), "err", err)
		}
	}
}

func needsBarrier(all []told) bool {
	for _, t := range all {
		for _, r := range t.stored.Commit.Records {
			if !t.durable && r.Event.Kind() != events.KindProgress {
				return true
			}
		}
	}
	return false
}
