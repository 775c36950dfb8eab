package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Clients of three nodes call tools and endpoints that fail and work again, and some die as
// the probe, while servers come and go and nodes are killed: one probe in the cluster, of
// each circuit, whatever happens to the others.
func TestLinearBreakers(t *testing.T) {
	bothPlaces(t, func(t *testing.T, p place, rnd *rand.Rand) {
		r := &breakerRun{fleet: newFleet(t, p, time.Hour, bus.BucketBreaker, func(c *Config) {
			c.Now = time.Now // openings go by the clock that the log's server has put right
			c.Breaker = lifecycle.BreakerConfig{Failures: linearFailures, Window: linearWindow, Lease: linearLease}
		}, testTool("one", events.Readonly, echo), testTool("two", events.Readonly, echo))}
		r.run(rnd, 60, r.client)
		r.ops = slices.DeleteFunc(r.ops, func(op porcupine.Operation) bool { return r.nothing(op) })
		t.Log(tally(r.ops, func(op porcupine.Operation) string { return string(op.Output.(breakerOut).said) }))
		checkLinear(t, breakerModel(), r.ops, func(part []porcupine.Operation, from, to int64) string {
			return r.tap.between(BreakerCell(part[0].Input.(breakerIn).of), from, to)
		})
		r.everybodyAgain()
	})
}

type breakerRun struct {
	*fleet
	ops  []porcupine.Operation // under mu
	fast int                   // calls that were let through by what their node had heard before
}

// nothing says whether an answer in doubt stands for nothing at all: no write was under
// way whose outcome is not known.
func (r *breakerRun) nothing(op porcupine.Operation) bool {
	in, out := op.Input.(breakerIn), op.Output.(breakerOut)
	return out.said == saidDoubt && !slices.ContainsFunc(r.tap.wrote, func(w written) bool {
		near := w.end >= in.call && w.call <= out.end+int64(time.Second)
		return w.key == BreakerCell(in.of) && near && errors.Is(w.err, bus.ErrUncertain)
	})
}

