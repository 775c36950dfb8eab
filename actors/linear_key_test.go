package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// Clients submit turns whose calls have few idempotency keys, some with other
// arguments, to three nodes, while servers come and go and nodes are killed with what
// they run: one call at a time has a key.
func TestLinearKeys(t *testing.T) {
	bothPlaces(t, func(t *testing.T, p place, rnd *rand.Rand) {
		r := &keyRun{began: map[string]int64{}, left: map[string]int64{}}
		r.fleet = newFleet(t, p, time.Hour, bus.BucketKeys, func(c *Config) {
			c.Breaker.Failures = 1 << 20 // these tests are not about breakers
		}, r.payment())
		r.run(rnd, keyRounds, r.client)
		pause(t.Context(), 2500*time.Millisecond) // longer than the server remembers ids
		var wg sync.WaitGroup
		for k := range keyRounds * *linearTimes / 2 {
			wg.Go(func() { r.turn(fleetClients, "again-"+keyName(k), keyName(k), paymentOf(k), 1) })
		}
		wg.Wait()
		t.Log(tally(r.ops, func(op porcupine.Operation) string { return string(op.Input.(keyOp).do) }))
		checkLinear(t, keyModel(), r.ops, func(part []porcupine.Operation, from, to int64) string {
			return r.tap.between(keyCell("tester pay "+part[0].Input.(keyOp).key), from, to)
		})
		r.checkEntries()
	})
}

// keyRounds is even: each client uses each key twice.
const keyRounds = 10

func keyName(i int) string { return fmt.Sprint("order-", i) }

// payment is what the tool of these tests is asked to do.
type payment struct {
	Amount int    `json:"amount"`
	Fate   string `json:"fate"`
}

// keyRun is one run of many clients.
type keyRun struct {
	*fleet
	// Under mu:
	began, left map[string]int64 // when the tool was entered and left, by call
	ops         []porcupine.Operation
}

// payment is an irreversible tool that notes when it runs.
func (r *keyRun) payment() tools.Tool {
	return testTool("pay", events.Irreversible, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		call := in.Call.String()
		r.mu.Lock()
		if _, again := r.began[call]; again {
			r.t.Errorf("call %s runs twice", call)
		}
		r.began[call] = r.clock.now()
		r.mu.Unlock()
		defer func() {
			r.mu.Lock()
			r.left[call] = r.clock.now()
			r.mu.Unlock()
		}()
		var p payment
		if err := json.Unmarshal(in.Args, &p); err != nil {
			return events.Result{}, err
		}
		switch p.Fate {
		case "slow":
			if !pause(ctx, 300*time.Millisecond) {
				return events.Result{}, ctx.Err()
			}
		case "none":
			return events.Result{}, &tools.Error{Message: "refused, nothing was paid", Effects: events.EffectsNone}
		case "possible":
			return events.Result{}, &tools.Error{Message: "the connection was lost", Class: events.ClassCancelled}
		}
		return echo(ctx, in)
	})
}

func (r *keyRun) client(id int, rnd *rand.Rand, round int) {
	p := paymentOf(round / 2)
	if rnd.IntN(10) == 0 {
		p.Amount = 2
	}
	calls := 1 + rnd.IntN(6)/5
	name := fmt.Sprintf("c%d-%d", id, round)
	turn, ok := r.turn(id, name, keyName(round/2), p, calls)
	if !ok {
		return
	}
	for i, c := range turn.Calls {
		if c.Outcome != nil && c.Started != nil && c.Outcome.Effects == events.EffectsPossible && rnd.IntN(4) > 0 {
			r.resolve(id, turn.Key, i, keyName(round/2), p, []events.Effects{events.EffectsNone, events.EffectsDone}[rnd.IntN(2)])
		}
	}
}

// paymentOf is what most calls with a key are to do.
func paymentOf(key int) payment {
	return payment{Amount: 1, Fate: []string{"possible", "slow", "none", "possible", "done"}[key%5]}
}

// args are what calls with one key are compared by.
func (p payment) args() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // a number and a word
	}
	return string(b)
}

// turn submits calls with one key, waits for their end and records it.
func (r *keyRun) turn(id int, name, key string, p payment, calls int) (lifecycle.Turn, bool) {
	ctx, stop := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer stop()
	var list []events.RawCall
	for range calls {
		list = append(list, events.RawCall{Tool: "pay", Key: key, Args: events.Body{Text: p.args()}})
	}
	turn := events.TurnKey{Trace: "linear", Turn: name}
	b, call := r.node(id).cfg.Bus, r.clock.now()
	if err := hand(ctx, b, turn, events.TurnSubmitted{Calls: list, Principal: events.Principal{ID: "tester"}}); err != nil {
		r.t.Errorf("submit %s: %v", turn, err)
		return lifecycle.Turn{}, false
	}
	for {
		if stored, err := b.Load(ctx, turn, 0); err == nil {
			if t := lifecycle.Fold(turn, commits(stored)...); t.Ended != nil {
				for _, v := range lifecycle.Laws(commits(stored)) {
					r.t.Errorf("law: %s", v)
				}
				r.note(id, key, p, t, call)
				return t, true
			}
		}
		if !pause(ctx, 10*time.Millisecond) {
			r.t.Errorf("turn %s has not ended: %s", turn, r.standing(turn))
			return lifecycle.Turn{}, false
		}
	}
}

