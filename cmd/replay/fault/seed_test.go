package fault

import (
	"strings"
	"testing"
)

func TestRoundsX(t *testing.T) {
	for _, s := range [][]*Script{scriptsOf(t, recordings(t, "airline_gpt4o.jsonl")[:5]...), corpusScripts(t)} {
		p, err := Runner{}.Plan(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		bad := 0
		_ = Runner{Story: true}.Rounds(t.Context(), p, 1, 2000, func(r Round) {
			if r.Verdict == Failed {
				if bad++; bad < 4 {
					t.Errorf("seed %d %s/%s %v: %v\n%s", r.Seed, r.Trace, r.Turn, r.Faults, r.Failures, strings.Join(r.Story, "\n"))
				}
			}
		})
		t.Log(bad)
	}
}
