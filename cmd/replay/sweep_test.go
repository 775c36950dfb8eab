package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// swept verifies a shelf.
func swept(t *testing.T, log *shelf, limit int) *report {
	t.Helper()
	r := &report{}
	s := newSweeper(log, nil, r)
	if limit > 0 {
		s.limit = limit
	}
	if err := s.run(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return r
}

// lawsOf are the laws of the problems, in order.
func lawsOf(r *report) string {
	var out []string
	for _, p := range r.first {
		out = append(out, p.Law)
	}
	return strings.Join(out, " ")
}

func TestSweepOfALawfulLog(t *testing.T) {
	log := (&shelf{}).place(corpusLog("ends")...).place(corpusLog("people")...).place(corpusLog("owners")...).place(quick("q", "1")...)
	r := swept(t, log, 0)
	if r.count != 0 || r.traces != 4 || r.turns != 9 || r.open != 1 || r.events != 61+41+56+8 {
		t.Errorf("%+v", r)
	}
}

// TestSweepWithLittleRoom: turns that do not fit are read again, with the same result.
func TestSweepWithLittleRoom(t *testing.T) {
	log := &shelf{}
	lists := [][]events.Commit{corpusLog("ends"), corpusLog("people"), corpusLog("owners")}
	for i := range 50 { // the three interleaved
		for _, l := range lists {
			if i < len(l) {
				log.place(l[i])
			}
		}
	}
	wide, narrow := swept(t, log, 0), swept(t, log, 1)
	if wide.count != narrow.count || wide.turns != narrow.turns || wide.events != narrow.events || wide.open != narrow.open || wide.count != 0 {
		t.Errorf("wide %+v\nnarrow %+v", wide, narrow)
	}
}

// TestSweepBehindTheEnd: what comes behind a turn's end is judged with all before it,
// and what was found of the turn already is told once.
func TestSweepBehindTheEnd(t *testing.T) {
	turn := quick("q", "1")
	late := events.Commit{ID: "late", Turn: turn[0].Turn, At: turn[0].At, Records: []events.Record{
		{Call: 0, Seq: 5, Event: &events.LateResult{Owner: turn[1].By, Outcome: events.Outcome{Attempt: 1}}},
	}}
	if r := swept(t, (&shelf{}).place(turn...).place(quick("q", "2")...).place(late), 0); r.count != 0 || r.turns != 2 {
		t.Errorf("%v", r.first)
	}
	late.Records[0].Seq = 9
	turn[1].Records[6].Event.(*events.TurnCompleted).Counts[events.KindCompleted] = 3
	r := swept(t, (&shelf{}).place(turn...).place(quick("q", "2")...).place(late), 0)
	if got := lawsOf(r); got != "counts L1" || r.first[1].Position.Seq != 5 {
		t.Errorf("%s: %v", got, r.first)
	}
}

func TestSweepNamesWhatIsMissing(t *testing.T) {
	log := (&shelf{}).place(quick("a", "1")...).place(quick("b", "1")...).place(quick("c", "1")...)
	log.commits = slices.Delete(log.commits, 2, 4)
	r := swept(t, log, 0)
	if lawsOf(r) != lawGap || r.first[0].Position != (events.Position{Generation: 1, Seq: 3}) || r.first[0].Why != "the commits 3 to 4 are not in the log" {
		t.Errorf("%v", r.first)
	}
	log = (&shelf{}).place(quick("a", "1")...)
	log.place(quick("b", "1")[0]).place(quick("c", "1")...)
	log.bad = map[uint64]bool{2: true, 3: true}
	if r := swept(t, log, 0); lawsOf(r) != "unreadable unreadable" || r.turns != 2 || r.events != 1+8 {
		t.Errorf("%+v", r)
	}
}

// TestSweepOfALogWithoutItsBeginning: retention takes whole commits from the front.
func TestSweepOfALogWithoutItsBeginning(t *testing.T) {
	log := (&shelf{}).place(quick("a", "1")...).place(quick("b", "1")...)
	log.commits = log.commits[1:]
	if r := swept(t, log, 0); r.count != 0 || r.headless != 1 || r.turns != 2 {
		t.Errorf("%+v", r)
	}
	log.commits = slices.Delete(log.commits, 1, 2) // for the middle there is no such excuse
	if r := swept(t, log, 0); lawsOf(r) != lawGap || r.first[0].Why != "commit 3 is not in the log" {
		t.Errorf("%v", r.first)
	}
}

// TestCheckFindsEachFault puts one fault at a time into a lawful turn.
func TestCheckFindsEachFault(t *testing.T) {
	for name, f := range map[string]struct {
		change func([]events.Commit)
		want   string
	}{
		"none":                 {func([]events.Commit) {}, ""},
		"a number is left out": {func(c []events.Commit) { c[1].Records[5].Seq = 5 }, "L1"},
		"started again":        {func(c []events.Commit) { c[1].Records[5].Event = &events.Started{Attempt: 2} }, "L"},
		"no approval":          {func(c []events.Commit) { c[1].Records[3].Event.(*events.Authorized).Decision = "approved" }, "L3"},
		"another's event":      {func(c []events.Commit) { c[1].Records[0].Event.(*events.TurnClaimed).Owner.Boot = "x" }, "L11"},
		"its count is wrong": {func(c []events.Commit) {
			delete(c[1].Records[6].Event.(*events.TurnCompleted).Counts, events.KindCompleted)
		}, lawCounts},
		"answers that are not":    {func(c []events.Commit) { c[1].Records = slices.Delete(c[1].Records, 5, 6) }, "L7"},
		"a denial that has run":   {func(c []events.Commit) { c[1].Records[5].Event = &events.Denied{Gate: "allow"} }, "L10"},
		"a nanosecond in a clock": {func(c []events.Commit) { c[1].At = c[1].At.Add(1) }, "L9"},
	} {
		turn := quick("q", "1")
		f.change(turn)
		r := swept(t, (&shelf{}).place(turn...), 0)
		if got := lawsOf(r); f.want == "" && got != "" || !strings.Contains(got, f.want) {
			t.Errorf("%s: found %q: %v", name, got, r.first)
		}
	}
}

func TestSweepStopsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	log := &shelf{}
	for i := range 100 {
		log.place(quick("a", string(rune('A'+i%26))+string(rune('A'+i/26)))...)
	}
	if err := newSweeper(log, nil, &report{}).run(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestScanGoesOnInALaterGeneration(t *testing.T) {
	log := (&shelf{}).place(quick("a", "1")...).place(quick("b", "1")...).place(quick("c", "1")...)
	for i := 3; i < len(log.commits); i++ {
		log.commits[i].Generation = 3
	}
	log.bad = map[uint64]bool{1: true, 3: true, 4: true}
	var bad, good []uint64
	err := scan(t.Context(), log, bus.Filter{}, func(d damage) { bad = append(bad, d.Position.Seq) }, func(s bus.Stored) error {
		good = append(good, s.Seq)
		return nil
	})
	if err != nil || !slices.Equal(bad, []uint64{1, 3, 4}) || !slices.Equal(good, []uint64{2, 5, 6}) {
		t.Errorf("%v, bad %v, good %v", err, bad, good)
	}
}

func TestReportKeepsTheFirst(t *testing.T) {
	r := &report{}
	for i := range 3 * keptProblems {
		r.add(problem{Position: events.Position{Generation: 1, Seq: uint64(3*keptProblems - i)}})
	}
	if r.count != 3*keptProblems || len(r.first) != keptProblems || r.first[0].Position.Seq != 1 || r.first[keptProblems-1].Position.Seq != keptProblems {
		t.Errorf("%d, %d, %v", r.count, len(r.first), r.first[0])
	}
}

func TestPlaces(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 33, 40, 258, 10_000} {
		got := places(n)
		if len(got) != min(n, mostPlaces) {
			t.Errorf("%d places of %d", len(got), n)
		}
		for i := range min(n, 8) {
			if !got[i] || !got[n-1-i] {
				t.Errorf("of %d: the edges are missing", n)
			}
		}
	}
}

// TestNothingIsNotAll: where every turn lacks its beginning no law was checked, and where
// some do the others were.
func TestNothingIsNotAll(t *testing.T) {
	for _, c := range []struct {
		turns, headless int
		want            string
		ok              bool
	}{
		{2, 2, "nothing could be checked\n", false},
		{2, 1, "all laws hold in what could be checked\n", true},
		{2, 0, "all laws hold\n", true},
		{0, 0, "all laws hold\n", true},
	} {
		var out bytes.Buffer
		a := &app{out: bufio.NewWriter(&out)}
		err := a.printReport(&report{turns: c.turns, headless: c.headless})
		if ferr := a.out.Flush(); ferr != nil {
			t.Fatal(ferr)
		}
		if (err == nil) != c.ok || !strings.HasSuffix(out.String(), ": "+c.want) {
			t.Errorf("%d of %d without a beginning: %v, %q", c.headless, c.turns, err, out.String())
		}
	}
}
