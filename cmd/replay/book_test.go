package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
)

// long is a lawful turn of two calls: the first is tried again and again, and tells of
// its progress, n times each.
func long(trace, turn string, n int) []events.Commit {
	c := compose(trace, turn)
	c.begin(events.Readonly, rawCalls("Read", 2)...)
	for i := range n {
		c.start(0, i+1)
		c.add(0, &events.Progress{Attempt: i + 1, Text: fmt.Sprintf("step %d", i)})
		c.add(0, &events.Retrying{Attempt: i + 1, Class: events.ClassUnavailable, Until: c.at, Effects: events.EffectsNone})
	}
	c.start(0, n+1)
	c.add(0, &events.Completed{Outcome: outcome(n+1, events.ClassOK, "fine")})
	c.start(1, 1)
	c.add(1, &events.Completed{Outcome: outcome(1, events.ClassOK, "fine")})
	return c.end()
}

// woven are lists of commits, one from each in turn.
func woven(lists ...[]events.Commit) *shelf {
	log := &shelf{}
	for some := true; some; {
		some = false
		for i, l := range lists {
			if len(l) > 0 {
				log.place(l[0])
				lists[i], some = l[1:], true
			}
		}
	}
	return log
}

// bookOf reads a trace with a stretch.
func bookOf(ctx context.Context, log source, trace string, at events.Position, stretch int) (*book, error) {
	b := &book{trace: trace, log: log, of: make(map[string]*chapter), stretch: stretch}
	return b, b.open(ctx, at)
}

// quietApp is an app whose output is kept.
func quietApp(out io.Writer) *app {
	return &app{in: strings.NewReader(""), out: bufio.NewWriter(out), err: io.Discard, set: newSettings()}
}

// drawn is a page as it is printed.
func drawn(p *page) string {
	var b bytes.Buffer
	a := quietApp(&b)
	a.tree(p, false)
	a.out.Flush()
	return b.String()
}

// TestAPageIsTheSameFromEveryBook: whatever was remembered, and however far the book
// goes, the page is what reading everything gives.
func TestAPageIsTheSameFromEveryBook(t *testing.T) {
	late := events.Commit{ID: "late", Turn: events.TurnKey{Trace: "a", Turn: "1"}, At: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC), Records: []events.Record{
		{Call: 0, Seq: 5, Event: &events.LateResult{Owner: events.Owner{Boot: "b", Epoch: 1}, Outcome: events.Outcome{Attempt: 1}}},
	}}
	log := woven(append(quick("a", "1"), late), long("a", "2", 40), long("other", "1", 5), quick("a", "3"), long("a", "4", 3), quick("a", "5"))
	last := log.commits[len(log.commits)-1].Seq
	rapid.Check(t, func(t *rapid.T) {
		position := func(name string) events.Position {
			return events.Position{Generation: 1, Seq: rapid.Uint64Range(1, last+1).Draw(t, name), Index: rapid.IntRange(0, 3).Draw(t, name+" index")}
		}
		c := choice{target: target{trace: "a", call: noCall}, at: end, limit: rapid.IntRange(0, 50).Draw(t, "limit")}
		if rapid.Bool().Draw(t, "somewhere") {
			c.at = position("at")
		}
		if rapid.Bool().Draw(t, "from") {
			c.from = position("from")
		}
		c.turn = rapid.SampledFrom([]string{"", "", "1", "2", "4"}).Draw(t, "turn")
		if c.turn != "" && rapid.Bool().Draw(t, "one call") {
			c.call = 0
		}
		told := func(at events.Position, stretch int) string {
			b, err := bookOf(t.Context(), log, "a", at, stretch)
			if err != nil {
				return err.Error()
			}
			p, err := b.page(t.Context(), c)
			if err != nil {
				return err.Error()
			}
			shown := 0
			for _, st := range p.stories {
				for n, tale := range st.calls {
					if c.call == noCall || c.call == n {
						shown += len(tale.events)
					}
				}
				if c.call == noCall {
					shown += len(st.events)
				}
			}
			if c.limit > 0 && shown > c.limit {
				t.Fatalf("%d events on a page of %d", shown, c.limit)
			}
			if total := p.before + shown + p.after; c.turn == "" && total != p.events {
				t.Fatalf("%d before, %d shown, %d behind: of %d", p.before, shown, p.after, p.events)
			}
			return drawn(p)
		}
		want := told(end, 1<<30)
		for _, stretch := range []int{1, 7, 64} {
			if got := told(end, stretch); got != want {
				t.Fatalf("stretch %d:\n%s\nwant\n%s", stretch, got, want)
			}
		}
		if got := told(c.at, 7); got != want && c.at != end {
			// The book that ends there knows whether there is more, by another way.
			t.Fatalf("a book up to the position:\n%s\nwant\n%s", got, want)
		}
	})
}

// TestPagesFollowEachOther: going on from page to page shows each event once.
func TestPagesFollowEachOther(t *testing.T) {
	log := woven(quick("a", "1"), long("a", "2", 40), quick("a", "3"))
	b, err := bookOf(t.Context(), log, "a", end, 16)
	if err != nil {
		t.Fatal(err)
	}
	c := choice{target: target{trace: "a", call: noCall}, at: end, limit: 10}
	seen := map[events.Position]int{}
	n := 0
	for {
		p, err := b.page(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range p.stories {
			for _, e := range st.events {
				seen[e.ev.Pos]++
			}
			for _, tale := range st.calls {
				for _, e := range tale.events {
					seen[e.ev.Pos]++
				}
			}
		}
		if n++; p.after == 0 {
			break
		}
		c.from = p.next()
	}
	if len(seen) != b.events || n != (b.events+9)/10 {
		t.Errorf("%d of %d events on %d pages", len(seen), b.events, n)
	}
	for pos, times := range seen {
		if times != 1 {
			t.Errorf("%s was shown %d times", pos, times)
		}
	}
}