// hand submits a turn, and goes on until that is certain.
func hand(ctx context.Context, b bus.Bus, turn events.TurnKey, s events.TurnSubmitted) error {
	recs, err := lifecycle.Decide(lifecycle.Turn{Key: turn}, lifecycle.Env{Now: time.Now()}, lifecycle.Submit{Turn: s})
	if err != nil {
		return err
	}
	c := events.Commit{ID: ulid.Make().String(), Turn: turn, At: time.Now().UTC(), Records: recs}
	var st bus.Stored
	for st, err = b.Append(ctx, c, 0); err != nil && !errors.Is(err, bus.ErrConflict) && pause(ctx, 20*time.Millisecond); {
		st, err = b.Append(ctx, c, 0)
	}
	if err != nil {
		return err
	}
	it := bus.Item{ID: c.ID, Turn: turn, Seq: st.Seq}
	for err = b.Push(ctx, it); err != nil && pause(ctx, 20*time.Millisecond); {
		err = b.Push(ctx, it)
	}
	return err
}

// note records what has become of the calls of a turn.
func (r *keyRun) note(id int, key string, p payment, t lifecycle.Turn, call int64) {
	now := r.clock.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range t.Calls {
		op := keyOp{key: key, call: t.Key.Call(i).String(), args: p.args()}
		add := func(do keyVerb, from, to int64) {
			op.do = do
			r.ops = append(r.ops, porcupine.Operation{ClientId: 2*id + i, Input: op, Call: from, Return: to})
		}
		switch e := c.Terminal.(type) {
		case *events.Deduplicated:
			op.of, op.effects = e.Of, e.Outcome.Effects
			add(keyReuse, call, now)
			continue
		case *events.Denied:
			switch e.Code {
			case events.IdempotencyConflict:
				add(keyConflict, call, now)
			case events.UnknownOutcome:
				add(keyBlocked, call, now)
			default:
				r.t.Errorf("call %s is denied: %s %s", op.call, e.Code, e.Reason)
			}
			continue
		}
		if c.Started == nil || c.Outcome == nil {
			r.t.Errorf("call %s ended %s", op.call, c.Last)
			continue
		}
		began, ran := r.began[op.call]
		left, over := r.left[op.call]
		if !ran { // its node was killed before
			began = now
		}
		if !over {
			left = call
		}
		add(keyBegin, call, began)
		op.effects = c.Outcome.Effects
		add(keyEnd, left, now)
	}
}

// resolve is a person who finds out how a call ended.
func (r *keyRun) resolve(id int, turn events.TurnKey, i int, key string, p payment, effects events.Effects) {
	ctx, stop := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer stop()
	call := r.clock.now()
	for {
		m := r.node(id)
		err := m.appendAs(ctx, turn, lifecycle.Resolve{Call: i, By: boss, Effects: effects})
		stored, look := m.cfg.Bus.Load(ctx, turn, 0)
		t := lifecycle.Fold(turn, commits(stored)...)
		if look == nil && t.Calls[i].Resolved != nil {
			break
		}
		if !pause(ctx, 20*time.Millisecond) {
			r.t.Errorf("call %s is not resolved: %v", turn.Call(i), errors.Join(err, look))
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	op := keyOp{do: keyResolve, key: key, call: turn.Call(i).String(), args: p.args(), effects: effects}
	r.ops = append(r.ops, porcupine.Operation{ClientId: 2*id + i, Input: op, Call: call, Return: r.clock.now()})
}

// checkEntries holds every write of an entry to what no client can see: it carries
// the retention as its time to live, and each takes over from a holder that is known.
func (r *keyRun) checkEntries() {
	r.tap.mu.Lock()
	defer r.tap.mu.Unlock()
	if len(r.tap.wrote) == 0 {
		r.t.Error("no entry was written")
	}
	for _, w := range r.tap.wrote {
		if w.ttl != r.nodes[0].cfg.Keys {
			r.t.Errorf("entry %s at %d has a time to live of %v, the retention is %v", w.key, w.got, w.ttl, r.nodes[0].cfg.Keys)
		}
	}
}
