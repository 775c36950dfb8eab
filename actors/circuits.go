package actors

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/lifecycle"
)

// BreakerCell is the name of a circuit's cell in bus.BucketBreaker; its value is a
// lifecycle.Breaker as JSON.
func BreakerCell(c lifecycle.Circuit) string { return bus.CircuitCell(c.Tool, c.Of) }

// circuitName is a tool's name for a circuit as it is kept: itself, or, where that does
// not fit or could not be shown, what of it can be and its digest.
func circuitName(s string) string {
	if s == "" || bus.ValidCircuit(s) {
		return s
	}
	mark := "~" + strings.TrimPrefix(lifecycle.Digest([]byte(s)), "sha256:")[:32]
	var plain strings.Builder
	for _, c := range []byte(s[:min(len(s), bus.MaxCircuit)]) {
		if c > ' ' && c <= '~' && bus.ValidCircuit(plain.String()+string(rune(c))+mark) {
			plain.WriteByte(c)
		}
	}
	return plain.String() + mark
}

// seenBreaker is a breaker as this node sees it, at a revision of its cell.
type seenBreaker struct {
	rev uint64
	lifecycle.BreakerSight
	until time.Time // its cell is gone then, whether or not the watch tells so; zero: it stays
}

func (s seenBreaker) over(now time.Time) bool { return !s.until.IsZero() && s.until.Before(now) }

func (b *breakers) start() { b.n.do(b.watch) }

// watch keeps the view fresh. Before it has seen the cells, breakers count as closed.
func (b *breakers) watch() {
	for b.n.ctx.Err() == nil {
		b.listed(false) // what comes first has happened before
		err := b.n.cfg.Bus.Cells().Watch(b.n.ctx, bus.BucketBreaker, "", func(c bus.Cell) error {
			if c.Key == "" {
				b.listed(true)
				return nil
			}
			tool, of, err := bus.ParseCircuitCell(c.Key)
			if err != nil {
				return nil // not one of ours
			}
			var v lifecycle.Breaker
			switch {
			case c.Value == nil:
				b.gone(lifecycle.Circuit{Tool: tool, Of: of}, c.Revision)
			case len(c.Value) == 0 || json.Unmarshal(c.Value, &v) == nil:
				b.see(lifecycle.Circuit{Tool: tool, Of: of}, c.Revision, v)
			}
			return nil
		})
		if b.n.ctx.Err() == nil {
			b.n.log.Warn("the breakers cannot be watched: trying again", "err", err)
			b.n.pause(b.n.ctx, backOff)
		}
	}
}

// see takes a newer view of a cell; an older one, which a watch may bring late,
// changes nothing. What has no cell leaves nothing behind.
func (b *breakers) see(c lifecycle.Circuit, rev uint64, is lifecycle.Breaker) seenBreaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, known := b.view[c]
	local := b.n.cfg.Steady().UTC()
	if rev == 0 && was.over(local) {
		delete(b.view, c)
		return seenBreaker{}
	}
	if rev < was.rev || rev == 0 && !known {
		return was
	}
	now := seenBreaker{rev: rev, BreakerSight: is.Sight(b.n.cfg.Breaker, local, b.n.cfg.Now().UTC(), was.BreakerSight, b.live)}
	if kept := c.Keeps(now.Local(), b.n.cfg.Breaker, local); kept > 0 {
		now.until = local.Add(kept + lifecycle.ClosedKept)
	}
	if !known {
		b.forget(local)
	}
	b.view[c] = now
	return now
}

// gone forgets a circuit whose cell was deleted, or has expired.
func (b *breakers) gone(c lifecycle.Circuit, rev uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if rev >= b.view[c].rev {
		delete(b.view, c)
	}
}

// forget drops what must have expired: while a server was away, nobody may have told.
func (b *breakers) forget(now time.Time) {
	for c, is := range b.view {
		if is.over(now) {
			delete(b.view, c)
		}
	}
}

// full says whether no more circuits are kept of the tool's endpoints.
func (b *breakers) full(c lifecycle.Circuit) bool {
	if c.Of == "" {
		return false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	n := 0
	for k := range b.view {
		if k.Tool == c.Tool && k.Of != "" {
			n++
		}
	}
	if n < lifecycle.MaxCircuits {
		return false
	}
	b.n.cfg.Seen.Count("circuits_full", 1)
	return true
}

// listed says whether the watch has told all cells, so that what it tells is new.
func (b *breakers) listed(all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = all
}

func (b *breakers) get(c lifecycle.Circuit) lifecycle.Breaker {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.view[c].Local()
}

// closed says that calls of the circuit may start without asking the cluster: a node
// whose watch has not told all cells yet does not know.
func (b *breakers) closed(c lifecycle.Circuit) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	now, own := b.n.cfg.Steady(), b.view[c.Own()].Local()
	whole := c.Of != "" && (own.Blocks(b.n.cfg.Breaker, now) || own.Lapse(b.n.cfg.Breaker, now) != own)
	return b.live && !whole && b.view[c].Local().State(b.n.cfg.Breaker, now) == lifecycle.BreakerClosed
}

// OpenCircuits is how many circuits of endpoints are open, as this node sees them, by tool:
// every tool that has such circuits is there.
func (n *Node) OpenCircuits() map[string]int {
	out, now := make(map[string]int), n.cfg.Steady()
	for _, t := range n.cfg.Registry.List() {
		if t.Circuit != nil {
			out[t.Name] = 0
		}
	}
	b := n.breaks
	b.mu.RLock()
	defer b.mu.RUnlock()
	for c, is := range b.view {
		if c.Of != "" && is.Local().State(n.cfg.Breaker, now) == lifecycle.BreakerOpen {
			out[c.Tool]++
		}
	}
	return out
}
