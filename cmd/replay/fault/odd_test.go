package fault

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// TestOddTraces are played as far as they go, and what is wrong is said.
func TestOddTraces(t *testing.T) {
	charge := taped{tool: "charge", verdict: events.Verdict{Tier: events.Irreversible}}
	taped := func(t *testing.T) []bus.Stored {
		p := newTape(t)
		p.turn("u", charge, charge)
		return p.trace.Commits
	}
	for _, row := range []struct {
		name   string
		change func([]bus.Stored) []bus.Stored
		note   string // "": none
		not    string // it cannot be played at all
		played bool
	}{
		{"still_running", func(c []bus.Stored) []bus.Stored { return c[:4] }, "it had not ended when it was recorded", "", true},
		{"only_submitted", func(c []bus.Stored) []bus.Stored { return c[:1] }, "it had not ended when it was recorded", "", true},
		{"its_beginning_is_missing", func(c []bus.Stored) []bus.Stored { return c[1:] }, "", "its submission is missing", false},
		{"an_event_is_missing", func(c []bus.Stored) []bus.Stored { return append(c[:3:3], c[4:]...) }, "it is played up to what this release can read: call 0", "", true},
		{"of_the_future", func(c []bus.Stored) []bus.Stored {
			c[3].Commit.Records = append(c[3].Commit.Records[:0:0], events.Record{Call: 0, Seq: 3, Event: events.Foreign{Name: "teleported", Version: 1, Body: []byte{0x80}}})
			return c
		}, "teleported at 1.4.0 is of a newer release", "", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			scripts, not := Build(Trace{Name: "t", Commits: row.change(taped(t))}, Options{})
			if row.not != "" {
				if len(not) != 1 || !strings.Contains(not[0].Why, row.not) {
					t.Errorf("not played: %v", not)
				}
				return
			}
			if len(scripts) != 1 || !strings.Contains(strings.Join(scripts[0].Notes, "\n"), row.note) {
				t.Fatalf("%d scripts, notes %q", len(scripts), scripts[0].Notes)
			}
			if sum := all(t, plan(t, scripts)); sum.Total.Played() == 0 {
				t.Error("nothing was played")
			}
		})
	}
}

// TestOneCellIsOneRun: the same cell is the same, to the last step.
func TestOneCellIsOneRun(t *testing.T) {
	p := newTape(t)
	p.turn("u", tiers[4].call, tiers[5].call)
	pl := planOf(t, p.trace, Options{})
	var first []Result
	for range 2 {
		var got []Result
		_ = Runner{Story: true, Workers: 1}.Play(t.Context(), pl.Cells(Selection{Kinds: []Kind{Zombie, LateResult, PowerLoss}}), func(r Result) { got = append(got, r) })
		if first != nil && !reflect.DeepEqual(first, got) {
			t.Error("the second time it is something else")
		}
		first = got
	}
}

// TestNoTools: nothing that could run a tool is linked into this package but what the
// actors look at files with, and that is not asked.
func TestNoTools(t *testing.T) {
	const module = "github.com/sluice-run/sluice/"
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("only %d packages", len(deps))
	}
	for _, dep := range deps {
		name, ours := strings.CutPrefix(dep, module+"tools/")
		if ours && name != "fs" || dep == "os/exec" || strings.HasPrefix(dep, "github.com/nats-io/") {
			t.Errorf("it comes with %s", dep)
		}
	}
	for _, s := range scriptsOf(t, append(corpusTraces(t, "ends"), corpusTraces(t, "people")...)) {
		for _, tool := range s.registry.List() {
			if len(tool.Writes) > 0 || tool.Operands != nil {
				t.Errorf("the scripted tool %s names files that the start gates would look at", tool.Name)
			}
			if _, err := tool.Run(t.Context(), invocation(tool.Name)); err != errNoTool {
				t.Errorf("the scripted tool %s does something: %v", tool.Name, err)
			}
		}
	}
}

func invocation(tool string) tools.Invocation { return tools.Invocation{Tool: tool} }
