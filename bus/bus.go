// Package bus states what the log, the queue and the other keepers promise.
// bus/jetlog keeps the promises in NATS JetStream, bus/memlog in memory with a
// fault hook; bus/bustest is the suite that both pass.
//
// Everything here may be used from many goroutines at once.
package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/events"
)

var (
	// ErrConflict says that the turn's history moved on: load it, decide again.
	// Errors of Append wrap it in a *Conflict where the sequence is known.
	ErrConflict = errors.New("history moved on")
	// ErrUncertain says that an append may have been kept: repeat the same
	// commit at the same expectation, or load and look for its id.
	ErrUncertain = errors.New("append outcome unknown")
	// ErrUnavailable says that the log cannot be reached now: try again later.
	ErrUnavailable = errors.New("log unavailable")
	// ErrTooLarge says that a commit is over MaxCommit, and nothing was kept.
	ErrTooLarge = errors.New("commit too large")
	// ErrNotFound says that there is no such entry or blob.
	ErrNotFound = errors.New("not found")
	// ErrExists says that a cell with that key exists already.
	ErrExists = errors.New("exists already")
	// ErrRewound says that the log lost its tail: rebuild what was derived from it.
	ErrRewound = errors.New("log rewound")
)

// MaxCommit is the size in bytes of the largest encoded commit.
const MaxCommit = 512 << 10

// MaxInline is the size in bytes of the largest body that stays inside a commit.
const MaxInline = 64 << 10

// Conflict is an ErrConflict that knows the turn's last sequence.
type Conflict struct{ Last uint64 }

func (c *Conflict) Error() string { return fmt.Sprintf("history moved on to sequence %d", c.Last) }

// Unwrap makes errors.Is(err, ErrConflict) hold.
func (c *Conflict) Unwrap() error { return ErrConflict }

// Unreadable is the error of Load and Read where a commit cannot be decoded: Err
// says why, and is an events.ErrFormat or an events.ErrNewerFormat. The log stands;
// a Read from the sequence behind goes on.
type Unreadable struct {
	Seq uint64 // of the commit
	Err error
}

func (u *Unreadable) Error() string { return fmt.Sprintf("commit at sequence %d: %v", u.Seq, u.Err) }

// Unwrap is why the commit cannot be decoded.
func (u *Unreadable) Unwrap() error { return u.Err }

// Stored is a commit at its place in the log.
type Stored struct {
	Generation uint32
	Seq        uint64 // stream sequence
	Size       int    // of the commit in bytes, as it is stored
	Commit     events.Commit
}

// Position is the place of the event at index.
func (s Stored) Position(index int) events.Position {
	return events.Position{Generation: s.Generation, Seq: s.Seq, Index: index}
}

// Log is the truth: commits, one history a turn.
type Log interface {
	// Append adds c to its turn, whose last commit must be at sequence at (0:
	// none yet), and returns what was stored, decoded from the stored bytes.
	// It settles uncertainty itself where it can: a repeated try of a commit
	// that was kept returns it as stored. It returns ErrConflict if another
	// commit is last, ErrUncertain if ctx ended before it could tell,
	// ErrTooLarge, or ErrUnavailable if nothing was sent.
	Append(ctx context.Context, c events.Commit, at uint64) (Stored, error)

	// Load returns the turn's commits in order, once those up to sequence
	// atLeast can be seen (0: whatever is there). It reads the hot stream only
	// where what is read otherwise has stood still for a while; then a sequence that the
	// log does not have, since it went with a lost tail, is not waited for any longer. An
	// unknown turn has no commits, and that is no error. A commit that cannot be decoded
	// is an *Unreadable.
	Load(ctx context.Context, turn events.TurnKey, atLeast uint64) ([]Stored, error)

	// Head is the position behind the last commit of the whole log.
	Head(ctx context.Context) (events.Position, error)
}

// Filter says which commits a Tail yields; its zero value yields all.
type Filter struct {
	Trace string // "" means every trace
	Turn  string // "" means every turn; needs Trace
}

