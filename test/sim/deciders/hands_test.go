package deciders

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// run is one attempt in the hands of a node, or of nobody once that is dead.
type run struct {
	n        *node
	call     events.CallKey
	attempt  int
	owner    events.Owner
	tool     tool
	key      string
	effectAt time.Time // zero: it has none, or it has happened
	endsAt   time.Time
	deadline time.Time
	class    events.Class
	effects  events.Effects
	answered bool // the tool itself answers
	stubborn bool // cannot be stopped
	asks     bool // it ends as its tool asks a person
	over     bool // cut by its deadline or by a stop: what comes now is late
	unwanted bool // can settle nothing any more
	now      func() time.Time
}

func (r *run) ready() bool { return !r.endsAt.After(r.now()) }

// begin starts an attempt, and draws what will become of it.
func (n *node) begin(c *lifecycle.Call, key events.CallKey) {
	s := n.s
	t := tools[c.Tool]
	r := &run{
		n: n, call: key, attempt: c.Attempt, owner: c.Started.Owner, tool: t, key: c.Started.Key,
		deadline: c.Started.Deadline, class: events.ClassOK, answered: true, now: func() time.Time { return s.now },
	}
	takes := time.Duration(1+s.rng.IntN(3000)) * time.Millisecond
	r.endsAt = s.now.Add(takes)
	r.effectAt = s.now.Add(takes / 2)
	switch x := s.rng.IntN(100); {
	case t.down && x < 80 || x < 8: // its server is not there: connection refused
		r.class, r.effects, r.effectAt = events.ClassUnavailable, events.EffectsNone, time.Time{}
	case x < 16: // it fails for a reason of its own, before it does anything
		r.class, r.effects, r.effectAt = events.ClassTool, events.EffectsNone, time.Time{}
	case x < 22: // it fails half-way
		r.class, r.effects = events.ClassTool, events.EffectsDone
	case x < 26:
		r.class, r.effects, r.effectAt = events.ClassInvalid, "", time.Time{}
	case x < 32: // the connection breaks, and the request may be on its way
		r.class, r.answered = events.ClassUnavailable, false
		r.effectAt = r.endsAt.Add(time.Duration(s.rng.IntN(20)) * time.Second)
	case x < 38: // the other side says that it is busy, and has done it all the same
		r.class, r.effects = events.ClassUnavailable, events.EffectsPossible
	case x < 50: // it hangs; its effect comes, or not
		r.endsAt = s.now.Add(long)
		r.stubborn = s.chance(0.5)
		if s.chance(0.5) {
			r.effectAt = s.now.Add(time.Duration(s.rng.IntN(30)) * time.Second)
		}
	}
	if t.input && s.chance(map[bool]float64{true: 0.2, false: 0.8}[c.Goes() != nil]) {
		r.class, r.effects, r.answered, r.asks, r.effectAt = events.ClassInput, "", true, true, time.Time{}
	}
	if t.tier == events.Readonly || r.effectAt.IsZero() || s.chance(0.1) && r.class != events.ClassOK && r.effects != events.EffectsDone {
		r.effectAt = time.Time{}
	}
	if t.bomb {
		s.counts.mark("bomb")
		s.note("%s kills %s", key, n.boot)
		s.kill(n)
		s.nodes = slices.DeleteFunc(s.nodes, func(o *node) bool { return o == n })
		return
	}
	s.runs = append(s.runs, r)
	s.note("%s on %s: attempt %d runs until %s: %s", key, n.boot, r.attempt, r.endsAt.Format("04:05.000"), r.class)
}

// happen lets the effect of an attempt happen when its time has come.
func (s *sim) happen(r *run) {
	if r.effectAt.IsZero() || r.effectAt.After(s.now) {
		return
	}
	r.effectAt = time.Time{}
	s.ledger.add(s, r)
}

// finish takes an attempt off the list, its effect included: an answer comes after
// what it tells of. An attempt without an answer may have its effect later.
func (s *sim) finish(r *run) {
	for i, o := range s.runs {
		if o != r {
			continue
		}
		if r.answered && !r.effectAt.IsZero() {
			r.effectAt = s.now
			s.happen(r)
		}
		if r.effectAt.IsZero() && !(r.over && !r.answered) {
			s.runs = append(s.runs[:i], s.runs[i+1:]...)
			return
		}
		r.n, r.unwanted = nil, true
		return
	}
}

// found is what a probe answers, answer what an attempt does.
var found = events.Result{Status: events.Success, Text: events.Body{Text: "found"}}

func answer(call events.CallKey, attempt int) events.Result {
	return events.Result{Status: events.Success, Text: events.Body{Text: fmt.Sprintf("%s attempt %d", call, attempt)}}
}

// settle is the report of an attempt that has ended by itself.
func (r *run) settle() lifecycle.Settle {
	c := lifecycle.Settle{
		Call: r.call.Offset, Attempt: r.attempt, Class: r.class, Effects: r.effects, Answered: r.answered, Confirmed: true,
		Result: answer(r.call, r.attempt),
		Run:    time.Second, Jitter: 0.5,
	}
	switch {
	case r.asks:
		c.Result = events.Result{Status: events.Success}
		c.Asks = &lifecycle.Asks{
			Requests: []events.InputRequest{{ID: "p", Kind: events.InputURL, URL: "https://example.com/"}}, State: fmt.Sprint("asked by ", r.attempt),
			Expire: time.Duration(1+r.attempt) * 10 * time.Second,
		}
	case r.class != events.ClassOK:
		c.Result = events.Result{Status: events.Failure, Error: &events.Error{Code: events.ExecutionError, Message: string(r.class)}}
	}
	return c
}

