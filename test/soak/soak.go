package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// config is what a soak is.
type config struct {
	duration time.Duration // of the load
	seed     uint64
	out      string  // folder for everything
	embedded bool    // one node that keeps its log itself
	servers  int     // else: of NATS, 1 or 3
	nodes    int     // else
	rate     float64 // turns a second
	pace     time.Duration
	every    time.Duration // between two samples; 0: by the duration
	node     string        // path of sluice-node; "": it is built
	replay   string        // path of sluice-replay; "": it is built
	commit   string        // what is soaked, for the title
	faults   []fault       // that are put in; nil: those that the house can have
	say      io.Writer
}

// sampling is the time between two samples.
func (c config) sampling() time.Duration {
	if c.every > 0 {
		return c.every
	}
	return min(max(c.duration/200, time.Second), 30*time.Second)
}

// idle is the length of the time before the load, and of that behind it.
func (c config) idle() time.Duration { return min(max(c.duration/20, 4*c.sampling()), 30*time.Second) }

// approval is how long a person has to answer; some turns are never answered.
func (c config) approval() time.Duration {
	return min(max(c.duration/4, 3*time.Second), 20*time.Second)
}

// calmLimit is how long what is open may take to end when nothing disturbs it any
// more, the approvals that nobody gives included.
const calmLimit = 3 * time.Minute

func (c config) title() string {
	where := "one node, log embedded"
	if !c.embedded {
		where = fmt.Sprintf("%d nodes, %d NATS servers, R%d", c.nodes, c.servers, c.servers)
	}
	return fmt.Sprintf("Sluice soak: %s, %s of load at %g turns/s, a fault each %s, seed %d, commit %s", where, c.duration, c.rate, c.pace, c.seed, c.commit)
}

// soak is one that runs.
type soak struct {
	c     config
	h     *house
	began time.Time

	mu    sync.Mutex
	phase string
	r     *record
	bad   []string // what went wrong with the soak itself
}

func (s *soak) now() time.Duration { return time.Since(s.began) }

func (s *soak) enter(phase string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = phase
	fmt.Fprintf(s.c.say, "%7.1fs  %s\n", s.now().Seconds(), phase)
}

func (s *soak) note(m mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r.marks = append(s.r.marks, m)
	fmt.Fprintf(s.c.say, "%7.1fs  %s: %s, for %.1fs\n", m.from.Seconds(), m.kind, m.target, (m.to - m.from).Seconds())
}

func (s *soak) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = append(s.bad, err.Error())
	fmt.Fprintf(s.c.say, "%7.1fs  %v\n", s.now().Seconds(), err)
}

