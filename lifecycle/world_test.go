package lifecycle_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// fixture is a tool as the edge knows it.
type fixture struct {
	tier      events.Tier
	safe      bool
	honours   bool // one effect for one key
	keyed     bool // derives a key from its arguments
	probe     bool
	undo      bool
	retries   int
	exclusive bool // locks what it works on alone
	asks      bool // the policy asks a person
	wall      time.Duration
}

// fixtures are all tools of these tests.
var fixtures = map[string]fixture{
	"read":   {tier: events.Readonly, safe: true, retries: 2},
	"grep":   {tier: events.Readonly, safe: true, retries: 2},
	"poll":   {tier: events.Readonly, safe: true, retries: 20},
	"edit":   {tier: events.Reversible, exclusive: true, retries: 2},
	"write":  {tier: events.Reversible, exclusive: true, probe: true, undo: true, retries: 2},
	"upsert": {tier: events.Reversible, honours: true, keyed: true, retries: 2},
	"charge": {tier: events.Irreversible, wall: 10 * time.Second, retries: 2},
	"post":   {tier: events.Irreversible, probe: true, retries: 2},
	"pay":    {tier: events.Irreversible, probe: true, honours: true, keyed: true, retries: 2},
	"bash":   {tier: events.Irreversible, asks: true},
	"deploy": {tier: events.Approval},
}

// start is when every test begins.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is one turn, its log, and the clock.
type world struct {
	key  events.TurnKey
	turn lifecycle.Turn
	log  []events.Commit
	now  time.Time
	me   events.Owner // who acts where nothing else is said: the last claimer
	ids  int
}

func newWorld() *world {
	key := events.TurnKey{Trace: "t", Turn: "1"}
	return &world{key: key, turn: lifecycle.Turn{Key: key}, now: start}
}

// do decides a command and appends what follows as one commit. State is folded
// from the stored bytes.
func (w *world) do(by events.Owner, cmd lifecycle.Command) ([]events.Record, error) {
	records, err := lifecycle.Decide(w.turn, lifecycle.Env{Now: w.now, Owner: by}, cmd)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	if c, ok := records[0].Event.(*events.TurnClaimed); ok {
		by = c.Owner
		w.me = by
	}
	w.ids++
	c := stored(events.Commit{ID: fmt.Sprint("c", w.ids), Turn: w.key, At: w.now, By: by, Records: records})
	w.log = append(w.log, c)
	w.turn = lifecycle.FoldOn(w.turn, c)
	return c.Records, nil
}

// stored is a commit as it is read back from the log.
func stored(c events.Commit) events.Commit {
	b, err := events.Encode(c)
	if err != nil {
		panic(err)
	}
	back, err := events.Decode(b)
	if err != nil {
		panic(err)
	}
	return back
}

// oneByOne is the same history with a commit for every event.
func oneByOne(log []events.Commit) []events.Commit {
	var out []events.Commit
	for _, c := range log {
		for i, r := range c.Records {
			one := c
			one.ID, one.Records = fmt.Sprintf("%s-%d", c.ID, i), []events.Record{r}
			out = append(out, one)
		}
	}
	return out
}

// onwards is the world after a prefix of a history.
func onwards(key events.TurnKey, log []events.Commit) *world {
	w := &world{key: key, log: log[:len(log):len(log)], turn: lifecycle.Fold(key, log...), now: start, ids: 1000}
	if n := len(log); n > 0 {
		w.now = log[n-1].At
	}
	w.me = w.turn.Owner
	return w
}

// rawCall is a call of a fixture. on is what it works on, "" for nothing.
func rawCall(i int, tool, on, key string) events.RawCall {
	args := fmt.Sprintf(`{"n":%d}`, i)
	if on != "" {
		args = fmt.Sprintf(`{"n":%d,"on":%q}`, i, on)
	}
	return events.RawCall{ProviderID: fmt.Sprint("id", i), Tool: tool, Args: events.Body{Text: args}, Key: key}
}

// facts are what the edge looks up before it plans.
func facts(t lifecycle.Turn) []lifecycle.CallFacts {
	out := make([]lifecycle.CallFacts, len(t.Calls))
	for i, c := range t.Calls {
		a, _ := lifecycle.Parse(c.Args.Text)
		f, known := fixtures[c.Tool]
		out[i] = lifecycle.CallFacts{Hash: a.Hash, Known: known, Safe: f.safe, Resources: resources(c)}
	}
	return out
}

func resources(c *lifecycle.Call) []events.ResourceUse {
	_, rest, ok := strings.Cut(c.Args.Text, `"on":"`)
	name, _, _ := strings.Cut(rest, `"`)
	if !ok {
		return nil
	}
	return []events.ResourceUse{{Name: "file:" + name, Exclusive: fixtures[c.Tool].exclusive}}
}

// verdict is what the gates find of a call that they let through.
func verdict(t lifecycle.Turn, c *lifecycle.Call) events.Verdict {
	f := fixtures[c.Tool]
	a, _ := lifecycle.Parse(c.Args.Text)
	v := events.Verdict{
		Operation: events.Operation{Class: events.OpExecute}, Tier: f.tier, Hash: a.Hash, ToolVersion: "1", Policy: "p1",
		Resources: resources(c), HonoursKey: f.honours, Probe: f.probe, Undo: f.undo, Retries: f.retries,
	}
	if t.Call(c.Offset) != nil {
		v.Key = t.Submitted.Calls[c.Offset].Key
	}
	if v.Key == "" && f.keyed {
		v.Key = c.Tool + " " + a.Hash
	}
	return v
}

