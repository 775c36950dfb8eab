package readstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

var (
	scaleEvents = flag.Int("scale.events", 0, "events of the log of TestScale")
	scaleDir    = flag.String("scale.dir", "", "where TestScale makes its store; left out: a directory that is removed")
)

// Shapes of the made-up log of TestScale.
const (
	lanes     = 64 // turns that go on at once
	perTurn   = 5  // commits
	turnCalls = 4
	perTrace  = 10 // turns
	ofTurn    = 4 + 4*turnCalls
)

// bulk is a log of any length that is made while it is read: turns of four calls, 64 of
// them side by side, ten in a trace.
type bulk struct {
	paper
	commits uint64
}

func newBulk(n int) *bulk {
	rounds := uint64(max(1, n/ofTurn/lanes))
	return &bulk{paper: paper{spans: []span{{1, 1}}}, commits: rounds * lanes * perTurn}
}

func (b *bulk) Head(context.Context) (events.Position, error) {
	return events.Position{Generation: 1, Seq: b.commits + 1}, nil
}

func (b *bulk) Read(ctx context.Context, from events.Position, _ bus.Filter, _ bool, yield func(bus.Stored) error) error {
	for seq := max(from.Seq, 1); seq <= b.commits; seq++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(bulkCommit(seq)); err != nil {
			return err
		}
	}
	return nil
}

// traceOfTurn is the trace of a turn by its number.
func traceOfTurn(n uint64) string { return fmt.Sprintf("run-%08d", n/perTrace) }

var bulkTools = []string{"Read", "Grep", "Edit", "Bash", "charge", "fetch"}

var vocabulary = func() []string {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]string, 5000)
	for i := range out {
		w := make([]byte, 4+r.IntN(6))
		for j := range w {
			w[j] = "etaoinshrdlu"[r.IntN(12)]
		}
		out[i] = string(w)
	}
	return out
}()

// say is n words, some of which are said often.
func say(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(vocabulary[int(float64(len(vocabulary))*r.Float64()*r.Float64()*r.Float64())])
		b.WriteByte(' ')
	}
	return b.String()
}

// bulkCommit is the commit of a sequence.
func bulkCommit(seq uint64) bus.Stored {
	i := seq - 1
	lane, step, n := i%lanes, i/lanes%perTurn, i/lanes/perTurn*lanes+i%lanes
	r := rand.New(rand.NewPCG(seq, lane))
	c := events.Commit{
		ID: fmt.Sprintf("01M8NVP456B7%014d", seq), Turn: events.TurnKey{Trace: traceOfTurn(n), Turn: fmt.Sprintf("t%d", n%perTrace)},
		At: noon.Add(time.Duration(seq) * time.Millisecond), By: events.Owner{Boot: "01M8NVP456B7RSFXDVYAGMFEGA", Epoch: 1},
	}
	tool := func(call int) string { return bulkTools[(n+uint64(call)*7)%uint64(len(bulkTools))] }
	add := func(call int, seq uint32, e events.Event) {
		c.Records = append(c.Records, events.Record{Call: call, Seq: seq, Event: e})
	}
	args := func(call int) events.Body {
		return events.Body{Text: fmt.Sprintf(`{"order":"A-%d","call":%d,"text":%q}`, n, call, say(rand.New(rand.NewPCG(n, uint64(call))), 12))}
	}
	switch step {
	case 0:
		s := &events.TurnSubmitted{Principal: events.Principal{ID: fmt.Sprintf("agent-%d", n%97)}, Format: "openai"}
		for call := range turnCalls {
			s.Calls = append(s.Calls, events.RawCall{ProviderID: fmt.Sprintf("call_%d_%d", n, call), Tool: tool(call), Args: args(call)})
		}
		add(events.TurnEvent, 1, s)
	case 1:
		add(events.TurnEvent, 2, &events.TurnClaimed{Owner: c.By, Why: events.ClaimNew, Node: "node-1"})
		for call := range turnCalls {
			add(call, 1, &events.Requested{Tool: tool(call), Args: args(call)})
		}
		add(events.TurnEvent, 3, &events.TurnPlanned{Batches: [][]int{{0, 1}, {2}, {3}}, Policy: "rules-d2bb231c2a69"})
		for call := range turnCalls {
			add(call, 2, &events.Authorized{Verdict: events.Verdict{Tier: events.Readonly, Operation: events.Operation{Class: events.OpRead}, Policies: []string{"files.read"}}, Decision: "allow"})
		}
	default:
		for call := range turnCalls {
			if part := uint64(call)/2 + 2; part == step {
				add(call, 3, &events.Started{Attempt: 1, Owner: c.By, Deadline: c.At.Add(time.Minute)})
				add(call, 4, bulkEnd(r, n, call))
			}
		}
		if step == perTurn-1 {
			add(events.TurnEvent, 4, &events.TurnCompleted{Counts: map[events.Kind]int{events.KindCompleted: turnCalls}})
		}
	}
	return bus.Stored{Generation: 1, Seq: seq, Commit: c}
}