// run soaks, until the duration is over or ctx is done, and returns what was
// measured and found. An error says that there was no soak.
func run(ctx context.Context, c config) (*record, *outcome, []string, error) {
	node, err := program(ctx, c.node, c.out, "node")
	if err != nil {
		return nil, nil, nil, err
	}
	replay, err := program(ctx, c.replay, c.out, "replay")
	if err != nil {
		return nil, nil, nil, err
	}
	dir := filepath.Join(c.out, "house")
	var h *house
	if c.embedded {
		h, err = alone(ctx, dir, node, nodeArgs(c.approval()))
	} else {
		h, err = together(ctx, dir, node, c.servers, c.nodes, nodeArgs(c.approval()))
	}
	if err != nil {
		return nil, nil, nil, err
	}
	s := &soak{c: c, h: h, began: time.Now(), r: &record{title: c.title()}}
	o, err := s.all(ctx, replay)
	if closed := h.close(); closed != nil {
		s.fail(closed)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	o.broken = s.bad
	return s.r, o, h.keepers(), nil
}

// all goes through the phases. ctx ends the load; what follows it comes in any case.
func (s *soak) all(ctx context.Context, replay string) (*outcome, error) {
	last := context.WithoutCancel(ctx)
	var urls []string
	for _, m := range s.h.members {
		urls = append(urls, m.url)
	}
	l := newLoad(s.c.seed, newDoor(urls), s.c.rate)
	w, err := newWatcher(s.h, l)
	if err != nil {
		return nil, err
	}
	defer w.close()
	watching, stop := context.WithCancel(last)
	var wg sync.WaitGroup
	s.enter(phaseIdle)
	wg.Go(func() { s.watch(watching, w) })
	pause(ctx, s.c.idle())
	s.storm(ctx, l)
	l.door.close()
	s.enter(phaseQuiet)
	pause(last, s.c.idle())
	stop()
	wg.Wait()
	s.settle(last, w)
	o := l.result()
	s.look(last, o, urls[0], replay)
	s.tell(l)
	return o, nil
}

// storm is the load with its faults, and the calm behind them.
func (s *soak) storm(ctx context.Context, l *load) {
	last, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	submit, end := context.WithTimeout(ctx, s.c.duration)
	defer end()
	s.enter(phaseLoad)
	s.r.begin = s.now()
	var faults, turns sync.WaitGroup
	in := &injector{
		h: s.h, kinds: s.faults(), rand: rand.New(rand.NewPCG(s.c.seed, 1<<40)), pace: s.c.pace, now: s.now, note: s.note, fail: s.fail,
	}
	faults.Go(func() { in.run(submit) })
	turns.Go(func() { l.run(last, submit) })
	<-submit.Done()
	s.r.end = s.now()
	if ctx.Err() != nil {
		s.r.title += ", ended early"
	}
	s.enter(phaseCalm)
	faults.Wait()
	late := time.AfterFunc(calmLimit, stop)
	defer late.Stop()
	turns.Wait()
}

// faults are the kinds that are put in.
func (s *soak) faults() []fault {
	switch {
	case s.c.faults != nil:
		return s.c.faults
	case s.h.cluster == nil:
		return loneFaults
	case len(s.h.cluster.Servers) == 1: // nobody could lead instead of it
		return nodeFaults
	}
	return append(slices.Clone(nodeFaults), serverFaults...)
}

// watch takes a sample each while.
func (s *soak) watch(ctx context.Context, w *watcher) {
	tick := time.NewTicker(s.c.sampling())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if time.Since(w.last) > s.c.sampling()/2 { // the look before may have taken long
				s.sample(ctx, w)
			}
		case <-ctx.Done():
			return
		}
	}
}

// settle takes samples until nothing waits any more. What was answered early has
// left a timer behind, which has to fire; beyond that it gives up, and the verdict
// says what is left.
func (s *soak) settle(ctx context.Context, w *watcher) {
	ctx, stop := context.WithTimeout(ctx, s.c.approval()+15*time.Second)
	defer stop()
	for {
		s.sample(context.WithoutCancel(ctx), w)
		if s.r.drained() || !pause(ctx, s.c.sampling()) {
			return
		}
	}
}

func (s *soak) sample(ctx context.Context, w *watcher) {
	s.mu.Lock()
	one := sample{at: s.now(), phase: s.phase}
	s.mu.Unlock()
	one.values = w.look(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r.samples = append(s.r.samples, one)
}

// lookBack is how long, beside the soak's own length, the whole log may take to be
// read twice at the end.
const lookBack = 10 * time.Minute

// look finds out what became of everything.
func (s *soak) look(ctx context.Context, o *outcome, url, replay string) {
	ctx, stop := context.WithTimeout(ctx, lookBack+s.c.duration)
	defer stop()
	var err error
	if o.terminals, err = ends(ctx, url); err != nil {
		s.fail(err)
	}
	if o.ledger, err = effects(s.h.ledger); err != nil {
		s.fail(err)
	}
	o.verified, o.verify = verify(ctx, replay, s.h.where)
}

// tell prints what the load was made of, and how it ended.
func (s *soak) tell(l *load) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(s.c.say)
	for _, k := range kinds {
		if n := l.turns[k.name]; n > 0 {
			fmt.Fprintf(s.c.say, "     %-24s %d turns, calls %s\n", k.name, n, strings.TrimPrefix(fmt.Sprint(l.states[k.name]), "map"))
		}
	}
}
