package fault

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

// pairNames are the stages of a turn's call, or of the turn, one after another.
func pairNames(turn *Turn, call int) string {
	var out []string
	for _, p := range turn.Pairs {
		if p.Call == call {
			out = append(out, strings.TrimPrefix(p.From, "turn_"))
		}
	}
	return strings.Join(out, " ")
}

// TestARetriedCall is tried again as it was, and whatever strikes in between.
func TestARetriedCall(t *testing.T) {
	p := newTape(t)
	p.turn("u", taped{tool: "fetch", verdict: events.Verdict{Tier: events.Readonly, Retries: 2}, ends: []end{
		{class: events.ClassUnavailable, text: "no route"}, {class: events.ClassTimeout, text: "slow"}, {class: events.ClassOK, text: "there it is"},
	}})
	pl := planOf(t, p.trace, Options{})
	if got := pairNames(pl.Turns[0], 0); got != "start requested authorized started retrying started retrying started completed" {
		t.Errorf("its stages: %s", got)
	}
	sum := all(t, pl)
	if sum.Total.Failed() > 0 {
		t.Errorf("%+v", sum.Laws)
	}
	for _, s := range sum.Sentences() {
		if s.Now == "unknown (UNKNOWN_OUTCOME)" {
			t.Errorf("a readonly call ends unknown: %+v", s)
		}
	}
}

// TestWhatFailed stays failed when it is played.
func TestWhatFailed(t *testing.T) {
	p := newTape(t)
	p.turn(
		"u",
		taped{tool: "charge", verdict: events.Verdict{Tier: events.Irreversible}, ends: []end{{class: events.ClassTool, effects: events.EffectsNone, text: "declined"}}},
		taped{tool: "charge", args: `{"n":2}`, verdict: events.Verdict{Tier: events.Irreversible}, ends: []end{{class: events.ClassTimeout, effects: events.EffectsPossible, text: "slow"}}},
		taped{tool: "fetch", verdict: events.Verdict{Tier: events.Readonly, Retries: 2}, ends: []end{{class: events.ClassUnavailable, text: "gone for good"}}},
	)
	all(t, planOf(t, p.trace, Options{}))
}

// TestAPersonsTurn is parked, and faults stand also where nobody has it in mind.
func TestAPersonsTurn(t *testing.T) {
	p := newTape(t)
	p.turn("u", taped{tool: "read", verdict: events.Verdict{Tier: events.Readonly}}, taped{tool: "bash", asks: true, verdict: events.Verdict{Tier: events.Irreversible}})
	pl := planOf(t, p.trace, Options{})
	if got := pairNames(pl.Turns[0], events.TurnEvent); got != "start submitted claimed planned parked claimed completed" {
		t.Errorf("the turn's stages: %s", got)
	}
	if got := pairNames(pl.Turns[0], 1); got != "start requested approval_requested approved authorized started completed" {
		t.Errorf("the call's stages: %s", got)
	}
	all(t, pl)
}

// TestABatch runs beside each other what ran so, and in the order that was planned.
func TestABatch(t *testing.T) {
	p := newTape(t)
	p.planned = func(e *events.TurnPlanned) { e.Batches = [][]int{{0, 1}, {2}, {3}} }
	read := events.Verdict{Tier: events.Readonly, Retries: 2}
	file := events.Verdict{Tier: events.Reversible, Resources: []events.ResourceUse{{Name: "file:a", Exclusive: true}}}
	p.turn("u", taped{tool: "read", args: `{"n":1}`, verdict: read}, taped{tool: "read", args: `{"n":2}`, verdict: read},
		taped{tool: "write", args: `{"n":1}`, verdict: file}, taped{tool: "write", args: `{"n":2}`, verdict: file})
	pl := planOf(t, p.trace, Options{})
	var started []int
	for _, s := range pl.Turns[0].commits {
		if e, ok := s.Commit.Records[0].Event.(*events.TurnPlanned); ok && fmt.Sprint(e.Batches) != "[[0 1] [2] [3]]" {
			t.Errorf("planned %v", e.Batches)
		}
		if r := s.Commit.Records[0]; r.Event.Kind() == events.KindStarted {
			started = append(started, r.Call)
		}
	}
	if fmt.Sprint(started) != "[0 1 2 3]" {
		t.Errorf("started in the order %v", started)
	}
	all(t, pl)
}

