package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// TestAlignLosesNothing: each event of both lists has one place, in its order, and what
// stands side by side is of one kind or answers one question.
func TestAlignLosesNothing(t *testing.T) {
	kinds := []events.Event{
		&events.Requested{}, &events.Authorized{}, &events.Denied{}, &events.Started{}, &events.Retrying{}, &events.Recovered{}, &events.Completed{}, &events.Failed{}, &events.LateResult{},
	}
	rapid.Check(t, func(t *rapid.T) {
		list := func(name string) []told {
			var out []told
			for i, e := range rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 12).Draw(t, name) {
				out = append(out, told{ev: projections.Event{Pos: events.Position{Seq: uint64(i + 1)}, Record: events.Record{Event: e}}})
			}
			return out
		}
		a, b := list("a"), list("b")
		equal := slices.EqualFunc(a, b, func(x, y told) bool { return x.ev.Kind() == y.ev.Kind() })
		var seenA, seenB []uint64
		for _, p := range align(slices.Clone(a), slices.Clone(b)) {
			if p.a != nil {
				seenA = append(seenA, p.a.ev.Pos.Seq)
			}
			if p.b != nil {
				seenB = append(seenB, p.b.ev.Pos.Seq)
			}
			switch {
			case p.a == nil || p.b == nil:
				if equal {
					t.Fatalf("of two lists alike, one event has no partner")
				}
			case p.a.ev.Kind() != p.b.ev.Kind() && !alike(p.a.ev.Kind(), p.b.ev.Kind()):
				t.Fatalf("%s stands beside %s", p.a.ev.Kind(), p.b.ev.Kind())
			}
		}
		slices.Sort(seenB) // two ends that are set side by side may leave their order in b
		if !slices.IsSorted(seenA) || len(seenA) != len(a) || len(slices.Compact(seenB)) != len(b) {
			t.Fatalf("of %d and %d events %v and %v have a place", len(a), len(b), seenA, seenB)
		}
	})
}

// TestApartKeepsRunesWhole: what is shown of two texts holds the place where they part,
// and is text.
func TestApartKeepsRunesWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		same := rapid.StringMatching(`[a界\x{1F600}]{0,120}`).Draw(t, "same")
		a := same + rapid.StringMatching(`x[a界]{0,120}`).Draw(t, "a")
		b := same + rapid.StringMatching(`y[a界]{0,120}`).Draw(t, "b")
		va, vb := apart(a, b)
		if !utf8.ValidString(va) || !utf8.ValidString(vb) || !strings.Contains(va, "x") || !strings.Contains(vb, "y") {
			t.Fatalf("%q and %q", va, vb)
		}
	})
}

// compared are the differences of two shelves.
func compared(t *testing.T, a, b *shelf, all bool) []difference {
	t.Helper()
	d := &differ{app: quietApp(nil), all: all}
	load := func(log *shelf) *side {
		s, err := d.load(t.Context(), &reading{source: log}, operand{target{trace: traceOf(log), call: noCall}, end})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	m := &matcher{all: all}
	m.traces(load(a), load(b))
	return m.found
}

// TestTwoRunsOfOneConversationDiffer only in what the tools and people did: not in when
// and where it was, nor in the ids that were given.
func TestTwoRunsOfOneConversationDiffer(t *testing.T) {
	ran := func(trace, boot, turn string, answers ...string) *shelf {
		c := compose(trace, turn)
		c.by.Boot = boot
		c.at = c.at.AddDate(0, len(boot), 0)
		calls := rawCalls("Read", len(answers))
		for i := range calls {
			calls[i].ProviderID += trace
		}
		c.begin(events.Readonly, calls...)
		for i, text := range answers {
			c.start(i, 1)
			c.add(i, &events.Completed{Outcome: outcome(1, events.ClassOK, text)})
		}
		return (&shelf{}).place(c.end()...)
	}
	a := ran("monday", "b1", "t1", "one", "two")
	if got := compared(t, a, ran("tuesday", "boot-22", "u9", "one", "two"), false); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := compared(t, a, ran("tuesday", "boot-22", "u9", "one", "two"), true); len(got) < 10 {
		t.Errorf("with --all there are %d differences", len(got))
	}
	got := compared(t, a, ran("tuesday", "boot-22", "u9", "one", "three"), false)
	if len(got) != 2 || got[0].What != whatResult || got[0].Of != "t1~u9/1" || got[0].Path != "/result/text/text" || got[0].A.Value != "two" || got[0].B.Value != "three" || got[1].What != whatMessage {
		t.Errorf("%+v", got)
	}
	got = compared(t, a, ran("tuesday", "boot-22", "t1", "one"), false)
	if len(got) == 0 || got[0].What != whatEvent && got[0].What != whatCall {
		t.Errorf("%+v", got)
	}
}

// TestTurnsAreSetBesideEachOther by their ids where they have one in common; else by
// order.
func TestTurnsAreSetBesideEachOther(t *testing.T) {
	sideOf := func(ids string) *side {
		s := &side{}
		for _, id := range ids {
			s.turns = append(s.turns, newStory(events.TurnKey{Trace: "t", Turn: string(id)}))
		}
		return s
	}
	for _, c := range []struct{ a, b, want string }{
		{"abc", "abc", "aa bb cc"},
		{"abc", "ac", "aa b- cc"},
		{"ac", "abc", "aa -b cc"},
		{"ab", "abcd", "aa bb -c -d"},
		{"abc", "xy", "ax by c-"},
		{"b", "a", "ba"},
		{"abcd", "xbyd", "a- -x bb c- -y dd"},
		{"ab", "ba", "aa bb"},
		{"", "a", "-a"},
	} {
		var out []string
		for _, p := range pairTurns(sideOf(c.a), sideOf(c.b)) {
			name := func(st *story) string {
				if st == nil {
					return "-"
				}
				return st.key.Turn
			}
			out = append(out, name(p.a)+name(p.b))
		}
		if got := strings.Join(out, " "); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
}
