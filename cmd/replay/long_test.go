package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
)

// TestALongTraceIsReadPageByPage: of a trace of fifty thousand events the first reading
// keeps little more than where each commit stands, and any place of it is shown by
// reading what is near. One turn of it is a hundred times as long as the others.
func TestALongTraceIsReadPageByPage(t *testing.T) {
	log := &shelf{}
	total := 0
	put := func(commits []events.Commit) {
		log.place(commits...)
		total += eventsIn(commits)
	}
	for n := 0; total < 50_000; n++ {
		put(broad("long", n))
		if n == 700 {
			put(long("long", "endless", 800))
		}
	}
	b, err := openBook(t.Context(), log, "long", end)
	if err != nil {
		t.Fatal(err)
	}
	if b.events != total || len(b.commits) != len(log.commits) || log.yields != len(log.commits) {
		t.Fatalf("%d events in %d commits, of %d and %d; %d commits were read", b.events, len(b.commits), total, len(log.commits), log.yields)
	}
	states := 0
	for _, c := range b.turns {
		states += len(c.states)
	}
	if want := b.of["endless"].events / stretch; states != want {
		t.Errorf("%d states are kept, want %d: those of the one long turn", states, want)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const limit = 100
	most := 0
	for range 60 {
		at := b.place(r.IntN(total))
		log.yields = 0
		p, err := b.page(t.Context(), choice{target: target{trace: "long", call: noCall}, at: at, limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, log.yields)
		if text := drawn(p); !strings.Contains(text, at.String()+" ") {
			t.Fatalf("%s is not on its page:\n%s", at, text)
		}
		if p.to != at || p.events != b.before(at)+1 {
			t.Fatalf("the page at %s ends at %s, behind %d events", at, p.to, p.events)
		}
	}
	// A page, what its turns had before it, and at most a stretch of the long one.
	if most > 2*(limit+stretch) {
		t.Errorf("%d commits were read for one page", most)
	}
}
