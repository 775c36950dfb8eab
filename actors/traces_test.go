package actors

import (
	"context"
	"fmt"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
)

// reader is a bus that counts the commits of traces that are read from it.
type reader struct {
	bus.Bus
	read int
}

func (r *reader) Read(ctx context.Context, from events.Position, f bus.Filter, follow bool, yield func(bus.Stored) error) error {
	return r.Bus.Read(ctx, from, f, follow, func(s bus.Stored) error {
		r.read++
		return yield(s)
	})
}

// TestHistoryReadsOn: a trace is read from where it was read before, is whole all the same,
// and what is remembered is bounded.
func TestHistoryReadsOn(t *testing.T) {
	log := memlog.New(memlog.Config{})
	b := &reader{Bus: log.View("n")}
	n := &Node{cfg: Config{Bus: b}}
	for i := range 50 {
		key := events.TurnKey{Trace: "t1", Turn: fmt.Sprint("u", i)}
		submitTo(t, log.View("door"), key, events.TurnSubmitted{Principal: events.Principal{ID: "a"}, Calls: []events.RawCall{{Tool: "echo"}}})
		history, err := n.traceHistory(t.Context(), "t1")
		if err != nil || len(history) != i+1 || history[i].Turn != key {
			t.Fatalf("%d commits after %d turns, %v", len(history), i+1, err)
		}
	}
	if b.read != 50 {
		t.Errorf("50 commits were read %d times", b.read)
	}
	if again, err := n.traceHistory(t.Context(), "t1"); err != nil || len(again) != 50 {
		t.Errorf("%d, %v", len(again), err)
	}
	for i := range 3 * mostTraces {
		n.recall.put(fmt.Sprint("x", i), remembered{bytes: 10, next: events.Position{Generation: 1, Seq: 1}})
	}
	n.recall.put("huge", remembered{bytes: mostBytes + 1})
	n.recall.put("large", remembered{bytes: mostBytes, commits: make([]events.Commit, 3), next: events.Position{Generation: 1, Seq: 1}})
	if _, huge := n.recall.of["huge"]; huge || len(n.recall.of) > mostTraces || n.recall.bytes > mostBytes || len(n.recall.get("large", 1).commits) != 3 {
		t.Errorf("%d traces, %d bytes", len(n.recall.of), n.recall.bytes)
	}
	if h := n.recall.get("large", 2); len(h.commits) != 0 {
		t.Error("of a generation before this one something counts")
	}
}
