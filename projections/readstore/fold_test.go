package readstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// dirs gives each try of a random test a directory of its own.
func dirs(t *testing.T) func() string {
	base, n := t.TempDir(), 0
	return func() string {
		n++
		return filepath.Join(base, fmt.Sprint(n))
	}
}

func newWriter(t tb, dir, name string) *writer {
	t.Helper()
	lock := must(folder(dir).lock())(t)
	check(t, lock.Close())
	return must(openWriter(context.Background(), folder(dir), name, nil))(t)
}

func same(t tb, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %s", what, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}

// TestIncrementalEqualsRebuilt: however a log comes in, in pieces, with the process
// ended and begun again between them, with commits that cannot be read, what stands in
// the tables is what a fold of all of it gives.
func TestIncrementalEqualsRebuilt(t *testing.T) {
	dir := dirs(t)
	rapid.Check(t, func(t *rapid.T) {
		d, log := dir(), newPaper()
		w := newWriter(t, d, "store-1.db")
		for _, c := range drawCommits(t, rapid.Bool().Draw(t, "odd")) {
			log.put(c)
			if rapid.IntRange(0, 15).Draw(t, "spoil") == 0 {
				log.spoil()
			}
			switch rapid.IntRange(0, 5).Draw(t, "then") {
			case 0:
				must(w.pass(context.Background(), log, rapid.IntRange(1, 9).Draw(t, "stride")))(t)
			case 1:
				fill(t, w, log)
				check(t, w.close())
				w = newWriter(t, d, "store-1.db")
			}
		}
		fill(t, w, log)
		check(t, w.close())
		same(t, "in pieces", dump(t, w.path), rebuilt(t, d, log))
	})
}

// TestStoreTellsWhatTheFoldsTell: the tables and the folds of package projections
// are two ways to the same.
func TestStoreTellsWhatTheFoldsTell(t *testing.T) {
	dir := dirs(t)
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		log := newPaper()
		inbox, usage := projections.Inbox.Init(), projections.Usage.Init()
		times := map[string]projections.Moments{}
		for _, c := range drawCommits(t, false) {
			log.put(c)
		}
		check(t, log.Read(ctx, events.Position{}, bus.Filter{}, false, func(s bus.Stored) error {
			for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
				inbox, usage = projections.Inbox.Apply(inbox, e), projections.Usage.Apply(usage, e)
				m, ok := times[e.Turn.Trace]
				if !ok {
					m = projections.Timeline.Init()
				}
				times[e.Turn.Trace] = projections.Timeline.Apply(m, e)
			}
			return nil
		}))
		w := newWriter(t, dir(), "store-1.db")
		fill(t, w, log)
		check(t, w.close())
		r := must(openReader(w.path))(t)
		defer func() { check(t, r.Close()) }()
		if diff := cmp.Diff(inbox.List(), must(r.Approvals(ctx))(t)); diff != "" {
			t.Fatalf("inbox: %s", diff)
		}
		for trace, want := range times {
			got := must(r.Timeline(ctx, trace, TimelineQuery{Limit: MaxLimit}))(t)
			if diff := cmp.Diff(want.All, got.Moments); diff != "" {
				t.Fatalf("timeline: %s", diff)
			}
		}
		sameUsage(t, r, usage)
	})
}

func sameUsage(t tb, r *Reader, want projections.Counts) {
	t.Helper()
	all, _, err := r.Usage(context.Background(), UsageQuery{})
	check(t, err)
	if len(all) != 1 {
		t.Fatalf("%d rows of all", len(all))
	}
	u := all[0]
	if got := [...]int64{u.Turns, u.Completed, u.Abandoned, u.InputTokens, u.OutputTokens}; got != [...]int64{int64(want.Turns), int64(want.Completed), int64(want.Abandoned), want.Input, want.Output} {
		t.Fatalf("turns: %v, want %+v", got, want)
	}
	byTool, _, err := r.Usage(context.Background(), UsageQuery{By: []string{ByTool}})
	check(t, err)
	for _, u := range byTool {
		w := want.Tools[u.Tool]
		if w == nil {
			w = &projections.ToolUse{}
		}
		ends, effects := map[string]int64{}, map[string]int64{}
		for k, n := range w.Ends {
			ends[string(k)] = int64(n)
		}
		for k, n := range w.Effects {
			effects[string(k)] = int64(n)
		}
		got := []any{u.Calls, u.Attempts, u.Retries, u.Asked, u.RunUS, u.Bytes, u.Ends, u.Effects}
		if diff := cmp.Diff([]any{int64(w.Calls), int64(w.Attempts), int64(w.Retries), int64(w.Asked), w.RunUS, w.Bytes, ends, effects}, got); diff != "" {
			t.Fatalf("%s: %s", u.Tool, diff)
		}
	}
}

