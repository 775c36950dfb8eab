package main

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// turnReader hands out the turns of a log, each whole. As long as there is room they
// are handed out once the log was read, in the order in which they began. Where there
// is not, those that have ended go first, and what is then added to one of them, and
// the largest of the others, is read again.
type turnReader struct {
	log     source
	filter  bus.Filter
	damaged func(damage)
	// each takes a turn. already says that its first so many commits were handed out
	// before, as the whole turn.
	each func(key events.TurnKey, commits []bus.Stored, already int) error

	held  map[events.TurnKey]*gathered
	order []events.TurnKey // of held, as they began
	size  int
	limit int
	seed  maphash.Seed
	gone  map[uint64]int          // by the hash of a turn, since they are many: how many commits of it were handed out; 0: none was
	again map[events.TurnKey]bool // of those, the ones to be read again
}

// gathered is a turn that is held.
type gathered struct {
	commits []bus.Stored
	size    int
	ended   bool
}

func newTurnReader(log source, f bus.Filter, damaged func(damage), each func(events.TurnKey, []bus.Stored, int) error) *turnReader {
	return &turnReader{
		log: log, filter: f, damaged: damaged, each: each, limit: openBytes,
		held: make(map[events.TurnKey]*gathered), gone: make(map[uint64]int), seed: maphash.MakeSeed(), again: make(map[events.TurnKey]bool),
	}
}

// run reads the log once, and some turns again.
func (t *turnReader) run(ctx context.Context) error {
	if err := scan(ctx, t.log, t.filter, t.damaged, t.add); err != nil {
		return err
	}
	if err := t.handOut(func(*gathered) bool { return true }, 0); err != nil {
		return err
	}
	again := make([]events.TurnKey, 0, len(t.again))
	for k := range t.again {
		again = append(again, k)
	}
	slices.SortFunc(again, func(a, b events.TurnKey) int {
		return cmp.Or(cmp.Compare(a.Trace, b.Trace), cmp.Compare(a.Turn, b.Turn))
	})
	for _, k := range again {
		var commits []bus.Stored
		err := scan(ctx, t.log, bus.Filter{Trace: k.Trace, Turn: k.Turn}, func(damage) {}, func(s bus.Stored) error {
			commits = append(commits, s)
			return nil
		})
		if err == nil {
			err = t.each(k, commits, t.gone[t.hash(k)])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *turnReader) add(s bus.Stored) error {
	key := s.Commit.Turn
	if _, gone := t.gone[t.hash(key)]; gone {
		t.again[key] = true
		return nil
	}
	g := t.held[key]
	if g == nil {
		g = &gathered{}
		t.held[key] = g
		t.order = append(t.order, key)
	}
	n := weight(s.Commit)
	g.commits, g.size, t.size = append(g.commits, s), g.size+n, t.size+n
	for _, r := range s.Commit.Records {
		g.ended = g.ended || events.EndsTurn(r.Event.Kind())
	}
	if t.size <= t.limit {
		return nil
	}
	if err := t.handOut(func(g *gathered) bool { return g.ended }, t.limit/2); err != nil {
		return err
	}
	t.spill()
	return nil
}

// handOut hands out held turns, as they began, until at most so many bytes are held.
func (t *turnReader) handOut(which func(*gathered) bool, down int) error {
	for _, k := range t.order {
		g := t.held[k]
		if t.size <= down && down > 0 || !which(g) {
			continue
		}
		if err := t.each(k, g.commits, 0); err != nil {
			return err
		}
		t.gone[t.hash(k)] = len(g.commits)
		t.drop(k)
	}
	t.order = slices.DeleteFunc(t.order, func(k events.TurnKey) bool { return t.held[k] == nil })
	return nil
}

func (t *turnReader) hash(k events.TurnKey) uint64 { return maphash.Comparable(t.seed, k) }

func (t *turnReader) drop(key events.TurnKey) {
	t.size -= t.held[key].size
	delete(t.held, key)
}

// spill leaves the largest turns for later, until half of the room is free.
func (t *turnReader) spill() {
	if t.size <= t.limit {
		return
	}
	keys := slices.Clone(t.order)
	slices.SortStableFunc(keys, func(a, b events.TurnKey) int { return cmp.Compare(t.held[b].size, t.held[a].size) })
	for _, k := range keys {
		if t.size <= t.limit/2 {
			break
		}
		t.gone[t.hash(k)], t.again[k] = 0, true
		t.drop(k)
	}
	t.order = slices.DeleteFunc(t.order, func(k events.TurnKey) bool { return t.held[k] == nil })
}
