package main

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// turnReader hands out the turns of a log, each whole, in the order in which they
// ended. Turns that have not ended are held, within bounds; what is beyond them, and
// turns to which something was added after their end, is read again.
type turnReader struct {
	log     source
	filter  bus.Filter
	damaged func(damage)
	each    func(events.TurnKey, []bus.Stored) error

	open  map[events.TurnKey]*pile
	size  int
	limit int
	seed  maphash.Seed
	done  map[uint64]struct{} // hashes of turns that were handed out, once in a while of one that was not
	again map[events.TurnKey]bool
}

func newTurnReader(log source, f bus.Filter, damaged func(damage), each func(events.TurnKey, []bus.Stored) error) *turnReader {
	return &turnReader{
		log: log, filter: f, damaged: damaged, each: each, open: make(map[events.TurnKey]*pile), limit: openBytes,
		seed: maphash.MakeSeed(), done: make(map[uint64]struct{}), again: make(map[events.TurnKey]bool),
	}
}

// run reads the log once, and some turns again. A turn that is read again may be
// handed out twice: the second time it is longer.
func (t *turnReader) run(ctx context.Context) error {
	if err := scan(ctx, t.log, t.filter, t.damaged, t.add); err != nil {
		return err
	}
	for _, k := range byKey(t.open) {
		if err := t.each(k, t.open[k].commits); err != nil {
			return err
		}
	}
	clear(t.open)
	for _, k := range byKey(t.again) {
		var commits []bus.Stored
		err := scan(ctx, t.log, bus.Filter{Trace: k.Trace, Turn: k.Turn}, func(damage) {}, func(s bus.Stored) error {
			commits = append(commits, s)
			return nil
		})
		if err == nil {
			err = t.each(k, commits)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// byKey are the keys of a map by turn, in order.
func byKey[V any](m map[events.TurnKey]V) []events.TurnKey {
	out := make([]events.TurnKey, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b events.TurnKey) int {
		return cmp.Or(cmp.Compare(a.Trace, b.Trace), cmp.Compare(a.Turn, b.Turn))
	})
	return out
}

func (t *turnReader) add(s bus.Stored) error {
	key := s.Commit.Turn
	if t.again[key] {
		return nil
	}
	p := t.open[key]
	if p == nil {
		if _, was := t.done[maphash.Comparable(t.seed, key)]; was {
			t.again[key] = true
			return nil
		}
		p = &pile{}
		t.open[key] = p
	}
	n := weight(s.Commit)
	p.commits, p.size, t.size = append(p.commits, s), p.size+n, t.size+n
	if slices.ContainsFunc(s.Commit.Records, func(r events.Record) bool { return events.EndsTurn(r.Event.Kind()) }) {
		t.done[maphash.Comparable(t.seed, key)] = struct{}{}
		t.drop(key)
		return t.each(key, p.commits)
	}
	if t.size > t.limit {
		t.spill()
	}
	return nil
}

func (t *turnReader) drop(key events.TurnKey) {
	t.size -= t.open[key].size
	delete(t.open, key)
}

// spill leaves the largest turns for later, until half of the room is free.
func (t *turnReader) spill() {
	keys := byKey(t.open)
	slices.SortStableFunc(keys, func(a, b events.TurnKey) int { return cmp.Compare(t.open[b].size, t.open[a].size) })
	for _, k := range keys {
		if t.size <= t.limit/2 {
			return
		}
		t.again[k] = true
		t.drop(k)
	}
}
