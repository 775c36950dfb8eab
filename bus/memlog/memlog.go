// Package memlog keeps the promises of package bus in memory. It stores encoded
// bytes, as the real log does, so that state is folded from what was written.
// Several nodes may share one log, each through a View of its own that can be
// cut off; faults are put between a write and its answer by name.
//
// It starts no goroutine. With Config.Now nil it keeps time by the real clock,
// and calls that wait wake up by themselves. With Config.Now set, time is what
// that function says: what has fallen due is settled by the next call of any
// kind, and calls that wait are woken by Log.Tick.
package memlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Config is what a log can be told. Its zero value is good for tests that run
// by the real clock.
type Config struct {
	// Now is the log's only clock. nil means time.Now, and that waiting calls
	// wake up by themselves. Otherwise nothing waits for time: see Log.Tick.
	Now func() time.Time
	// AckWait is how long a delivery stays with its puller without a sign of
	// life; 0 means 15 s.
	AckWait time.Duration
	// Window is how long a pushed id is remembered, so that a second push adds
	// nothing; 0 means 100 ms, the shortest that the server allows.
	Window time.Duration
	// Generation is the log's first; 0 means 1.
	Generation uint32
	// Fault holds the faults from the start; nil means none. See Log.SetFaults.
	Fault *Faults
}

// Faults are hooks that decide the fate of writes. A nil hook is no fault. They
// are called without any lock held and may use the log's controls. They may be
// called from many goroutines at once.
//
// A hook that returns a nil error lets the write take its ordinary course. With
// an error the caller hears that error, and kept says whether the write took
// place all the same: bus.ErrUncertain with kept true is the lost answer, with
// kept false the lost write. What would have been refused anyway is not kept.
type Faults struct {
	// Append is asked before each append.
	Append func(c events.Commit) (kept bool, err error)
	// Push is asked before each push to a placement's queue or the wake-up queue.
	Push func(it bus.Item) (kept bool, err error)
	// Put is asked before each write to a cell, deletions included.
	Put func(bucket, key string) (kept bool, err error)
	// AckLost is asked at each ack; true loses it without a word, as a network does.
	AckLost func(it bus.Item) bool
	// Mirror is asked at each Load, with the log's last sequence, how far the
	// mirror has come. Load shows what is beyond only if atLeast demands it.
	Mirror func(turn events.TurnKey, last uint64) (seen uint64)
	// Barrier is asked at each barrier; its error is the barrier's.
	Barrier func() error
}

// Log is the memory that several nodes share.
type Log struct {
	now     func() time.Time
	real    bool // time passes by itself
	ackWait time.Duration
	window  time.Duration
	faults  atomic.Pointer[Faults]

	mu      sync.Mutex
	changed chan struct{} // closed at the next change; nil while nobody waits
	changes uint64
	closed  bool
	entries []entry // the entry of sequence n is at n-1
	begin   uint64  // sequence of the first entry that retention has left
	turns   map[events.TurnKey][]uint64
	spans   []span
	durable int        // this many entries are past the barrier
	journal []undoable // what is not, of every kind, oldest first
	due     agenda
	queues  map[string]*queue // by placement
	wake    *queue
	timers  map[string]*timer
	buckets map[string]*bucket
	blobs   map[string][]byte
	ears    map[*ear]struct{}
	desks   map[string]*desk // who answers, by boot id
	doors   []*door          // who answers requests of users; the next one first
	lines   []*line          // workers, and who hears them; of those that share, the next one first
}

// span is where a generation begins.
type span struct {
	generation uint32
	first      uint64
}

// undoable is a write that a power failure may take back.
type undoable struct {
	undo   func()
	commit bool // it is an append
}

// New makes an empty log.
func New(c Config) *Log {
	l := &Log{
		now: c.Now, real: c.Now == nil,
		ackWait: cmp.Or(c.AckWait, 15*time.Second),
		window:  cmp.Or(c.Window, 100*time.Millisecond),
		begin:   1,
		turns:   map[events.TurnKey][]uint64{},
		spans:   []span{{cmp.Or(c.Generation, 1), 1}},
		queues:  map[string]*queue{},
		timers:  map[string]*timer{},
		buckets: map[string]*bucket{},
		blobs:   map[string][]byte{},
		ears:    map[*ear]struct{}{},
		desks:   map[string]*desk{},
	}
	if l.real {
		l.now = time.Now
	}
	l.wake = newQueue(wakeName)
	for _, name := range bus.Buckets {
		l.buckets[name] = newBucket(name)
	}
	l.SetFaults(c.Fault)
	return l
}

// SetFaults replaces all faults; nil means none. Writes that have been asked
// about keep their fate.
func (l *Log) SetFaults(f *Faults) {
	if f == nil {
		f = &Faults{}
	}
	own := *f
	l.faults.Store(&own)
}

