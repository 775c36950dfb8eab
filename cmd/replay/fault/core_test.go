package fault

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

func importedTrace(t testing.TB, tool string, n int) Trace {
	tr := Trace{Name: "t"}
	seq := uint64(0)
	for i := range n {
		key := events.TurnKey{Trace: "t", Turn: fmt.Sprint("u", i)}
		recs, err := lifecycle.Import(key, events.TurnSubmitted{Principal: events.Principal{ID: "import"}, Imported: "x", Calls: []events.RawCall{{ProviderID: "a", Tool: tool, Args: events.Body{Text: `{"n":1}`}}}},
			[]*events.Result{{Status: events.Success, Text: events.Body{Text: "hello"}}}, time.Date(2025, 1, 1, 1, 1, 1, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		seq++
		tr.Commits = append(tr.Commits, bus.Stored{Generation: 1, Seq: seq, Commit: events.Commit{ID: fmt.Sprint(i), Turn: key, At: time.Now().UTC().Truncate(time.Microsecond), By: events.Owner{Boot: "import", Epoch: 1}, Records: recs}})
	}
	return tr
}

func TestCore(t *testing.T) {
	for _, tier := range []events.Tier{events.Readonly, events.Reversible, events.Irreversible, events.Approval} {
		scripts, not := Build(importedTrace(t, "x", 1), Options{Tiers: map[string]events.Tier{"x": tier}})
		if len(not) > 0 {
			t.Fatal(not)
		}
		r := Runner{Workers: 1, Story: true}
		p, err := r.Plan(t.Context(), scripts)
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range p.Turns {
			t.Log(turn.Script.Notes, turn.Differs, turn.Failures, len(turn.Pairs))
		}
		cells := p.Cells(Selection{})
		began := time.Now()
		counts := map[Verdict]int{}
		_ = r.Play(t.Context(), cells, func(res Result) {
			counts[res.Verdict]++
			if res.Verdict == Failed {
				t.Errorf("%s %s %s: %v\n%s", tier, res.Pair.label(), res.Kind, res.Failures, strings.Join(res.Story, "\n"))
			}
		})
		t.Log(tier, counts, time.Since(began))
	}
}