// Tail reads the whole log in order.
type Tail interface {
	// Read calls yield for each commit from the position on, in order, until
	// it has seen the log's head at the time of the call, or for ever if
	// follow. Nothing beyond the barrier is yielded. It returns what yield
	// returned, ctx's error, ErrRewound if from is not in this log any more, or
	// an *Unreadable for a commit that cannot be decoded.
	Read(ctx context.Context, from events.Position, f Filter, follow bool, yield func(Stored) error) error
}

// Barrier says what is durable.
type Barrier interface {
	// Wait returns once everything that was acknowledged before the call
	// survives a power failure, as far as the mode promises. An error means
	// that durability is lost: the node must stop.
	Wait(ctx context.Context) error
	// Mode is the durability in force: barrier, always, interval=D, external or memory.
	Mode() string
}

// Item is a turn that waits for a node. It is a hint: only the log decides.
type Item struct {
	ID        string         `msgpack:"id"` // of this message; a wake-up's is the commit's that caused it
	Turn      events.TurnKey `msgpack:"t"`
	Placement string         `msgpack:"p,omitempty"` // "" means events.DefaultPlacement
	Seq       uint64         `msgpack:"s,omitempty"` // of the turn's commit that caused it; 0 if unknown
	// Generation is the log's when Commit was stored: after a lost tail another commit
	// may stand there. 0 where there is no Commit.
	Generation uint32 `msgpack:"g,omitempty"`
	// Commit is that commit's stored form if it is the turn's first and small,
	// so that a claim need not read. nil otherwise.
	Commit []byte `msgpack:"c,omitempty"`
}

// Delivery is an item in a node's hands. While it is neither acked nor nakked
// and is extended in time, no other node gets it.
type Delivery interface {
	Item() Item
	Reply() string           // the message's reply subject, for Queue.Return
	Deliveries() int         // 1 for the first
	Of(reply string) bool    // whether that is the reply subject of a delivery, this or another, of the same message
	Extend() error           // in-progress: another AckWait from now
	Ack() error              // done with it for good
	Nak(time.Duration) error // give it back, to be delivered after the delay
}

// Queue hands turns to nodes.
type Queue interface {
	// Push adds an item to its placement's queue. A repeated id within the
	// server's duplicate window is added once.
	Push(ctx context.Context, it Item) error
	// Pull waits for one item of any of the placements. It holds none back:
	// nothing is fetched ahead of a caller who waits. An item whose caller has
	// gone is given back at once.
	Pull(ctx context.Context, placements []string) (Delivery, error)
	// Return gives back a message by its reply subject, in somebody's name.
	Return(ctx context.Context, reply string) error
	// Held calls yield for each turn's item that is in somebody's hands: delivered
	// and not acked. It may yield a few that are not, never one that was acked. It
	// is a look, changes nothing, and returns what yield returned.
	Held(ctx context.Context, yield func(Item) error) error
	// Oldest returns the item that was pushed first of those in the placement's queue
	// that were not acked, in hands or not, or ErrNotFound where there is none. It is
	// a look, and changes nothing.
	Oldest(ctx context.Context, placement string) (Item, error)
}

// Wakes are the wake-ups: they have a queue of their own, heard whatever the room.
type Wakes interface {
	// Wake adds a wake-up: somebody appended to the turn.
	Wake(ctx context.Context, it Item) error
	// PullWake waits for one wake-up. Its delivery is returned as a turn's is.
	PullWake(ctx context.Context) (Delivery, error)
}

// Timers are messages that reach the queue at their time, whatever restarts.
type Timers interface {
	// Set makes a timer, or replaces the one with that id: its item is pushed
	// to the wake-up queue at the time, or at once if that has passed.
	Set(ctx context.Context, id string, at time.Time, it Item) error
	// Stop removes a timer. One that does not exist is no error.
	Stop(ctx context.Context, id string) error
}

// MaxCellKey is the length in bytes of the longest key of a cell.
const MaxCellKey = 200

