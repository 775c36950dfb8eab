package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

// fault is one kind of trouble. put does it and takes it away again.
type fault struct {
	kind string
	put  func(ctx context.Context, in *injector) (target string, err error)
}

// injector puts in one fault after the other, chosen by the seed.
type injector struct {
	h     *house
	kinds []fault
	rand  *rand.Rand
	pace  time.Duration
	deck  []fault // what comes next
	now   func() time.Duration
	note  func(mark)
	fail  func(error)
}

// spared is how many nodes are never ended: their memory is that of one life.
const spared = 1

// recoverLimit is how long anything may take to be there again behind a fault.
const recoverLimit = 2 * time.Minute

// The kinds of faults, by what there has to be.
var (
	loneFaults   = []fault{{"kill a node", killNode}, {"pause a node", pauseNode}, {"drain a node", drainNode}}
	nodeFaults   = append(slices.Clone(loneFaults), fault{"cut a node off", cutOff}, fault{"silence a node", silence})
	serverFaults = []fault{{"kill a leader", killLeader}, {"step down", stepDown}, {"pause a server", pauseServer}}
)

// run puts in a fault each pace until ctx is done. A fault that has begun is taken
// away again in any case.
func (in *injector) run(ctx context.Context) {
	tick := time.NewTicker(in.pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
		if len(in.deck) == 0 { // each kind comes before any comes again
			for _, i := range in.rand.Perm(len(in.kinds)) {
				in.deck = append(in.deck, in.kinds[i])
			}
		}
		f := in.deck[0]
		in.deck = in.deck[1:]
		if err := in.one(context.WithoutCancel(ctx), f); err != nil {
			in.fail(fmt.Errorf("%s: %w", f.kind, err))
			return
		}
	}
}

func (in *injector) one(ctx context.Context, f fault) error {
	ctx, stop := context.WithTimeout(ctx, recoverLimit)
	defer stop()
	from := in.now()
	target, err := f.put(ctx, in)
	in.note(mark{f.kind, target, from, in.now()})
	return err
}

// mortal is a node that may be ended.
func (in *injector) mortal() *member {
	all := in.h.members
	if len(all) > spared {
		all = all[spared:]
	}
	return all[in.rand.IntN(len(all))]
}

// anyone is a node that may be troubled.
func (in *injector) anyone() *member { return in.h.members[in.rand.IntN(len(in.h.members))] }

// for a while, from low to high milliseconds.
func (in *injector) hold(ctx context.Context, low, high int) {
	pause(ctx, time.Duration(low+in.rand.IntN(high-low))*time.Millisecond)
}

func killNode(ctx context.Context, in *injector) (string, error) {
	m := in.mortal()
	m.body.Kill()
	in.hold(ctx, 0, 4000)
	return m.name, in.h.start(ctx, m)
}

func drainNode(ctx context.Context, in *injector) (string, error) {
	m := in.mortal()
	code, err := m.body.Drain(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s drained with status %d", m.name, code)
	}
	if err != nil {
		return m.name, err
	}
	return m.name, in.h.start(ctx, m)
}

// pauseNode stops a node for longer or shorter than its presence lives.
func pauseNode(ctx context.Context, in *injector) (string, error) {
	m := in.anyone()
	if err := m.body.Pause(); err != nil {
		return m.name, err
	}
	in.hold(ctx, 500, 8000)
	return m.name, m.body.Resume()
}

func cutOff(ctx context.Context, in *injector) (string, error) {
	return in.road(ctx, (*cluster.Proxy).Cut)
}

func silence(ctx context.Context, in *injector) (string, error) {
	return in.road(ctx, (*cluster.Proxy).Silence)
}

// road does something with all ways of a node to its log, for a while.
func (in *injector) road(ctx context.Context, do func(*cluster.Proxy)) (string, error) {
	m := in.anyone()
	for _, p := range m.roads {
		do(p)
	}
	in.hold(ctx, 1000, 7000)
	for _, p := range m.roads {
		p.Restore()
	}
	return m.name, nil
}

// streams that can be without a leader for a moment.
var led = []string{"SLUICE", "SLUICE_TURNS", "SLUICE_READ", "KV_SLUICE_keys"}

func (in *injector) stream() string { return led[in.rand.IntN(len(led))] }

func killLeader(ctx context.Context, in *injector) (string, error) {
	stream := in.stream()
	s, err := in.h.cluster.Leader(ctx, stream)
	if err != nil {
		return stream, err
	}
	s.Kill()
	in.hold(ctx, 500, 5000)
	if err := s.Start(ctx); err != nil {
		return s.Name(), err
	}
	return s.Name(), s.AwaitHealthy(ctx)
}

func stepDown(ctx context.Context, in *injector) (string, error) {
	stream := in.stream()
	_, err := in.h.cluster.StepDown(ctx, stream)
	return stream, err
}

func pauseServer(ctx context.Context, in *injector) (string, error) {
	s := in.h.cluster.Servers[in.rand.IntN(len(in.h.cluster.Servers))]
	if err := s.Pause(); err != nil {
		return s.Name(), err
	}
	in.hold(ctx, 500, 6000)
	if err := s.Resume(); err != nil {
		return s.Name(), err
	}
	return s.Name(), s.AwaitHealthy(ctx)
}
