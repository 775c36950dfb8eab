package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// Node claims turns and runs them. Its methods may be used from many goroutines.
type Node struct {
	cfg    Config
	log    *slog.Logger
	gates  Gates
	system *System // where the node has made it itself
	root   *actor.RootContext
	hands  *hands
	hub    *hub
	live   *publisher
	own    *pool // the Scheduler, where the node has made it itself
	locks  *locks
	breaks *breakers
	rates  *rates
	recall recall

	ctx    context.Context // the node's own lifetime, from Start to the end of Stop
	cancel context.CancelFunc
	pull   context.Context // ends first: nothing new is taken
	halt   context.CancelFunc
	steps  group         // what Stop waits for
	shared group         // the actors of locks, breakers and rates
	room   chan struct{} // a token for each turn that there is room for
	failed chan error

	backstop time.Duration // of a turn that is parked for a key
	me       present
	unserved atomic.Int64 // turns that wait in placements that nobody serves, where this node sweeps
	deaths   atomic.Int64 // of other nodes, as far as this one has noticed

	mu       sync.Mutex
	turns    map[events.TurnKey]*seat
	draining bool
	emptied  bool
	requeued int           // turns that are being queued once more: a drain ends behind them
	empty    chan struct{} // closed while draining, once no turn is left
}

// seat is a turn in memory.
type seat struct {
	pid      *actor.PID
	delivery bus.Delivery
	fresh    time.Time // when it was pulled or extended last
	nudged   uint64    // how often its actor was told that somebody appended
}

// New makes a node. It returns an error that names the field for a Config that
// lacks something.
func New(cfg Config) (*Node, error) {
	switch {
	case cfg.Bus == nil:
		return nil, errors.New("actors: Config.Bus is required")
	case cfg.Registry == nil:
		return nil, errors.New("actors: Config.Registry is required")
	case cfg.Authorizer == nil:
		return nil, errors.New("actors: Config.Authorizer is required")
	case cfg.Workspace == "":
		return nil, errors.New("actors: Config.Workspace is required")
	}
	if err := events.CheckID("actors: Config.Boot", cfg.Boot); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg.withDefaults(), turns: make(map[events.TurnKey]*seat), failed: make(chan error, 1), backstop: keyBackstop}
	n.log = n.cfg.Log.With("boot", cfg.Boot)
	n.gates = Gates{Registry: cfg.Registry, Authorizer: cfg.Authorizer, Allow: cfg.Allow, Network: cfg.Network, Workspace: cfg.Workspace, Now: n.cfg.Now, log: n.log}
	n.room = make(chan struct{}, n.cfg.Room)
	for range n.cfg.Room {
		n.room <- struct{}{}
	}
	if cfg.Scheduler == nil {
		n.own, _ = n.cfg.Scheduler.(*pool)
	}
	n.hands = newHands(n)
	n.hub = newHub()
	n.live = newPublisher(n)
	n.locks = newLocks(n)
	n.breaks = newBreakers(n)
	n.rates = &rates{n: n}
	return n, nil
}

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, c.Boot)
	if len(c.Placements) == 0 {
		c.Placements = []string{events.DefaultPlacement}
	}
	c.Room = cmp.Or(c.Room, 512)
	c.Drain = cmp.Or(c.Drain, 10*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 5*time.Second)
	c.Approval = cmp.Or(c.Approval, lifecycle.DefaultApproval)
	c.Presence = cmp.Or(c.Presence, 3*time.Second)
	c.Sweep = cmp.Or(c.Sweep, 10*time.Second)
	c.Keys = cmp.Or(c.Keys, 30*24*time.Hour)
	c.LockTTL = cmp.Or(c.LockTTL, lifecycle.LockTTL)
	c.Probing = cmp.Or(c.Probing, 30*time.Second)
	if c.Execute == nil {
		c.Execute = tools.Execute
	}
	if c.Scheduler == nil {
		c.Scheduler = newPool()
	}
	if c.ID == nil {
		c.ID = func() string { return ulid.Make().String() }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Steady == nil {
		c.Steady = c.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Seen == nil {
		c.Seen = nobody{}
	}
	return c
}

type nobody struct{}

func (nobody) Committed(bus.Stored, map[int]string) {}
func (nobody) Count(string, int)                    {}

// pullers is how many items a node waits for at once.
const pullers = 8

// Start makes the node known and begins to take turns. ctx is the node's
// lifetime: where it ends, everything stops at once, as in a crash; Stop is the
// orderly way. It returns an error if the bus cannot be used.
func (n *Node) Start(ctx context.Context) error {
	n.ctx, n.cancel = context.WithCancel(ctx)
	n.pull, n.halt = context.WithCancel(n.ctx)
	system := n.cfg.System
	if system == nil {
		system = NewSystem(n.log)
		n.system = system
	}
	n.root = system.of.Root
	if n.cfg.Presence > 0 {
		if err := n.announce(n.ctx, false); err != nil {
			n.cancel()
			n.system.shutdown()
			return fmt.Errorf("node %s: %w", n.cfg.Name, err)
		}
		n.do(n.presence)
		n.do(n.watchPresence)
	}
	n.breaks.start()
	n.do(n.answerQuestions)
	n.do(n.heartbeats)
	n.do(n.live.run)
	n.do(n.wakes)
	if n.cfg.Sweep > 0 {
		n.do(n.sweeps)
	}
	// All wait for the same: one that waited only for endings would keep a room from
	// the others for nothing.
	placements := append(slices.Clone(n.cfg.Placements), events.EndPlacement)
	for range min(pullers, n.cfg.Room) {
		n.do(func() { n.takes(placements) })
	}
	return nil
}

// Stop drains the node: it takes and starts nothing new, waits for the running
// attempts up to Config.Drain or the end of ctx, gives its turns back, and
// returns when nothing of it runs any more. Only the first call after Start
// does anything.
func (n *Node) Stop(ctx context.Context) error {
	n.mu.Lock()
	if n.draining {
		n.mu.Unlock()
		return nil
	}
	n.draining, n.empty = true, make(chan struct{})
	n.mu.Unlock()
	n.halt()
	var err error
	if n.ctx.Err() == nil { // otherwise it has died, and its turns were not given back
		bounded, end := n.timeout(ctx, lastWords) // a log that is gone must not keep the node
		err = n.announce(bounded, true)
		end()
	}
	n.drainTurns(ctx)
	n.cancel()
	n.hands.under.wait(n.cfg.Scheduler)
	n.steps.wait(n.cfg.Scheduler)
	n.locks.stop()
	n.breaks.stop()
	n.rates.stop()
	n.shared.wait(n.cfg.Scheduler)
	n.system.shutdown()
	if n.own != nil {
		n.own.stop()
	}
	return err
}

// do runs a step of work that Stop waits for.
func (n *Node) do(fn func()) {
	n.steps.add()
	n.cfg.Scheduler.Go(func() {
		defer n.steps.done()
		fn()
	})
}

// drainTurns asks every turn to end, and waits.
func (n *Node) drainTurns(ctx context.Context) {
	n.mu.Lock()
	n.checkEmpty()
	for _, s := range n.seats() {
		n.root.Send(s.pid, drain{})
	}
	n.mu.Unlock()
	if n.cfg.Scheduler.Wait(n.cfg.Drain, n.empty, ctx.Done(), n.ctx.Done()) == 0 {
		return
	}
	n.mu.Lock()
	for _, s := range n.seats() {
		n.root.Send(s.pid, giveUp{})
	}
	n.mu.Unlock()
	if n.cfg.Scheduler.Wait(lastWords, n.empty) < 0 {
		n.cancel()
		n.cfg.Scheduler.Wait(0, n.empty)
	}
}

// seats are the turns in memory, in one order. The caller holds mu.
func (n *Node) seats() []*seat {
	out := make([]*seat, 0, len(n.turns))
	for _, key := range orderedBy(n.turns, compareTurns) {
		out = append(out, n.turns[key])
	}
	return out
}

// lastWords is how long Stop waits, once the grace time is over, for the appends
// that are under way.
const lastWords = 2 * time.Second

// checkEmpty ends a drain that has no turn left. The caller holds mu.
func (n *Node) checkEmpty() {
	if n.draining && len(n.turns)+n.requeued == 0 && !n.emptied {
		n.emptied = true
		close(n.empty)
	}
}

// Failed yields an error if durability is lost: the process must stop.
func (n *Node) Failed() <-chan error { return n.failed }

// barrierFailed stops the node where a barrier's error is not just the end of ctx.
func (n *Node) barrierFailed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	n.log.Error("durability is lost: the node stops", "err", err)
	select {
	case n.failed <- err:
	default:
	}
	n.halt()
}

