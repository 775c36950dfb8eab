package actors

import (
	"context"
	"errors"
	"sync"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Bounds of what a node remembers of traces.
const (
	mostTraces = 64
	mostBytes  = 32 << 20 // of all of them together, as they are stored
)

// recall holds the commits of the traces that a node has read last, so that the next turn
// of one reads on from there: a session of single calls would read everything before each
// of them. It holds what the log holds, past the barrier, and nothing else; a log that has
// lost its tail begins a generation, and what was remembered of the one before counts for
// nothing. The zero recall is empty.
type recall struct {
	mu    sync.Mutex
	of    map[string]remembered
	uses  int // counts looks
	bytes int // of all
}

// remembered is a trace's commits, and where the log goes on behind them.
type remembered struct {
	commits []events.Commit
	bytes   int // of them, as they are stored
	next    events.Position
	used    int
}

// get is what is remembered of a trace in a generation; empty, at its beginning, for nothing.
func (r *recall) get(trace string, generation uint32) remembered {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.of[trace]
	if !ok || h.next.Generation != generation {
		return remembered{next: events.Position{Generation: generation}}
	}
	r.uses++
	h.used = r.uses
	r.of[trace] = h
	h.commits = h.commits[:len(h.commits):len(h.commits)] // whoever adds to it adds to a copy
	return h
}

// put remembers a trace, and forgets those that were not looked at for longest. What is
// longer than all may be is not remembered.
func (r *recall) put(trace string, h remembered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(trace)
	if h.bytes > mostBytes {
		return
	}
	if r.of == nil {
		r.of = make(map[string]remembered)
	}
	r.uses++
	h.used = r.uses
	r.of[trace], r.bytes = h, r.bytes+h.bytes
	for len(r.of) > mostTraces || r.bytes > mostBytes {
		oldest := trace
		for name, o := range r.of {
			if o.used < r.of[oldest].used {
				oldest = name
			}
		}
		r.forget(oldest)
	}
}

// forget is called with mu held.
func (r *recall) forget(trace string) {
	r.bytes -= r.of[trace].bytes
	delete(r.of, trace)
}

// traceHistory is every commit of a trace, in the log's order. It is not to be changed.
func (n *Node) traceHistory(ctx context.Context, trace string) ([]events.Commit, error) {
	h := n.recall.get(trace, n.cfg.Bus.Generation())
	err := n.readOn(ctx, trace, &h)
	if errors.Is(err, bus.ErrRewound) && len(h.commits) > 0 {
		h = remembered{next: events.Position{Generation: n.cfg.Bus.Generation()}}
		err = n.readOn(ctx, trace, &h)
	}
	if err != nil {
		return nil, err
	}
	n.recall.put(trace, h)
	return h.commits, nil
}

func (n *Node) readOn(ctx context.Context, trace string, h *remembered) error {
	return n.cfg.Bus.Read(ctx, h.next, bus.Filter{Trace: trace}, false, func(s bus.Stored) error {
		stored, err := events.Encode(s.Commit)
		if err != nil {
			return err // what was read can be written
		}
		h.commits, h.bytes = append(h.commits, s.Commit), h.bytes+len(stored)
		h.next = events.Position{Generation: s.Generation, Seq: s.Seq + 1}
		return nil
	})
}
