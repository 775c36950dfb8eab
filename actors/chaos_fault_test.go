package actors

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

var (
	chaosSeed   = flag.Uint64("chaos.seed", 0, "the first seed of the chaos test; 0 takes one from the clock")
	chaosRounds = flag.Int("chaos.rounds", 3, "how many seeds the chaos test runs")
)

// TestChaos runs real nodes over one log while everything goes wrong: writes lost or
// kept without an answer, mirrors that lag, messages twice or again, nodes killed,
// cut off and drained, people who approve and cancel at any moment. Then all is
// healed, and the promises must hold. A seed fixes what is done, not when: the
// nodes are as concurrent as in life.
func TestChaos(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano() % 1_000_000_000)
	}
	for i := range *chaosRounds {
		seed := seed + uint64(i)
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			t.Logf("reproduce: go test ./actors -run TestChaos -chaos.seed=%d -chaos.rounds=1", seed)
			newChaos(t, seed).run()
		})
	}
}

// chaos is one round.
type chaos struct {
	t    *testing.T
	log  *memlog.Log
	door *memlog.View

	mu   sync.Mutex
	rand *rand.Rand

	expire time.Duration
	rough  float64 // how many faults there are: 0 to 4 times the usual
	book   *ledger
	faults atomic.Bool
	boots  atomic.Int64
	nodes  []*chaosNode // alive
	dead   sync.WaitGroup
	turns  []events.TurnKey
	noWake map[events.TurnKey]bool // of whom nobody was told
}

type chaosNode struct {
	*Node
	view *memlog.View
	kill context.CancelFunc
}

func newChaos(t *testing.T, seed uint64) *chaos {
	w := &chaos{
		t: t, log: memlog.New(memlog.Config{AckWait: 400 * time.Millisecond}),
		rand: rand.New(rand.NewPCG(seed, 1)), book: newLedger(), noWake: make(map[events.TurnKey]bool),
	}
	w.door = w.log.View("door")
	w.expire = []time.Duration{700 * time.Millisecond, time.Minute}[w.pick(2)]
	w.rough = []float64{0, 1, 1, 2, 4}[w.pick(5)]
	w.log.SetFaults(&memlog.Faults{
		Append:  func(events.Commit) (bool, error) { return w.fault(0.04) },
		Push:    func(bus.Item) (bool, error) { return w.fault(0.04) },
		Put:     func(string, string) (bool, error) { return w.fault(0.03) },
		AckLost: func(bus.Item) bool { return w.faults.Load() && w.chance(0.1*w.rough) },
		Mirror: func(_ events.TurnKey, last uint64) uint64 {
			if !w.faults.Load() || w.chance(0.5) {
				return last
			}
			return last - min(last, uint64(w.pick(40)))
		},
	})
	return w
}

func (w *chaos) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

func (w *chaos) chance(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.Float64() < p
}

func (w *chaos) fault(p float64) (kept bool, err error) {
	if !w.faults.Load() || !w.chance(p*w.rough) {
		return false, nil
	}
	return w.chance(0.5), bus.ErrUncertain
}

func (w *chaos) wait(most time.Duration) time.Duration {
	return time.Duration(w.pick(int(most/time.Millisecond)+1)) * time.Millisecond
}

// run is the round: a storm, a healing, and the questions.
func (w *chaos) run() {
	for range 2 + w.pick(3) {
		w.start()
	}
	w.faults.Store(true)
	ctx, over := context.WithTimeout(w.t.Context(), 1500*time.Millisecond)
	defer over()
	var storm sync.WaitGroup
	storm.Go(func() { w.submitAll(ctx) })
	storm.Go(func() { w.people(ctx) })
	storm.Go(func() { w.disasters(ctx) })
	storm.Wait()
	w.faults.Store(false)
	for _, n := range w.nodes {
		n.view.Connect()
	}
	healed := time.Now()
	w.converge()
	w.questions(healed)
	for _, n := range w.nodes {
		stopNode(w.t, n.Node)
	}
	w.dead.Wait()
	w.emptyQueues()
}

