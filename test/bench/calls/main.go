// Command calls measures turns through the whole product — submission, queue,
// claim, gates, commits, barriers, messages — next to the bare rate of commit
// pairs and barriers of the same JetStream, in one process and one run. It
// prints a table for docs/benchmarks.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "bench: error: %v\n", err)
		os.Exit(1)
	}
}

var (
	length = flag.Duration("time", 5*time.Second, "how long each figure is measured")
	modes  = flag.String("modes", "barrier always interval=1s", "sync modes, separated by blanks")
	cpuOut = flag.String("cpuprofile", "", "write a CPU profile of everything measured here")
	memOut = flag.String("memprofile", "", "write a profile of the heap here, after each mode")
	rest   = flag.Duration("rest", 15*time.Second, "how long to wait before the memory at rest is read")
	noBare = flag.Bool("no-bare", false, "leave out the bare log, for profiles")
	stages = flag.Bool("stages", false, "print where the turns spent their time")
	only   = flag.Int("flight", 0, "measure only this many turns in flight; 0 means all")
	spans  = flag.Bool("otlp", false, "export spans meanwhile, to a collector in this process that reads and forgets them")
	dir    = flag.String("dir", "", "where the stores are made; empty means a temporary folder")
)

func run(ctx context.Context) error {
	flag.Parse()
	if *cpuOut != "" {
		f, err := os.Create(*cpuOut)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	base := *dir
	if base == "" {
		d, err := os.MkdirTemp("", "sluice-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(d)
		base = d
	}
	fmt.Printf("%s %s/%s, %d processors; each figure over %s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), *length)
	fmt.Println("| sync | turns in flight | calls a turn | calls/s | turn p50 | turn p99 | CPU s per 1000 calls | bare pairs/s | pair p50 |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, mode := range fields(*modes) {
		if err := measure(ctx, base, mode); err != nil {
			return fmt.Errorf("sync %s: %w", mode, err)
		}
	}
	return nil
}

func fields(s string) []string {
	var out []string
	for len(s) > 0 {
		var w string
		if n, _ := fmt.Sscan(s, &w); n == 0 {
			break
		}
		out = append(out, w)
		s = s[min(len(s), len(w)+1):]
	}
	return out
}

// measure prints the rows of one sync mode.
func measure(ctx context.Context, base, mode string) error {
	h, err := open(ctx, base+"/"+mode, mode)
	if err != nil {
		return err
	}
	defer h.close()
	for _, row := range []struct{ flight, calls int }{{1, 1}, {1, 4}, {16, 4}, {128, 4}} {
		if *only != 0 && row.flight != *only {
			continue
		}
		var bare figures
		if !*noBare {
			bare = h.bare(ctx, row.flight)
		}
		t, err := h.turns(ctx, row.flight, row.calls)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %d | %d | %.0f | %s | %s | %.3f | %.0f | %s |\n", mode, row.flight, row.calls,
			t.rate*float64(row.calls), short(t.p50), short(t.p99), t.cpu/float64(row.calls)*1000, bare.rate, short(bare.p50))
		if *stages {
			h.printStages()
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	busy := m.HeapAlloc
	<-time.After(*rest) // the server drops the blocks that it has cached 10 s after their last use
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	if *memOut != "" {
		f, err := os.Create(*memOut)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.WriteHeapProfile(f); err != nil {
			return err
		}
	}
	fmt.Printf("\n%s: %d calls in the log; %d MiB of Go heap under load, %d MiB %s later; %d MiB resident at most\n\n",
		mode, h.calls.Load(), busy>>20, m.HeapAlloc>>20, *rest, maxRSS()>>10)
	return nil
}

// house is a node on an embedded store, with its desk.
type house struct {
	bus    *jetlog.Bus
	server *jetlog.Server
	node   *actors.Node
	desk   *gateway.Desk
	calls  atomic.Int64

	queue, run, answer, commits, staged atomic.Int64
	spans                               func() // ends the export of spans; nil: there is none
}

type allowAll struct{}

func (allowAll) Authorize(policy.Request) policy.Verdict {
	return policy.Verdict{Decision: policy.Allow, Policies: []string{"bench"}, Version: "bench"}
}
func (allowAll) Version() string { return "bench" }

type local struct{ n *actors.Node }

func (l local) Watch(key events.TurnKey, ended func(gateway.View)) func() {
	return l.n.OnEnd(key, func(f actors.Finished) { ended(gateway.View{Turn: f.Turn, Commits: f.Commits}) })
}

func open(ctx context.Context, dir, mode string) (*house, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b, s, err := jetlog.OpenEmbedded(ctx, jetlog.ServerConfig{Dir: dir, Sync: mode, Log: log}, jetlog.Config{Log: log})
	if err != nil {
		return nil, err
	}
	noop := tools.Tool{
		Spec: tools.Spec{Name: "noop", Description: "does nothing", Tier: events.Readonly, Schema: json.RawMessage(`{"type":"object"}`)},
		Run: func(context.Context, tools.Invocation) (events.Result, error) {
			return events.Result{Status: events.Success, Text: events.Body{Text: "done"}}, nil
		},
	}
	reg, err := tools.NewRegistry(noop)
	if err != nil {
		return nil, err
	}
	n, err := actors.New(actors.Config{Bus: b, Registry: reg, Authorizer: allowAll{}, Boot: ulid.Make().String(), Workspace: os.TempDir(), Log: log})
	if err != nil {
		return nil, err
	}
	if err := n.Start(ctx); err != nil {
		return nil, err
	}
	d := gateway.NewDesk(gateway.DeskConfig{Bus: b, Local: local{n}, Log: log})
	d.Start(ctx)
	h := &house{bus: b, server: s, node: n, desk: d}
	if *spans {
		if h.spans, err = export(ctx, b, d, log); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *house) close() {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	if h.spans != nil {
		h.spans()
	}
	h.desk.Stop()
	if err := h.node.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench: stop:", err)
	}
	if err := h.bus.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: close:", err)
	}
	if err := h.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "bench: close:", err)
	}
}

// stages adds up where a turn spent its time: waiting for a claim, being run,
// and waiting for the barrier and the answer.
func (h *house) stages(v gateway.View) {
	now := time.Now()
	first, last := v.Commits[0].Commit.At, v.Commits[len(v.Commits)-1].Commit.At
	h.queue.Add(v.Turn.ClaimedAt.Sub(first).Microseconds())
	h.run.Add(last.Sub(v.Turn.ClaimedAt).Microseconds())
	h.answer.Add(now.Sub(last).Microseconds())
	h.commits.Add(int64(len(v.Commits)))
	h.staged.Add(1)
}

func (h *house) printStages() {
	n := max(h.staged.Swap(0), 1)
	fmt.Printf("stages: queue %d us, run %d us, answer %d us, %d commits in 10 turns\n",
		h.queue.Swap(0)/n, h.run.Swap(0)/n, h.answer.Swap(0)/n, h.commits.Swap(0)*10/n)
}

type figures struct {
	rate     float64 // a second
	p50, p99 time.Duration
	cpu      float64 // seconds each
}

// turns runs turns of calls, flight of them at once, each to its messages.
func (h *house) turns(ctx context.Context, flight, calls int) (figures, error) {
	raw := make([]events.RawCall, calls)
	for i := range raw {
		raw[i] = events.RawCall{ProviderID: fmt.Sprintf("call_%d", i), Tool: "noop", Args: events.Body{Text: fmt.Sprintf(`{"n":%d}`, i)}}
	}
	var failed atomic.Pointer[error]
	f := load(flight, func() bool {
		key := events.TurnKey{Trace: ulid.Make().String(), Turn: "t1"}
		_, v, err := h.desk.Run(ctx, key, events.TurnSubmitted{Principal: events.Principal{ID: "bench"}, Calls: raw}, 30*time.Second)
		if err == nil && !v.Ended() {
			err = fmt.Errorf("turn %s has not ended", key)
		}
		if err == nil {
			_, err = h.desk.Messages(ctx, v, codec.OpenAI)
		}
		if err != nil {
			failed.Store(&err)
			return false
		}
		h.calls.Add(int64(calls))
		if *stages {
			h.stages(v)
		}
		return true
	})
	if p := failed.Load(); p != nil {
		return f, *p
	}
	return f, nil
}

// bare appends pairs of commits of 1.5 kB, with a barrier behind each.
func (h *house) bare(ctx context.Context, flight int) figures {
	text := make([]byte, 1400)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	return load(flight, func() bool {
		key := events.TurnKey{Trace: ulid.Make().String(), Turn: "bare"}
		at := uint64(0)
		for i := range 2 {
			c := events.Commit{ID: ulid.Make().String(), Turn: key, At: time.Now(), Records: []events.Record{{
				Call: events.TurnEvent, Seq: uint32(i + 1), Event: &events.TurnSubmitted{Imported: "bench", Workspace: string(text)},
			}}}
			s, err := h.bus.Append(ctx, c, at)
			if err != nil {
				return false
			}
			at = s.Seq
			if err := h.bus.Barrier().Wait(ctx); err != nil {
				return false
			}
		}
		return true
	})
}

// load calls one for a while from many goroutines, after a short warm-up.
func load(flight int, one func() bool) figures {
	spin(flight, *length/10, one)
	cpu := cpuTime()
	began := time.Now()
	all := spin(flight, *length, one)
	took := time.Since(began)
	if len(all) == 0 {
		return figures{}
	}
	slices.Sort(all)
	return figures{
		rate: float64(len(all)) / took.Seconds(), p50: all[len(all)/2], p99: all[len(all)*99/100],
		cpu: (cpuTime() - cpu).Seconds() / float64(len(all)),
	}
}

func spin(flight int, d time.Duration, one func() bool) []time.Duration {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []time.Duration
	end := time.Now().Add(d)
	for range flight {
		wg.Go(func() {
			var mine []time.Duration
			for time.Now().Before(end) {
				t := time.Now()
				if !one() {
					break
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return all
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maxRSS is in KiB.
func maxRSS() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss
}

func short(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

var _ bus.Bus = (*jetlog.Bus)(nil)
