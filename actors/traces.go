package actors

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// Bounds of what a node remembers of traces.
const (
	mostTraces = 256
	mostBytes  = 32 << 20 // of all of them together
)

// recall holds what the traces that a node has read last leave to their next turns, so that
// the next turn of one reads on from there, and planning it costs the same however long the
// trace is. It holds what the log holds, past the barrier, and nothing else: what was folded
// in another generation of the log counts for nothing. The zero recall is empty.
type recall struct {
	mu    sync.Mutex
	of    map[string]*legacy
	uses  int // counts looks
	bytes int // of all
}

// legacy is the fold of a trace, and where the log goes on behind what it holds. All of it
// is recall's to guard: several turns of the trace may be planned at once, and each reads
// on for all.
type legacy struct {
	generation uint32
	next       events.Position
	heritage   lifecycle.Heritage
	bytes      int // as they count in recall
	used       int
}

// get is what is remembered of a trace in a generation; empty, at its beginning, for nothing.
func (r *recall) get(trace string, generation uint32) *legacy {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.of[trace]
	if !ok || l.generation != generation {
		r.drop(trace)
		l = &legacy{generation: generation, next: events.Position{Generation: generation}}
		if r.of == nil {
			r.of = make(map[string]*legacy)
		}
		r.of[trace] = l
	}
	r.uses++
	l.used = r.uses
	return l
}

// from is where to read on.
func (r *recall) from(l *legacy) events.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return l.next
}

// add folds a commit, unless another reader has done so. Each reads everything from where
// the fold ended as it began, so that nothing is left out between.
func (r *recall) add(l *legacy, s bus.Stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Seq >= l.next.Seq {
		l.heritage.Add(s.Seq, s.Commit)
		l.next = events.Position{Generation: s.Generation, Seq: s.Seq + 1}
	}
}

// count counts what a fold has grown by, and forgets those that were not looked at for
// longest. What is longer than all may be is not remembered.
func (r *recall) count(trace string, l *legacy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[trace] != l {
		return // forgotten meanwhile
	}
	r.bytes += l.heritage.Size() - l.bytes
	if l.bytes = l.heritage.Size(); l.bytes > mostBytes {
		r.drop(trace)
	}
	for len(r.of) > mostTraces || r.bytes > mostBytes {
		var oldest string
		for name, o := range r.of {
			if oldest == "" || o.used < r.of[oldest].used {
				oldest = name
			}
		}
		r.drop(oldest)
	}
}

// leaves is what a fold says that a turn inherits.
func (r *recall) leaves(l *legacy, turn string, first uint64, paths, approvals []string) (events.Inherited, json.RawMessage, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return l.heritage.Leaves(turn, first, paths, approvals)
}

// forget has the next turn of a trace begin at the trace's beginning.
func (r *recall) forget(trace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(trace)
}

// drop is called with mu held.
func (r *recall) drop(trace string) {
	if l := r.of[trace]; l != nil {
		r.bytes -= l.bytes
		delete(r.of, trace)
	}
}

// inherited is what the trace leaves to a turn whose submission is in the log, as far as it
// can need it.
func (n *Node) inherited(ctx context.Context, key events.TurnKey, s *events.TurnSubmitted, paths, approvals []string) (events.Inherited, json.RawMessage, error) {
	l, err := n.readOn(ctx, key.Trace)
	if errors.Is(err, bus.ErrRewound) {
		n.recall.forget(key.Trace)
		l, err = n.readOn(ctx, key.Trace)
	}
	if err != nil {
		return events.Inherited{}, nil, err
	}
	in, shared, ok := n.recall.leaves(l, key.Turn, n.cfg.Bus.First(), paths, approvals)
	if ok {
		return in, shared, nil
	}
	n.recall.forget(key.Trace) // it may have been folded from more than the log has now
	h := lifecycle.HeritageWithout(key.Turn, s.Archived())
	err = n.cfg.Bus.Read(ctx, events.Position{}, bus.Filter{Trace: key.Trace}, false, func(s bus.Stored) error {
		h.Add(s.Seq, s.Commit)
		return nil
	})
	in, shared, _ = h.Leaves(key.Turn, 0, paths, approvals)
	return in, shared, err
}

// readOn folds what has come of a trace since it was read last. A generation that begins
// meanwhile is bus.ErrRewound.
func (n *Node) readOn(ctx context.Context, trace string) (*legacy, error) {
	l := n.recall.get(trace, n.cfg.Bus.Generation())
	defer n.recall.count(trace, l)
	err := n.cfg.Bus.Read(ctx, n.recall.from(l), bus.Filter{Trace: trace}, false, func(s bus.Stored) error {
		n.recall.add(l, s)
		return nil
	})
	if err == nil && n.cfg.Bus.Generation() != l.generation {
		err = bus.ErrRewound
	}
	return l, err
}
