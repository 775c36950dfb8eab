package actors

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// converge waits until every turn has ended. Meanwhile it is the sweep that the
// design names: it queues parked turns that somebody appended to, or whose time
// has come. Nothing else is helped along.
func (w *chaos) converge() {
	deadline := time.Now().Add(35 * time.Second)
	for next := time.Now().Add(time.Second); ; {
		open := w.open()
		if len(open) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, line := range open {
				w.t.Errorf("not ended: %s", line)
			}
			w.state()
			w.t.FailNow()
		}
		w.askAll()
		if time.Now().After(next) {
			next = time.Now().Add(time.Second)
			w.sweep()
		}
		pause(w.t.Context(), 20*time.Millisecond)
	}
}

func (w *chaos) open() []string {
	var out []string
	for _, key := range w.known() {
		if stored, turn := w.fresh(key); turn.Ended == nil {
			out = append(out, fmt.Sprintf("%s, claim %+v %s:%s", key, turn.Claim, turn.Broken, kinds(stored)))
		}
	}
	return out
}

// askAll has people decide what is still asked.
func (w *chaos) askAll() {
	for _, key := range w.known() {
		_, turn := w.fresh(key)
		for _, c := range turn.Calls {
			if c.Phase == lifecycle.PhaseAsking && w.chance(0.1) {
				w.decide(turn, c)
			}
		}
	}
}