// start adds a node with a boot id of its own.
func (w *chaos) start() {
	boot := fmt.Sprintf("n%d", w.boots.Add(1))
	reg, err := tools.NewRegistry(w.book.tools(w, boot)...)
	if err != nil {
		w.t.Error(err)
		return
	}
	view := w.log.View(boot)
	n, err := New(Config{
		Bus: view, Registry: reg, Authorizer: asking{}, Boot: boot, Workspace: w.t.TempDir(), Room: 1 + w.pick(6),
		Drain: 300 * time.Millisecond, Heartbeat: 100 * time.Millisecond, Approval: w.expire,
		Presence: time.Second, LockTTL: time.Second,
		Breaker: lifecycle.BreakerConfig{Window: 150 * time.Millisecond, Lease: 500 * time.Millisecond},
		Log:     slog.New(slog.NewTextHandler(testLog{w.t}, nil)).With("node", boot),
	})
	if err != nil {
		w.t.Error(err)
		return
	}
	n.backstop = 2 * time.Second
	ctx, kill := context.WithCancel(w.t.Context())
	for n.Start(ctx) != nil { // its presence could not be written: it is tried again, as a supervisor would
		if !pause(ctx, 5*time.Millisecond) {
			kill()
			return
		}
	}
	w.nodes = append(w.nodes, &chaosNode{Node: n, view: view, kill: kill})
}

// asking lets a session's approvals and two tools reach a person.
type asking struct{ lax }

func (asking) Authorize(r policy.Request) policy.Verdict {
	v := lax{}.Authorize(r)
	if r.Tool == "maybe" {
		v.Decision = policy.Ask
	}
	if r.Tool == "never" || strings.Contains(string(r.Args), `"deny":true`) {
		v.Decision, v.Code, v.Reason = policy.Deny, events.PermissionDenied, "never"
	}
	return v
}

// ledger is the world outside: what each tool really did.
type ledger struct {
	mu      sync.Mutex
	effects map[string]int // by call
	keys    map[string]int // by idempotency key
	where   map[string]string
}

func newLedger() *ledger {
	return &ledger{effects: make(map[string]int), keys: make(map[string]int), where: make(map[string]string)}
}

func (l *ledger) act(boot string, in tools.Invocation, honour bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if honour && l.keys[in.Key] > 0 {
		return
	}
	l.effects[in.Call.String()]++
	l.where[in.Call.String()] += fmt.Sprintf(" attempt %d on %s at %s", in.Attempt, boot, time.Now().Format("05.000"))
	if in.Key != "" {
		l.keys[in.Key]++
	}
}

func (l *ledger) of(call string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.effects[call]
}

type chaosArgs struct {
	Key string `json:"k"`
	Res string `json:"r"`
}

func argsOf(args json.RawMessage) (a chaosArgs) {
	_ = json.Unmarshal(args, &a) // a tool's own functions may be given anything
	return a
}

// chaosTiers are the tools by the tier of their calls.
var chaosTiers = map[string]events.Tier{
	"read": events.Readonly, "slow": events.Readonly, "deaf": events.Readonly, "shaky": events.Readonly, "panicky": events.Readonly,
	"brittle": events.Readonly, "maybe": events.Irreversible, "never": events.Irreversible, "charge": events.Irreversible,
	"pay": events.Irreversible, "order": events.Irreversible, "refuse": events.Irreversible, "locked": events.Irreversible,
	"ask": events.Approval, "put": events.Reversible, "deafcharge": events.Irreversible,
}

func (l *ledger) tools(w *chaos, boot string) []tools.Tool {
	make1 := func(name string, run func(ctx context.Context, in tools.Invocation) (events.Result, error)) tools.Tool {
		return testTool(name, chaosTiers[name], run)
	}
	dawdle := func(most time.Duration) func(context.Context, tools.Invocation) (events.Result, error) {
		return func(ctx context.Context, in tools.Invocation) (events.Result, error) {
			if !pause(ctx, w.wait(most)) {
				return events.Result{}, ctx.Err()
			}
			return echo(ctx, in)
		}
	}
	effect := func(honour bool) func(context.Context, tools.Invocation) (events.Result, error) {
		return func(ctx context.Context, in tools.Invocation) (events.Result, error) {
			if !pause(ctx, w.wait(20*time.Millisecond)) {
				return events.Result{}, ctx.Err()
			}
			l.act(boot, in, honour)
			if !pause(ctx, w.wait(30*time.Millisecond)) {
				return events.Result{}, ctx.Err()
			}
			return echo(ctx, in)
		}
	}
	deaf := func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		pause(context.WithoutCancel(ctx), w.wait(300*time.Millisecond))
		return echo(ctx, in)
	}
	shaky := func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		if w.faults.Load() && w.chance(0.6) {
			return events.Result{}, &tools.Error{Code: events.ExecutionError, Class: events.ClassUnavailable, Message: "503"}
		}
		return echo(ctx, in)
	}
	panicky := func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		if w.chance(0.5) {
			panic("boom")
		}
		return echo(ctx, in)
	}
	refuse := func(context.Context, tools.Invocation) (events.Result, error) {
		return events.Result{}, &tools.Error{Code: events.NotFound, Message: "no such order", Effects: events.EffectsNone}
	}
	deafCharge := func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		l.act(boot, in, false)
		return deaf(ctx, in)
	}
	list := []tools.Tool{
		make1("read", dawdle(5*time.Millisecond)), make1("slow", dawdle(300*time.Millisecond)), make1("deaf", deaf),
		make1("shaky", shaky), make1("panicky", panicky), make1("brittle", echo), make1("maybe", effect(false)),
		make1("never", effect(false)), make1("charge", effect(false)), make1("pay", effect(false)), make1("order", effect(false)),
		make1("refuse", refuse), make1("locked", effect(false)), make1("ask", effect(false)), make1("put", effect(true)),
		make1("deafcharge", deafCharge),
	}
	for i := range list {
		l.specify(&list[i])
	}
	return list
}