// TestADuplicate has the answer of the call that holds its key: of the same turn, of an
// earlier one, and of one of another trace.
func TestADuplicate(t *testing.T) {
	pay := func(n int) taped {
		return taped{tool: "pay", args: `{"to":"bob"}`, key: "k", verdict: events.Verdict{Tier: events.Irreversible, Key: "agent pay k"}}
	}
	p := newTape(t)
	first := p.turn("u1", pay(1))
	holder := slices.Clone(p.trace.Commits)
	done := holder[len(holder)-2].Commit.Records[0].Event.(*events.Completed)
	second := p.turn("u2", pay(2))
	p.trace.Commits = p.trace.Commits[:len(p.trace.Commits)-4] // what the second did: it had the first one's answer
	p.add(second, tapeOwner,
		events.Record{Call: 0, Seq: 2, Event: &events.Deduplicated{Of: first.Call(0).String(), Key: "agent pay k", Outcome: done.Outcome, As: events.KindCompleted}},
		events.Record{Call: events.TurnEvent, Seq: 4, Event: &events.TurnCompleted{Counts: map[events.Kind]int{events.KindDeduplicated: 1}}})
	check := func(t *testing.T, tr Trace) {
		pl := planOf(t, tr, Options{})
		turn := pl.Turns[len(pl.Turns)-1]
		if got := pairNames(turn, 0); got != "start requested deduplicated" {
			t.Errorf("its stages: %s", got)
		}
		pl.Turns = []*Turn{turn}
		if sum := all(t, pl); sum.Effects > 0 {
			t.Errorf("a duplicate had %d effects", sum.Effects)
		}
	}
	t.Run("in_the_trace", func(t *testing.T) { check(t, p.trace) })
	t.Run("in_another_trace", func(t *testing.T) {
		other := Trace{Name: "t", Commits: p.trace.Commits[len(holder):], Turn: func(k events.TurnKey) ([]events.Commit, error) {
			if k != first {
				return nil, fmt.Errorf("asked for %s", k)
			}
			return plain(holder), nil
		}}
		check(t, other)
	})
	t.Run("nowhere", func(t *testing.T) {
		scripts, _ := Build(Trace{Name: "t", Commits: p.trace.Commits[len(holder):]}, Options{})
		if n := scripts[0].Notes; len(n) == 0 || !strings.Contains(n[0], "cannot be read") {
			t.Errorf("notes: %q", n)
		}
		all(t, plan(t, scripts))
	})
}

// TestTheTracesContext: what earlier turns leave is there when a later one is played.
func TestTheTracesContext(t *testing.T) {
	p := newTape(t)
	bash := taped{tool: "bash", args: `{"command":"make"}`, asks: true, verdict: events.Verdict{Tier: events.Irreversible}}
	p.turn("u1", taped{tool: "cd", verdict: events.Verdict{Tier: events.Irreversible}, ends: []end{{class: events.ClassOK, text: "ok", context: []events.Modifier{{Name: "dir", Value: json.RawMessage(`"/a"`)}}}}})
	p.turn("u2", bash)
	for i, s := range p.trace.Commits {
		if e, ok := s.Commit.Records[0].Event.(*events.Approved); ok {
			e.Scope = events.ScopeSession
			p.trace.Commits[i].Commit.Records[0].Event = e
		}
	}
	bash.asks = false
	p.turn("u3", bash)
	last := p.trace.Commits
	for i := range last {
		if e, ok := last[i].Commit.Records[0].Event.(*events.Authorized); ok && last[i].Commit.Turn.Turn == "u3" {
			e.Decision = "approved"
		}
	}
	scripts, _ := Build(p.trace, Options{})
	scripts[2].calls[0].asked = scripts[1].calls[0].asked // policy asks about it every time
	pl := plan(t, scripts)
	turn := pl.Turns[2]
	if got := pairNames(turn, 0); got != "start requested authorized started completed" {
		t.Errorf("a call that was approved for the session has the stages: %s", got)
	}
	for _, s := range turn.commits {
		if e, ok := s.Commit.Records[0].Event.(*events.TurnPlanned); ok {
			if string(e.Context) != `{"dir":"/a"}` || len(e.Inherited.Session) != 1 {
				t.Errorf("planned with %s and %v", e.Context, e.Inherited.Session)
			}
		}
	}
	all(t, pl)
}