func (w *chaos) sweep() {
	for _, key := range w.known() {
		stored, turn := w.fresh(key)
		if turn.Ended != nil || turn.Parked == nil {
			continue
		}
		late := 10 * time.Second // a wake-up or a timer should have come by then
		if w.noWake[key] {
			late = time.Second
		}
		last := stored[len(stored)-1].Commit
		silent := holds(last, events.KindTurnParked) || time.Since(last.At) < late
		if silent && (turn.Parked.Due.IsZero() || time.Since(turn.Parked.Due) < late) {
			continue
		}
		if !w.noWake[key] {
			w.t.Errorf("nobody has heard of what happened to %s, due %s, it is %s:%s", key, turn.Parked.Due, time.Now(), kinds(stored))
		}
		if err := w.door.Push(w.t.Context(), bus.Item{ID: ulid.Make().String(), Turn: key}); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *chaos) state() {
	w.t.Logf("%d messages are in somebody's hands", w.log.Redeliver(""))
	for {
		d, ok := w.door.TryPull([]string{events.DefaultPlacement, events.EndPlacement})
		if !ok {
			break
		}
		w.t.Logf("queued: %s %s", d.Reply(), d.Item().Turn)
	}
	for _, n := range w.nodes {
		turns, attempts := n.Running()
		n.mu.Lock()
		for key, s := range n.turns {
			w.t.Logf("node %s has %s, nudged %d", n.cfg.Boot, key, s.nudged)
		}
		n.mu.Unlock()
		w.t.Logf("node %s: %d turns, %d attempts, room %d of %d", n.cfg.Boot, turns, attempts, len(n.room), cap(n.room))
	}
}

// questions are what must hold once everything has ended.
func (w *chaos) questions(healed time.Time) {
	told := make(map[string]int)
	for _, key := range w.known() {
		stored, turn := w.fresh(key)
		for _, v := range lifecycle.Laws(commits(stored)) {
			w.t.Errorf("%s: law: %s; history:%s", key, v, kinds(stored))
		}
		ends := make(map[int]int)
		for _, s := range stored {
			for _, r := range s.Commit.Records {
				if events.IsTerminal(r.Event.Kind()) {
					ends[r.Call]++
				}
				if claim, ok := r.Event.(*events.TurnClaimed); ok {
					told["claimed:"+claim.Why]++
				}
				told[string(r.Event.Kind())]++
			}
		}
		for _, c := range turn.Calls {
			if ends[c.Offset] != 1 {
				w.t.Errorf("%s: call %d has %d terminals", key, c.Offset, ends[c.Offset])
			}
			w.effectsOf(key, c, kinds(stored))
		}
	}
	w.t.Log(told)
	w.keysOf()
	eventually(w.t, "an empty memory on every node", func() bool {
		for _, n := range w.nodes {
			if turns, attempts := n.Running(); turns != 0 || attempts != 0 {
				return false
			}
		}
		return true
	})
	quiet := 0
	eventually(w.t, "an ack of every message", func() bool {
		pause(w.t.Context(), 30*time.Millisecond)
		// Those in somebody's hands come again at once. A node that was cut off pulls
		// again after a pause.
		if quiet++; w.log.Redeliver("") > 0 || time.Since(healed) < backOff+100*time.Millisecond {
			quiet = 0
		}
		return quiet > 5
	})
	eventually(w.t, "the end of all leases, while the nodes live", func() bool { return w.locksFree() })
	for _, n := range w.nodes {
		n.hands.mu.Lock()
		for key := range n.hands.at {
			stored, _ := w.fresh(key.call.TurnKey())
			w.t.Errorf("node %s still remembers attempt %d of %s:%s", n.cfg.Boot, key.attempt, key.call, kinds(stored))
		}
		n.hands.mu.Unlock()
		n.locks.mu.Lock()
		for r, s := range n.locks.pids {
			w.t.Errorf("node %s still has a seat for lock %q: %d takes, held %v", n.cfg.Boot, r, s.takes, s.held)
		}
		n.locks.mu.Unlock()
	}
}

// effectsOf compares what the log says of a call with what it really did.
func (w *chaos) effectsOf(key events.TurnKey, c *lifecycle.Call, history string) {
	did := w.book.of(key.Call(c.Offset).String())
	bad := func(why string) {
		w.t.Errorf("%s call %d (%s) ended %s, did its effect %d times (%s): %s; history:%s",
			key, c.Offset, c.Tool, c.Last, did, w.book.where[key.Call(c.Offset).String()], why, history)
	}
	tier, known := chaosTiers[c.Tool]
	switch {
	case !known || tier == events.Readonly:
	case did > 1:
		bad("at most once is allowed")
	case c.Last == events.KindDenied && did != 0:
		bad("L10: denied")
	case c.Tool == "put": // one effect for one key: see keysOf
	case c.Last == events.KindCompleted && did != 1 && c.Tool != "refuse":
		bad("completed")
	case c.Outcome != nil && c.Last != events.KindDeduplicated && c.Outcome.Effects == events.EffectsNone && did != 0:
		bad("it says that it had none")
	}
	if c.Tool == "brittle" && c.Last != events.KindDenied && c.Last != events.KindCancelled && c.Last != events.KindTimedOut {
		bad("its tool's own function panics")
	}
}

// keysOf: one key, one effect.
func (w *chaos) keysOf() {
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	for key, n := range w.book.keys {
		if n > 1 && (strings.Contains(key, " order ") || strings.Contains(key, " put ")) {
			w.t.Errorf("key %q had %d effects", key, n)
		}
	}
}

// locksFree says whether no lease is held or waited for in the cluster.
func (w *chaos) locksFree() bool {
	for _, r := range []string{"db:r0", "db:r1", "db:"} {
		cell, err := w.door.Cells().Get(w.t.Context(), bus.BucketLock, lockCell(r))
		if err != nil {
			continue
		}
		var s lifecycle.LockState
		if json.Unmarshal(cell.Value, &s) == nil && !s.Empty(time.Now()) {
			return false
		}
	}
	return true
}

// emptyQueues: whatever was delivered was acked in the end.
func (w *chaos) emptyQueues() {
	w.log.Redeliver("")
	var left []string
	for {
		d, ok := w.door.TryPull([]string{events.DefaultPlacement, events.EndPlacement})
		if !ok {
			break
		}
		left = append(left, fmt.Sprintf("%s (%s, delivered %d times)", d.Item().Turn, d.Item().ID, d.Deliveries()-1))
		_ = d.Ack()
	}
	for {
		d, ok := w.door.TryPullWake()
		if !ok {
			break
		}
		if d.Deliveries() > 1 || !strings.HasPrefix(d.Item().ID, "timer.") { // one may come when all have stopped
			left = append(left, fmt.Sprintf("wake-up of %s (%s, delivered %d times)", d.Item().Turn, d.Item().ID, d.Deliveries()-1))
		}
		_ = d.Ack()
	}
	for _, l := range left {
		w.t.Errorf("still queued: %s", l)
	}
}
