// Package remote makes tools of what workers announce: processes of their own, in any
// language, that serve tools over core NATS. It translates and bounds what they say,
// and decides nothing about calls. docs/remote-tools.md is the contract.
package remote

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// Source is what the registry calls the tools of workers.
const Source = "remote"

// Config says what a Roster works with. Workers, Registry and Boot are required.
type Config struct {
	Workers  bus.Workers
	Registry *tools.Registry
	Boot     string // this node's; part of where workers answer
	Trust    Trust

	// Silence is how long a worker may be silent while it works, and how long an attempt
	// is offered to workers that do not take it; 0 means 5 s.
	Silence time.Duration
	// Gone is after how long without an announcement a worker is gone, and after how long
	// without a worker its tools are; 0 means 15 s.
	Gone time.Duration

	// Known are definitions of before, of whose workers nothing is heard yet: they are
	// registered at once, and go as those of workers that are gone.
	Known []Known
	// Keep is told all definitions that stand, sorted by name, whenever they change. It
	// may write a file, for the next start's Known. nil: nobody keeps them.
	Keep func([]Known)

	// Quiet hears workers without telling them what becomes of their definitions: for who
	// only looks.
	Quiet bool

	Now func() time.Time // nil means time.Now
	Log *slog.Logger     // nil discards
}

// Known is a definition that stands.
type Known struct {
	Tool       string          `json:"tool"`
	Definition wire.Definition `json:"definition"`
}

func (c Config) silence() time.Duration { return cmp.Or(max(c.Silence, 0), 5*time.Second) }
func (c Config) gone() time.Duration    { return cmp.Or(max(c.Gone, 0), 15*time.Second) }

// beats is how many signs of life fit into the longest silence.
const beats = 5

// Trust says whose word on tiers counts. The zero Trust believes nobody: every tool is
// irreversible, or of tier approval where its worker says so.
type Trust struct {
	// Declared believes every worker.
	Declared bool
	// Tools are by name what the operator says: a tier, than which a worker's own word can
	// only be stricter, or Declare. The entry "*" is for all that have none.
	Tools map[string]events.Tier
}

// Declare is the entry of Trust.Tools that believes the worker.
const Declare events.Tier = "declared"

// strictness orders the tiers.
var strictness = map[events.Tier]int{events.Readonly: 1, events.Reversible: 2, events.Irreversible: 3, events.Approval: 4}

// Of is the tier of a tool whose worker declares one, and whether the worker's other
// claims (that the tool honours keys) count.
func (t Trust) Of(tool string, declared events.Tier) (tier events.Tier, believed bool) {
	declared = cmp.Or(declared, events.Irreversible)
	said, ok := t.Tools[tool]
	if !ok {
		said, ok = t.Tools["*"]
	}
	switch {
	case ok && said == Declare, !ok && t.Declared:
		return declared, true
	case !ok:
		said = events.Irreversible
	}
	if strictness[declared] > strictness[said] {
		said = declared
	}
	return said, ok
}

// Roster knows the workers that announce themselves, and gives the registry their tools.
// It may be used from many goroutines.
type Roster struct {
	cfg   Config
	log   *slog.Logger
	ctx   context.Context // the Roster's own life, from Start to Stop
	stop  context.CancelFunc
	wg    sync.WaitGroup
	began chan struct{} // closed once announcements are heard
	once  sync.Once

	mu    sync.Mutex
	live  bool             // from Start to Stop
	posts map[string]*post // by tool
	asked map[bus.Worker]time.Time
	kept  string // what Config.Keep was told last, by names and digests
	taken int    // attempts that workers have in hand
}

// New makes a Roster, or says what its Config lacks. Tools that Config.Known names are
// registered BEFORE it returns.
func New(c Config) (*Roster, error) {
	if c.Workers == nil || c.Registry == nil || c.Boot == "" {
		return nil, errors.New("remote: Config.Workers, Registry and Boot are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &Roster{cfg: c, log: c.Log, began: make(chan struct{}), posts: map[string]*post{}, asked: map[bus.Worker]time.Time{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	for _, k := range c.Known {
		if bus.WorkerTool(k.Tool) && k.Definition.Check() == nil {
			r.posts[k.Tool] = &post{name: k.Tool, def: k.Definition, digest: k.Definition.Digest(), seats: map[bus.Worker]*seat{}, seen: c.Now()}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.provide()
	return r, nil
}

// Start hears announcements until Stop, and asks all workers that are there to announce
// themselves. It returns once they are heard, and what came within wait was taken; or ctx's
// error. ctx bounds the start only.
func (r *Roster) Start(ctx context.Context, wait time.Duration) error {
	r.mu.Lock()
	r.ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.live = true
	r.mu.Unlock()
	r.spawn(r.listen)
	r.spawn(r.sweep)
	select {
	case <-r.began:
	case <-ctx.Done():
		return ctx.Err()
	}
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop ends what the Roster does, and waits for it. Attempts that run by then end as those
// of workers that are lost; a node stops it behind its last one. The tools stay registered.
func (r *Roster) Stop() {
	r.mu.Lock()
	r.live = false
	if r.stop != nil {
		r.stop()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// spawn runs f on a goroutine that Stop waits for. It returns false where the Roster does
// not run (any more).
func (r *Roster) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live {
		r.wg.Go(f)
	}
	return r.live
}

// hold counts what workers have in hand. It returns false where the Roster does not run.
func (r *Roster) hold(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken += n
	return r.live
}

// listen hears announcements, again and again where the way to the workers is cut.
func (r *Roster) listen() {
	for {
		err := r.cfg.Workers.HearWorkers(r.ctx, r.hear)
		if r.ctx.Err() != nil {
			return
		}
		r.log.Warn("workers cannot be heard: trying again", "err", err)
		if !r.pause(time.Second) {
			return
		}
	}
}

// pause waits, or returns false at Stop.
func (r *Roster) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// sweep looks now and then who has gone.
func (r *Roster) sweep() {
	for r.pause(r.cfg.gone() / 15) {
		r.mu.Lock()
		words := r.age(r.cfg.Now())
		r.mu.Unlock()
		r.say(words)
	}
}
