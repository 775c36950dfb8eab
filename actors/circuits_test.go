package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// Names of any kind become names that can be kept and shown; names that differ stay
// different, and one that can be kept stays as it is.
func TestCircuitNames(t *testing.T) {
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`https://[a-z.]{0,300}`), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "name")
		got := circuitName(name)
		switch other, known := seen[got]; {
		case name == "":
			if got != "" {
				t.Fatalf("none is %q", got)
			}
			return
		case !bus.ValidCircuit(got):
			t.Fatalf("%q becomes %q", name, got)
		case bus.ValidCircuit(name) && got != name:
			t.Fatalf("%q was changed: %q", name, got)
		case known && other != name:
			t.Fatalf("%q and %q are both %q", other, name, got)
		}
		seen[got] = name
	})
	long := "https://" + strings.Repeat("a", 200) + ".example"
	if got := circuitName(long); !strings.HasPrefix(got, "https://aaaa") {
		t.Errorf("nobody knows what it was: %q", got)
	}
}

// hosts is a tool that reaches hosts, of which some are down.
func hosts(down ...string) (tool tools.Tool, ran *atomic.Int64, mend func()) {
	ran = &atomic.Int64{}
	var mended atomic.Bool
	tool = testTool("reach", events.Readonly, func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		ran.Add(1)
		for _, d := range down {
			if hostIn(in.Args) == d && !mended.Load() {
				return events.Result{}, &tools.Error{Code: events.ExecutionError, Class: events.ClassUnavailable, Message: "503"}
			}
		}
		return echo(ctx, in)
	})
	tool.Limits.Retries, tool.Circuit = -1, hostIn
	return tool, ran, func() { mended.Store(true) }
}

func hostIn(args json.RawMessage) string {
	var in struct{ Host string }
	_ = json.Unmarshal(args, &in)
	return in.Host
}

func reach(hosts ...string) events.TurnSubmitted {
	var s events.TurnSubmitted
	for _, h := range hosts {
		s.Calls = append(s.Calls, events.RawCall{Tool: "reach", Args: events.Body{Text: fmt.Sprintf(`{"host":%q}`, h)}})
	}
	return s
}

// TestADeadHostClosesItselfAlone: the tool goes on with every other one, stays in the
// list, and one call of that host probes behind the window. What never failed has no cell.
func TestADeadHostClosesItselfAlone(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	tool, ran, mend := hosts("dead")
	n := testNode(t, b, func(c *Config) { c.Breaker.Window = time.Second }, tool)
	dead := lifecycle.Circuit{Tool: "reach", Of: "dead"}
	for range 3 {
		wantLasts(t, ended(t, b, submit(t, b, reach("dead"))), "failed")
	}
	eventually(t, "the host's circuit to open", func() bool { return !n.breaks.closed(dead) })
	turn := ended(t, b, submit(t, b, reach("dead", "well", "", "dead")))
	wantLasts(t, turn, "denied completed completed denied")
	if d := turn.Calls[0].Terminal.(*events.Denied); d.Code != events.CircuitOpen || d.Circuit != "dead" || !strings.HasPrefix(d.Reason, "dead has failed several times in a row") {
		t.Errorf("%+v", d)
	}
	if s := turn.Calls[1].Started; s.Breaker.Circuit != "well" || s.Breaker.State != "closed" {
		t.Errorf("%+v", s.Breaker)
	}
	if open, err := OpenTools(t.Context(), b.Cells(), n.cfg.Breaker, time.Now(), []string{"reach"}); err != nil || open["reach"] || ran.Load() != 5 {
		t.Errorf("open %v, %v; %d ran", open, err, ran.Load())
	}
	if open := n.OpenCircuits(); open["reach"] != 1 {
		t.Errorf("%v", open)
	}
	var cells []string
	if err := bus.Each(t.Context(), b.Cells(), bus.BucketBreaker, func(c bus.Cell) { cells = append(cells, c.Key) }); err != nil || len(cells) != 1 || cells[0] != BreakerCell(dead) {
		t.Errorf("cells %v, %v", cells, err)
	}
	mend()
	eventually(t, "the window's end", func() bool { return n.breaks.get(dead).Peek(n.cfg.Breaker, n.cfg.Steady()) })
	turn = ended(t, b, submit(t, b, reach("dead")))
	wantLasts(t, turn, "completed")
	if s := turn.Calls[0].Started.Breaker; !s.Probe || s.Circuit != "dead" {
		t.Errorf("%+v", s)
	}
	eventually(t, "the circuit to close", func() bool { return n.breaks.closed(dead) })
}