// cut is the report of an attempt that was given up: by its deadline, or by a stop.
func (r *run) cut(class events.Class) lifecycle.Settle {
	c := r.settle()
	c.Class, c.Effects, c.Answered, c.Confirmed, c.Asks = class, "", false, !r.stubborn, nil
	c.Result = events.Result{Status: events.Failure, Error: &events.Error{Code: events.Timeout, Message: string(class)}}
	if r.stubborn {
		c.Pids = []int{1}
	}
	return c
}

// perform starts an attempt, or reports its end. A stopped or late one lives on until
// its answer comes.
func (sh *shell) perform(e lifecycle.Effect) bool {
	n, s := sh.n, sh.n.s
	key := sh.key.Call(e.Call)
	r := s.running(n, key, e.Attempt)
	c := sh.state.Calls[e.Call]
	switch {
	case r == nil:
		if c.Verdict.Tier != events.Readonly && !n.barrier() {
			return false
		}
		n.begin(c, key)
	case r.ready():
		sh.report(r, r.settle())
	case !s.now.Before(r.deadline):
		sh.report(r, r.cut(events.ClassTimeout))
	default:
		return false
	}
	return true
}

// report settles an attempt. Where nobody takes the answer any more, it is noted.
func (sh *shell) report(r *run, c lifecycle.Settle) {
	n := sh.n
	r.over = !r.ready()
	sh.command(c, func(accepted bool) {
		switch {
		case !accepted:
			r.unwanted = true // reaped
		case r.over:
			n.s.forget(r)
		default:
			n.s.finish(r)
		}
		if accepted {
			n.reportBreaker(r, c.Class)
		}
	})
}

// forget leaves an attempt that was cut to itself: a stubborn one goes on, and its
// answer is late; what is on the wire may still arrive.
func (s *sim) forget(r *run) {
	r.unwanted = true
	if r.stubborn {
		if s.chance(0.5) {
			r.endsAt = s.now.Add(time.Duration(s.rng.IntN(10_000)) * time.Millisecond)
		}
		return
	}
	r.answered = false
	if s.chance(0.5) {
		r.effectAt = time.Time{}
	}
	s.finish(r)
}

// stop ends an attempt that runs, or says that it never began.
func (sh *shell) stop(e lifecycle.Effect) bool {
	r := sh.n.s.running(sh.n, sh.key.Call(e.Call), e.Attempt)
	switch {
	case r == nil:
		sh.command(lifecycle.Settle{
			Call: e.Call, Attempt: e.Attempt, Class: events.ClassCancelled, Effects: events.EffectsNone, Confirmed: true,
			Result: events.Result{Status: events.Failure, Error: &events.Error{Code: events.CodeCancelled, Message: "never began"}},
		}, nobody)
	case r.ready():
		sh.report(r, r.settle())
	default:
		sh.report(r, r.cut(events.ClassCancelled))
	}
	return true
}

// probe asks the tool what became of an attempt.
func (sh *shell) probe(e lifecycle.Effect) bool {
	s := sh.n.s
	key := sh.key.Call(e.Call)
	c := lifecycle.Probed{Call: e.Call, Attempt: e.Attempt, Found: s.ledger.of(key) > 0, Result: found}
	c.Failed = !c.Found && s.chance(0.2)
	s.counts.mark("probe, found %t", c.Found)
	sh.command(c, nobody)
	return true
}

// running is an attempt in a node's hands.
func (s *sim) running(n *node, key events.CallKey, attempt int) *run {
	for _, r := range s.runs {
		if r.n == n && r.call == key && r.attempt == attempt && !r.unwanted {
			return r
		}
	}
	return nil
}

// pay does what an effect asks for, if its time has come.
func (sh *shell) pay(e lifecycle.Effect, due []lifecycle.Effect) bool {
	s := sh.n.s
	if s.now.Before(e.At) && e.Do != lifecycle.DoPark || sh.waiting(e.Call) {
		return false
	}
	switch e.Do {
	case lifecycle.DoPlan:
		return sh.plan()
	case lifecycle.DoJudge:
		return sh.judge(e, due)
	case lifecycle.DoStart:
		return sh.start(e)
	case lifecycle.DoPerform:
		return sh.perform(e)
	case lifecycle.DoStop:
		return sh.stop(e)
	case lifecycle.DoProbe:
		return sh.probe(e)
	case lifecycle.DoExpire:
		sh.command(lifecycle.Expire{Call: e.Call}, nobody)
	case lifecycle.DoDeadline:
		sh.command(lifecycle.Advance{}, nobody)
	case lifecycle.DoPark:
		return sh.park(e)
	}
	return true
}

// waiting says whether a call's gates said "not now" a moment ago.
func (sh *shell) waiting(call int) bool {
	for _, w := range sh.waits {
		if w.call == call && sh.n.s.now.Before(w.until) {
			return true
		}
	}
	return false
}

// later remembers that a call's gates said "not now".
func (sh *shell) later(call int, key bool) bool {
	sh.done(call)
	sh.waits = append(sh.waits, wait{call, sh.n.s.now.Add(time.Duration(200+sh.n.s.rng.IntN(1500)) * time.Millisecond), key})
	return true
}

// done forgets that a call waited.
func (sh *shell) done(call int) {
	for i, w := range sh.waits {
		if w.call == call {
			sh.waits = append(sh.waits[:i], sh.waits[i+1:]...)
			return
		}
	}
}
