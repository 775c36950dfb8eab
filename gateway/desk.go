// Package gateway holds the doors: the desk, which does every act that is no
// owner's, and HTTP. It decides nothing: it loads, asks package lifecycle, and
// appends what was decided. Providers' formats are package gateway/codec's.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/vault"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// maxTries is how often an act is decided anew because the turn moved on. Each
// try lost means that somebody else's append was kept.
const maxTries = 64

// ErrUntold says that an act is in the log, and that no node could be told of
// it: repeat the act.
var ErrUntold = errors.New("kept, but no node could be told: repeat it")

// DeskConfig is what a desk needs. Bus is required; zero elsewhere means the
// default beside the field.
type DeskConfig struct {
	Bus   bus.Bus
	Local Watcher          // ends of turns that run in this process; nil: there is no node here
	Boot  string           // of the node in this process, which is asked who it is though it may have no presence; "": there is none
	Poll  time.Duration    // between looks at a turn that somebody waits for, a backstop; 0 means 2 s
	Now   func() time.Time // nil means time.Now
	NewID func() string    // makes ids of commits, traces and turns; nil means ULIDs
	Log   *slog.Logger     // nil discards
	// Workspace is where turns of the node in this process run that name none, by which
	// doors know it; "": no node is here.
	Workspace string
	// Vault keeps the secrets of calls outside the log; nil: calls with secrets are
	// refused.
	Vault *vault.Vault
	// Declared are the arguments of a tool that its schema says are secrets, as JSON
	// Pointers; nil: what tools there are is not known here. It must be quick.
	Declared func(tool string) []string
	// Refuses says why the gates would refuse a call of the turn with other arguments, ""
	// where they would not or where nobody here can say; nil: there is no node here. It
	// must be quick.
	Refuses func(t lifecycle.Turn, call int, args lifecycle.Args) string
	// Seen hears of every commit that the desk has appended, with the tools of calls
	// that some node has let through; nil: nobody does. It must not block.
	Seen func(s bus.Stored, tools map[int]string)
}

// Watcher tells the end of turns that a node in this process runs, past the
// barrier and sooner than any message could.
type Watcher interface {
	// Watch has ended called with the turn's end, at most once, and not after the function
	// that it returns. ended does not block.
	Watch(key events.TurnKey, ended func(View)) (cancel func())
}

// View is a turn as the log has it.
type View struct {
	Turn    lifecycle.Turn
	Commits []bus.Stored // all of them, in order
}

// Ended says whether the turn has ended.
func (v View) Ended() bool { return v.Turn.Ended != nil }

// seq is the stream sequence of the turn's last commit; 0 where it has none.
func (v View) seq() uint64 {
	if len(v.Commits) == 0 {
		return 0
	}
	return v.Commits[len(v.Commits)-1].Seq
}

