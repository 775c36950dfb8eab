package corpus

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// world writes the log of one trace with today's deciders, by a clock of its own.
type world struct {
	trace   string
	now     time.Time
	turn    lifecycle.Turn
	log     []events.Commit
	epoch   int // of boots
	perform func(w *world, c *lifecycle.Call) lifecycle.Settle
}

func newWorld(trace string) *world {
	return &world{trace: trace, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// tool is a tool as a node would know it.
type tool struct {
	tier                              events.Tier
	class                             events.OpClass
	safe, honours, probe, undo, asked bool
	retries                           int
}

var tools = map[string]tool{
	"Read":   {tier: events.Readonly, class: events.OpRead, safe: true, retries: 2},
	"Write":  {tier: events.Reversible, class: events.OpWrite, undo: true},
	"charge": {tier: events.Irreversible, class: events.OpExecute},
	"upsert": {tier: events.Reversible, class: events.OpNetwork, honours: true, retries: 1},
	"post":   {tier: events.Irreversible, class: events.OpNetwork, probe: true},
	"Bash":   {tier: events.Irreversible, class: events.OpExecute, asked: true},
	"deploy": {tier: events.Approval, class: events.OpExecute},
}

var (
	agent  = events.Principal{ID: "agent-7", Parents: []string{"planner"}}
	person = events.Principal{ID: "mira", Kind: "person"}
)

func call(id, name, args string) events.RawCall {
	return events.RawCall{ProviderID: id, Tool: name, Args: events.Body{Text: args}}
}

// submit begins a turn.
func (w *world) submit(turn string, s events.TurnSubmitted) {
	key := events.TurnKey{Trace: w.trace, Turn: turn}
	w.turn = lifecycle.Turn{Key: key}
	if s.Principal.ID == "" {
		s.Principal = agent
	}
	w.do(lifecycle.Submit{Turn: s})
}

// do decides, in the name of the owner where the command is an owner's, and
// keeps what follows as one commit.
func (w *world) do(cmd lifecycle.Command) {
	w.now = w.now.Add(1500 * time.Microsecond)
	by := events.Owner{}
	switch cmd.(type) {
	case lifecycle.Submit, lifecycle.Approve, lifecycle.Reject, lifecycle.Answer, lifecycle.CancelCall, lifecycle.CancelTurn,
		lifecycle.Late, lifecycle.Resolve, lifecycle.Undone, lifecycle.Note:
	default:
		by = w.turn.Owner
	}
	records, err := lifecycle.Decide(w.turn, lifecycle.Env{Now: w.now, Owner: by}, cmd)
	if err != nil {
		panic(fmt.Sprintf("%T in turn %s: %v", cmd, w.turn.Key, err))
	}
	if len(records) > 0 {
		if c, ok := records[0].Event.(*events.TurnClaimed); ok {
			by = c.Owner
		}
		w.keep(records, by)
	}
}

// keep adds a commit, and folds what was stored.
func (w *world) keep(records []events.Record, by events.Owner) {
	b, err := events.Encode(events.Commit{ID: fmt.Sprintf("%s-%03d", w.trace, len(w.log)+1), Turn: w.turn.Key, At: w.now, By: by, Records: records})
	if err != nil {
		panic(err)
	}
	c, err := events.Decode(b)
	if err != nil {
		panic(err)
	}
	w.log = append(w.log, c)
	w.turn = lifecycle.FoldOn(w.turn, c)
}

// claim makes another boot the owner.
func (w *world) claim(drained bool) {
	w.epoch++
	w.do(lifecycle.Claim{Boot: fmt.Sprintf("boot-%d", w.epoch), Node: "n1", Drained: drained})
}

// run pays what is due, in order, until nothing is that need not wait.
func (w *world) run() {
	for {
		due := lifecycle.Due(w.turn)
		i := slices.IndexFunc(due, func(e lifecycle.Effect) bool { return !e.At.After(w.now) && e.Do != lifecycle.DoPark })
		if i < 0 {
			return
		}
		w.pay(due[i])
	}
}

func (w *world) pay(e lifecycle.Effect) {
	var c *lifecycle.Call
	if e.Call != events.TurnEvent {
		c = w.turn.Calls[e.Call]
	}
	switch e.Do {
	case lifecycle.DoPlan:
		w.do(w.plan())
	case lifecycle.DoJudge:
		w.do(w.judge(c))
	case lifecycle.DoStart:
		w.do(w.begin(c))
	case lifecycle.DoPerform:
		if s := w.perform(w, c); s.Class != "" {
			w.now = w.now.Add(s.Run)
			w.do(s)
			return
		}
		panic("nobody says how the attempt ends")
	case lifecycle.DoExpire:
		w.do(lifecycle.Expire{Call: e.Call})
	case lifecycle.DoDeadline:
		w.do(lifecycle.Advance{})
	default:
		panic("the script does not say what to do about " + string(e.Do))
	}
}

func (w *world) plan() lifecycle.Plan {
	facts := make([]lifecycle.CallFacts, len(w.turn.Calls))
	for i, c := range w.turn.Calls {
		a, _ := lifecycle.Parse(c.Args.Text) // "" where it does not parse
		f, known := tools[c.Tool]
		facts[i] = lifecycle.CallFacts{Hash: a.Hash, Known: known, Safe: f.safe}
	}
	return lifecycle.Plan{Facts: facts, Policy: "default-1"}
}

func (w *world) verdict(c *lifecycle.Call) events.Verdict {
	f := tools[c.Tool]
	a, _ := lifecycle.Parse(c.Args.Text)
	v := events.Verdict{
		Operation: events.Operation{Class: f.class}, Tier: f.tier, Hash: a.Hash, ToolVersion: "1", Policies: []string{"tier-" + string(f.tier)},
		Policy: "default-1", Key: w.turn.Submitted.Calls[c.Offset].Key, HonoursKey: f.honours, Probe: f.probe, Undo: f.undo, Retries: f.retries,
	}
	if f.honours && v.Key == "" {
		v.Key = c.Tool + " " + a.Hash[:12]
	}
	return v
}

// judge is what the plan gates find.
func (w *world) judge(c *lifecycle.Call) lifecycle.Judge {
	j := lifecycle.Judge{Call: c.Offset, Asks: c.Tool + " " + c.Args.Text, Expire: time.Hour}
	f, known := tools[c.Tool]
	_, parses := lifecycle.Parse(c.Args.Text)
	say := lifecycle.Finding{}
	switch {
	case !known:
		say = lifecycle.Finding{Gate: lifecycle.GateAllow, Ruling: lifecycle.Deny, Code: events.UnknownTool, Reason: "there is no tool of this name"}
	case parses != nil:
		say = lifecycle.Finding{Gate: lifecycle.GateValidate, Ruling: lifecycle.Deny, Code: events.InvalidParam, Reason: "the arguments are not JSON", Path: "/"}
	case w.turn.Submitted.Mode == events.ModeRead && f.tier != events.Readonly:
		say = lifecycle.Finding{
			Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Deny, Code: events.PermissionDenied, Reason: "this agent only reads",
			Policies: []string{"mode-read-only"}, Policy: "default-1",
		}
	case f.asked:
		say = lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Ask, Reason: "what the line does is not understood", Policies: []string{"shell-ask"}, Policy: "default-1"}
	}
	if say.Code == "" {
		j.Verdict = w.verdict(c)
	}
	j.Findings = passing(lifecycle.PlanGates, say)
	return j
}

// begin is what the start gates find: that nothing has changed.
func (w *world) begin(c *lifecycle.Call) lifecycle.Begin {
	b := lifecycle.Begin{Call: c.Offset, Verdict: w.verdict(c), Wall: 30 * time.Second, Asks: c.Tool + " " + c.Args.Text}
	say := lifecycle.Finding{}
	if tools[c.Tool].asked {
		say = lifecycle.Finding{Gate: lifecycle.GateAuthorize, Ruling: lifecycle.Ask, Reason: "what the line does is not understood"}
	}
	if tools[c.Tool].tier == events.Reversible {
		b.Locks = []events.Lock{{Resource: "file:notes.md", Exclusive: true, Boot: w.turn.Owner.Boot, Revision: 7}}
	}
	b.Breaker = events.BreakerView{State: "closed", Revision: 3}
	b.Findings = passing(lifecycle.StartGates, say)
	return b
}

// passing are findings of the gates in order, with the one that says something.
func passing(order []lifecycle.Gate, say lifecycle.Finding) []lifecycle.Finding {
	var out []lifecycle.Finding
	for _, g := range order {
		if g != say.Gate {
			out = append(out, lifecycle.Finding{Gate: g})
			continue
		}
		out = append(out, say)
		if say.Ruling == lifecycle.Deny {
			break
		}
	}
	return out
}

// done is a tool's own success.
func done(c *lifecycle.Call, text string) lifecycle.Settle {
	return lifecycle.Settle{
		Call: c.Offset, Attempt: c.Attempt, Class: events.ClassOK, Answered: true, Confirmed: true, Run: 4200 * time.Microsecond,
		Result: events.Result{Status: events.Success, Text: events.Body{Text: text}}, Output: int64(len(text)),
	}
}

// failed is an end that is none.
func failed(c *lifecycle.Call, class events.Class, code events.Code, message string) lifecycle.Settle {
	return lifecycle.Settle{
		Call: c.Offset, Attempt: c.Attempt, Class: class, Answered: class != events.ClassTimeout && class != events.ClassLost, Confirmed: true,
		Run: 9 * time.Millisecond, Result: events.Result{Status: events.Failure, Error: &events.Error{Code: code, Message: message}},
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }
