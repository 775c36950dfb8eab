package fault

import (
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/corpus"
)

func TestCorpus(t *testing.T) {
	for _, name := range []string{"ends", "owners", "people", "imported"} {
		l, err := corpus.Read("v1", name)
		if err != nil {
			t.Fatal(err)
		}
		commits, err := l.Commits()
		if err != nil {
			t.Fatal(err)
		}
		byTrace := map[string]*Trace{}
		var order []string
		for i, c := range commits {
			if byTrace[c.Turn.Trace] == nil {
				byTrace[c.Turn.Trace] = &Trace{Name: c.Turn.Trace, Turn: func(k events.TurnKey) ([]events.Commit, error) {
					var out []events.Commit
					for _, c := range commits {
						if c.Turn == k {
							out = append(out, c)
						}
					}
					return out, nil
				}}
				order = append(order, c.Turn.Trace)
			}
			tr := byTrace[c.Turn.Trace]
			tr.Commits = append(tr.Commits, bus.Stored{Generation: 1, Seq: uint64(i + 1), Commit: c})
		}
		for _, n := range order {
			scripts, not := Build(*byTrace[n], Options{})
			for _, x := range not {
				t.Log(name, n, "unplayable", x)
			}
			p, err := Runner{Workers: 1, Story: true}.Plan(t.Context(), scripts)
			if err != nil {
				t.Fatal(err)
			}
			for _, turn := range p.Turns {
				t.Log(name, turn.Script.Key, "notes", turn.Script.Notes, "pairs", len(turn.Pairs))
				for _, d := range turn.Differs {
					t.Log("   differs", d)
				}
				for _, d := range turn.Failures {
					t.Log("   FAILS", d)
				}
				for i, k := range turn.Script.calls {
					t.Log("   ", i, k.tool, k.verdict.Tier, "ended", kindOf(k.ended), "attempts", len(k.attempts), "now", gistOf(turn.answers[i]))
				}
			}
			counts := map[Verdict]int{}
			bad := 0
			_ = Runner{Workers: 1, Story: true}.Play(t.Context(), p.Cells(Selection{}), func(res Result) {
				counts[res.Verdict]++
				if res.Verdict == Failed {
					if bad++; bad < 4 {
						t.Errorf("%s %s call %d %s %s: %v\n%s", name, res.Turn, res.Pair.Call, res.Pair.label(), res.Kind, res.Failures, strings.Join(res.Story, "\n"))
					}
				}
			})
			t.Log(name, n, counts, bad)
		}
	}
}

func kindOf(e events.Event) events.Kind {
	if e == nil {
		return ""
	}
	return e.Kind()
}

func corpusScripts(t testing.TB) []*Script {
	var out []*Script
	for _, name := range []string{"ends", "owners", "people"} {
		l, err := corpus.Read("v1", name)
		if err != nil {
			t.Fatal(err)
		}
		commits, err := l.Commits()
		if err != nil {
			t.Fatal(err)
		}
		tr := Trace{Name: name}
		for i, c := range commits {
			if c.Turn.Trace == name {
				tr.Commits = append(tr.Commits, bus.Stored{Generation: 1, Seq: uint64(i + 1), Commit: c})
			}
		}
		scripts, _ := Build(tr, Options{})
		out = append(out, scripts...)
	}
	return out
}