// TestASwitchedOffToolReachesNoHost; behind the switch's window no call has to probe the
// whole of it, so that a dead host does not switch it off once more.
func TestASwitchedOffToolReachesNoHost(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	tool, ran, _ := hosts("dead")
	n := testNode(t, b, nil, tool)
	off := func(d time.Duration) {
		t.Helper()
		cell, err := b.Cells().Get(t.Context(), bus.BucketBreaker, BreakerCell(own("reach")))
		if err != nil && cell.Revision != 0 {
			t.Fatal(err)
		}
		value, err := json.Marshal(lifecycle.Breaker{}.Hold(time.Now(), time.Now().Add(d), "ann", ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Cells().Put(t.Context(), bus.BucketBreaker, BreakerCell(own("reach")), value, cell.Revision, 0); err != nil {
			t.Fatal(err)
		}
	}
	off(time.Hour)
	well := lifecycle.Circuit{Tool: "reach", Of: "well"}
	eventually(t, "a view of the switch", func() bool { return !n.breaks.closed(well) })
	turn := ended(t, b, submit(t, b, reach("well")))
	if d, ok := turn.Calls[0].Terminal.(*events.Denied); !ok || d.Circuit != "" || !strings.HasPrefix(d.Reason, "the tool reach was switched off by an operator") || ran.Load() != 0 {
		t.Errorf("%+v", turn.Calls[0].Terminal)
	}
	if f, _ := n.breaks.admit(t.Context(), well, "c b"); f.Ruling != lifecycle.Deny || f.Circuit != "" {
		t.Errorf("%+v", f)
	}
	off(10 * time.Millisecond)
	eventually(t, "the end of the switch", func() bool { return !n.breaks.get(own("reach")).Blocks(n.cfg.Breaker, n.cfg.Steady()) })
	turn = ended(t, b, submit(t, b, reach("dead", "well")))
	wantLasts(t, turn, "failed completed")
	if s := turn.Calls[0].Started.Breaker; s.Probe || s.State != string(lifecycle.BreakerClosed) {
		t.Errorf("%+v", s)
	}
	if cell, err := b.Cells().Get(t.Context(), bus.BucketBreaker, BreakerCell(own("reach"))); err != nil || string(cell.Value) != "{}" || !n.breaks.closed(well) {
		t.Errorf("the switch whose time is over stays half open: %s, %v", cell.Value, err)
	}
}

// TestManyDeadHosts are kept up to a bound: beyond it failures are not counted, and the
// tool goes on. Other tools' are not touched.
func TestManyDeadHosts(t *testing.T) {
	b := memlog.New(memlog.Config{}).View("a")
	n := testNode(t, b, nil, testTool("echo", events.Readonly, echo))
	at := func(tool string, i int) lifecycle.Circuit {
		return lifecycle.Circuit{Tool: tool, Of: fmt.Sprint("h", i)}
	}
	for i := range lifecycle.MaxCircuits + 50 {
		n.breaks.tell(at("reach", i), "c b", events.ClassUnavailable, true)
	}
	n.breaks.tell(at("other", 0), "c b", events.ClassUnavailable, true)
	n.breaks.tell(own("reach"), "c b", events.ClassUnavailable, true)
	kept := map[string]int{}
	if err := bus.Each(t.Context(), b.Cells(), bus.BucketBreaker, func(c bus.Cell) {
		tool, of, _ := bus.ParseCircuitCell(c.Key)
		if of != "" {
			tool += " of endpoints"
		}
		kept[tool]++
	}); err != nil || kept["reach of endpoints"] != lifecycle.MaxCircuits || kept["other of endpoints"] != 1 || kept["reach"] != 1 {
		t.Errorf("%v, %v", kept, err)
	}
	over := at("reach", lifecycle.MaxCircuits+1)
	for range 5 {
		n.breaks.tell(over, "c b", events.ClassUnavailable, true)
	}
	if f, _ := n.breaks.admit(t.Context(), over, "d b"); f.Ruling != lifecycle.Pass {
		t.Errorf("%+v", f)
	}
	for range 2 { // one that is kept goes on counting
		n.breaks.tell(at("reach", 7), "c b", events.ClassUnavailable, true)
	}
	if f, _ := n.breaks.admit(t.Context(), at("reach", 7), "d b"); f.Ruling != lifecycle.Deny {
		t.Errorf("%+v", f)
	}
	if len(n.breaks.pids) != 2 {
		t.Errorf("%d actors for two tools", len(n.breaks.pids))
	}
}

// TestCircuitsAreForgotten as their cells end, and where nobody told so, too; an older
// word brings nothing back.
func TestCircuitsAreForgotten(t *testing.T) {
	var ahead atomic.Int64
	n := testNode(t, memlog.New(memlog.Config{}).View("a"), func(c *Config) {
		c.Steady = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	a, other := lifecycle.Circuit{Tool: "t", Of: "a"}, lifecycle.Circuit{Tool: "t", Of: "b"}
	eventually(t, "a view of all cells", func() bool { return n.breaks.closed(a) })
	open := lifecycle.Breaker{Failures: 3, OpenedAt: time.Now()}
	n.breaks.see(a, 1000, open)
	n.breaks.gone(a, 999) // of an earlier one
	if n.breaks.closed(a) {
		t.Error("an older word has closed it")
	}
	n.breaks.gone(a, 1001)
	n.breaks.see(a, 0, lifecycle.Breaker{}) // there is none
	if _, known := n.breaks.view[a]; known || !n.breaks.closed(a) {
		t.Error("what has ended is still known")
	}
	n.breaks.see(a, 1002, open)
	twice := lifecycle.Circuit{Tool: "t", Of: "c"}
	n.breaks.see(twice, 1002, lifecycle.Breaker{Failures: 2})
	if is := n.breaks.see(twice, 0, lifecycle.Breaker{}); is.Local().Failures != 2 {
		t.Errorf("an older look has taken its failures: %+v", is)
	}
	ahead.Store(int64(3 * lifecycle.CircuitKept))
	if is := n.breaks.see(twice, 0, lifecycle.Breaker{}); is.Local() != (lifecycle.Breaker{}) {
		t.Errorf("failures of hours ago still count, and their cell has gone: %+v", is)
	}
	n.breaks.see(other, 1003, open)
	if _, known := n.breaks.view[a]; known || len(n.breaks.view) != 1 {
		t.Errorf("%v", n.breaks.view)
	}
}

// TestCellsOfCircuitsEnd by themselves, some time behind all that they say; a tool's own
// stays until a probe.
func TestCellsOfCircuitsEnd(t *testing.T) {
	c, now := lifecycle.BreakerConfig{}, time.Now()
	for name, is := range map[string]struct {
		b    lifecycle.Breaker
		want time.Duration
	}{
		"closed":      {lifecycle.Breaker{}, lifecycle.ClosedKept},
		"failures":    {lifecycle.Breaker{Failures: 2}, lifecycle.CircuitKept},
		"just opened": {lifecycle.Breaker{Failures: 3, OpenedAt: now}, lifecycle.BreakerWindow + lifecycle.CircuitKept},
		"half open":   {lifecycle.Breaker{Failures: 3, OpenedAt: now.Add(-time.Hour)}, lifecycle.CircuitKept},
		"probing":     {lifecycle.Breaker{Failures: 3, OpenedAt: now.Add(-time.Hour), Probe: "c b", ProbeEnd: now.Add(time.Minute)}, time.Minute + lifecycle.CircuitKept},
		"held":        {lifecycle.Breaker{}.Hold(now, now.Add(720*time.Hour), "ann", ""), 720*time.Hour + lifecycle.CircuitKept},
	} {
		if got := (lifecycle.Circuit{Tool: "t", Of: "x"}).Keeps(is.b, c, now); got != is.want {
			t.Errorf("%s: %v, want %v", name, got, is.want)
		}
		if got := (lifecycle.Circuit{Tool: "t"}).Keeps(is.b, c, now); got != 0 {
			t.Errorf("%s, of the tool itself: %v, want for ever", name, got)
		}
	}
}

// TestAProbesFailureCountsOnce: its report is kept, and the answer lost, so that it is told
// again.
func TestAProbesFailureCountsOnce(t *testing.T) {
	l := memlog.New(memlog.Config{})
	b := l.View("a")
	n := testNode(t, b, nil, counting("svc", events.Readonly, new(atomic.Int64), nil))
	who := holder(events.CallKey{Trace: "t", Turn: "u"}, "a")
	open, err := json.Marshal(lifecycle.Breaker{Failures: 3, OpenedAt: time.Now().Add(-time.Hour), Probe: who, ProbeEnd: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	cell := BreakerCell(own("svc"))
	if _, err := b.Cells().Put(t.Context(), bus.BucketBreaker, cell, open, 0, 0); err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int64
	l.SetFaults(&memlog.Faults{Put: func(bucket, _ string) (bool, error) {
		if bucket == bus.BucketBreaker && tries.Add(1) == 1 {
			return true, bus.ErrUncertain
		}
		return true, nil
	}})
	n.breaks.tell(own("svc"), who, events.ClassUnavailable, true)
	var is lifecycle.Breaker
	c, err := b.Cells().Get(t.Context(), bus.BucketBreaker, cell)
	if err == nil {
		err = json.Unmarshal(c.Value, &is)
	}
	if err != nil || is.Failures != 4 || is.Probe != "" || tries.Load() != 1 {
		t.Errorf("after %d writes: %+v, %v", tries.Load(), is, err)
	}
}
