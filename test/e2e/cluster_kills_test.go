package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

var (
	killsSeed  = flag.Uint64("kills.seed", 0, "seed of the random kills; 0: a new one")
	killsCalls = flag.Int("kills.calls", 120, "calls under random kills")
	killsSkew  = flag.Bool("kills.skew", false, "the nodes' clocks are an hour apart")
)

// TestCallsUnderRandomKills: calls of every tier while nodes and the servers that lead
// are killed at random, and nodes stop for a while. Every call has one terminal and an
// answer that is true, and the ledger has no effect twice, and none missing.
func TestCallsUnderRandomKills(t *testing.T) {
	t.Parallel()
	s := *killsSeed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("reproduce: go test ./test/e2e -run UnderRandomKills -kills.calls=%d -kills.skew=%v -kills.seed=%d", *killsCalls, *killsSkew, s)
	k := newKilling(t, rand.New(rand.NewPCG(s, 2)))
	c := k.three
	held := k.takenOver()
	all := anyTiers(rand.New(rand.NewPCG(s, 1)), *killsCalls)
	load := &traffic{t: t, doors: doors(k.nodes)}
	faults := max(6, *killsCalls/18)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg, yes sync.WaitGroup // submissions, and who says yes
	for lane := range lanes {  // a turn whose door hangs holds only its lane up
		wg.Go(func() {
			for i := lane; i < len(all); i += lanes {
				k.pace(ctx, i, len(all), faults)
				load.submit(ctx, all[i])
			}
		})
	}
	yes.Go(func() { approveAll(ctx, load.doors) })
	for k.done < faults {
		k.fault()
	}
	k.heal()
	wg.Wait()
	healed := time.Now()
	tally := c.audit(k.nodes[0], append(load.all(), held))
	t.Logf("everything is back and accepted; %v later all had ended", time.Since(healed).Round(time.Millisecond))
	stop()
	yes.Wait()
	proven(t, c.URL())
	t.Logf("seed %d: %d faults (%s); %s", s, faults, k.said(), tally)
	if tally.calls != *killsCalls+len(held.Calls) {
		t.Errorf("%d calls were looked at", tally.calls)
	}
	if tally.takeovers == 0 {
		t.Error("no turn was taken over: the kills were none")
	}
}

// lanes are how many turns are submitted at once.
const lanes = 3

// anyTiers are turns of so many calls, of every tier, with and without key and probe.
func anyTiers(r *rand.Rand, calls int) []turn {
	var out []turn
	for left := calls; left > 0; {
		i := len(out)
		tu := turn{Trace: fmt.Sprintf("kills-%d", i%11), Turn: fmt.Sprintf("t%d", i), Disjoint: r.IntN(2) == 0, CanAsk: true}
		for n := range min(left, 1+r.IntN(4)) {
			name, ms := fmt.Sprintf("k-%d-%d", i, n), r.IntN(1_500)
			pair := fmt.Sprintf("pair-%d-%d", i/4, n) // turns that come about together share its key
			tu.Calls = append(tu.Calls, []call{
				{Tool: "echo", Args: args{"v": name}},
				{Tool: "sleep", Args: args{"ms": ms}},
				{Tool: "write", Args: args{"path": name + ".txt", "text": strings.Repeat(name, 3)}},
				{Tool: "reserve", Args: args{"item": name}},
				charge(name, 1, "stall_ms", ms),
				charge(pair, 1, "stall_ms", 400),
				{Tool: "counter", Args: args{"name": name}, Key: "key-" + name},
				{Tool: "counter", Args: args{"name": name}},
				ask(name),
				note(name, ms),
			}[r.IntN(10)])
		}
		left -= len(tu.Calls)
		out = append(out, tu)
	}
	return out
}

// note is a command that appends a name to a file, and takes its time: nobody can ask
// what became of it.
func note(name string, ms int) call {
	return call{Tool: "bash", Args: args{"command": fmt.Sprintf("printf '%%s\\n' %s >> noted.txt; sleep %d.%03d", name, ms/1000, ms%1000)}}
}

