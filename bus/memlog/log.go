package memlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// entry is a commit as stored.
type entry struct {
	generation uint32
	turn       events.TurnKey
	id         string
	body       []byte
}

// stored decodes the entry of a sequence. The lock is held, or e is a copy.
func (e entry) stored(seq uint64) (bus.Stored, error) {
	c, err := events.Decode(e.body)
	if err != nil {
		return bus.Stored{}, &bus.Unreadable{Seq: seq, Err: err}
	}
	return bus.Stored{Generation: e.generation, Seq: seq, Size: len(e.body), Commit: c}, nil
}

// Append is bus.Log's.
func (v *View) Append(ctx context.Context, c events.Commit, at uint64) (bus.Stored, error) {
	if err := ctx.Err(); err != nil {
		return bus.Stored{}, fmt.Errorf("append to turn %s after %d: %w: %w", c.Turn, at, bus.ErrUnavailable, err)
	}
	if err := c.Turn.Check(); err != nil {
		return bus.Stored{}, fmt.Errorf("append: %w", err)
	}
	body, err := events.Encode(c)
	if err != nil {
		return bus.Stored{}, fmt.Errorf("append to turn %s: %w", c.Turn, err)
	}
	if len(body) > bus.MaxCommit {
		return bus.Stored{}, fmt.Errorf("append to turn %s: %d bytes: %w", c.Turn, len(body), bus.ErrTooLarge)
	}
	kept, fault := true, error(nil)
	if hook := v.log.faults.Load().Append; hook != nil {
		kept, fault = hook(c)
	}
	if fault != nil && !kept {
		return bus.Stored{}, fmt.Errorf("append to turn %s after %d: %w", c.Turn, at, fault)
	}
	s, err := v.append(ctx, entry{turn: c.Turn, id: c.ID, body: body}, at)
	if fault != nil {
		err = fault // whatever came of it, its answer is lost
	}
	if err != nil {
		return bus.Stored{}, fmt.Errorf("append to turn %s after %d: %w", c.Turn, at, err)
	}
	return s, nil
}

func (v *View) append(ctx context.Context, e entry, at uint64) (bus.Stored, error) {
	if err := v.enter(ctx); err != nil {
		return bus.Stored{}, err
	}
	defer v.log.mu.Unlock()
	l := v.log
	seqs := l.turns[e.turn]
	last := uint64(0)
	if len(seqs) > 0 {
		last = seqs[len(seqs)-1]
	}
	if last != at {
		return l.refuse(e, last)
	}
	e.generation = l.generation()
	l.entries = append(l.entries, e)
	seq := uint64(len(l.entries))
	l.turns[e.turn] = append(seqs, seq)
	l.note(true, func() { l.drop(e.turn) })
	l.announce()
	return e.stored(seq)
}

// refuse names the turn's last sequence to a commit that expected another, or
// returns it as stored if this was a repeated try. The lock is held.
func (l *Log) refuse(e entry, last uint64) (bus.Stored, error) {
	for _, seq := range slices.Backward(l.turns[e.turn]) {
		if l.entries[seq-1].id == e.id {
			return l.entries[seq-1].stored(seq)
		}
	}
	return bus.Stored{}, &bus.Conflict{Last: last}
}

// drop takes back the log's last entry, which is the turn's. The lock is held.
func (l *Log) drop(turn events.TurnKey) {
	l.entries = l.entries[:len(l.entries)-1]
	seqs := l.turns[turn]
	if l.turns[turn] = seqs[:len(seqs)-1]; len(seqs) == 1 {
		delete(l.turns, turn)
	}
}

// Load is bus.Log's. Where the clock is given nothing can be waited for: if the
// log does not reach atLeast it returns bus.ErrUnavailable.
func (v *View) Load(ctx context.Context, turn events.TurnKey, atLeast uint64) ([]bus.Stored, error) {
	if err := turn.Check(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	var seqs []uint64
	var found []entry
	hook := v.log.faults.Load().Mirror
	err := v.wait(ctx, func() bool {
		l := v.log
		if uint64(len(l.entries)) < atLeast && l.real {
			return false
		}
		seqs, found = slices.Clone(l.turns[turn]), nil
		for _, seq := range seqs {
			found = append(found, l.entries[seq-1])
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("load turn %s: %w", turn, err)
	}
	seen := ^uint64(0)
	if hook != nil {
		seen = max(hook(turn, v.last()), atLeast)
	}
	var out []bus.Stored
	for i, e := range found {
		if seqs[i] > seen {
			break
		}
		s, err := e.stored(seqs[i])
		if err != nil {
			return nil, fmt.Errorf("load turn %s: %w", turn, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func (v *View) last() uint64 {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	return uint64(len(v.log.entries))
}

// Head is bus.Log's.
func (v *View) Head(ctx context.Context) (events.Position, error) {
	if err := v.enter(ctx); err != nil {
		return events.Position{}, err
	}
	defer v.log.mu.Unlock()
	return v.log.head(), nil
}

// head is the position of the next commit. The lock is held.
func (l *Log) head() events.Position {
	return events.Position{Generation: l.generation(), Seq: uint64(len(l.entries)) + 1}
}

type barrier struct{ log *Log }

// Wait is bus.Barrier's.
func (b barrier) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.log.sync()
}

// Mode is bus.Barrier's.
func (b barrier) Mode() string { return "memory" }

// sync makes everything durable that has been written: no power failure takes
// it back.
func (l *Log) sync() error {
	if hook := l.faults.Load().Barrier; hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.covered()
	return nil
}

// covered notes that nothing written so far can be taken back. The lock is held.
func (l *Log) covered() {
	clear(l.journal)
	l.journal = l.journal[:0]
	l.durable = len(l.entries)
}