// ruled are the findings of gates in order, all passing up to and with the one
// that says something; where f.Gate is "" all of them pass. One that is in no
// place comes first.
func ruled(order []lifecycle.Gate, f lifecycle.Finding) []lifecycle.Finding {
	var out []lifecycle.Finding
	if f.Gate != "" && !slices.Contains(order, f.Gate) {
		out = append(out, f)
	}
	for _, g := range order {
		if g != f.Gate {
			out = append(out, lifecycle.Finding{Gate: g})
			continue
		}
		out = append(out, f)
		if f.Ruling != lifecycle.Ask && f.Ruling != lifecycle.Pass {
			break
		}
	}
	return out
}

// judged is what the plan gates say of a call by themselves.
func judged(t lifecycle.Turn, c *lifecycle.Call) lifecycle.Judge {
	j := lifecycle.Judge{Call: c.Offset, Verdict: verdict(t, c), Asks: "run " + c.Tool, Expire: time.Hour}
	f, known := fixtures[c.Tool]
	say := lifecycle.Finding{}
	switch {
	case !known:
		say = lifecycle.Finding{Gate: lifecycle.GateAllow, Ruling: lifecycle.Deny, Code: events.UnknownTool, Reason: "there is no such tool"}
	case j.Verdict.Hash == "":
		say = lifecycle.Finding{Gate: lifecycle.GateValidate, Ruling: lifecycle.Deny, Code: events.InvalidParam, Reason: "no JSON"}
	case t.Submitted.Mode == events.ModeRead && f.tier != events.Readonly:
		say = lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Deny, Code: events.PermissionDenied, Reason: "this turn only reads"}
	case f.asks:
		say = lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Ask, Reason: "the policy asks"}
	}
	j.Findings = ruled(lifecycle.PlanGates, say)
	return j
}

// begun is a Begin that every start gate lets through.
func begun(t lifecycle.Turn, c *lifecycle.Call) lifecycle.Begin {
	b := lifecycle.Begin{Call: c.Offset, Verdict: verdict(t, c), Wall: fixtures[c.Tool].wall, Asks: "run " + c.Tool}
	say := lifecycle.Finding{}
	if fixtures[c.Tool].asks {
		say = lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Ask, Reason: "the policy asks"}
	}
	b.Findings = ruled(lifecycle.StartGates, say)
	return b
}

// text is a successful result.
func text(s string) events.Result {
	return events.Result{Status: events.Success, Text: events.Body{Text: s}}
}

// answered is a tool's own success.
func answered(call, attempt int) lifecycle.Settle {
	return lifecycle.Settle{
		Call: call, Attempt: attempt, Class: events.ClassOK, Result: text(fmt.Sprintf("result of %d", call)),
		Answered: true, Confirmed: true, Run: 3 * time.Millisecond,
	}
}

// pay does what an effect asks for, as a shell would that has no bad luck.
func (w *world) pay(e lifecycle.Effect) error {
	if w.now.Before(e.At) && e.Do != lifecycle.DoPark {
		w.now = e.At
	}
	c := w.turn.Call(e.Call)
	var cmd lifecycle.Command
	switch e.Do {
	case lifecycle.DoPlan:
		cmd = lifecycle.Plan{Facts: facts(w.turn), Policy: "p1"}
	case lifecycle.DoJudge:
		cmd = judged(w.turn, c)
	case lifecycle.DoStart:
		cmd = begun(w.turn, c)
	case lifecycle.DoPerform:
		cmd = answered(e.Call, e.Attempt)
	case lifecycle.DoStop:
		cmd = lifecycle.Settle{
			Call: e.Call, Attempt: e.Attempt, Class: events.ClassCancelled, Confirmed: true,
			Result: events.Result{Status: events.Failure, Error: &events.Error{Code: events.CodeCancelled, Message: "stopped"}},
		}
	case lifecycle.DoProbe:
		cmd = lifecycle.Probed{Call: e.Call, Attempt: e.Attempt}
	case lifecycle.DoExpire:
		cmd = lifecycle.Expire{Call: e.Call}
	case lifecycle.DoDeadline:
		cmd = lifecycle.Advance{}
	case lifecycle.DoPark:
		cmd = lifecycle.Park{}
	default:
		return fmt.Errorf("nobody knows how to %s", e.Do)
	}
	_, err := w.do(w.me, cmd)
	return err
}

// finish pays whatever is owed until the turn has ended. A parked turn is woken
// at its time.
func (w *world) finish() error {
	for step := range 2000 {
		switch {
		case w.turn.Ended != nil:
			return nil
		case w.turn.Parked != nil:
			if due := w.turn.Parked.Due; w.now.Before(due) {
				w.now = due
			}
			if _, err := w.do(events.Owner{}, lifecycle.Claim{Boot: fmt.Sprint("woken", step)}); err != nil {
				return err
			}
			continue
		}
		due := lifecycle.Due(w.turn)
		if len(due) == 0 {
			return fmt.Errorf("stuck: nothing is due, and the turn has not ended")
		}
		if err := w.pay(w.next(due)); err != nil {
			return err
		}
	}
	return fmt.Errorf("the turn does not end; due: %v", lifecycle.Due(w.turn))
}

// next is the effect to pay first: what ends an attempt before what runs it, then
// what is due by now, in order, then parking, then what is due first.
func (w *world) next(due []lifecycle.Effect) lifecycle.Effect {
	rank := func(e lifecycle.Effect) int {
		switch {
		case e.Do == lifecycle.DoStop:
			return 0
		case e.Do == lifecycle.DoPark:
			return 2
		case w.now.Before(e.At):
			return 3
		}
		return 1
	}
	return slices.MinFunc(due, func(a, b lifecycle.Effect) int { // the first of equals
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.At.Compare(b.At))
	})
}