func bulkEnd(r *rand.Rand, n uint64, call int) events.Event {
	o := events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsNone, Output: 300, Stages: events.Stages{Run: int64(r.IntN(100_000))}}
	o.Result = events.Result{Status: events.Success, Text: events.Body{Text: say(r, 40)}}
	if n%20_011 == 17 && call == 0 {
		o.Effects = events.EffectsPossible
		return &events.Unknown{Outcome: o, Why: events.UnknownOwnerLost}
	}
	return &events.Completed{Outcome: o}
}

// TestScale fills a store from a log of -scale.events events, and prints how fast that
// is, how large it gets, and how long it takes to find something and to turn pages. It
// asserts what is found, not how fast.
func TestScale(t *testing.T) {
	dir := *scaleDir
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "store")
	}
	log := newBulk(*scaleEvents)
	turns := log.commits / perTurn
	n := int(turns) * ofTurn
	s := must(Open(t.Context(), Config{Dir: dir, Log: log, Rest: -1}))(t)
	defer func() { check(t, s.Stop()) }()
	began, cpu := time.Now(), cpuTime()
	check(t, s.Fill(t.Context(), false))
	took, used := time.Since(began), cpuTime()-cpu
	check(t, s.show())
	st := must(s.Status(t.Context()))(t)
	t.Logf("%d events in %d commits, %d turns, %d traces: filled in %v, %.0f events/s, with %v of one processor, %.0f events a second of it; %.1f MB, %.0f bytes an event; peak memory %s",
		n, log.commits, turns, turns/perTrace, took.Round(time.Millisecond), float64(n)/took.Seconds(), used.Round(time.Millisecond), float64(n)/used.Seconds(),
		float64(st.Bytes)/1e6, float64(st.Bytes)/float64(n), peak())
	one := turns / 3
	for _, c := range []struct {
		what string
		q    Query
		want string // a trace that must be on the first page
	}{
		{"the newest hundred", Query{}, traceOfTurn(turns - 1)},
		{"the oldest hundred", Query{Oldest: true}, traceOfTurn(0)},
		{"by a rare phrase", Query{Text: fmt.Sprintf(`"A-%d"`, one)}, traceOfTurn(one)},
		{"by a beginning", Query{Text: fmt.Sprintf(`call_%d_*`, one)}, traceOfTurn(one)},
		{"by a common word", Query{Text: "order"}, traceOfTurn(turns - 1)},
		{"by two common words", Query{Text: vocabulary[0] + " " + vocabulary[1]}, ""},
		{"by a rare and a common word", Query{Text: fmt.Sprintf(`order "A-%d"`, one)}, traceOfTurn(one)},
		{"by tool", Query{Tools: []string{"charge"}}, ""},
		{"by principal", Query{Principals: []string{"agent-5"}}, ""},
		{"by tool, principal and status", Query{Tools: []string{"charge"}, Principals: []string{"agent-5"}, Statuses: []string{"completed"}}, ""},
		{"by status, seldom", Query{Statuses: []string{"unknown"}, Oldest: true}, ""},
		{"by status, none", Query{Statuses: []string{"timed_out"}}, "-"},
		{"by tool and common word", Query{Tools: []string{"charge"}, Text: "order"}, ""},
		{"by status, seldom, and common word", Query{Statuses: []string{"unknown"}, Text: "order", Oldest: true}, ""},
		{"by status, none, and common word", Query{Statuses: []string{"timed_out"}, Text: "order"}, "-"},
		{"by time", Query{Since: noon.Add(time.Duration(log.commits/2) * time.Millisecond), Until: noon.Add(time.Duration(log.commits/2+1000) * time.Millisecond)}, ""},
	} {
		var times []time.Duration
		var page Page
		for range 5 {
			began := time.Now()
			page = must(s.Traces(t.Context(), c.q))(t)
			times = append(times, time.Since(began))
		}
		found := slices.ContainsFunc(page.Traces, func(tr Trace) bool { return tr.Trace == c.want })
		if c.want == "-" && len(page.Traces) > 0 || c.want != "" && c.want != "-" && !found {
			t.Errorf("%s: %d traces, and %s is not among them", c.what, len(page.Traces), c.want)
		}
		t.Logf("%-36s %4d traces  first %9v  worst of the next %9v", c.what, len(page.Traces), round(times[0]), round(slices.Max(times[1:])))
	}
	scaleTimelines(t, s, turns)
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// scaleTimelines opens traces at random, and pages through one.
func scaleTimelines(t *testing.T, s *Store, turns uint64) {
	r := rand.New(rand.NewPCG(7, 7))
	var times []time.Duration
	for range 200 {
		name := traceOfTurn(r.Uint64N(turns))
		began := time.Now()
		page := must(s.Timeline(t.Context(), name, TimelineQuery{}))(t)
		times = append(times, time.Since(began))
		if len(page.Moments) == 0 || page.Trace.Trace != name {
			t.Fatalf("%s: %+v", name, page)
		}
	}
	slices.Sort(times)
	t.Logf("a page of a random trace's timeline: p50 %v, p99 %v", round(times[100]), round(times[197]))
	began := time.Now()
	uses, _, err := s.Usage(t.Context(), UsageQuery{By: []string{ByTool, ByPrincipal}})
	check(t, err)
	t.Logf("usage by tool and principal: %d rows in %v", len(uses), round(time.Since(began)))
}

