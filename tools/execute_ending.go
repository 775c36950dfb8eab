package tools

import (
	"context"
	"sync"
	"time"
)

// Ending is what a tool knows of the process behind its attempt, beside its
// result.
type Ending struct {
	Exit   *int          // exit status; nil where no process ended by itself
	Signal string        // that ended the process, for example SIGKILL
	Output int64         // bytes emitted, before any limit; 0 means the result's own length
	Pids   []int         // what may still run; not empty means that the end is not confirmed
	Remote bool          // something may still run on another machine: the end is not confirmed either
	Grace  time.Duration // needed after the context has ended, on top of Options.Grace; at most MaxGrace
}

// Tell notes an Ending for the report of the attempt that ctx belongs to; the
// last one counts, and it may be told again while the tool runs, so that a tool
// which has to be given up has already named its processes. Like httptrace it
// reports past the return value, and changes nothing for the tool: a ctx that
// is not Execute's ignores it. It may be called from any goroutine.
func Tell(ctx context.Context, e Ending) {
	if b, ok := ctx.Value(boardKey{}).(*board); ok {
		b.write(e)
	}
}

type boardKey struct{}

func withBoard(ctx context.Context, b *board) context.Context {
	return context.WithValue(ctx, boardKey{}, b)
}

// board holds what was told last.
type board struct {
	mu   sync.Mutex
	told Ending
}

func (b *board) write(e Ending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = e
}

func (b *board) read() Ending {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.told
}