// specify gives a tool what makes it hard.
func (l *ledger) specify(t *tools.Tool) {
	switch t.Name {
	case "brittle":
		t.Safe = func(json.RawMessage) bool { panic("a tool's own function") }
	case "pay":
		t.Probe = func(_ context.Context, in tools.Invocation) (tools.Finding, error) {
			if l.of(in.Call.String()) == 0 {
				return tools.Finding{}, nil
			}
			return tools.Finding{Found: true, Result: events.Result{Status: events.Success, Text: events.Body{Text: "paid"}}}, nil
		}
	case "put":
		t.HonoursKey = true
		t.Key = func(args json.RawMessage) string { return argsOf(args).Key }
	case "order":
		t.Key = func(args json.RawMessage) string { return argsOf(args).Key }
	case "locked":
		t.Resources = func(args json.RawMessage) []events.ResourceUse {
			return []events.ResourceUse{{Name: "db:" + argsOf(args).Res, Exclusive: true}}
		}
	case "shaky", "deaf":
		t.Limits.Retries = 1
	}
}

func (w *chaos) submitAll(ctx context.Context) {
	names := []string{"unregistered"}
	for name := range chaosTiers {
		names = append(names, name)
	}
	slices.Sort(names)
	for i := range 40 {
		s := events.TurnSubmitted{
			Principal: events.Principal{ID: "tester"}, CanAsk: w.chance(0.8), Disjoint: w.chance(0.5),
			Limits: events.Limits{Concurrency: w.pick(4), CallMS: 400},
		}
		if w.chance(0.15) {
			s.Limits.DeadlineMS = int64(50 + w.pick(600))
		}
		if w.chance(0.2) {
			s.OnError = events.OnErrorAbortRest
		}
		for range 1 + w.pick(5) {
			args := fmt.Sprintf(`{"k":"k%d","r":"r%d"}`, w.pick(4), w.pick(2))
			s.Calls = append(s.Calls, events.RawCall{Tool: names[w.pick(len(names))], Args: events.Body{Text: args}})
		}
		key := events.TurnKey{Trace: fmt.Sprint("t", i%5), Turn: fmt.Sprint("u", i)}
		w.enter(key, s)
		if !pause(ctx, w.wait(70*time.Millisecond)) {
			return
		}
	}
}

// enter is a door that does not give up.
func (w *chaos) enter(key events.TurnKey, s events.TurnSubmitted) {
	id, seq := w.act(key, lifecycle.Submit{Turn: s})
	it := bus.Item{ID: id, Turn: key, Seq: seq}
	w.insist(func() error { return w.door.Push(w.t.Context(), it) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns = append(w.turns, key)
}

func (w *chaos) insist(fn func() error) {
	for fn() != nil && pause(w.t.Context(), time.Millisecond) {
		continue
	}
}

// act appends a command of a door's or a person's. It returns "" where it was refused.
func (w *chaos) act(key events.TurnKey, cmd lifecycle.Command) (id string, seq uint64) {
	id = ulid.Make().String()
	for pause(w.t.Context(), 0) {
		stored, turn := w.fresh(key)
		if i := slices.IndexFunc(stored, func(s bus.Stored) bool { return s.Commit.ID == id }); i >= 0 {
			return id, stored[i].Seq // kept, and its answer was lost
		}
		now := time.Now().UTC().Truncate(time.Microsecond)
		recs, err := lifecycle.Decide(turn, lifecycle.Env{Now: now}, cmd)
		if err != nil || len(recs) == 0 {
			return "", 0
		}
		at := uint64(0)
		if len(stored) > 0 {
			at = stored[len(stored)-1].Seq
		}
		if s, err := w.door.Append(w.t.Context(), events.Commit{ID: id, Turn: key, At: now, Records: recs}, at); err == nil {
			return id, s.Seq
		}
	}
	return "", 0
}

func (w *chaos) fresh(key events.TurnKey) ([]bus.Stored, lifecycle.Turn) {
	head, err := w.door.Head(w.t.Context())
	if err != nil {
		w.t.Error(err)
	}
	stored, err := w.door.Load(w.t.Context(), key, head.Seq-1)
	if err != nil {
		w.t.Error(err)
	}
	return stored, lifecycle.Fold(key, commits(stored)...)
}

func (w *chaos) known() []events.TurnKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.turns)
}

