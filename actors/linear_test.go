package actors

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/bus/jetlog/jettest"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

var (
	linearSeed  = flag.Uint64("linear.seed", 0, "the seed of the linearizability tests; 0 takes one from the clock")
	linearTimes = flag.Int("linear.times", 1, "how many times longer than usual the linearizability tests are")
	linearHTML  = flag.String("linear.html", "", "a folder for pictures of histories that are not linearizable")
)

// linearLimit bounds one check. A right history takes milliseconds.
const linearLimit = 2 * time.Minute

// seeded is the test's own randomness, and says how to have it again.
func seeded(t *testing.T) *rand.Rand {
	seed := *linearSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano() % 1_000_000_000)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	t.Logf("reproduce: go test ./actors -run '^%s$' -linear.seed=%d -linear.times=%d", name, seed, *linearTimes)
	return rand.New(rand.NewPCG(seed, uint64(len(t.Name()))))
}

// stopwatch is the one clock of a history, in nanoseconds from its start.
type stopwatch struct{ start time.Time }

func newStopwatch() stopwatch { return stopwatch{time.Now()} }

func (s stopwatch) now() int64 { return int64(time.Since(s.start)) }

// of is a time of the machine's on this clock.
func (s stopwatch) of(t time.Time) int64 { return int64(t.Sub(s.start)) }

// place is where the cells are kept, and how that is disturbed.
type place struct {
	open    func() *jetlog.Bus
	disturb func(stream string, n int) // the n-th time
	heal    func()                     // after the last disturbance
}

// openBus opens a bus, and goes on until a server answers in time: the machine may have
// other things to do. It is closed with the test.
func openBus(t *testing.T, c jetlog.Config) *jetlog.Bus {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for {
		b, err := jetlog.Open(ctx, c)
		if err == nil {
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Errorf("close the bus: %v", err)
				}
			})
			return b
		}
		t.Logf("a bus opens later: %v", err)
		if !pause(ctx, backOff) {
			t.Fatal(err)
		}
	}
}

// alone is one server, which is stopped and started again.
func alone(t *testing.T) place {
	srv := jettest.Start(t)
	return place{
		open: func() *jetlog.Bus { return openBus(t, jetlog.Config{Connect: srv.Dial}) },
		disturb: func(string, int) {
			srv.Stop()
			srv.Start()
		},
		heal: func() {},
	}
}

// three is a cluster of three servers with three replicas, whose leader steps down
// or, each third time, is stopped and started again.
func three(t *testing.T) place {
	c := jettest.StartCluster(t)
	var away *jettest.Server
	heal := func() {
		if away != nil {
			away.Start()
			away = nil
			c.AwaitReady()
		}
	}
	return place{open: func() *jetlog.Bus { return openBus(t, jetlog.Config{Connect: c.Dial, Replicas: 3}) }, heal: heal, disturb: func(stream string, n int) {
		heal()
		if n%3 == 1 {
			if away = c.Leader(stream); away != nil {
				away.Stop()
			}
			return
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second) // nobody answers while there is no leader
		defer stop()
		if err := c.StepDown(ctx, stream); err != nil {
			t.Logf("disturbance %d: %v", n, err)
		}
	}}
}

// onePlace runs a test on one server, where more would not make a difference.
func onePlace(t *testing.T, test func(t *testing.T, p place, rnd *rand.Rand)) {
	t.Parallel()
	test(t, alone(t), seeded(t))
}

// bothPlaces runs a test on one server and on three.
func bothPlaces(t *testing.T, test func(t *testing.T, p place, rnd *rand.Rand)) {
	t.Parallel()
	t.Run("R1", func(t *testing.T) {
		t.Parallel()
		test(t, alone(t), seeded(t))
	})
	t.Run("R3", func(t *testing.T) {
		t.Parallel()
		test(t, three(t), seeded(t))
	})
}

