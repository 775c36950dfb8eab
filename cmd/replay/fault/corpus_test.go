package fault

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/test/corpus"
	"github.com/sluice-run/sluice/test/data"
)

var (
	conversations = flag.Int("fault.conversations", 2, "how many of the recorded airline conversations faults are put into")
	everyFlag     = flag.Bool("fault.every", false, "put every fault into the logs of the corpus, not one of five")
	roundsFlag    = flag.Int("fault.rounds", 120, "how many rounds with several faults are played")
	seedFlag      = flag.Uint64("fault.seed", 1, "the seed of the first round")
)

// corpusTraces are the traces of a log of the first release, or of another that is named
// before it.
func corpusTraces(t testing.TB, name string) []Trace {
	t.Helper()
	release, log, named := strings.Cut(name, "/")
	if !named {
		release, log = "v1", name
	}
	l, err := corpus.Read(release, log)
	if err != nil {
		t.Fatal(err)
	}
	commits, err := l.Commits()
	if err != nil {
		t.Fatal(err)
	}
	var out []Trace
	at := make(map[string]int)
	for i, c := range commits {
		n, ok := at[c.Turn.Trace]
		if !ok {
			n = len(out)
			at[c.Turn.Trace] = n
			out = append(out, Trace{Name: c.Turn.Trace})
		}
		out[n].Commits = append(out[n].Commits, bus.Stored{Generation: 1, Seq: uint64(i + 1), Commit: c})
	}
	return out
}

// recordings are the first traces of a file of recorded conversations, imported.
func recordings(t testing.TB, name string, most int) []Trace {
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
			tr.Commits = append(tr.Commits, bus.Stored{Generation: 1, Seq: seq, Commit: events.Commit{
				ID: fmt.Sprint(seq), Turn: key, At: at, By: events.Owner{Boot: "import", Epoch: 1}, Records: records,
			}})
		}
		if len(rec.Turns) > 0 {
			out = append(out, tr)
		}
		if len(out) == most {
			break
		}
	}
	return out
}

func scriptsOf(t testing.TB, traces []Trace) []*Script {
	t.Helper()
	var out []*Script
	for _, tr := range traces {
		list, not := Build(tr, Options{})
		if len(not) > 0 {
			t.Fatal(not)
		}
		out = append(out, list...)
	}
	return out
}

func plan(t testing.TB, scripts []*Script) *Plan {
	t.Helper()
	p, err := Runner{}.Plan(t.Context(), scripts)
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range p.Turns {
		for _, f := range turn.Failures {
			t.Errorf("%s without a fault: %s", turn.Script.Key, f)
		}
	}
	return p
}

// TestCorpus puts every fault between any two stages of what the first release wrote:
// calls that end in every way, lost owners, people. What differs without a fault is that
// release's own: other words for what a model cannot have, and an abandoned turn, whose
// owners are not lost again.
func TestCorpus(t *testing.T) {
	for name, want := range map[string]string{"ends": "[t1/3 t1/4 t3/0]", "owners": "[t2/1]", "people": "[]", "imported": "[]", "v2/inputs": "[]"} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, scriptsOf(t, corpusTraces(t, name)))
			differs := []string{}
			for _, turn := range p.Turns {
				for _, d := range turn.Differs {
					differs = append(differs, fmt.Sprintf("%s/%d", turn.Script.Key.Turn, d.Call))
					t.Logf("%s/%d: %s; now %s", turn.Script.Key.Turn, d.Call, d.Recorded, d.Now)
				}
			}
			if fmt.Sprint(differs) != want {
				t.Errorf("without a fault other answers than recorded: %v, want %s", differs, want)
			}
			of := 5 // no divisor of the number of kinds: each kind has its turn
			if *everyFlag {
				of = 1
			}
			if sum := some(t, p, of); sum.Total.Played() == 0 || sum.Total.NotApplicable == 0 {
				t.Errorf("%+v", sum.Total)
			}
		})
	}
}

// TestConversations puts every fault into recorded conversations: each is answered, and
// nothing breaks. Without a fault the model is told what is recorded.
func TestConversations(t *testing.T) {
	p := planOfAll(t, recordings(t, "airline_gpt4o.jsonl", *conversations), Options{})
	sum := all(t, p)
	t.Logf("%d turns: %s", len(p.Turns), sum.Total)
	if sum.Total.Differs == 0 || sum.Total.Same == 0 {
		t.Errorf("%+v", sum.Total)
	}
}

// TestRounds plays turns with several faults at once.
func TestRounds(t *testing.T) {
	var traces []Trace
	for _, name := range []string{"ends", "owners", "people"} {
		traces = append(traces, corpusTraces(t, name)...)
	}
	for i := range tiers {
		p := newTape(t)
		p.turn("u", tiers[i].call, tiers[(i+1)%len(tiers)].call)
		traces = append(traces, p.trace)
	}
	p := plan(t, scriptsOf(t, traces))
	t.Logf("seeds from %d", *seedFlag)
	struck := make(map[Kind]int)
	err := Runner{}.Rounds(t.Context(), p, *seedFlag, *roundsFlag, func(r Round) {
		for _, d := range r.Faults {
			if d.Struck {
				struck[d.Kind]++
			}
		}
		if r.Verdict == Failed {
			t.Errorf("%s/%s: %+v: %v\nagain with -fault.seed=%d -fault.rounds=1", r.Trace, r.Turn, r.Faults, r.Failures, r.Seed)
			if *roundsFlag == 1 {
				_ = Runner{Story: true}.Rounds(t.Context(), p, r.Seed, 1, func(r Round) { t.Logf("%q", r.Story) })
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if *roundsFlag >= 120 && len(struck) < len(Kinds)-4 {
		t.Errorf("few kinds of faults struck: %v", struck)
	}
}

// planOfAll is planOf for several traces.
func planOfAll(t testing.TB, traces []Trace, o Options) *Plan {
	t.Helper()
	p := &Plan{}
	for _, tr := range traces {
		p.Turns = append(p.Turns, planOf(t, tr, o).Turns...)
	}
	return p
}