// people approve, refuse and cancel whenever they like. Now and then a door dies
// before it has woken anybody.
func (w *chaos) people(ctx context.Context) {
	for pause(ctx, w.wait(15*time.Millisecond)) {
		keys := w.known()
		if len(keys) == 0 {
			continue
		}
		key := keys[w.pick(len(keys))]
		_, turn := w.fresh(key)
		if turn.Ended != nil || len(turn.Calls) == 0 {
			continue
		}
		w.decide(turn, turn.Calls[w.pick(len(turn.Calls))])
	}
}

func (w *chaos) decide(turn lifecycle.Turn, call *lifecycle.Call) {
	by := events.Principal{ID: "boss", Kind: "person"}
	var cmd lifecycle.Command
	switch {
	case call.Phase == lifecycle.PhaseAsking && w.chance(0.5):
		yes := lifecycle.Approve{Call: call.Offset, By: by, Scope: []string{"", events.ScopeSession}[w.pick(2)]}
		if w.chance(0.3) {
			args, err := lifecycle.Parse(fmt.Sprintf(`{"k":"k%d","deny":%t}`, w.pick(4), w.chance(0.3)))
			if err != nil {
				w.t.Error(err)
			}
			yes.Args = &args
		}
		cmd = yes
	case call.Phase == lifecycle.PhaseAsking:
		cmd = lifecycle.Reject{Call: call.Offset, By: by}
	case w.chance(0.08):
		cmd = lifecycle.CancelCall{Call: call.Offset, By: by, Reason: "enough"}
	case w.chance(0.03):
		cmd = lifecycle.CancelTurn{By: by, Reason: "enough"}
	default:
		return
	}
	id, seq := w.act(turn.Key, cmd)
	switch {
	case id == "":
	case w.faults.Load() && w.chance(0.1):
		w.mu.Lock()
		w.noWake[turn.Key] = true
		w.mu.Unlock()
	default:
		w.insist(func() error { return w.door.Wake(w.t.Context(), bus.Item{ID: id, Turn: turn.Key, Seq: seq}) })
	}
}

// duplicate delivers a turn's first message twice.
func (w *chaos) duplicate(key events.TurnKey) {
	if stored, _ := w.fresh(key); len(stored) > 0 {
		w.log.Duplicate(stored[0].Commit.ID)
	}
}

// disasters strike nodes and messages.
func (w *chaos) disasters(ctx context.Context) {
	var cut sync.WaitGroup
	defer cut.Wait()
	for pause(ctx, w.wait(100*time.Millisecond)) {
		i := w.pick(len(w.nodes))
		n := w.nodes[i]
		switch w.pick(7) {
		case 0: // killed, and started anew by somebody
			w.nodes = slices.Delete(w.nodes, i, i+1)
			n.view.Disconnect()
			n.kill()
			w.dead.Go(func() { stopNode(w.t, n.Node) })
			w.start()
		case 1: // drained
			w.nodes = slices.Delete(w.nodes, i, i+1)
			w.dead.Go(func() {
				err := n.Stop(w.t.Context())
				if err != nil && !errors.Is(err, bus.ErrUncertain) && !errors.Is(err, bus.ErrUnavailable) {
					w.t.Error(err)
				}
			})
			w.start()
		case 2, 3: // a zombie: cut off, and back
			d := w.wait(1200 * time.Millisecond)
			cut.Go(func() {
				n.view.Disconnect()
				pause(ctx, d)
				n.view.Connect()
			})
		case 4:
			w.log.Redeliver("")
		case 5:
			if keys := w.known(); len(keys) > 0 {
				w.duplicate(keys[w.pick(len(keys))])
			}
		}
	}
}
