package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFolds: a long wait is folded where it would hide the rest, and nothing else is.
func TestFolds(t *testing.T) {
	day := 24 * hr
	for _, c := range []struct {
		name    string
		moments []time.Duration
		busy    [][2]time.Duration
		folded  []time.Duration
	}{
		{"nothing", nil, nil, nil},
		{"one moment", []time.Duration{0}, nil, nil},
		{"a short wait", []time.Duration{ms, 5 * s, 5001 * ms}, nil, nil},
		{"a wait of days", []time.Duration{0, 2 * s, 3 * day, 3*day + s}, nil, []time.Duration{3*day - 2*s}},
		{"two waits of days", []time.Duration{s, 3 * day, 3*day + s, 6 * day, 6*day + s}, nil, []time.Duration{3*day - s, 3*day - s}},
		{"a wait that hides nothing", []time.Duration{20 * s, 40 * s, 60 * s}, nil, nil},
		{"a run is not a wait", []time.Duration{ms, 30 * s, 30*s + ms}, [][2]time.Duration{{ms, 30 * s}}, nil},
		{"a run of hours", []time.Duration{s, 9 * hr, 9*hr + s}, [][2]time.Duration{{s, 9 * hr}}, []time.Duration{9*hr - s}},
		{"only a wait", []time.Duration{0, 3 * day}, nil, nil},
	} {
		a := newAxis(zero, c.moments, c.busy, 0, 600)
		var got []time.Duration
		for _, p := range a.pieces {
			if p.folded {
				got = append(got, p.to-p.from)
			}
		}
		if !slices.Equal(got, c.folded) {
			t.Errorf("%s: folded %v, want %v", c.name, got, c.folded)
		}
	}
}

// TestAxis: later is never further left, all stands between the edges, and labels
// have room beside each other.
func TestAxis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gap := rapid.Custom(func(t *rapid.T) time.Duration {
			unit := rapid.SampledFrom([]time.Duration{1, us, ms, s, hr, 1000 * hr, 1 << 58}).Draw(t, "unit")
			return unit * time.Duration(rapid.IntRange(0, 30).Draw(t, "n"))
		})
		at, moments := time.Duration(0), []time.Duration{}
		for _, g := range rapid.SliceOfN(gap, 0, 12).Draw(t, "gaps") {
			at = min(max(at+g, at), foreverAxis)
			moments = append(moments, at)
		}
		var busy [][2]time.Duration
		if len(moments) > 1 {
			i := rapid.IntRange(0, len(moments)-2).Draw(t, "from")
			busy = append(busy, [2]time.Duration{moments[i], moments[i+1]})
		}
		a := newAxis(zero, moments, busy, 100, 700)
		before := 100.0
		for _, m := range moments {
			x := a.x(zero.Add(m))
			if x < before-1e-6 || x > 700+1e-6 {
				t.Fatalf("%v stands at %v, behind %v", m, x, before)
			}
			before = x
		}
		ticks := a.ticks()
		for i := 1; i < len(ticks); i++ {
			if ticks[i].x < ticks[i-1].x {
				t.Fatalf("ticks %+v", ticks)
			}
		}
		if len(ticks) > 40 {
			t.Fatalf("%d ticks", len(ticks))
		}
	})
}

// TestAnyTrace: whatever is put into a trace, its picture can be read.
func TestAnyTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		when := rapid.Custom(func(t *rapid.T) time.Time {
			return rapid.SampledFrom([]time.Time{{}, zero, zero.Add(ms), zero.Add(-s), zero.Add(40 * hr), time.Unix(1<<45, 0)}).Draw(t, "when")
		})
		segment := rapid.Custom(func(t *rapid.T) Segment {
			return Segment{Kind(rapid.IntRange(-1, int(kinds)).Draw(t, "kind")), when.Draw(t, "start"), when.Draw(t, "end"), rapid.String().Draw(t, "label"), rapid.String().Draw(t, "title")}
		})
		mark := rapid.Custom(func(t *rapid.T) Mark {
			return Mark{Sign(rapid.IntRange(-1, int(signs)).Draw(t, "sign")), when.Draw(t, "at"), rapid.String().Draw(t, "title")}
		})
		call := rapid.Custom(func(t *rapid.T) Call {
			return Call{
				Tool: rapid.String().Draw(t, "tool"), Hint: rapid.String().Draw(t, "hint"), State: State(rapid.IntRange(-1, int(states)).Draw(t, "state")),
				Segments: rapid.SliceOfN(segment, 0, 4).Draw(t, "segments"), Marks: rapid.SliceOfN(mark, 0, 4).Draw(t, "marks"),
			}
		})
		turn := Turn{Name: rapid.String().Draw(t, "name"), Start: when.Draw(t, "start"), End: when.Draw(t, "end"), Marks: rapid.SliceOfN(mark, 0, 2).Draw(t, "turn's marks")}
		for _, c := range rapid.SliceOfN(call, 0, 4).Draw(t, "calls") {
			turn.Batches = append(turn.Batches, Batch{Calls: []Call{c}})
		}
		got := string(Trace{Title: rapid.String().Draw(t, "title"), Turns: []Turn{turn}}.Waterfall())
		d := xml.NewDecoder(strings.NewReader(got))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(got, "NaN") || strings.Contains(got, "Inf\"") {
			t.Fatal("a coordinate is no number")
		}
	})
}

// TestSpan: durations as people say them.
func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1 ns", 640 * us: "640 µs", 1234 * us: "1.23 ms", 148152 * us: "148 ms", 20400 * ms: "20.4 s", 59999 * ms: "60 s",
		time.Minute: "1 m", 250 * s: "4 m 10 s", 3*hr + 5*time.Minute: "3 h 5 m", 74 * hr: "3 d 2 h", -1500 * ms: "−1.5 s", -1 << 63: "−106751 d 23 h",
	} {
		if got := span(d); got != want {
			t.Errorf("%d ns is %q, want %q", d, got, want)
		}
	}
}

// TestBrief: numbers in small places are never rounded up.
func TestBrief(t *testing.T) {
	for n, want := range map[int]string{0: "0", 9999: "9999", 10_000: "10k", 999_999: "999k", 1_990_000: "1.9M", 12_999_999: "12M"} {
		if got := brief(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// TestWrap: a text is broken between words, keeps to its room, and says what is cut.
func TestWrap(t *testing.T) {
	text := "it is irreversible and had started when its owner was lost"
	if got := wrap(text, 200, 10, 9); strings.Join(got, " ") != text || len(got) < 2 {
		t.Errorf("%q", got)
	}
	if got := wrap(text, 200, 10, 1); len(got) != 1 || !strings.HasSuffix(got[0], "…") {
		t.Errorf("%q", got)
	}
	for _, line := range append(wrap(strings.Repeat("x", 500)+" y", 200, 10, 3), wrap("", 200, 10, 3)...) {
		if sansWidth(line, 10) > 200 {
			t.Errorf("%q is too long", line)
		}
	}
}

// TestFit: a text that is cut keeps to its room and says that it was cut.
func TestFit(t *testing.T) {
	for _, s := range []string{"short", "get_reservation_details_of_a_customer", "界界界界界界界界界界界界", ""} {
		for room := 0.0; room < 300; room += 7 {
			got := fit(s, room, 12, sansWidth)
			if got != s && (sansWidth(got, 12) > room+1e-9 || got != "" && !strings.HasSuffix(got, "…")) {
				t.Errorf("%q in %v is %q", s, room, got)
			}
		}
	}
}
