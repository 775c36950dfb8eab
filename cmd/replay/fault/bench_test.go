package fault

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/test/data"
)

// recordings are the traces of a file of recorded conversations, imported.
func recordings(t testing.TB, name string) []Trace {
	t.Helper()
	text, err := data.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	var out []Trace
	seq := uint64(0)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for rec, err := range codec.Transcripts(bytes.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		tr := Trace{Name: rec.Trace}
		for _, turn := range rec.Turns {
			key := events.TurnKey{Trace: rec.Trace, Turn: turn.Turn}
			records, err := lifecycle.Import(key, events.TurnSubmitted{
				Principal: events.Principal{ID: "import", Kind: "service"}, Calls: turn.Calls, Format: string(rec.Format), Imported: name,
			}, turn.Results(), at)
			if err != nil {
				t.Fatal(err)
			}
			seq++
			c := events.Commit{ID: fmt.Sprint(seq), Turn: key, At: at, By: events.Owner{Boot: "import", Epoch: 1}, Records: records}
			b, err := events.Encode(c)
			if err != nil {
				t.Fatal(err)
			}
			if c, err = events.Decode(b); err != nil {
				t.Fatal(err)
			}
			tr.Commits = append(tr.Commits, bus.Stored{Generation: 1, Seq: seq, Commit: c})
		}
		out = append(out, tr)
	}
	return out
}

func scriptsOf(t testing.TB, traces ...Trace) []*Script {
	var all []*Script
	for _, tr := range traces {
		list, not := Build(tr, Options{})
		if len(not) > 0 {
			t.Fatal(not)
		}
		all = append(all, list...)
	}
	return all
}

func BenchmarkAirline(b *testing.B) {
	scripts := scriptsOf(b, recordings(b, "airline_gpt4o.jsonl")...)
	for b.Loop() {
		p, err := Runner{}.Plan(b.Context(), scripts[:100])
		if err != nil {
			b.Fatal(err)
		}
		cells, played, failed := p.Cells(Selection{}), 0, 0
		_ = Runner{}.Play(b.Context(), cells, func(r Result) {
			if r.Verdict != NotApplicable {
				played++
			}
			if r.Verdict == Failed {
				failed++
				if failed < 3 {
					b.Log(r.Pair.label(), r.Kind, r.Failures)
				}
			}
		})
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(played), "us/cell")
		b.Log(len(cells), played, failed)
	}
}