func (r *breakerRun) add(id int, in breakerIn, out breakerOut) {
	op := porcupine.Operation{ClientId: id, Input: in, Output: out, Call: in.call, Return: out.end}
	if out.said == saidDoubt {
		op.Return = math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

// client asks once, and reports how its call has ended, if it was let through and
// lives to tell.
func (r *breakerRun) client(id int, rnd *rand.Rand, round int) {
	m := r.node(id)
	of := linearCircuits[rnd.IntN(len(linearCircuits))]
	who := fmt.Sprintf("c%d-%d %s", id, round, m.cfg.Boot)
	class := []events.Class{events.ClassUnavailable, events.ClassUnavailable, events.ClassUnavailable, events.ClassOK, events.ClassCancelled}[rnd.IntN(5)]
	fate := rnd.IntN(10)
	said := r.ask(id, m, of, who)
	for said == saidDoubt && pause(m.ctx, 50*time.Millisecond) { // the same call, while the cell cannot be had
		said = r.ask(id, m, of, who)
	}
	switch said {
	case saidPass:
		if fate < 3 { // it ends when others have opened the breaker
			pause(m.ctx, time.Duration(rnd.IntN(400))*time.Millisecond)
		}
		r.report(id, m, of, who, class)
	case saidProbe:
		if fate == 0 {
			return // and its slot is free when its lease is over
		}
		if fate == 1 {
			pause(m.ctx, linearLease*5/4)
		}
		r.report(id, m, of, who, class)
	}
	pause(m.ctx, time.Duration(10+rnd.IntN(40))*time.Millisecond)
}

// ask is the last gate. What a node knows from its watch alone is older than the
// cluster's cell by design, and not part of the history.
func (r *breakerRun) ask(id int, m *machine, of lifecycle.Circuit, who string) breakerSaid {
	ctx, stop := context.WithTimeout(m.ctx, time.Minute)
	defer stop()
	before, call := m.breaks.closed(of), r.clock.now()
	f, view := m.breaks.admit(ctx, of, who)
	out := breakerOut{end: r.clock.now()}
	switch {
	case f.Ruling == lifecycle.Deny:
		out.said = saidOpen
	case f.Ruling == lifecycle.Wait:
		out.said = saidDoubt
	case view.Probe:
		out.said = saidProbe
	default:
		out.said = saidPass
		if before || m.breaks.closed(of) {
			r.mu.Lock()
			r.fast++
			r.mu.Unlock()
			return saidPass
		}
	}
	r.add(id, breakerIn{of: of, who: who, call: call}, out)
	return out.said
}

func (r *breakerRun) report(id int, m *machine, of lifecycle.Circuit, who string, class events.Class) {
	ctx, stop := context.WithTimeout(m.ctx, time.Minute)
	defer stop()
	call := r.clock.now()
	_, kept := m.breaks.change(ctx, of, func(v lifecycle.Breaker, now time.Time) lifecycle.Breaker {
		return v.Report(m.cfg.Breaker, now, who, class)
	})
	out := breakerOut{saidDoubt, r.clock.now()}
	if kept {
		out.said = saidDone
	}
	r.add(id, breakerIn{of, who, class, call}, out)
}

// everybodyAgain has each circuit close again: no slot is lost for good, and all nodes
// hear of it.
func (r *breakerRun) everybodyAgain() {
	for _, of := range linearCircuits {
		m := r.node(0)
		comes(r.t, "a probe of "+of.String()+", and its success", func() bool {
			if _, view := m.breaks.admit(m.ctx, of, "last"); view.Probe {
				m.breaks.tell(of, "last", events.ClassOK, true)
			}
			cell, err := m.cfg.Bus.Cells().Get(m.ctx, bus.BucketBreaker, BreakerCell(of))
			var is lifecycle.Breaker
			return errors.Is(err, bus.ErrNotFound) || err == nil && json.Unmarshal(cell.Value, &is) == nil && is.OpenedAt.IsZero()
		})
		for i := range fleetNodes {
			comes(r.t, fmt.Sprintf("node %d to hear that %s works again", i, of), func() bool { return r.node(i).breaks.closed(of) })
		}
	}
}

// linearCircuits are a tool's own, and two of the endpoints of another one.
var linearCircuits = []lifecycle.Circuit{own("one"), {Tool: "two", Of: "https://a.example"}, {Tool: "two", Of: "http://a.example:8080"}}

// Fifty calls come to three nodes at the same instant, right after the window, while
// the leader steps down: one of them is the probe. However it ends, the next fifty
// find what follows from that.
func TestLinearOneProbe(t *testing.T) {
	bothPlaces(t, func(t *testing.T, p place, _ *rand.Rand) {
		f := newFleet(t, p, time.Hour, bus.BucketBreaker, func(c *Config) {
			c.Now = time.Now
			c.Breaker = lifecycle.BreakerConfig{Failures: linearFailures, Window: linearWindow, Lease: time.Hour}
		}, testTool("one", events.Readonly, echo))
		for range linearFailures {
			f.node(0).breaks.tell(own("one"), "x", events.ClassUnavailable, true)
		}
		for i, end := range []events.Class{events.ClassCancelled, events.ClassUnavailable, events.ClassInvalid, events.ClassConflict, events.ClassOK} {
			for n := range fleetNodes {
				comes(t, "the end of the window", func() bool {
					b := f.node(n).breaks
					return b.get(own("one")).State(f.node(n).cfg.Breaker, f.node(n).cfg.Steady()) == lifecycle.BreakerHalfOpen
				})
			}
			var disturbed sync.WaitGroup
			if i%2 == 1 {
				disturbed.Go(func() { p.disturb("KV_SLUICE_"+bus.BucketBreaker, i-1) })
			}
			probe, node := fifty(t, f, i)
			disturbed.Wait()
			if t.Failed() {
				return
			}
			for n := range fleetNodes { // the word of a call that is not the probe frees and closes nothing
				b := f.node(n).breaks
				b.tell(own("one"), "late", events.ClassOK, true)
				if verdict, _ := b.admit(t.Context(), own("one"), "another"); verdict.Ruling == lifecycle.Pass {
					t.Errorf("round %d: a call is let through beside the probe", i)
				}
			}
			f.node(node).breaks.tell(own("one"), probe, end, true)
		}
		p.heal()
		for n := range fleetNodes {
			comes(t, "a closed breaker everywhere", func() bool { return f.node(n).breaks.closed(own("one")) })
		}
	})
}

// fifty asks fifty times at once, and returns the one probe and its node.
func fifty(t *testing.T, f *fleet, round int) (probe string, node int) {
	var probes, passed atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	fire := make(chan struct{})
	for i := range 50 {
		m := f.node(i)
		who := fmt.Sprintf("%d-%d %s", round, i, m.cfg.Boot)
		wg.Go(func() {
			<-fire
			ctx, stop := context.WithTimeout(m.ctx, 2*time.Minute)
			defer stop()
			verdict, view := m.breaks.admit(ctx, own("one"), who)
			for verdict.Ruling == lifecycle.Wait && pause(ctx, 20*time.Millisecond) { // the cell could not be had
				verdict, view = m.breaks.admit(ctx, own("one"), who)
			}
			switch {
			case view.Probe:
				probes.Add(1)
				mu.Lock()
				defer mu.Unlock()
				probe, node = who, i%fleetNodes
			case verdict.Ruling != lifecycle.Deny:
				passed.Add(1)
			}
		})
	}
	close(fire)
	wg.Wait()
	if probes.Load() != 1 || passed.Load() != 0 {
		t.Errorf("round %d: of 50 calls %d are probes, and %d were let through", round, probes.Load(), passed.Load())
	}
	return probe, node
}