// Close closes the log for every view. Calls that wait return bus.ErrUnavailable.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.announce()
	return nil
}

// Tick settles what has fallen due and wakes every call that waits. It is
// needed only where Config.Now is set, after the clock was moved.
func (l *Log) Tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	l.announce()
}

// NextDue is the time of the earliest thing that will happen by itself: a
// redelivery, the end of a delay, a timer, an expiry. ok is false if there is none.
func (l *Log) NextDue() (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	return l.due.next()
}

// LoseTail is a power failure: appends that the barrier has not covered are
// lost, the last n of them (fewer if there are fewer; all if n is negative),
// with every other write made since the first one lost: pushes, acks, timers,
// cells, blobs. A new generation begins. It returns how many appends were lost.
func (l *Log) LoseTail(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	lost := 0
	for len(l.journal) > 0 && lost != n {
		last := l.journal[len(l.journal)-1]
		l.journal = l.journal[:len(l.journal)-1]
		last.undo()
		if last.commit {
			lost++
		}
	}
	l.covered() // what is left stands on the disk
	l.spans = append(l.spans, span{l.generation() + 1, uint64(len(l.entries)) + 1})
	l.announce()
	return lost
}

// Expire is retention: what stands before a sequence is gone from the log. What the
// barrier has not covered stays.
func (l *Log) Expire(before uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin = max(l.begin, min(before, uint64(l.durable)+1))
	for turn, seqs := range l.turns {
		i, _ := slices.BinarySearch(seqs, l.begin)
		if l.turns[turn] = seqs[i:]; i == len(seqs) {
			delete(l.turns, turn)
		}
	}
	l.announce()
}

func (l *Log) generation() uint32 { return l.spans[len(l.spans)-1].generation }

// note remembers how to take a write back. The lock is held.
func (l *Log) note(commit bool, undo func()) {
	l.journal = append(l.journal, undoable{undo, commit})
}

// announce wakes every call that waits. The lock is held.
func (l *Log) announce() {
	l.changes++
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// change is closed at the next change. The lock is held.
func (l *Log) change() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// View is one node's connection to a log. It is a bus.Bus.
type View struct {
	log  *Log
	name string
	cut  bool // disconnected; guarded by log.mu
	gone bool // closed; guarded by log.mu

	waits func(context.Context, func() (bool, error)) error // see WaitWith
}

var _ bus.Bus = (*View)(nil)

// View connects another node. The name is for error messages.
func (l *Log) View(name string) *View { return &View{log: l, name: name} }

// WaitWith has this view's calls that wait do so through wait, for whoever brings
// a scheduler of its own. wait calls try until it is done or fails, and returns its
// error, or ctx's once ctx has ended; another try is of use only once Log.Changes
// has grown. It is called BEFORE the view is used.
func (v *View) WaitWith(wait func(ctx context.Context, try func() (done bool, err error)) error) {
	v.waits = wait
}

// Changes grows with everything that a call may wait for.
func (l *Log) Changes() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

// Disconnect cuts the node off: every call returns bus.ErrUnavailable, calls
// that wait included, and nobody hears it answer. Its deliveries age.
func (v *View) Disconnect() { v.set(func() { v.cut = true }) }

// Connect ends a Disconnect.
func (v *View) Connect() { v.set(func() { v.cut = false }) }

// Close closes this view. Calls that wait return bus.ErrUnavailable. The log
// and its other views stay.
func (v *View) Close() error {
	v.set(func() { v.gone = true })
	return nil
}

func (v *View) set(f func()) {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	f()
	v.log.announce()
}

// Generation is the log's.
func (v *View) Generation() uint32 {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	return v.log.generation()
}

// First is bus.Bus's. A memory log knows it without a look.
func (v *View) First() uint64 {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	return v.log.begin
}

// Barrier is the log's.
func (v *View) Barrier() bus.Barrier { return barrier{v.log} }

// Cells are the log's.
func (v *View) Cells() bus.Cells { return cells{v} }

// Blobs are the log's.
func (v *View) Blobs() bus.Blobs { return blobs{v} }

// DuplicateWindow is how long a pushed id is remembered.
func (v *View) DuplicateWindow() time.Duration { return v.log.window }

// enter takes the lock for an operation and settles what is due. If it returns
// an error the lock is free again.
func (v *View) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return v.reach()
}

// reach is enter for whoever has no context.
func (v *View) reach() error {
	v.log.mu.Lock()
	if err := v.reachable(); err != nil {
		v.log.mu.Unlock()
		return err
	}
	v.log.settle()
	return nil
}

func (v *View) reachable() error {
	switch {
	case v.log.closed || v.gone:
		return fmt.Errorf("node %s: %w: it is closed", v.name, bus.ErrUnavailable)
	case v.cut:
		return fmt.Errorf("node %s: %w: it is cut off", v.name, bus.ErrUnavailable)
	}
	return nil
}
