package memlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
)

// bucket is a set of cells.
type bucket struct {
	name  string
	last  uint64 // revision
	cells map[string]*cell
	eyes  map[*eye]struct{}
}

// cell is a value at a revision.
type cell struct {
	bus.Cell
	expires time.Time // zero: never
}

// eye is a watcher and what it has not seen yet.
type eye struct {
	prefix string
	news   []bus.Cell
}

func newBucket(name string) *bucket {
	return &bucket{name: name, cells: map[string]*cell{}, eyes: map[*eye]struct{}{}}
}

type cells struct{ v *View }

// Get is bus.Cells'.
func (c cells) Get(ctx context.Context, name, key string) (bus.Cell, error) {
	b, err := c.enter(ctx, name, key)
	if err != nil {
		return bus.Cell{}, fmt.Errorf("get cell %s/%s: %w", name, key, err)
	}
	defer c.v.log.mu.Unlock()
	found := b.cells[key]
	if found == nil {
		return bus.Cell{}, fmt.Errorf("get cell %s/%s: %w", name, key, bus.ErrNotFound)
	}
	return copyCell(found.Cell), nil
}

// Put is bus.Cells'.
func (c cells) Put(ctx context.Context, name, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	if ttl != 0 && ttl < time.Second {
		return 0, fmt.Errorf("put cell %s/%s: a time to live of %v is under 1s", name, key, ttl)
	}
	value = append([]byte{}, value...) // never nil: nil means deleted
	rev, err := c.write(ctx, name, key, value, rev, ttl)
	if err != nil {
		return 0, fmt.Errorf("put cell %s/%s: %w", name, key, err)
	}
	return rev, nil
}

// Delete is bus.Cells'. What is not there, at revision 0, is no error.
func (c cells) Delete(ctx context.Context, name, key string, rev uint64) error {
	if _, err := c.write(ctx, name, key, nil, rev, 0); err != nil {
		return fmt.Errorf("delete cell %s/%s: %w", name, key, err)
	}
	return nil
}

func (c cells) write(ctx context.Context, name, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	kept, fault := true, error(nil)
	if hook := c.v.log.faults.Load().Put; hook != nil {
		kept, fault = hook(name, key)
	}
	if fault != nil && !kept {
		return 0, fault
	}
	b, err := c.enter(ctx, name, key)
	if err != nil {
		return 0, err
	}
	defer c.v.log.mu.Unlock()
	now := uint64(0)
	if found := b.cells[key]; found != nil {
		now = found.Revision
	}
	if now != rev {
		return 0, cmp.Or(fault, fmt.Errorf("it is at revision %d, not %d: %w", now, rev, bus.ErrConflict))
	}
	expires := time.Time{}
	if ttl > 0 {
		expires = c.v.log.now().Add(ttl)
	}
	c.v.log.put(b, key, value, expires)
	return b.last, fault
}

// enter checks the names and takes the lock.
func (c cells) enter(ctx context.Context, name, key string) (*bucket, error) {
	b := c.v.log.buckets[name]
	switch {
	case b == nil:
		return nil, fmt.Errorf("no bucket has that name; there are %v", bus.Buckets)
	case !validKey(key):
		return nil, fmt.Errorf("a key is 1 to %d of A-Z a-z 0-9 _ - = / . and has no empty part between dots", bus.MaxCellKey)
	}
	return b, c.v.enter(ctx)
}

func validKey(key string) bool {
	for i := range len(key) {
		c := key[i]
		if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_-=/.", c) >= 0 {
			continue
		}
		return false
	}
	return len(key) > 0 && len(key) <= bus.MaxCellKey && !slices.Contains(strings.Split(key, "."), "")
}

// put writes a cell, or deletes it if value is nil, and tells the watchers. The
// lock is held.
func (l *Log) put(b *bucket, key string, value []byte, expires time.Time) {
	before := b.cells[key]
	l.note(false, func() { l.place(b, key, before) })
	b.last++
	now := &cell{bus.Cell{Key: key, Value: value, Revision: b.last}, expires}
	if value == nil {
		l.place(b, key, nil)
	} else {
		l.place(b, key, now)
	}
	for e := range b.eyes {
		if strings.HasPrefix(key, e.prefix) {
			e.news = append(e.news, copyCell(now.Cell))
		}
	}
	l.announce()
}

// place puts a cell where it belongs, and sees to its end. The lock is held.
func (l *Log) place(b *bucket, key string, c *cell) {
	if c == nil {
		delete(b.cells, key)
		return
	}
	b.cells[key] = c
	if c.expires.IsZero() {
		return
	}
	void := func() bool { return b.cells[key] != c }
	l.due.add(c.expires, void, func() { l.put(b, key, nil, time.Time{}) })
}

func copyCell(c bus.Cell) bus.Cell {
	if c.Value != nil {
		c.Value = append([]byte{}, c.Value...)
	}
	return c
}

// Watch is bus.Cells'.
func (c cells) Watch(ctx context.Context, name, prefix string, yield func(bus.Cell) error) error {
	b := c.v.log.buckets[name]
	if b == nil {
		return fmt.Errorf("watch %s: no bucket has that name; there are %v", name, bus.Buckets)
	}
	e := &eye{prefix: prefix}
	if err := c.v.enter(ctx); err != nil {
		return fmt.Errorf("watch %s: %w", name, err)
	}
	for _, found := range sorted(b.cells) {
		if strings.HasPrefix(found.Key, prefix) {
			e.news = append(e.news, copyCell(found.Cell))
		}
	}
	e.news = append(e.news, bus.Cell{})
	b.eyes[e] = struct{}{}
	c.v.log.mu.Unlock()
	defer func() {
		c.v.log.mu.Lock()
		defer c.v.log.mu.Unlock()
		delete(b.eyes, e)
	}()
	for {
		var news []bus.Cell
		err := c.v.wait(ctx, func() bool {
			news, e.news = e.news, nil
			return len(news) > 0
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", name, err)
		}
		for _, n := range news {
			if err := yield(n); err != nil {
				return err
			}
		}
	}
}
