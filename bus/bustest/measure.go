package bustest

import (
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
)

var measurePromises = []Promise{
	{"M1 a queue is measured: what waits, and what is in somebody's hands", measureQueue},
	{"M2 the store is measured", measureStore},
}

// becomes waits until a fact is there: a keeper may tell what it was a moment before.
func becomes(t *testing.T, what string, fact func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

func measured(t *testing.T, b bus.Bus, placement string) (q bus.QueueMeasure, all bus.Measures) {
	t.Helper()
	m, ok := b.(bus.Measurer)
	if !ok {
		t.Fatalf("%T cannot be measured", b)
	}
	all, err := m.Measure(within(t), []string{placement})
	must(t, "measure", err)
	if len(all.Queues) != 2 || all.Queues[0].Placement != placement || all.Queues[1].Placement != bus.WakesQueue {
		t.Fatalf("queues %+v", all.Queues)
	}
	return all.Queues[0], all
}

func measureQueue(t *testing.T, b bus.Bus) {
	p := place()
	if q, _ := measured(t, b, p); q.Waiting != 0 || q.Held != 0 {
		t.Errorf("a new placement: %+v", q)
	}
	for range 3 {
		mustPush(t, b, newItem(p))
	}
	first := mustPull(t, b, p)
	becomes(t, "one in hands, and two that wait", func() bool {
		q, _ := measured(t, b, p)
		return q.Waiting == 2 && q.Held == 1
	})
	must(t, "ack", first.Ack())
	for range 2 {
		must(t, "ack", mustPull(t, b, p).Ack())
	}
	becomes(t, "nothing", func() bool {
		q, _ := measured(t, b, p)
		return q.Waiting == 0 && q.Held == 0
	})
}

func measureStore(t *testing.T, b bus.Bus) {
	size := func() (messages, bytes uint64) {
		_, all := measured(t, b, place())
		for _, s := range all.Streams {
			messages, bytes = messages+s.Messages, bytes+s.Bytes
		}
		return messages, bytes
	}
	messages, bytes := size()
	mustAppend(t, b, newTurn(), 0, 1)
	becomes(t, "the store has grown", func() bool {
		m, n := size()
		return m > messages && n > bytes
	})
}
