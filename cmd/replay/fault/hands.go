package fault

import (
	"context"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// part is what one run of a scripted tool does.
type part struct {
	report  tools.Report
	takes   time.Duration // until it answers
	effect  bool          // half-way
	waits   bool          // until somebody asks for its end
	hangs   bool          // until its deadline
	goesOn  bool          // it does not hear that it is to end, and answers before anybody has given it up
	deaf    bool          // it does not stop when it is told to
	strikes *strike       // the fault that made it so; nil: it is as recorded
}

// forever is longer than any deadline.
const forever = 1000 * time.Hour

// execute is actors.Config's: it plays one attempt, or one probe.
func (n *node) execute(ctx context.Context, t tools.Tool, in tools.Invocation, o tools.Options) tools.Report {
	if scripted, _ := n.c.s.registry.Lookup(t.Name); scripted.Probe != nil && t.Probe == nil {
		n.m.Wait(10*time.Millisecond, ctx.Done())
		n.c.tell("the tool of call %d is asked whether its effect happened", in.Call.Offset)
		_, err := t.Run(context.WithValue(ctx, probing{}, n.c), in)
		return tools.Report{Class: events.ClassOK, Answered: err == nil, Confirmed: true}
	}
	if ctx.Err() != nil {
		return tools.Report{Result: failure(events.CodeCancelled, "not started"), Class: events.ClassCancelled, Effects: events.EffectsNone, Confirmed: true}
	}
	r := n.c.ledger.begin(n, in)
	p := n.c.part(r)
	n.c.tell("call %d runs, attempt %d", r.call, r.attempt)
	for _, x := range n.c.strikes {
		x.during(r, p)
	}
	return r.run(ctx, in, o, p)
}

// run returns once the attempt has ended, or was given up.
func (r *run) run(ctx context.Context, in tools.Invocation, o tools.Options, p part) tools.Report {
	left := max(in.Deadline.Sub(r.n.m.Now()), 0)
	if p.waits || p.hangs {
		p.takes = forever
	}
	half := min(p.takes, left) / 2
	if p.waits {
		half = min(half, midway/4) // BEFORE anybody asks for the end
	}
	cut := r.wait(ctx, half, p)
	if !cut && p.effect {
		r.happen()
	}
	timeout := false
	switch {
	case cut:
	case p.takes > left:
		cut = r.wait(ctx, left-half, p)
		timeout = !cut
	default:
		cut = r.wait(ctx, p.takes-half, p)
	}
	p.report.Run = r.n.m.Now().Sub(r.began)
	switch {
	case p.deaf && (cut || timeout):
		r.n.m.Go(func() { r.linger(o, p) })
		return r.ended(p, timeout, false)
	case p.strikes == nil && (p.waits && cut || p.hangs && (timeout || cut && !p.report.Confirmed)):
		r.done(true)
		return p.report // as it was recorded
	case cut || timeout:
		r.done(false)
		return r.ended(p, timeout, true)
	}
	r.done(true)
	return p.report
}

// wait lets time pass; true means that somebody asked for the end first.
func (r *run) wait(ctx context.Context, d time.Duration, p part) bool {
	if p.goesOn {
		r.n.m.Wait(max(d, 1))
		return false
	}
	return d > 0 && r.n.m.Wait(d, ctx.Done()) == 0 || ctx.Err() != nil
}

// ended is the report of an attempt that was cut short.
func (r *run) ended(p part, timeout, confirmed bool) tools.Report {
	out := tools.Report{
		Class: events.ClassCancelled, Result: failure(events.CodeCancelled, "the call was cancelled while it ran"),
		Effects: events.EffectsPossible, Run: p.report.Run, Confirmed: confirmed,
	}
	if timeout {
		out.Class, out.Result = events.ClassTimeout, failure(events.Timeout, "the deadline passed before the tool had answered")
	}
	if r.tier == events.Readonly {
		out.Effects = events.EffectsNone
	}
	if !confirmed {
		out.Pids = []int{1}
		out.Result.Error.Code = events.UnknownOutcome
	}
	return out
}

// lateBy is how long a tool goes on that does not stop.
const lateBy = 5 * time.Second

// linger is a tool that does not stop: it answers when nobody waits any more.
func (r *run) linger(o tools.Options, p part) {
	r.n.m.Wait(lateBy)
	if p.effect && !r.effect {
		r.happen()
	}
	r.done(true)
	r.c.tell("the tool of call %d answers, too late", r.call)
	if o.Late != nil {
		p.report.Confirmed = true
		o.Late(p.report)
	}
}

func failure(code events.Code, message string) events.Result {
	return events.Result{Status: events.Failure, Error: &events.Error{Code: code, Message: message}}
}

// part is what a run does: as recorded, or as a fault has it. Of several recorded
// attempts it is the one whose turn it is; the last one repeats.
func (c *cell) part(r *run) part {
	k := c.s.calls[r.call]
	a := k.attempts[min(r.nth, len(k.attempts)-1)]
	p := part{report: report(a), takes: c.s.pace(a), waits: a.cancelled && a.outcome.Class == events.ClassCancelled}
	p.goesOn = a.cancelled && a.outcome.Class != events.ClassCancelled && a.confirmed && a.outcome.Class != events.ClassTimeout
	known := a.outcome.Effects
	p.effect = r.tier != events.Readonly && (known == events.EffectsDone || known != events.EffectsNone && !k.verdict.Probe)
	p.effect = p.effect && a.asks == nil                                                         // a tool asks first
	if _, cannot := k.ended.(*events.Unknown); a.settled != "" && (cannot || !k.verdict.Probe) { // somebody has found out; a tool that was asked had not
		p.effect = r.tier != events.Readonly && a.settled == events.EffectsDone
	}
	late := a.outcome.Class == events.ClassTimeout && a.wall > 0 && time.Duration(a.outcome.Stages.Run)*time.Microsecond >= a.wall*9/10
	p.hangs = late || !a.confirmed // it had not stopped when its time was over
	for _, x := range c.strikes {
		if x.row.tool && !x.struck && x.pair.runs() && x.pair.Call == r.call && x.attempt == r.attempt {
			x.strike("the tool of call %d: %s", r.call, x.row.About)
			return x.part(r, p)
		}
	}
	return p
}

// report is what a recorded attempt reported.
func report(a attempt) tools.Report {
	o := a.outcome
	var input *tools.InputRequired
	if a.asks != nil {
		input = &tools.InputRequired{Requests: a.asks.Requests, State: a.asks.State}
	}
	return tools.Report{
		Input:  input,
		Result: o.Result, Class: o.Class, Effects: o.Effects, After: a.after, Exit: o.Exit, Signal: o.Signal, Output: o.Output,
		Answered: a.answered, Confirmed: a.confirmed, Pids: a.pids,
	}
}

// pace is how long a recorded attempt takes when it is played: what is longer than a
// second is shortened, in the same order, unless the turn has a deadline.
func (s *Script) pace(a attempt) time.Duration {
	d := max(time.Duration(a.outcome.Stages.Run)*time.Microsecond, 4*time.Millisecond)
	if d > time.Second && !s.deadline {
		d = time.Second + (d-time.Second)/100
	}
	return d
}

// part is what a run does under a fault of its tool.
func (x *strike) part(r *run, p part) part {
	p.strikes, p.waits, p.hangs, p.goesOn, p.effect = x, false, false, false, r.tier != events.Readonly
	switch x.row.Kind {
	case Hang:
		p.takes = forever
		return p
	case LateResult:
		p.takes, p.deaf = forever, true
		p.report = report(attempt{outcome: made(x.c.s.calls[r.call]), answered: true, confirmed: true})
		if k := x.c.s.calls[r.call]; k.attempts[len(k.attempts)-1].outcome.Class == events.ClassOK {
			p.report.Result = k.attempts[len(k.attempts)-1].outcome.Result
		}
		return p
	case LeaseLoss:
		p.takes = forever
		x.c.w.At(x.c.w.Now().Add(10*time.Millisecond), func() { x.steal(r) })
		return p
	}
	class := x.row.class
	p.effect = p.effect && class != events.ClassInvalid && class != events.ClassConflict
	rep := tools.Report{
		Class: class, Effects: events.EffectsPossible, Confirmed: true, Result: failure(codeOf[class], "a fault put in by replay: "+x.row.About),
		Answered: class == events.ClassTool || class == events.ClassInvalid || class == events.ClassConflict,
	}
	if r.tier == events.Readonly || class == events.ClassInvalid || class == events.ClassConflict {
		rep.Effects = events.EffectsNone
	}
	p.report, p.takes = rep, midway/2 // BEFORE anybody asks for its end
	return p
}

var codeOf = map[events.Class]events.Code{
	events.ClassTool: events.ExecutionError, events.ClassInvalid: events.InvalidParam, events.ClassConflict: events.Conflict,
	events.ClassUnavailable: events.InternalError, events.ClassTimeout: events.Timeout, events.ClassCancelled: events.CodeCancelled,
	events.ClassPanic: events.ExecutionError, events.ClassLost: events.UnknownOutcome,
}

// ledger is the world outside of the runtime: it counts, whatever the log says.
type ledger struct {
	c    *cell
	runs []*run
}

// run is one time that a tool was run.
type run struct {
	c        *cell
	n        *node
	call     int
	attempt  int
	nth      int // of the call, from 0
	tier     events.Tier
	key      string // "" where the tool does not honour one
	given    string // the idempotency key that it was given, honoured or not
	locks    []events.Lock
	began    time.Time
	over     bool // nothing of it runs any more
	answered bool // the tool had its answer
	effect   bool // its effect has happened
	// forgotten: its start was lost with the power, as that of a readonly call may be.
	forgotten bool
}

// begin notes that a tool is run, and checks that it may be.
func (l *ledger) begin(n *node, in tools.Invocation) *run {
	k := l.c.s.calls[in.Call.Offset]
	r := &run{c: l.c, n: n, call: in.Call.Offset, attempt: in.Attempt, tier: k.verdict.Tier, locks: in.Locks, began: n.m.Now()}
	if r.given = in.Key; k.verdict.HonoursKey {
		r.key = in.Key
	}
	for _, o := range l.runs {
		if o.call != r.call {
			continue
		}
		if r.nth++; o.attempt == r.attempt && !o.forgotten {
			l.c.fail("L5", r.call, "attempt %d was run twice", r.attempt)
		}
	}
	l.runs = append(l.runs, r)
	l.c.mayRun(r)
	return r
}

// happen is the effect of a run.
func (r *run) happen() {
	r.effect = true
	r.c.tell("the effect of call %d happens, attempt %d", r.call, r.attempt)
	for _, o := range r.c.ledger.runs {
		switch {
		case o == r || !o.effect:
		case o.call == r.call && (r.key == "" || o.key != r.key):
			r.c.fail("L6", r.call, "its effect happened twice, by attempts %d and %d", o.attempt, r.attempt)
		case o.call != r.call && r.given != "" && o.given == r.given:
			r.c.fail(lawEffects, r.call, "its effect happened, and that of call %d, which has the same idempotency key", o.call)
		}
	}
}

func (r *run) done(answered bool) { r.over, r.answered = true, answered }

// died ends what runs on a node that is gone.
func (l *ledger) died(n *node) {
	for _, r := range l.runs {
		if r.n == n {
			r.over = true
		}
	}
}

func (l *ledger) running() bool {
	for _, r := range l.runs {
		if !r.over {
			return true
		}
	}
	return false
}

// forget lets go of what the log does not know of any more.
func (l *ledger) forget(t lifecycle.Turn) {
	for _, r := range l.runs {
		if call := t.Call(r.call); call == nil || r.attempt > call.Attempt {
			r.forgotten = true
			if r.tier != events.Readonly {
				l.c.fail("L4", r.call, "its start was not durable: the power took it, and attempt %d had been run", r.attempt)
			}
		}
	}
}

// effects is how often the effect of a call has happened. A tool that honours a key
// does one effect for it, however often it is run.
func (l *ledger) effects(call int) int {
	n := 0
	keys := make(map[string]bool)
	for _, r := range l.runs {
		if r.call != call || !r.effect || r.key != "" && keys[r.key] {
			continue
		}
		keys[r.key] = true
		n++
	}
	return n
}

// began says whether the tool of a call was ever run, and ran how often.
func (l *ledger) times(call int) int {
	n := 0
	for _, r := range l.runs {
		if r.call == call {
			n++
		}
	}
	return n
}

// mayRun checks L3, L4 and L10 where a tool begins.
func (c *cell) mayRun(r *run) {
	at, asked, approved, denied := -1, false, false, false
	for i, s := range c.commits {
		rec := s.Commit.Records[0]
		if rec.Call != r.call {
			continue
		}
		switch e := rec.Event.(type) {
		case *events.Started:
			if e.Attempt == r.attempt {
				at = i
			}
		case *events.ApprovalRequested:
			asked, approved = true, false
		case *events.Approved:
			approved = true
		case *events.Authorized:
			approved = approved || e.Decision == "approved" && c.inherited(r.call, e.Verdict.Hash)
		case *events.Denied:
			denied = true
		}
	}
	switch {
	case at < 0:
		c.fail("L4", r.call, "attempt %d was run, and its start is not in the log", r.attempt)
	case at >= c.durable && r.tier != events.Readonly:
		c.fail("L4", r.call, "attempt %d of a call that is %s was run before its start was past the barrier", r.attempt, r.tier)
	}
	if denied {
		c.fail("L10", r.call, "it was denied, and its tool was run")
	}
	if (asked || r.tier == events.Approval) && !approved && !c.inherited(r.call, c.s.calls[r.call].hash) {
		c.fail("L3", r.call, "its tool was run, and nobody had agreed to it")
	}
}

// inherited says whether a person has agreed to the call for the session, in an
// earlier turn.
func (c *cell) inherited(call int, hash string) bool {
	h, _ := lifecycle.Inherit(c.s.Key, c.s.legacy)
	for _, y := range h.Session {
		if y.Tool == c.s.calls[call].tool && y.Hash == hash {
			return true
		}
	}
	return false
}