// cpuTime is what the process has used of the processors.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the process's largest size in memory.
func peak() string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// longTrace is a log of one trace of n events in one turn after the other.
func longTrace(n int) *paper {
	log := newPaper()
	for i := 0; n > 0; i++ {
		key := events.TurnKey{Trace: "long", Turn: fmt.Sprint("t", i)}
		c := events.Commit{ID: fmt.Sprint("l", i), Turn: key, At: noon, Records: []events.Record{{Call: events.TurnEvent, Seq: 1, Event: &events.TurnSubmitted{Calls: make([]events.RawCall, 2)}}}}
		for j := range uint32(49) {
			c.Records = append(c.Records, events.Record{Call: 0, Seq: j + 1, Event: &events.Progress{Text: "on its way"}})
		}
		log.put(c)
		n -= len(c.Records)
	}
	return log
}

// TestATraceOfFiftyThousandEventsIsPaged: no page is longer than was asked for, all
// together are the trace, and a page from the middle needs none before it.
func TestATraceOfFiftyThousandEventsIsPaged(t *testing.T) {
	n := 50_000
	if racing {
		n /= 10
	}
	log := longTrace(n)
	w := newWriter(t, t.TempDir(), "store-1.db")
	fill(t, w, log)
	check(t, w.close())
	r := must(openReader(w.path))(t)
	defer r.Close()
	seen, last := 0, events.Position{}
	for q := (TimelineQuery{Limit: MaxLimit}); ; {
		page := must(r.Timeline(t.Context(), "long", q))(t)
		if len(page.Moments) > MaxLimit || page.Trace.Events != n {
			t.Fatalf("%d moments of %d", len(page.Moments), page.Trace.Events)
		}
		for _, m := range page.Moments {
			p := must(events.ParsePosition(m.Pos))(t)
			if p.Compare(last) <= 0 {
				t.Fatalf("%s behind %s", p, last)
			}
			last = p
		}
		seen += len(page.Moments)
		if q.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	if seen != n {
		t.Errorf("%d events on all pages", seen)
	}
	page := must(r.Timeline(t.Context(), "long", TimelineQuery{Cursor: "1.50.10", Limit: 1}))(t)
	if len(page.Moments) != 1 || page.Moments[0].Pos != "1.50.11" {
		t.Errorf("%+v", page.Moments)
	}
	if _, err := r.Timeline(t.Context(), "short", TimelineQuery{}); !errors.Is(err, ErrNoTrace) {
		t.Error(err)
	}
}