// errDied is what a process does at a fault.
var errDied = errors.New("it died")

// TestDyingAtAnyCommit: the process dies before or behind any transaction, and
// another one goes on. Nothing is counted twice, and nothing is missing.
func TestDyingAtAnyCommit(t *testing.T) {
	dir := dirs(t)
	rapid.Check(t, func(t *rapid.T) {
		d, log := dir(), newPaper()
		for _, c := range drawCommits(t, false) {
			log.put(c)
		}
		deaths := 0
		var w *writer
		for {
			w = newWriter(t, d, "store-1.db")
			w.fault = func(string) error {
				if deaths < 12 && rapid.IntRange(0, 2).Draw(t, "die") == 0 {
					deaths++
					return errDied
				}
				return nil
			}
			level, err := w.pass(context.Background(), log, rapid.IntRange(1, 8).Draw(t, "stride"))
			check(t, w.close())
			if err != nil && !errors.Is(err, errDied) {
				t.Fatalf("%v", err)
			}
			if level {
				break
			}
		}
		same(t, fmt.Sprint("after ", deaths, " deaths"), dump(t, w.path), rebuilt(t, d, log))
	})
}

// TestAFaultLeavesTheWriterWhole: the same, and the process lives on.
func TestAFaultLeavesTheWriterWhole(t *testing.T) {
	dir := dirs(t)
	rapid.Check(t, func(t *rapid.T) {
		d, log := dir(), newPaper()
		for _, c := range drawCommits(t, false) {
			log.put(c)
		}
		w := newWriter(t, d, "store-1.db")
		faults := 0
		w.fault = func(string) error {
			if faults < 12 && rapid.IntRange(0, 2).Draw(t, "fail") == 0 {
				faults++
				return errDied
			}
			return nil
		}
		for level := false; !level; {
			var err error
			level, err = w.pass(context.Background(), log, rapid.IntRange(1, 8).Draw(t, "stride"))
			if err != nil && !errors.Is(err, errDied) {
				t.Fatalf("%v", err)
			}
		}
		check(t, w.close())
		same(t, fmt.Sprint("after ", faults, " faults"), dump(t, w.path), rebuilt(t, d, log))
	})
}

// TestRewound: the log loses its tail, with what was folded, and goes on otherwise.
func TestRewound(t *testing.T) {
	dir := dirs(t)
	rapid.Check(t, func(t *rapid.T) {
		d, log := dir(), newPaper()
		w := newWriter(t, d, "store-1.db")
		n := 0
		for round := range rapid.IntRange(2, 4).Draw(t, "rounds") {
			for _, c := range drawCommits(t, false) {
				n++
				c.ID = fmt.Sprint("c-", round, "-", n)
				log.put(c)
				if rapid.IntRange(0, 20).Draw(t, "spoil") == 0 {
					log.spoil()
				}
			}
			catchUp(t, w, log)
			log.lose(rapid.IntRange(0, 12).Draw(t, "lost"))
			if rapid.Bool().Draw(t, "look") {
				catchUp(t, w, log)
			}
		}
		catchUp(t, w, log)
		check(t, w.close())
		got, want := dump(t, w.path), rebuilt(t, d, log)
		same(t, "mended", behind(got), behind(want))
	})
}

// behind is a dump without its first line: where reading goes on is told by
// the generation in which it was read.
func behind(dump string) string {
	_, rest, _ := strings.Cut(dump, "\n")
	return rest
}

// catchUp is what a store's loop does.
func catchUp(t tb, w *writer, log Source) {
	t.Helper()
	for range 20 {
		level, err := w.pass(context.Background(), log, 1<<30)
		switch {
		case errors.Is(err, bus.ErrRewound):
			check(t, w.rewind(context.Background(), log))
		case err != nil:
			t.Fatalf("%v", err)
		case level:
			return
		}
	}
	t.Fatalf("it does not come to the head")
}

// TestPruned: what the log has dropped goes, and what is left is what a fold of the
// rest gives, but for turns of which a part is left.
func TestPruned(t *testing.T) {
	dir := dirs(t)
	rapid.Check(t, func(t *rapid.T) {
		d, log := dir(), newPaper()
		w := newWriter(t, d, "store-1.db")
		early := drawCommits(t, false)
		for i, c := range early {
			c.Turn.Trace = "early-" + c.Turn.Trace
			early[i] = c
			log.put(c)
		}
		for _, c := range drawCommits(t, false) {
			c.ID = "late-" + c.ID
			log.put(c)
		}
		fill(t, w, log)
		first := uint64(len(early)) + 1
		log.forget(first)
		for more := true; more; {
			var err error
			more, err = w.prune(context.Background(), first)
			check(t, err)
		}
		check(t, w.close())
		same(t, "pruned", dump(t, w.path), rebuilt(t, d, log))
	})
}