// comes waits for a fact that must come, also on a machine with other things to do.
func comes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for !ok() {
		if !pause(ctx, 5*time.Millisecond) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// machine is a node that can be killed, or held up, on a clock that is not the others'.
type machine struct {
	*Node
	skew time.Duration
	kill context.CancelFunc
	gate *gate // of its cells, if it has one
}

// gate holds a node's requests up, as a pause of its process would.
type gate struct{ held sync.RWMutex }

// shut lets nothing through for a while.
func (g *gate) shut(ctx context.Context, d time.Duration) {
	g.held.Lock()
	defer g.held.Unlock()
	pause(ctx, d)
}

// pass waits while the gate is shut.
func (g *gate) pass() {
	g.held.RLock()
	defer g.held.RUnlock()
}

// startMachine starts a node. It ends with the test, if it was not killed before.
func startMachine(t *testing.T, b bus.Bus, skew time.Duration, change func(*Config), list ...tools.Tool) *machine {
	t.Helper()
	reg, err := tools.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Bus: b, Registry: reg, Authorizer: lax{}, Boot: "b" + ulid.Make().String(), Workspace: t.TempDir()}
	cfg.Now = func() time.Time { return time.Now().Add(skew) }
	cfg.Steady = cfg.Now
	if change != nil {
		change(&cfg)
	}
	ctx, kill := context.WithCancel(t.Context())
	t.Cleanup(kill)
	var n *Node
	for {
		if n, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		if err = n.Start(ctx); err == nil {
			break
		}
		t.Logf("a node starts later: %v", err) // the server may just be away
		if !pause(ctx, backOff) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { stopMachine(t, n) })
	return &machine{Node: n, skew: skew, kill: kill}
}

// stopMachine stops a node, which need not have a server any more to say so to.
func stopMachine(t *testing.T, n *Node) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer stop()
	if err := n.Stop(ctx); err != nil {
		t.Logf("stop: %v", err)
	}
}

// fleet is a few nodes over one place.
type fleet struct {
	t      *testing.T
	place  place
	clock  stopwatch
	tap    *tap
	change func(*Config)
	tools  []tools.Tool

	done  atomic.Int64 // operations of clients
	mu    sync.Mutex
	nodes []*machine // those that live
	skew  map[string]time.Duration
	kills int
}

const (
	fleetNodes   = 3
	fleetClients = 9
)

// newFleet starts nodes whose writes to a bucket of cells are noted, and whose clocks
// are apart from each other.
func newFleet(t *testing.T, p place, apart time.Duration, bucket string, change func(*Config), list ...tools.Tool) *fleet {
	f := &fleet{t: t, place: p, clock: newStopwatch(), change: change, tools: list, skew: map[string]time.Duration{}}
	f.tap = &tap{clock: f.clock, bucket: bucket}
	for i := range fleetNodes {
		f.nodes = append(f.nodes, f.start(time.Duration(i-1)*apart))
	}
	return f
}

func (f *fleet) start(skew time.Duration) *machine {
	g := &gate{}
	m := startMachine(f.t, tapped{f.place.open(), f.tap, g}, skew, f.change, f.tools...)
	m.gate = g
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skew[m.cfg.Boot] = skew
	return m
}

func (f *fleet) node(i int) *machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[i%len(f.nodes)]
}

// run has every client go through its rounds, -linear.times over. Each time a sixth of
// them has passed it disturbs them: the bucket's stream loses its leader or its server,
// or a node is killed and another started.
func (f *fleet) run(rnd *rand.Rand, rounds int, client func(id int, rnd *rand.Rand, round int)) {
	var wg sync.WaitGroup
	for i := range fleetClients {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 3))
		wg.Go(func() {
			for round := 0; round < rounds**linearTimes && !f.t.Failed(); round++ {
				f.done.Add(1)
				client(i, rnd, round)
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	step := int64(max(1, fleetClients*rounds/6))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-over:
			f.place.heal()
			return
		case <-tick.C:
		}
		if f.done.Load() < int64(n+1)*step {
			continue
		}
		if n%3 == 2 {
			f.replace()
		} else {
			f.place.disturb("KV_SLUICE_"+f.tap.bucket, n)
		}
		n++
	}
}

// replace kills a node and starts another.
func (f *fleet) replace() {
	f.mu.Lock()
	i := f.kills % fleetNodes
	f.kills++
	old := f.nodes[i]
	f.mu.Unlock()
	old.kill()
	f.place.heal()
	m := f.start(old.skew)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[i] = m
}

