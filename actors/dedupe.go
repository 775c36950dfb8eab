package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// keyCell is the name of a scoped idempotency key's cell.
func keyCell(scoped string) string { return lifecycle.Digest([]byte(scoped))[len("sha256:"):] }

// dedupe looks the call's key up, takes it where it is free, and registers the
// turn with a holder that has not ended.
func (n *Node) dedupe(ctx context.Context, o owe, key events.CallKey) (lifecycle.Finding, error) {
	tool, _ := n.cfg.Registry.Lookup(o.asked.Tool)
	scoped := scopedKey(o.asked, tool.Name, n.gates.keyOf(tool, o.asked))
	for {
		entry, rev, err := n.keyEntry(ctx, scoped)
		if err != nil {
			return lifecycle.Finding{}, err
		}
		holder, err := n.holderOf(ctx, entry, key)
		if err != nil {
			return lifecycle.Finding{}, err
		}
		ruling, same := lifecycle.Dedupe(key, o.asked.Args.Hash, entry, holder)
		next := entry
		switch ruling {
		case lifecycle.KeyTake:
			next = &lifecycle.KeyEntry{Holder: key.String(), Hash: o.asked.Args.Hash, Seq: o.at, Waiting: othersWaiting(entry, key.TurnKey())}
		case lifecycle.KeyMine:
			if entry.Hash != o.asked.Args.Hash { // a person has let it through with other arguments: the key is theirs now
				mine := *entry
				mine.Hash, next = o.asked.Args.Hash, &mine
			}
		case lifecycle.KeyWait:
			next = registered(entry, key.TurnKey())
		}
		if next == entry {
			return lifecycle.DedupeFinding(ruling, scoped, entry, same), nil
		}
		err = n.putKey(ctx, scoped, next, rev)
		if errors.Is(err, bus.ErrConflict) || err == nil && ruling == lifecycle.KeyWait {
			continue // read anew: once registered, the holder too, or its end could be missed
		}
		return lifecycle.DedupeFinding(ruling, scoped, next, same), err
	}
}

// scopedKey is a key within its principal and tool. A child is another principal than its
// namesake below another parent, and no name can be written so that it reads as another.
func scopedKey(a *Asked, tool, key string) string {
	who := a.Turn.Principal
	if len(who.Parents) == 0 && !strings.ContainsAny(who.ID, " \"") {
		return who.ID + " " + tool + " " + key
	}
	var chain strings.Builder
	for _, id := range append([]string{who.ID}, who.Parents...) {
		chain.WriteString(strconv.Quote(id))
	}
	return chain.String() + " " + tool + " " + key
}

// registered is the entry with the turn among those to wake, or the entry
// itself where it is there already or there is no room.
func registered(e *lifecycle.KeyEntry, turn events.TurnKey) *lifecycle.KeyEntry {
	if slices.Contains(e.Waiting, turn.String()) || len(e.Waiting) >= lifecycle.MaxWaiting {
		return e
	}
	next := *e
	next.Waiting = append(slices.Clone(e.Waiting), turn.String())
	return &next
}

// othersWaiting are those who wait at an entry whose holder gives the key back, but for
// the turn that takes it: they wait for that one now.
func othersWaiting(e *lifecycle.KeyEntry, turn events.TurnKey) []string {
	if e == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(e.Waiting), func(w string) bool { return w == turn.String() })
}

func (n *Node) keyEntry(ctx context.Context, scoped string) (*lifecycle.KeyEntry, uint64, error) {
	cell, err := n.cfg.Bus.Cells().Get(ctx, bus.BucketKeys, keyCell(scoped))
	if errors.Is(err, bus.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var e lifecycle.KeyEntry
	if err := json.Unmarshal(cell.Value, &e); err != nil {
		return nil, 0, fmt.Errorf("the entry of key %s: %w", keyCell(scoped), err)
	}
	return &e, cell.Revision, nil
}

func (n *Node) putKey(ctx context.Context, scoped string, e *lifecycle.KeyEntry, rev uint64) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = n.cfg.Bus.Cells().Put(ctx, bus.BucketKeys, keyCell(scoped), b, rev, n.cfg.Keys)
	return err
}