// TestNothingIsKeptBeforeTheFirst: also of turns that go on.
func TestNothingIsKeptBeforeTheFirst(t *testing.T) {
	log := newPaper()
	key := events.TurnKey{Trace: "t", Turn: "1"}
	log.put(events.Commit{ID: "1", Turn: key, At: noon, Records: []events.Record{{Call: -1, Seq: 1, Event: &events.TurnSubmitted{Calls: []events.RawCall{{Tool: "Read"}}}}}})
	log.put(events.Commit{ID: "2", Turn: key, At: noon, Records: []events.Record{{Call: 0, Seq: 1, Event: &events.Requested{}}}})
	w := newWriter(t, t.TempDir(), "store-1.db")
	fill(t, w, log)
	more, err := w.prune(t.Context(), 2)
	if err != nil || more {
		t.Fatalf("more %t, %v", more, err)
	}
	check(t, w.close())
	r := must(openReader(w.path))(t)
	defer r.Close()
	page := must(r.Timeline(t.Context(), "t", TimelineQuery{}))(t)
	if len(page.Moments) != 1 || page.Moments[0].Pos != "1.2.0" {
		t.Errorf("%+v", page.Moments)
	}
}

// TestEventsOfNewerReleasesAreKeptByKind and are counted.
func TestEventsOfNewerReleasesAreKeptByKind(t *testing.T) {
	log := newPaper()
	key := events.TurnKey{Trace: "t", Turn: "1"}
	log.put(events.Commit{ID: "1", Turn: key, At: noon, Records: []events.Record{
		{Call: -1, Seq: 1, Event: &events.TurnSubmitted{Calls: []events.RawCall{{Tool: "Read"}}}},
		{Call: 0, Seq: 1, Event: events.Foreign{Name: "dreamt", Version: 3, Body: []byte{0x80}}},
	}})
	w := newWriter(t, t.TempDir(), "store-1.db")
	fill(t, w, log)
	check(t, w.close())
	r := must(openReader(w.path))(t)
	defer r.Close()
	page := must(r.Timeline(t.Context(), "t", TimelineQuery{}))(t)
	if !page.Trace.Newer || len(page.Moments) != 2 || page.Moments[1].Kind != "dreamt" || page.Moments[1].Tool != "Read" {
		text, _ := json.Marshal(page)
		t.Errorf("%s", text)
	}
}

// TestAThousandCommitsThatCannotBeRead are noted, passed over and not read again.
func TestAThousandCommitsThatCannotBeRead(t *testing.T) {
	log := newPaper()
	key := events.TurnKey{Trace: "t", Turn: "1"}
	put := func(id string) {
		log.put(events.Commit{ID: id, Turn: key, At: noon, Records: []events.Record{{Call: -1, Event: &events.TurnClaimed{}}}})
	}
	put("1")
	for range 1000 {
		log.spoil()
	}
	w := newWriter(t, t.TempDir(), "store-1.db")
	fill(t, w, log)
	before := log.reads
	fill(t, w, log)
	if n := log.reads - before; n > 3 {
		t.Errorf("%d reads for nothing", n)
	}
	put("2")
	fill(t, w, log)
	var n int
	check(t, w.db.QueryRow(`SELECT count(*) FROM damaged`).Scan(&n))
	if n != 1000 || w.at.folded.Seq != 1003 {
		t.Errorf("%d noted, folded up to %s", n, w.at.folded)
	}
	check(t, w.close())
}

// TestDays: a day is UTC's, also before 1970.
func TestDays(t *testing.T) {
	for _, c := range []struct {
		at   time.Time
		want int64
	}{
		{time.Unix(0, 0), 0},
		{time.Unix(-1, 0), -1},
		{time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), -1},
		{time.Date(1970, 1, 2, 0, 0, 0, 0, time.FixedZone("", -3600)), 1},
	} {
		if got := dayOf(c.at.UnixMicro()); got != c.want {
			t.Errorf("%s: %d, want %d", c.at, got, c.want)
		}
	}
}

// TestColumnsOfUsageHaveTheirPlaces: what is counted is named where it is put.
func TestColumnsOfUsageHaveTheirPlaces(t *testing.T) {
	for i, name := range map[int]string{0: "turns", useCalls: "calls", useEffects: "effects_none", useEnds: "ended_" + string(endings[0])} {
		if slices.Index(usageNames, name) != i {
			t.Errorf("%s is not at %d", name, i)
		}
	}
	if len(usageNames) > len(usage{}) {
		t.Errorf("%d columns", len(usageNames))
	}
}
