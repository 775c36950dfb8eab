package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

var seed = flag.Uint64("seed", 0, "seed of the storm; 0: a new one")

// TestAStormOfCrashes kills the node at random stages while turns of all tiers
// come in. At the end every call has one terminal, nothing irreversible has
// happened twice, and all laws hold.
func TestAStormOfCrashes(t *testing.T) {
	const turns, crashes = 50, 10
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("reproduce: go test ./test/e2e -run Storm -seed=%d", s)
	r := rand.New(rand.NewPCG(s, 1))
	p := newPlace(t)
	all := make([]turn, turns)
	for i := range all {
		all[i] = stormy(r, i)
	}
	in := &inlet{t: t}
	var wg sync.WaitGroup
	wg.Go(func() { in.submitAll(all) })
	for range crashes {
		n := p.serve()
		in.open(n.HTTP)
		stage(t, n, 1+r.IntN(60))
		n.kill()
		in.open("")
	}
	n := p.serve()
	in.open(n.HTTP)
	wg.Wait()
	calm(t, p, n, all)
	verified(t, p, n)
}

// stormy is a turn of random calls, each of which has an effect of its own.
func stormy(r *rand.Rand, i int) turn {
	tu := turn{Trace: fmt.Sprintf("storm-%d", i%7), Turn: fmt.Sprintf("t%d", i), Disjoint: r.IntN(2) == 0}
	for c := range 1 + r.IntN(5) {
		name, ms := fmt.Sprintf("s-%d-%d", i, c), r.IntN(40)
		tu.Calls = append(tu.Calls, []call{
			{Tool: "echo", Args: args{"v": name}},
			{Tool: "sleep", Args: args{"ms": ms}},
			charge(name, 1, "stall_ms", ms),
			charge(name, 1),
			{Tool: "counter", Args: args{"name": name}, Key: "key-" + name},
			{Tool: "reserve", Args: args{"item": name}},
			{Tool: "write", Args: args{"path": name + ".txt", "text": name}},
			{Tool: "blob", Args: args{"bytes": 70_000, "kind": "text"}},
			{Tool: "panic"},
			{Tool: "read", Args: args{"path": "../" + name}},
		}[r.IntN(10)])
	}
	return tu
}

// stage waits until the node has told of so many events, or has nothing to do.
func stage(t *testing.T, n *node, events int) {
	t.Helper()
	nc, err := nats.Connect(n.NATS, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	heard := listen(t, nc, "sluice.live.>")
	idle := time.NewTimer(time.Second)
	defer idle.Stop()
	for range events {
		select {
		case <-heard:
			idle.Reset(time.Second)
		case <-idle.C:
			return
		}
	}
}

// inlet submits turns to whatever node is there, each until it is accepted.
type inlet struct {
	t  *testing.T
	mu sync.Mutex
	at string
}

func (in *inlet) open(at string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.at = at
}

func (in *inlet) base() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.at
}

func (in *inlet) submitAll(all []turn) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, tu := range all {
		for {
			at := in.base()
			if at != "" {
				status, body, err := (&api{t: in.t, base: at}).try(http.MethodPost, "/v1/turns", tu)
				if err == nil && status < 300 { // 200: it was accepted before its node died, and has ended
					break
				}
				if err == nil && status < 500 {
					in.t.Errorf("submit %s/%s: %d %s", tu.Trace, tu.Turn, status, body)
					break
				}
			}
			select {
			case <-tick.C:
			case <-in.t.Context().Done():
				return
			}
		}
		select { // turns come in all the time, not all at once
		case <-tick.C:
		case <-in.t.Context().Done():
			return
		}
	}
}

var terminals = map[string]bool{
	"completed": true, "failed": true, "timed_out": true, "cancelled": true, "denied": true, "deduplicated": true, "unknown": true,
}

// calm waits until every turn has ended, and compares what it says with what was done.
func calm(t *testing.T, p *place, n *node, all []turn) {
	t.Helper()
	counts := map[string]int{}
	took := 0
	for _, tu := range all {
		v := n.end(tu.Trace, tu.Turn)
		list := n.events(tu.Trace, tu.Turn)
		took += len(of(list, "recovered", ""))
		if len(v.Calls) != len(tu.Calls) || len(v.Messages) != len(tu.Calls) {
			t.Errorf("%s: %d calls, %d messages, want %d", tu.Turn, len(v.Calls), len(v.Messages), len(tu.Calls))
			continue
		}
		for i, c := range v.Calls {
			ends := 0
			for _, e := range list {
				if terminals[e.kind()] && e.Subject == fmt.Sprintf("%s/%s/%d", tu.Trace, tu.Turn, i) {
					ends++
				}
			}
			if ends != 1 {
				t.Errorf("%s/%d has %d terminals: %s", tu.Turn, i, ends, chain(list, fmt.Sprint(i)))
			}
			counts[c.State]++
			onceOnly(t, p, tu, i, c)
		}
	}
	t.Logf("%v, %d recovered", counts, took)
	if took == 0 {
		t.Error("no call was met in the middle: the storm was none")
	}
}

// onceOnly holds what a call says of its effect against the ledger.
func onceOnly(t *testing.T, p *place, tu turn, i int, c callView) {
	t.Helper()
	if c.Tool != "charge" && c.Tool != "counter" && c.Tool != "reserve" {
		return
	}
	lines := 0
	for _, e := range p.effects() {
		if e.Call == fmt.Sprintf("%s/%s/%d", tu.Trace, tu.Turn, i) && e.Tool == c.Tool {
			lines++
		}
	}
	switch {
	case lines > 1:
		t.Errorf("%s/%d (%s) happened %d times", tu.Turn, i, c.Tool, lines)
	case lines == 0 && (c.State == "completed" || c.Effects == "done"):
		t.Errorf("%s/%d (%s) says %s, and did not happen", tu.Turn, i, c.Tool, c.State)
	case lines == 1 && c.Effects == "none":
		t.Errorf("%s/%d (%s) says %s without effects, and happened", tu.Turn, i, c.Tool, c.State)
	}
}
