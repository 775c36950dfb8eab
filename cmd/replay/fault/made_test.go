package fault

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// taped is one call of a recorded turn.
type taped struct {
	tool    string
	args    string // "" means {}
	verdict events.Verdict
	key     string // the caller's
	ends    []end  // of its attempts; none: it succeeds
	asks    bool
}

// end is how an attempt ended.
type end struct {
	class   events.Class
	effects events.Effects
	text    string
	context []events.Modifier
}

// tape is a recorded turn with these calls, each a batch of its own: what a node writes
// that meets no fault. Turns of one trace are taped one after another.
type tape struct {
	t       testing.TB
	trace   Trace
	seq     uint64
	at      time.Time
	edit    func(*events.TurnSubmitted)
	planned func(*events.TurnPlanned)
}

func newTape(t testing.TB) *tape {
	return &tape{t: t, trace: Trace{Name: "t"}, at: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
}

var tapeOwner = events.Owner{Boot: "b1", Epoch: 1}

// add tapes events as one commit, a moment after the last one.
func (p *tape) add(key events.TurnKey, by events.Owner, records ...events.Record) {
	p.t.Helper()
	p.seq++
	p.at = p.at.Add(10 * time.Millisecond)
	c := events.Commit{ID: fmt.Sprint("c", p.seq), Turn: key, At: p.at, By: by, Records: records}
	b, err := events.Encode(c)
	if err != nil {
		p.t.Fatal(err)
	}
	if c, err = events.Decode(b); err != nil {
		p.t.Fatal(err)
	}
	p.trace.Commits = append(p.trace.Commits, bus.Stored{Generation: 1, Seq: p.seq, Commit: c})
}

// turn tapes a turn.
func (p *tape) turn(name string, calls ...taped) events.TurnKey {
	p.t.Helper()
	key := events.TurnKey{Trace: "t", Turn: name}
	sub := &events.TurnSubmitted{Principal: events.Principal{ID: "agent"}, CanAsk: true}
	plan := &events.TurnPlanned{Policy: "p1"}
	seqs := make([]uint32, len(calls))
	one := func(call int, e events.Event) events.Record {
		seqs[call]++
		return events.Record{Call: call, Seq: seqs[call], Event: e}
	}
	own := uint32(0)
	turn := func(e events.Event) events.Record {
		own++
		return events.Record{Call: events.TurnEvent, Seq: own, Event: e}
	}
	var asked []events.Record
	for i := range calls {
		c := &calls[i]
		if c.args == "" {
			c.args = "{}"
		}
		a, err := lifecycle.Parse(c.args)
		if err != nil {
			p.t.Fatal(err)
		}
		c.verdict.Hash, c.verdict.ToolVersion, c.verdict.Policy, c.verdict.Operation.Class = a.Hash, "1", "p1", events.OpExecute
		raw := events.RawCall{ProviderID: fmt.Sprint("id", i), Tool: c.tool, Args: events.Body{Text: c.args}, Key: c.key}
		sub.Calls = append(sub.Calls, raw)
		plan.Batches = append(plan.Batches, []int{i})
		asked = append(asked, one(i, &events.Requested{ProviderID: raw.ProviderID, Tool: raw.Tool, Args: raw.Args, Hash: a.Hash}))
	}
	if p.edit != nil {
		p.edit(sub)
	}
	if p.planned != nil {
		p.planned(plan)
	}
	p.add(key, events.Owner{}, turn(sub))
	p.add(key, tapeOwner, append(append([]events.Record{turn(&events.TurnClaimed{Owner: tapeOwner, Why: events.ClaimNew})}, asked...), turn(plan))...)
	counts := make(map[events.Kind]int)
	for i := range calls {
		counts[p.call(key, &calls[i], i, func(e events.Event) events.Record { return one(i, e) })]++
	}
	p.add(key, tapeOwner, turn(&events.TurnCompleted{Counts: counts, Context: contextOf(calls)}))
	return key
}

func contextOf(calls []taped) []byte {
	for _, c := range calls {
		for _, e := range c.ends {
			for _, m := range e.context {
				return fmt.Appendf(nil, `{%q:%s}`, m.Name, m.Value)
			}
		}
	}
	return nil
}

// call tapes a call's way, and returns how it ended.
func (p *tape) call(key events.TurnKey, c *taped, i int, one func(events.Event) events.Record) events.Kind {
	decision := "allow"
	if c.asks || c.verdict.Tier == events.Approval {
		decision = "approved"
		p.add(key, tapeOwner, one(&events.ApprovalRequested{Asks: c.tool, Why: "recorded", Hash: c.verdict.Hash, ToolVersion: "1", Policy: "p1", Expires: p.at.Add(time.Hour), Verdict: c.verdict}))
		p.add(key, events.Owner{}, one(&events.Approved{By: events.Principal{ID: "ann", Kind: "person"}, Scope: events.ScopeCall, Hash: c.verdict.Hash}))
	}
	p.add(key, tapeOwner, one(&events.Authorized{Verdict: c.verdict, Decision: decision}))
	if len(c.ends) == 0 {
		c.ends = []end{{class: events.ClassOK, text: c.tool + " says ok"}}
	}
	for n, e := range c.ends {
		if e.effects == "" {
			e.effects = events.EffectsDone
		}
		if c.verdict.Tier == events.Readonly {
			e.effects = events.EffectsNone
		}
		p.add(key, tapeOwner, one(&events.Started{Attempt: n + 1, Owner: tapeOwner, Deadline: p.at.Add(30 * time.Second), Hash: c.verdict.Hash, Key: c.verdict.Key}))
		o := events.Outcome{Attempt: n + 1, Class: e.class, Effects: e.effects, Result: events.Result{Status: events.Success, Text: events.Body{Text: e.text}, Context: e.context}}
		if e.class != events.ClassOK {
			o.Result = failure(events.ExecutionError, e.text)
		}
		o.Stages.Run = 20_000
		switch {
		case n < len(c.ends)-1:
			p.add(key, tapeOwner, one(&events.Retrying{Attempt: n + 1, Class: e.class, Error: o.Result.Error, Until: p.at.Add(time.Second), Effects: e.effects}))
		case e.class == events.ClassOK:
			p.add(key, tapeOwner, one(&events.Completed{Outcome: o}))
			return events.KindCompleted
		case e.class == events.ClassTimeout:
			p.add(key, tapeOwner, one(&events.TimedOut{Outcome: o}))
			return events.KindTimedOut
		default:
			p.add(key, tapeOwner, one(&events.Failed{Outcome: o}))
			return events.KindFailed
		}
	}
	return ""
}

// planOf plays a trace's turns without faults, all of which must be as they were recorded.
func planOf(t testing.TB, tr Trace, o Options) *Plan {
	t.Helper()
	scripts, not := Build(tr, o)
	for _, n := range not {
		t.Errorf("%s cannot be played: %s", n.Turn, n.Why)
	}
	p, err := Runner{}.Plan(t.Context(), scripts)
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range p.Turns {
		for _, f := range turn.Failures {
			t.Errorf("%s without a fault: %s", turn.Script.Key, f)
		}
		for _, d := range turn.Differs {
			t.Errorf("%s without a fault: call %d was told %s, and is told %s (%s)", turn.Script.Key, d.Call, d.Recorded, d.Now, d.Reason)
		}
	}
	return p
}

// all plays every cell of a plan, none of which may fail, and counts them.
func all(t testing.TB, p *Plan) Tally {
	t.Helper()
	return some(t, p, 1)
}

// some is all for one cell of several.
func some(t testing.TB, p *Plan, of int) Tally {
	t.Helper()
	var sum Tally
	failed := 0
	var cells []Cell
	for i, x := range p.Cells(Selection{}) {
		if i%of == 0 {
			cells = append(cells, x)
		}
	}
	if err := (Runner{}).Play(t.Context(), cells, func(r Result) {
		sum.Add(r)
		if r.Verdict != Failed {
			return
		}
		if failed++; failed <= 3 {
			t.Errorf("%s, call %d, %s, %s: %v\n%s", r.Turn, r.Pair.Call, r.Pair.label(), r.Kind, r.Failures, story(t, p, r))
		}
	}); err != nil {
		t.Fatal(err)
	}
	if failed > 3 {
		t.Errorf("and %d more failed", failed-3)
	}
	return sum
}

// story is what happened in a cell, played once more.
func story(t testing.TB, p *Plan, r Result) string {
	out := ""
	for _, x := range p.Cells(Selection{Kinds: []Kind{r.Kind}, Turn: r.Turn}) {
		if x.Pair == r.Pair && x.Turn.Script.Key.Trace == r.Trace {
			_ = Runner{Story: true}.Play(t.Context(), []Cell{x}, func(r Result) {
				for _, line := range r.Story {
					out += line + "\n"
				}
			})
		}
	}
	return out
}
