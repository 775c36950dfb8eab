package otlp

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/test/collector"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long anything may take that has to come about by itself.
const patience = 60 * time.Second

// poll waits until the fact is there.
func poll(t *testing.T, what string, fact func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// world is a log that tests write themselves.
type world struct {
	t    *testing.T
	log  *memlog.Log
	bus  bus.Bus
	desk *gateway.Desk
	at   map[events.TurnKey]uint64
	seqs map[events.CallKey]uint32
	ids  int
	now  time.Time
}

func newWorld(t *testing.T) *world {
	log := memlog.New(memlog.Config{})
	t.Cleanup(func() { must(t, log.Close()) })
	view := log.View("one")
	return &world{
		t: t, log: log, bus: view, desk: gateway.NewDesk(gateway.DeskConfig{Bus: view}),
		at: make(map[events.TurnKey]uint64), seqs: make(map[events.CallKey]uint32), now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
	}
}

func on(call int, e events.Event) events.Record { return events.Record{Call: call, Event: e} }

// keep appends a commit of the turn, a millisecond after the last one.
func (w *world) keep(key events.TurnKey, records ...events.Record) {
	w.t.Helper()
	for i := range records {
		w.seqs[key.Call(records[i].Call)]++
		records[i].Seq = w.seqs[key.Call(records[i].Call)]
	}
	w.ids++
	w.now = w.now.Add(time.Millisecond)
	s, err := w.bus.Append(w.t.Context(), events.Commit{ID: fmt.Sprint("c", w.ids), Turn: key, At: w.now, Records: records}, w.at[key])
	must(w.t, err)
	w.at[key] = s.Seq
}

func (w *world) sync() { must(w.t, w.bus.Barrier().Wait(w.t.Context())) }

var owner = events.Owner{Boot: "boot", Epoch: 1}

// begin submits a turn of so many calls, and starts the first attempt of each.
func (w *world) begin(key events.TurnKey, calls int, parent string) {
	w.t.Helper()
	sub := &events.TurnSubmitted{Principal: events.Principal{ID: "agent"}, Traceparent: parent}
	records := []events.Record{on(events.TurnEvent, sub)}
	for i := range calls {
		sub.Calls = append(sub.Calls, events.RawCall{ProviderID: fmt.Sprint("call_", i), Tool: "echo"})
		records = append(records, on(i, &events.Requested{ProviderID: fmt.Sprint("call_", i), Tool: "echo", Args: events.Body{Text: "{}"}}))
	}
	w.keep(key, records...)
	started := []events.Record{on(events.TurnEvent, &events.TurnClaimed{Owner: owner, Why: events.ClaimNew})}
	for i := range calls {
		started = append(started, on(i, &events.Authorized{Verdict: events.Verdict{Tier: events.Readonly}}), on(i, &events.Started{Attempt: 1, Owner: owner}))
	}
	w.keep(key, started...)
}

// end completes every call of a turn, and the turn.
func (w *world) end(key events.TurnKey, calls int) {
	w.t.Helper()
	var records []events.Record
	for i := range calls {
		records = append(records, on(i, &events.Completed{Outcome: events.Outcome{Attempt: 1, Class: events.ClassOK, Effects: events.EffectsNone}}))
	}
	w.keep(key, append(records, on(events.TurnEvent, &events.TurnCompleted{Counts: map[events.Kind]int{events.KindCompleted: calls}}))...)
}

// turns runs so many turns of two calls to their ends.
func (w *world) turns(trace string, n int) {
	w.t.Helper()
	for i := range n {
		key := events.TurnKey{Trace: trace, Turn: fmt.Sprint("t", i)}
		w.begin(key, 2, "")
		w.end(key, 2)
	}
	w.sync()
}

// exporter starts one with short pauses. change may set more.
func (w *world) exporter(at string, change ...func(*Config)) *Exporter {
	w.t.Helper()
	target, err := ParseTarget(at, "")
	must(w.t, err)
	c := Config{
		Desk: w.desk, Bus: w.bus, Target: target, Holder: fmt.Sprint("node", w.ids, len(change)), Version: "v1",
		Look: time.Millisecond, Pause: time.Millisecond, Lease: time.Second, Grace: patience, Now: func() time.Time { return w.now },
	}
	for _, f := range change {
		f(&c)
	}
	x, err := New(c)
	must(w.t, err)
	must(w.t, x.Start(w.t.Context()))
	w.t.Cleanup(x.Stop)
	return x
}

// working waits until an exporter has the role.
func working(t *testing.T, x *Exporter) *Exporter {
	t.Helper()
	poll(t, "it has the role", x.counts.working)
	return x
}

// byGRPC exports over gRPC instead.
func byGRPC(c *Config) { c.Target.Protocol = ProtocolGRPC }

// repeated are the spans that came more than once.
func repeated(c *collector.Collector) (out []string) {
	for _, s := range c.Spans() {
		if s.Times != 1 {
			out = append(out, fmt.Sprintf("%s %s: %d times", s.Name, s.ID(), s.Times))
		}
	}
	return out
}

// metric is the value of a metric without labels.
func metric(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	must(t, r.Register(c))
	families, err := r.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}