// Cell is an entry of a bucket.
type Cell struct {
	Key      string // 1 to MaxCellKey of A-Z a-z 0-9 _ - = / .
	Value    []byte // nil: deleted or expired
	Revision uint64 // of the bucket
	// Left is when the cell was written, by this machine's clock, where the log is this
	// process's own and nobody has written the cell since it was opened; else zero.
	// Only Get tells it.
	Left time.Time
}

// Buckets of cells.
const (
	BucketPresence = "presence" // boot id of each live node, with a TTL
	BucketBreaker  = "breaker"  // one cell a circuit
	BucketLock     = "lock"     // one cell a resource
	BucketKeys     = "keys"     // idempotency: one cell a key
	BucketSecrets  = "secrets"  // sealed values of arguments: one cell a value, with a TTL
)

// Buckets are all of them.
var Buckets = []string{BucketPresence, BucketBreaker, BucketLock, BucketKeys, BucketSecrets}

// Cells are small values that the cluster shares, changed by compare-and-swap.
type Cells interface {
	// Get returns the cell, or ErrNotFound. A replica may answer with what the cell was
	// a moment before: only a Put at its revision knows that it is the latest.
	Get(ctx context.Context, bucket, key string) (Cell, error)
	// Put writes value where the cell's revision is rev (0: there is none, or
	// it was deleted or has expired) and returns the new revision. It lives for
	// ttl, at least 1 s, or for ever if ttl is 0; each Put sets it anew.
	// Otherwise it returns ErrConflict.
	Put(ctx context.Context, bucket, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error)
	// Delete removes the cell where its revision is rev, or returns ErrConflict.
	Delete(ctx context.Context, bucket, key string, rev uint64) error
	// Watch calls yield with each cell that exists, then with an empty Cell to
	// say that all were seen, then with each change, among which are those that a
	// replica of the keeper's had not yet when it was asked, until ctx ends or yield
	// returns an error. Keys begin with prefix.
	Watch(ctx context.Context, bucket, prefix string, yield func(Cell) error) error
}

// Blobs keep bytes under their digest.
type Blobs interface {
	// Put stores data and returns its reference. The same data is stored once.
	Put(ctx context.Context, data []byte, media string) (events.BlobRef, error)
	// Get returns the bytes, checked against the digest, or ErrNotFound.
	Get(ctx context.Context, ref events.BlobRef) ([]byte, error)
}

// Live tells whoever listens now. It is best effort; who needs all reads a Tail.
type Live interface {
	// Publish sends each event of the commit as a JSON CloudEvent on its own
	// subject. The caller has waited for the barrier, progress excepted. tools
	// maps an offset to its tool's name; one that is missing is _unknown.
	Publish(ctx context.Context, s Stored, tools map[int]string) error
	// Wanted says whether anybody may listen for one of the commit's events: where nobody
	// does, a publisher spares itself the barrier. It errs on the side of yes.
	Wanted(s Stored, tools map[int]string) bool
	// Listen calls yield for each event on a subject that matches pattern (of
	// NATS, below sluice.live.) until ctx ends. yield must not block.
	Listen(ctx context.Context, pattern string, yield func(subject string, cloudEvent []byte)) error
}

// Notes are small messages between nodes, on core NATS: asking an owner whether
// a turn is its own.
type Notes interface {
	// Ask sends data to the boot and waits for its answer, or returns
	// ErrUnavailable if nobody serves that boot.
	Ask(ctx context.Context, boot string, data []byte) ([]byte, error)
	// Serve answers what is asked of the boot until ctx ends.
	Serve(ctx context.Context, boot string, answer func([]byte) []byte) error
}

// Bus is all of the promises, kept by one keeper.
type Bus interface {
	Log
	Tail
	Queue
	Wakes
	Timers
	Live
	Notes
	Barrier() Barrier
	Cells() Cells
	Blobs() Blobs
	// Generation is the log's, 1 for a new one. It grows after an unclean start.
	Generation() uint32
	// First is the sequence of the first commit that retention has left, as the last Read
	// or Head of this bus has found it. 0 means that none has looked yet.
	First() uint64
	// Close gives everything back. Nothing it started runs afterwards.
	Close() error
}