// noteOf is the name that a call notes.
func noteOf(c call) string {
	if words := strings.Fields(argument(c, "command")); c.Tool == "bash" && len(words) > 2 {
		return words[2]
	}
	return ""
}

// approveAll says yes to whatever asks, through any door, until ctx ends.
func approveAll(ctx context.Context, doors []string) {
	for i := 0; ctx.Err() == nil; i++ {
		at := doors[i%len(doors)]
		status, body, err := soon(ctx, at, http.MethodGet, "/v1/approvals", nil)
		var list struct{ Approvals []pending }
		if err == nil && status == http.StatusOK && json.Unmarshal(body, &list) == nil {
			for _, p := range list.Approvals {
				_, _, _ = soon(ctx, at, http.MethodPost, p.path()+"/approve", nil) // what was not heard is asked again
			}
		}
		wait(ctx, 150*time.Millisecond)
	}
}

// killing does one fault after the other.
type killing struct {
	*three
	nodes []*member
	r     *rand.Rand
	later sync.WaitGroup // what comes back by itself
	kinds []int          // of the faults that come next

	mu     sync.Mutex
	counts map[string]int
	done   int             // only this test's own goroutine changes it
	away   map[string]bool // nodes and servers that are being brought back
}

func newKilling(t *testing.T, r *rand.Rand) *killing {
	t.Helper()
	k := &killing{r: r, counts: map[string]int{}, away: map[string]bool{}}
	if !*killsSkew {
		k.three = newCluster(t, cluster.Config{})
		k.nodes = k.three.nodes(3)
		return k
	}
	if err := faultsBuilt(); err != nil {
		t.Fatal(err)
	}
	k.three = newCluster(t, cluster.Config{Node: faultsPath()})
	for _, by := range []string{"0s", "1h", "-1h"} {
		k.nodes = append(k.nodes, k.three.node(cluster.NodeConfig{Env: []string{"SLUICE_TEST_CLOCK=" + by}}))
	}
	return k
}

// takenOver is a turn whose node is killed in the middle of it, whatever comes at random.
func (k *killing) takenOver() turn {
	k.t.Helper()
	held, door := turn{Trace: "kills-held", Turn: "t", Calls: []call{waits("kills-held")}}, k.nodes[0]
	door.submit(held)
	door.until(held.Trace, held.Turn, "started", "0")
	owner := of(door.events(held.Trace, held.Turn), "started", "0")[0].Boot
	for _, n := range k.nodes {
		if n.Boot() == owner {
			n.Kill()
			k.place.write("kills-held", "")
			k.must(n.Start(k.t.Context()))
		}
	}
	return held
}

