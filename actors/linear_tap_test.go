package actors

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// tapped is a bus whose writes to one bucket of cells are noted.
type tapped struct {
	bus.Bus
	tap  *tap
	gate *gate
}

func (b tapped) Cells() bus.Cells { return tappedCells{b.Bus.Cells(), b.tap, b.gate} }

// tap is what was written to a bucket, by all nodes.
type tap struct {
	clock  stopwatch
	bucket string
	mu     sync.Mutex
	wrote  []written
}

// written is one write: of value behind a revision, nil for a deletion. got is its
// revision, 0 where it failed.
type written struct {
	key       string
	value     []byte
	behind    uint64
	got       uint64
	ttl       time.Duration
	err       error
	call, end int64
}

func (p *tap) note(w written, bucket string) {
	if bucket != p.bucket {
		return
	}
	w.end = p.clock.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote = append(p.wrote, w)
}

// kept are the writes to a cell that were acknowledged, in the order of their revisions.
func (p *tap) kept(key string) []written {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []written
	for _, w := range p.wrote {
		if w.key == key && w.err == nil && w.value != nil {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b written) int { return cmp.Compare(a.got, b.got) })
	return out
}

// between is what was written to a cell in a time, as text.
func (p *tap) between(key string, from, to int64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	b.WriteString(" and this was written to the cell:\n")
	for _, w := range p.wrote {
		if w.key == key && w.end >= from && w.call <= to {
			fmt.Fprintf(&b, "  [%v, %v] %d behind %d (%v): %s\n", time.Duration(w.call), time.Duration(w.end), w.got, w.behind, w.err, cmp.Or(string(w.value), "deleted"))
		}
	}
	return b.String()
}

type tappedCells struct {
	bus.Cells
	tap  *tap
	gate *gate
}

func (c tappedCells) Get(ctx context.Context, bucket, key string) (bus.Cell, error) {
	c.gate.pass()
	return c.Cells.Get(ctx, bucket, key)
}

func (c tappedCells) Put(ctx context.Context, bucket, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	c.gate.pass()
	w := written{key: key, value: value, behind: rev, ttl: ttl, call: c.tap.clock.now()}
	w.got, w.err = c.Cells.Put(ctx, bucket, key, value, rev, ttl)
	c.tap.note(w, bucket)
	return w.got, w.err
}

func (c tappedCells) Delete(ctx context.Context, bucket, key string, rev uint64) error {
	c.gate.pass()
	w := written{key: key, behind: rev, call: c.tap.clock.now()}
	w.err = c.Cells.Delete(ctx, bucket, key, rev)
	c.tap.note(w, bucket)
	return w.err
}