// Desk does every act that is no owner's: it submits, cancels, approves,
// resolves, and reads. It may be used from many goroutines at once.
type Desk struct {
	bus   bus.Bus
	local Watcher
	boot  string
	poll  time.Duration
	now   func() time.Time
	newID func() string
	log   *slog.Logger
	vault *vault.Vault

	workspace string // of the node in this process; "" means that there is none

	marks func(tool string) []string // see DeskConfig.Declared

	refuses func(lifecycle.Turn, int, lifecycle.Args) string // see DeskConfig.Refuses
	seen    func(bus.Stored, map[int]string)

	waiting  waiting
	inbox    inbox
	standing standing
	names    names

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// NewDesk makes a desk. It starts nothing: see Start.
func NewDesk(c DeskConfig) *Desk {
	d := &Desk{
		bus: c.Bus, local: c.Local, boot: c.Boot, poll: cmp.Or(c.Poll, 2*time.Second),
		now: c.Now, newID: c.NewID, log: c.Log, workspace: c.Workspace, vault: c.Vault, marks: c.Declared, seen: c.Seen, refuses: c.Refuses,
	}
	if d.marks == nil {
		d.marks = func(string) []string { return nil }
	}
	if d.seen == nil {
		d.seen = func(bus.Stored, map[int]string) {}
	}
	if d.now == nil {
		d.now = time.Now
	}
	if d.newID == nil {
		d.newID = func() string { return ulid.Make().String() }
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d
}

// Start begins to listen for the ends of turns, until ctx ends or Stop is
// called. A desk that was not started only polls for them.
func (d *Desk) Start(ctx context.Context) {
	ctx, d.stop = context.WithCancel(ctx)
	for _, kind := range []events.Kind{events.KindTurnCompleted, events.KindTurnAbandoned} {
		d.wg.Go(func() { d.listen(ctx, kind) })
	}
}

// Stop ends what Start began, and waits for it.
func (d *Desk) Stop() {
	if d.stop != nil {
		d.stop()
	}
	d.wg.Wait()
}

// Bus is what the desk works on.
func (d *Desk) Bus() bus.Bus { return d.bus }

// load reads a turn once the commits up to atLeast can be seen.
func (d *Desk) load(ctx context.Context, key events.TurnKey, atLeast uint64) (View, error) {
	commits, err := d.bus.Load(ctx, key, atLeast)
	if err != nil {
		return View{}, err
	}
	return viewOf(key, commits), nil
}

// viewOf folds commits that are all of a turn.
func viewOf(key events.TurnKey, commits []bus.Stored) View {
	plain := make([]events.Commit, len(commits))
	for i, s := range commits {
		plain[i] = s.Commit
	}
	return View{Turn: lifecycle.Fold(key, plain...), Commits: commits}
}

// fresh reads a turn as it stood in the log when the call began: who has just
// written finds what was written.
func (d *Desk) fresh(ctx context.Context, key events.TurnKey) (View, error) {
	head, err := d.bus.Head(ctx)
	if err != nil {
		return View{}, err
	}
	return d.load(ctx, key, head.Seq-1)
}

// act decides a command on a turn as it stands, and appends what follows: load,
// decide, append, wake, barrier, in that order. It returns the turn as it then
// stood, with a refusal too.
func (d *Desk) act(ctx context.Context, key events.TurnKey, cmd lifecycle.Command) (lifecycle.Turn, error) {
	t, _, err := d.actAnew(ctx, key, cmd)
	return t, err
}

// actAnew is act, and says whether everything was so already.
func (d *Desk) actAnew(ctx context.Context, key events.TurnKey, cmd lifecycle.Command) (t lifecycle.Turn, already bool, err error) {
	if err := key.Check(); err != nil {
		return t, false, err
	}
	v, err := d.fresh(ctx, key)
	for range maxTries {
		if err != nil {
			return t, false, err
		}
		s, done, err := d.append(ctx, v, cmd)
		var moved *bus.Conflict
		switch {
		case errors.As(err, &moved):
			v, err = d.load(ctx, key, moved.Last)
			if err != nil {
				return t, false, err
			}
			continue
		case err != nil:
			return v.Turn, false, err
		case done:
			return v.Turn, true, d.tell(ctx, v.Turn, v.seq(), d.newID())
		}
		t = lifecycle.FoldOn(v.Turn, s.Commit)
		d.seen(s, heardOf(t))
		err = d.tell(ctx, t, s.Seq, s.Commit.ID)
		if err == nil || errors.Is(err, ErrUntold) {
			d.publish(ctx, t, s)
		}
		return t, false, err
	}
	return v.Turn, false, fmt.Errorf("turn %s: %w: it moved on %d times: try again", key, bus.ErrConflict, maxTries)
}

// append decides and appends one commit. done says that everything was so already.
func (d *Desk) append(ctx context.Context, v View, cmd lifecycle.Command) (s bus.Stored, done bool, err error) {
	now := d.now().UTC().Truncate(time.Microsecond)
	records, err := lifecycle.Decide(v.Turn, lifecycle.Env{Now: now}, silent(cmd))
	if err != nil || len(records) == 0 {
		return bus.Stored{}, err == nil, err
	}
	c := events.Commit{ID: d.newID(), Turn: v.Turn.Key, At: now, Records: records}
	s, err = d.bus.Append(ctx, c, v.seq())
	return s, false, err
}

// tell wakes whoever runs the turn, and waits for the barrier. An act that was
// done before is told again: the first time it may not have been heard.
func (d *Desk) tell(ctx context.Context, t lifecycle.Turn, seq uint64, id string) error {
	var untold error
	if t.Ended == nil {
		it := bus.Item{ID: id, Turn: t.Key, Placement: placement(t), Seq: seq}
		if err := d.bus.Wake(ctx, it); err != nil {
			untold = fmt.Errorf("turn %s: %w: %w", t.Key, ErrUntold, err)
		}
	}
	if err := d.durable(ctx); err != nil {
		return err
	}
	return untold
}

// durable waits for the barrier: nothing is answered before.
func (d *Desk) durable(ctx context.Context) error {
	if err := d.bus.Barrier().Wait(ctx); err != nil {
		return fmt.Errorf("%w: its durability is not known: %w", bus.ErrUnavailable, err)
	}
	return nil
}

// publish tells whoever listens of a commit that is past the barrier. Live events
// are best effort: an act does not fail for them.
func (d *Desk) publish(ctx context.Context, t lifecycle.Turn, s bus.Stored) {
	tools := heardOf(t)
	if !d.bus.Wanted(s, tools) {
		return
	}
	if err := d.bus.Publish(ctx, s, tools); err != nil {
		d.log.Warn("live events not sent", "turn", t.Key.String(), "err", err)
	}
}

// heardOf are the tools of a turn's calls that some node has let through: those
// that are registered, as far as a door can tell.
func heardOf(t lifecycle.Turn) map[int]string {
	m := make(map[int]string)
	for i, c := range t.Calls {
		if c.Verdict != nil {
			m[i] = c.Tool
		}
	}
	return m
}

func placement(t lifecycle.Turn) string {
	if t.Submitted == nil {
		return ""
	}
	return t.Submitted.Placement
}