// Watch yields the turn's end once this node has brought it about. Call the
// returned function to stop watching.
func (n *Node) Watch(key events.TurnKey) (<-chan Finished, func()) {
	ended := make(chan Finished, 1)
	return ended, n.OnEnd(key, func(f Finished) { ended <- f }) // room for one, and told once
}

// OnEnd calls ended with the turn's end once this node has brought it about, at most once,
// on a goroutine of the node's: it must not block. Call the returned function to stop
// watching; ended is not called after it.
func (n *Node) OnEnd(key events.TurnKey, ended func(Finished)) (cancel func()) {
	return n.hub.watch(key, ended)
}

// Gates are the node's gates that need no I/O.
func (n *Node) Gates() Gates { return n.gates }

// Running says how many turns are in memory, and how many attempts run.
func (n *Node) Running() (turns, attempts int) {
	n.mu.Lock()
	turns = len(n.turns)
	n.mu.Unlock()
	return turns, n.hands.running()
}

// Unserved is how many turns nobody owns whose placement no node serves, as of the last
// sweep; 0 on nodes that do not sweep, and where presence is switched off.
func (n *Node) Unserved() int { return int(n.unserved.Load()) }

// putBlob stores bytes, and tries again while the node lives.
func (n *Node) putBlob(ctx context.Context, data []byte, media string) (events.BlobRef, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		ref, err := n.cfg.Bus.Blobs().Put(ctx, data, media)
		if err == nil || ctx.Err() != nil {
			return ref, err
		}
		n.log.Warn("a blob could not be stored: trying again", "err", err)
		if !n.pause(ctx, wait) {
			return ref, err
		}
	}
}