// holderOf is the turn of the call that holds the key, as the log has it now: an
// older view could say that the holder still runs after its end has woken
// everybody who waits.
func (n *Node) holderOf(ctx context.Context, e *lifecycle.KeyEntry, key events.CallKey) (lifecycle.Turn, error) {
	if e == nil || e.Holder == key.String() {
		return lifecycle.Turn{}, nil
	}
	holder, err := events.ParseCallKey(e.Holder)
	if err != nil {
		return lifecycle.Turn{}, nil // Dedupe knows what an entry that points nowhere means
	}
	head, err := n.cfg.Bus.Head(ctx)
	if err != nil {
		return lifecycle.Turn{}, err
	}
	stored, err := n.cfg.Bus.Load(ctx, holder.TurnKey(), max(e.Seq, head.Seq-1))
	return lifecycle.Fold(holder.TurnKey(), commits(stored)...), err
}

// wakeWaiting wakes the turns that wait for a key whose holder has ended, once
// that end is past the barrier. What fails is tried again for a while; after that
// their backstop asks.
func (n *Node) wakeWaiting(scoped string, holder events.CallKey) {
	var entry *lifecycle.KeyEntry
	var woken []string
	const looks = 3 // at an entry that is another's, before that is believed: a replica may lag
	others := 0
	for wait := 50 * time.Millisecond; wait < keyBackstop/4 && others < looks; wait *= 2 {
		var err error
		if entry == nil {
			var mine bool
			if entry, mine, err = n.closeKey(scoped, holder); err == nil && !mine {
				others++
			}
		}
		if entry != nil && len(entry.Waiting) == 0 {
			return
		}
		if entry != nil {
			if err = n.cfg.Bus.Barrier().Wait(n.ctx); err != nil {
				n.barrierFailed(n.ctx, err)
				return
			}
			if woken, err = n.wakeAll(scoped, entry, woken); err == nil {
				return
			}
		}
		if !n.pause(n.ctx, wait) {
			return
		}
		if err != nil {
			n.log.Warn("turns that wait for a key could not all be woken: trying again", "err", err)
		}
	}
}

// closeKey returns the key's entry with everybody in it who waits for the holder, which
// has ended: whoever is not in it will see that end. A replica may give an entry that is
// older; so it is written once more as it was read, which only the latest can be. nil
// without an error means that what was read is not the latest, or, where mine is false,
// that it is another holder's: then that one's end wakes those who wait.
func (n *Node) closeKey(scoped string, holder events.CallKey) (e *lifecycle.KeyEntry, mine bool, err error) {
	e, rev, err := n.keyEntry(n.ctx, scoped)
	if err != nil || e == nil || e.Holder != holder.String() {
		return nil, false, err
	}
	err = n.putKey(n.ctx, scoped, e, rev)
	switch {
	case err == nil:
		return e, true, nil
	case errors.Is(err, bus.ErrConflict):
		return nil, true, nil
	}
	return nil, true, err
}

// wakeAll wakes those who wait at a key's entry and were not woken before.
func (n *Node) wakeAll(scoped string, e *lifecycle.KeyEntry, woken []string) ([]string, error) {
	var failed error
	for _, w := range e.Waiting {
		turn, err := events.ParseTurnKey(w)
		if err != nil || slices.Contains(woken, w) {
			continue
		}
		id := "key." + keyCell(scoped)[:16] + "." + strconv.FormatUint(e.Seq, 10) + "." + turn.Trace + "." + turn.Turn
		if err := n.cfg.Bus.Wake(n.ctx, bus.Item{ID: id, Turn: turn}); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		woken = append(woken, w)
	}
	return woken, failed
}