// TestADeadline of the turn is the recorded one, so that a fault may take what time is left.
func TestADeadline(t *testing.T) {
	p := newTape(t)
	p.edit = func(s *events.TurnSubmitted) { s.Limits.DeadlineMS = 2_000 }
	p.turn("u", taped{tool: "read", verdict: events.Verdict{Tier: events.Readonly, Retries: 2}}, taped{tool: "charge", verdict: events.Verdict{Tier: events.Irreversible}})
	sum := all(t, planOf(t, p.trace, Options{}))
	if !slices.ContainsFunc(sum.Sentences(), func(s Sentence) bool { return strings.Contains(s.Policy, "the turn has a deadline") }) {
		t.Errorf("no take-over was too late: %+v", sum.Sentences())
	}
}

// TestImportedTiers: a tool whose tier is not recorded is irreversible, unless somebody
// knows better.
func TestImportedTiers(t *testing.T) {
	traces := recordings(t, "airline_gpt4o.jsonl", 1)
	for tier, want := range map[events.Tier]string{"": "unknown 1/1", events.Readonly: "= 2/0", events.Approval: "unknown 1/1"} {
		o := Options{}
		if tier != "" {
			o.Tiers = map[string]events.Tier{}
			for _, raw := range traces[0].Commits[0].Commit.Records[0].Event.(*events.TurnSubmitted).Calls {
				o.Tiers[raw.Tool] = tier
			}
		}
		scripts, _ := Build(traces[0], o)
		pl := plan(t, scripts[:1])
		cells := pl.Cells(Selection{From: "started", To: "completed", Kinds: []Kind{NodeDeath}})
		_ = Runner{}.Play(t.Context(), cells, func(r Result) {
			if got := inShort(r); got != want {
				t.Errorf("tier %q: %s, want %s: %v", tier, got, want, r.Failures)
			}
		})
		if asks := strings.Contains(pairNames(pl.Turns[0], 0), "approval_requested"); asks != (tier == events.Approval) {
			t.Errorf("tier %q: a person is asked: %t", tier, asks)
		}
	}
}

// TestPlayedAgain: what a replay writes is a recording like any other, and played it is
// the same, stage by stage. So it is for a call that waits for another one of its turn,
// which holds its key.
func TestPlayedAgain(t *testing.T) {
	pay := taped{tool: "pay", args: `{"to":"bob"}`, key: "k", verdict: events.Verdict{Tier: events.Irreversible, Key: "agent pay k"}}
	read := taped{tool: "read", verdict: events.Verdict{Tier: events.Readonly, Retries: 2}, ends: []end{{class: events.ClassUnavailable, text: "no"}, {class: events.ClassOK, text: "yes"}}}
	bash := taped{tool: "bash", asks: true, verdict: events.Verdict{Tier: events.Irreversible}}
	for i, calls := range [][]taped{{pay, pay}, {read, bash}, {bash, read, pay}} {
		p := newTape(t)
		p.turn("u", calls...)
		scripts, not := Build(p.trace, Options{})
		if len(not) > 0 {
			t.Fatal(not)
		}
		first := plan(t, scripts).Turns[0]
		second := planOf(t, Trace{Name: "t", Commits: first.commits}, Options{})
		for call := events.TurnEvent; call < len(calls); call++ {
			if a, b := pairNames(first, call), pairNames(second.Turns[0], call); a != b {
				t.Errorf("%d, call %d: first %s\nthen %s", i, call, a, b)
			}
		}
		if sum := all(t, second); i == 0 && !strings.Contains(pairNames(first, 1), "deduplicated") || sum.Total.Played() == 0 {
			t.Errorf("%d: the second call's stages: %s", i, pairNames(first, 1))
		}
	}
}
