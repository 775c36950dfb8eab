package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// waiting is who waits for the end of which turn.
type waiting struct {
	mu   sync.Mutex
	ears map[events.TurnKey]map[*waiter]struct{}
}

// waiter hears of one turn's end.
type waiter struct {
	key    events.TurnKey
	local  <-chan View
	live   chan uint64 // the log's sequence that holds the end
	cancel func()
}

// watch begins to hear of a turn's end. The caller must cancel.
func (d *Desk) watch(key events.TurnKey) *waiter {
	w := &waiter{key: key, live: make(chan uint64, 1)}
	unlocal := func() {}
	if d.local != nil {
		local := make(chan View, 1) // it is told once
		w.local, unlocal = local, d.local.Watch(key, func(v View) { local <- v })
	}
	d.waiting.add(w)
	w.cancel = func() {
		unlocal()
		d.waiting.remove(w)
	}
	return w
}

func (ws *waiting) add(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.ears == nil {
		ws.ears = make(map[events.TurnKey]map[*waiter]struct{})
	}
	if ws.ears[w.key] == nil {
		ws.ears[w.key] = make(map[*waiter]struct{})
	}
	ws.ears[w.key][w] = struct{}{}
}

func (ws *waiting) remove(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.ears[w.key], w)
	if len(ws.ears[w.key]) == 0 {
		delete(ws.ears, w.key)
	}
}

// tell says to everyone who waits for the turn that its end is at seq. It never blocks.
func (ws *waiting) tell(key events.TurnKey, seq uint64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.ears[key] {
		select {
		case w.live <- seq:
		default: // it has not looked at an earlier word yet, and will look now
		}
	}
}

// heard says whether anybody waits for the turn.
func (ws *waiting) heard(key events.TurnKey) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.ears[key]) > 0
}

// listen passes the live events of one kind on to those who wait, until ctx ends.
func (d *Desk) listen(ctx context.Context, kind events.Kind) {
	for ctx.Err() == nil {
		err := d.bus.Listen(ctx, string(kind)+".>", d.hear)
		if ctx.Err() != nil {
			return
		}
		d.log.Warn("live events cannot be heard: turns are polled meanwhile", "kind", kind, "error", err)
		pause(ctx, d.poll)
	}
}

// hear reads one live event of a turn's end. It does not block.
func (d *Desk) hear(subject string, cloudEvent []byte) {
	parts := strings.Split(strings.TrimPrefix(subject, bus.LivePrefix), ".")
	if len(parts) != 5 {
		return
	}
	key := events.TurnKey{Trace: parts[2], Turn: parts[3]}
	if !d.waiting.heard(key) {
		return
	}
	var ce struct {
		Position string `json:"position"`
	}
	seq := uint64(0)
	if json.Unmarshal(cloudEvent, &ce) == nil {
		if p, err := events.ParsePosition(ce.Position); err == nil {
			seq = p.Seq
		}
	}
	d.waiting.tell(key, seq)
}

// pause waits for a time or for ctx's end.
func pause(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Wait returns the turn once it has ended and that is durable, or as it stands
// once limit has passed (0: no limit): see View.Ended. It returns
// lifecycle.ErrNoTurn for a turn that was never submitted, ctx's error, and the
// errors of bus.Log.
func (d *Desk) Wait(ctx context.Context, key events.TurnKey, limit time.Duration) (View, error) {
	w := d.watch(key)
	defer w.cancel()
	v, err := d.Get(ctx, key)
	if err != nil {
		return View{}, err
	}
	return d.await(ctx, w, v, limit)
}

// await waits for the end of a turn that stands at v, however the word of it comes.
func (d *Desk) await(ctx context.Context, w *waiter, v View, limit time.Duration) (View, error) {
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	look := time.NewTicker(d.poll)
	defer look.Stop()
	var err error
	for !v.Ended() {
		select {
		case end := <-w.local:
			return d.whole(ctx, end)
		case seq := <-w.live:
			if end, ok := soon(w.local); ok {
				return d.whole(ctx, end)
			}
			v, err = d.load(ctx, w.key, seq)
		case <-look.C:
			v, err = d.load(ctx, w.key, v.seq())
		case <-late:
			return d.settled(ctx, w.key)
		case <-ctx.Done():
			return v, ctx.Err()
		}
		if err != nil {
			return v, err
		}
	}
	return v, d.durable(ctx)
}

// localLead is how long the word of a node in this process may come behind the
// live event of the same end. To wait so long is cheaper than to read.
const localLead = 2 * time.Millisecond

// soon takes the end of a turn that ran in this process, if it did.
func soon(local <-chan View) (View, bool) {
	if local == nil {
		return View{}, false
	}
	late := time.NewTimer(localLead)
	defer late.Stop()
	select {
	case end := <-local:
		return end, true
	case <-late.C:
		return View{}, false
	}
}

// settled is a turn as it stands, durable.
func (d *Desk) settled(ctx context.Context, key events.TurnKey) (View, error) {
	v, err := d.fresh(ctx, key)
	if err != nil {
		return v, err
	}
	return v, d.durable(ctx)
}

// whole is a view with all its commits: a node that took a turn over may not
// have seen its beginning.
func (d *Desk) whole(ctx context.Context, v View) (View, error) {
	if len(v.Commits) > 0 {
		return v, nil
	}
	return d.fresh(ctx, v.Turn.Key)
}