// standing is what is known of a turn that does not go on: its events, who lives, and
// who has its message.
func (f *fleet) standing(turn events.TurnKey) string {
	ctx, stop := context.WithTimeout(context.WithoutCancel(f.t.Context()), 10*time.Second)
	defer stop()
	var b strings.Builder
	m := f.node(0)
	stored, err := m.cfg.Bus.Load(ctx, turn, 0)
	fmt.Fprintf(&b, "(%v)", err)
	for _, s := range stored {
		fmt.Fprintf(&b, "\n  %d %s %s/%d:", s.Seq, s.Commit.At.Format(time.TimeOnly), s.Commit.By.Boot, s.Commit.By.Epoch)
		for _, r := range s.Commit.Records {
			fmt.Fprintf(&b, " %d.%s", r.Call, r.Event.Kind())
		}
	}
	f.mu.Lock()
	for _, n := range f.nodes {
		fmt.Fprintf(&b, "\n  lives: %s", n.cfg.Boot)
	}
	f.mu.Unlock()
	err = m.cfg.Bus.Held(ctx, func(it bus.Item) error {
		if it.Turn == turn {
			fmt.Fprintf(&b, "\n  held: %s of %d", it.ID, it.Seq)
		}
		return nil
	})
	it, old := m.cfg.Bus.Oldest(ctx, events.DefaultPlacement)
	fmt.Fprintf(&b, "\n  held: %v, oldest: %s of %s, %v", err, it.ID, it.Turn, old)
	return b.String()
}

// tally counts operations by what they are.
func tally(ops []porcupine.Operation, what func(porcupine.Operation) string) string {
	by := map[string]int{}
	for _, op := range ops {
		by[what(op)]++
	}
	return fmt.Sprint(len(ops), " operations: ", by)
}

// partitioned splits a history by what an operation is about, in the order of names.
func partitioned(ops []porcupine.Operation, of func(input any) string) [][]porcupine.Operation {
	by := map[string][]porcupine.Operation{}
	for _, op := range ops {
		name := of(op.Input)
		by[name] = append(by[name], op)
	}
	var out [][]porcupine.Operation
	for _, name := range ordered(by) {
		out = append(out, by[name])
	}
	return out
}

// checkLinear fails the test where a history is not that of the model, and tells
// the part of it that cannot be explained.
//
// more, if any, adds what else is known of a time.
func checkLinear(t *testing.T, m porcupine.Model, ops []porcupine.Operation, more func(part []porcupine.Operation, from, to int64) string) {
	t.Helper()
	for i, part := range m.Partition(ops) {
		switch porcupine.CheckOperationsTimeout(m, part, linearLimit) {
		case porcupine.Ok:
		case porcupine.Unknown:
			t.Errorf("part %d: %d operations cannot be judged in %v", i, len(part), linearLimit)
		case porcupine.Illegal:
			t.Errorf("part %d is not linearizable:\n%s", i, unexplained(t, m, part, i, more))
		}
	}
}

// unexplained is the end of the longest explanation of a history, and what
// cannot follow it. With -linear.html it also draws the whole.
func unexplained(t *testing.T, m porcupine.Model, ops []porcupine.Operation, part int, more func([]porcupine.Operation, int64, int64) string) string {
	_, info := porcupine.CheckOperationsVerbose(m, ops, linearLimit)
	if *linearHTML != "" {
		path := filepath.Join(*linearHTML, fmt.Sprintf("%s-%d.html", strings.ReplaceAll(t.Name(), "/", "_"), part))
		if err := errors.Join(os.MkdirAll(*linearHTML, 0o755), porcupine.VisualizePath(m, info, path)); err != nil {
			t.Errorf("draw the history: %v", err)
		}
	}
	var longest []porcupine.Operation
	for _, l := range info.PartialLinearizationsOperations()[0] {
		if len(l) > len(longest) {
			longest = l
		}
	}
	type name struct {
		client       int
		call, finish int64
		input        string
	}
	named := func(op porcupine.Operation) name {
		return name{op.ClientId, op.Call, op.Return, fmt.Sprint(op.Input)}
	}
	explained := map[name]bool{}
	for _, op := range longest {
		explained[named(op)] = true
	}
	rest := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool { return explained[named(op)] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	lines := func(list []porcupine.Operation) {
		for _, op := range list {
			fmt.Fprintf(&b, "  client %d [%v, %v] %s\n", op.ClientId, time.Duration(op.Call), time.Duration(op.Return), m.DescribeOperation(op.Input, op.Output))
		}
	}
	fmt.Fprintf(&b, " %d of %d operations are explained, the last of them:\n", len(longest), len(ops))
	longest, rest = longest[max(0, len(longest)-10):], rest[:min(len(rest), 10)]
	lines(longest)
	b.WriteString(" then none of these can follow:\n")
	lines(rest)
	if more != nil && len(longest) > 0 && len(rest) > 0 {
		b.WriteString(more(ops, longest[max(0, len(longest)-3)].Call, rest[0].Return))
	}
	return b.String()
}