// pace keeps the submissions beside the faults: neither is over long before the other.
func (k *killing) pace(ctx context.Context, i, turns, faults int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		k.mu.Lock()
		done := k.done
		k.mu.Unlock()
		if i*faults <= (done+1)*turns {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// fault does one fault, and waits a little. Each ten of them have every kind.
func (k *killing) fault() {
	if len(k.kinds) == 0 {
		k.kinds = k.r.Perm(10)
	}
	kind, away := k.kinds[0], time.Duration(500+k.r.IntN(4000))*time.Millisecond
	k.kinds = k.kinds[1:]
	n, stream := k.nodes[k.r.IntN(len(k.nodes))], []string{"SLUICE", "SLUICE_TURNS"}[k.r.IntN(2)]
	wait(k.t.Context(), time.Duration(50+k.r.IntN(900))*time.Millisecond)
	did := false
	switch {
	case kind < 3:
		did = k.node(k.busiest(n), "node killed, back at once", 0, func(n *member) { n.Kill() }, func(n *member) error { return n.Start(k.t.Context()) })
	case kind < 5:
		did = k.node(k.busiest(n), "node killed, back later", away, func(n *member) { n.Kill() }, func(n *member) error { return n.Start(k.t.Context()) })
	case kind < 6:
		did = k.node(k.busiest(n), "node stopped for a while", away+2*time.Second, func(n *member) { k.must(n.Pause()) }, func(n *member) error { return n.Resume() })
	case kind < 8:
		did = k.leader(stream, "leader of "+stream+" killed", away, func(s *cluster.Server) { s.Kill() }, func(s *cluster.Server) error { return s.Start(k.t.Context()) })
	case kind < 9:
		did = k.leader(stream, "leader of "+stream+" stopped for a while", away+2*time.Second, func(s *cluster.Server) { k.must(s.Pause()) }, (*cluster.Server).Resume)
	default:
		did = k.leader(stream, "leader of "+stream+" stepped down", 0, func(*cluster.Server) { k.stepDown(stream) }, func(*cluster.Server) error { return nil })
	}
	if did {
		k.mu.Lock()
		k.done++
		k.mu.Unlock()
	} else {
		k.kinds = append(k.kinds, kind) // later
	}
}

// busiest is the node that runs the most attempts: to kill who does nothing proves
// little. It waits a little for one that runs any, and takes the other one then.
func (k *killing) busiest(otherwise *member) *member {
	for range 50 {
		most := 0
		for _, n := range k.nodes {
			if runs := k.attempts(n); runs > most {
				most, otherwise = runs, n
			}
		}
		if most > 0 {
			break
		}
		wait(k.t.Context(), 50*time.Millisecond)
	}
	return otherwise
}

// attempts is how many attempts a node runs now; 0 where it does not say.
func (k *killing) attempts(n *member) int {
	if k.busy(n.Name()) {
		return 0
	}
	_, body, err := soon(k.t.Context(), n.base, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(body)) {
		if text, ok := strings.CutPrefix(line, "sluice_attempts_running "); ok {
			runs, _ := strconv.Atoi(strings.TrimSpace(text)) // a gauge is a number
			return runs
		}
	}
	return 0
}

// busy says whether something is being done to a node or the servers.
func (k *killing) busy(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.away[name]
}

// free says that nothing is being done to it, and marks it, or that it is away already.
func (k *killing) free(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.away[name]
	k.away[name] = true
	return !was
}

func (k *killing) back(name, kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away[name] = false
	k.counts[kind]++
}

// node does something to a node, and undoes it after a time; false where it is away already.
func (k *killing) node(n *member, kind string, after time.Duration, do func(*member), undo func(*member) error) bool {
	if !k.free(n.Name()) {
		return false
	}
	do(n)
	k.later.Go(func() {
		defer k.back(n.Name(), kind)
		wait(k.t.Context(), after)
		poll(k.t, n.Name()+" is back", func() bool { // a service manager would try again, too
			err := undo(n)
			if err != nil {
				k.t.Logf("%s: %.300s", kind, err)
			}
			return err == nil
		})
	})
	return true
}

// leader does something to the server that leads a stream, where all servers are well:
// two of three have to stay. It is undone after a time.
func (k *killing) leader(stream, kind string, after time.Duration, do func(*cluster.Server), undo func(*cluster.Server) error) bool {
	if !k.free("server") {
		return false
	}
	s, err := k.Leader(k.t.Context(), stream)
	k.must(err)
	do(s)
	k.later.Go(func() {
		defer k.back("server", kind)
		wait(k.t.Context(), after)
		if err := undo(s); err != nil {
			k.t.Errorf("%s: %v", kind, err)
			return
		}
		if err := s.AwaitHealthy(k.t.Context()); err != nil {
			k.t.Error(err)
		}
	})
	return true
}

// stepDown has the leader of a stream give up its office; a cluster that elects already
// may refuse.
func (k *killing) stepDown(stream string) {
	if _, err := k.StepDown(k.t.Context(), stream); err != nil {
		k.t.Logf("step down: %v", err)
	}
}

// heal waits until everything is back.
func (k *killing) heal() {
	k.later.Wait()
	k.must(k.AwaitReady(k.t.Context()))
	for _, n := range k.nodes {
		poll(k.t, n.Name()+" is ready", func() bool { return n.Ready(k.t.Context()) == nil })
	}
}

// said is how often each kind of fault was done.
func (k *killing) said() string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(k.counts)) {
		out = append(out, fmt.Sprintf("%s %d", kind, k.counts[kind]))
	}
	return strings.Join(out, ", ")
}
