package fault

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

// judge holds what has come of a cell against the laws, and against what the model
// was told without a fault.
func (c *cell) judge(base []events.Answer) []events.Answer {
	commits := plain(c.commits)
	for _, v := range lifecycle.Laws(commits) {
		c.fail(v.Law, v.Call, "%s", v.Why)
	}
	t := lifecycle.Fold(c.s.Key, commits...)
	if t.Broken != "" {
		c.fail("life", events.TurnEvent, "its history is broken: %s", t.Broken)
		return nil
	}
	now := c.messages(t)
	for i, call := range t.Calls {
		c.checkEffects(i, call)
		c.checkApproval(i, call)
	}
	for _, x := range c.strikes {
		if x.struck {
			c.checkFindings(x)
		}
	}
	if len(base) > 0 && len(now) != len(base) {
		c.fail("L7", events.TurnEvent, "%d answers for %d calls", len(now), len(base))
		return nil
	}
	return now
}

// messages is what the model is told at the end. It checks L7: at every event there is one
// answer for each call, in the calls' order, and what has been told stays.
func (c *cell) messages(t lifecycle.Turn) []events.Answer {
	conv := projections.Answers.Init()
	was := make([]events.Standing, len(c.s.calls))
	for i := range was {
		was[i] = events.AnswerOpen
	}
	for _, s := range c.commits {
		for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
			conv = projections.Answers.Apply(conv, e)
		}
		turn := conv.Turn(c.s.Key)
		if turn == nil || len(turn.Calls) != len(was) {
			c.fail("L7", events.TurnEvent, "there is not one answer for each call")
			return nil
		}
		for i := range turn.Calls {
			a := &turn.Calls[i].Answer
			switch {
			case a.Call != i:
				c.fail("L7", i, "the answer in its place is that of call %d", a.Call)
			case was[i] != events.AnswerOpen && a.Standing != was[i]:
				c.fail("L7", i, "it was told %s, and is told %s now", was[i], a.Standing)
			}
			was[i] = a.Standing
		}
	}
	out := answersOf(conv.Turn(c.s.Key))
	for i, a := range out {
		if call := t.Call(i); a.Standing == events.AnswerOpen || call == nil || call.Terminal == nil && t.Ended != nil {
			c.fail("L7", i, "it has no answer when its turn has ended")
		}
		out[i].Verbatim = c.s.Imported
	}
	return out
}

// checkEffects holds what a call's end says of effects against what happened.
func (c *cell) checkEffects(i int, call *lifecycle.Call) {
	n, runs := c.ledger.effects(i), c.ledger.times(i)
	v := c.s.calls[i].verdict
	if v.Tier != events.Readonly && n > 1 {
		c.fail("L6", i, "its effect happened %d times", n)
	}
	if call.Last == events.KindDenied && runs > 0 {
		c.fail("L10", i, "it was denied, and its tool was run %d times", runs)
	}
	if call.Last == events.KindDeduplicated && runs > 0 {
		c.fail("L10", i, "it has another call's answer, and its tool was run %d times", runs)
	}
	if call.Outcome == nil || call.Last == events.KindDeduplicated || v.Tier == events.Readonly {
		return
	}
	says := call.Outcome.Effects
	if call.Resolved != nil {
		says = call.Resolved.Effects
	}
	switch {
	case says == events.EffectsNone && n > 0:
		c.fail(lawEffects, i, "it ended as %s with effects none, and had %d", call.Last, n)
	case says == events.EffectsDone && n == 0:
		c.fail(lawEffects, i, "it ended as %s with effects done, and had none", call.Last)
	}
}

// checkApproval checks that a call that asked a person was answered by one, or by time.
func (c *cell) checkApproval(i int, call *lifecycle.Call) {
	done, ok := call.Terminal.(*events.Completed)
	if !ok {
		return
	}
	ran := slices.ContainsFunc(c.ledger.runs, func(r *run) bool { return r.call == i && r.attempt == done.Attempt })
	if !ran {
		c.fail("L5", i, "it completed by attempt %d, which never ran", done.Attempt)
	}
}

// sameStored checks L9: what was stored is what was decided.
func (c *cell) sameStored(s bus.Stored, was events.Commit) {
	stored, err := events.Encode(s.Commit)
	if err != nil {
		c.fail("L9", s.Commit.Records[0].Call, "what was stored cannot be stored again: %v", err)
		return
	}
	decided, err := events.Encode(was)
	if !was.At.Equal(s.Commit.At) {
		c.fail("L9", s.Commit.Records[0].Call, "%s was decided at %s, which is finer than what is stored", s.Commit.Records[0].Event.Kind(), was.At.Format(time.RFC3339Nano))
	}
	if err != nil || !bytes.Equal(stored, decided) {
		c.fail("L9", s.Commit.Records[0].Call, "%s reads otherwise than it was decided", s.Commit.Records[0].Event.Kind())
	}
}

// answers are the three answers, by what the log says right behind the fault.
func (c *cell) answers(x *strike) *Answers {
	switch {
	case x.snap.err != nil:
		c.fail(lawAnswers, x.pair.Call, "which event was durable cannot be read: %v", x.snap.err)
		return nil
	case len(x.snap.read) != len(x.snap.commits):
		c.fail(lawAnswers, x.pair.Call, "the log has %d events right behind the fault, and %d were appended", len(x.snap.read), len(x.snap.commits))
		return nil
	}
	a := &Answers{Durable: "nothing", Call: events.TurnEvent, Events: len(x.snap.read)}
	if n := len(x.snap.read); n > 0 {
		r := x.snap.read[n-1].Commit.Records[0]
		a.Kind, a.Call = r.Event.Kind(), r.Call
		a.Durable = place(r)
	}
	t := lifecycle.Fold(c.s.Key, plain(x.snap.read)...)
	a.Complete = len(t.Calls) > 0
	for i, call := range t.Calls {
		if x.pair.Call != events.TurnEvent && x.pair.Call != i {
			continue
		}
		a.Started = a.Started || call.Attempt > 0
		a.Complete = a.Complete && !call.Open()
		for _, r := range x.snap.runs {
			if r.call == i {
				a.Began, a.Answered = true, a.Answered || r.answered
			}
		}
		c.checkAnswers(x, i, call)
	}
	return a
}

// checkAnswers holds the log's answers about one call against what its tool knows.
func (c *cell) checkAnswers(x *strike, i int, call *lifecycle.Call) {
	for _, r := range x.snap.runs {
		if r.call == i && r.attempt > call.Attempt && !r.forgotten {
			c.fail(lawAnswers, i, "attempt %d had begun, and the log does not say so", r.attempt)
		}
	}
}

// checkFindings holds what the next owner recorded against what the log said when it
// took the turn over.
func (c *cell) checkFindings(x *strike) {
	at := -1
	for i, s := range c.commits {
		if e, ok := s.Commit.Records[0].Event.(*events.TurnClaimed); ok && e.Why == events.ClaimTakenOver {
			at = i
		}
	}
	if at < 0 || len(c.strikes) > 1 || c.cutShort(at) {
		return
	}
	t := lifecycle.Fold(c.s.Key, plain(c.commits[:at])...)
	found := c.findings(at)
	for i, call := range t.Calls {
		f := found[i]
		switch {
		case !call.Open() || call.Phase == lifecycle.PhaseNone:
			continue
		case f == nil:
			c.fail(lawAnswers, i, "its next owner did not record what it found")
			continue
		}
		started := call.Phase == lifecycle.PhaseStarted || call.Phase == lifecycle.PhaseProbing
		if f.LastStage != call.Last || f.ToolStarted != started || f.Complete {
			c.fail(lawAnswers, i, "its next owner found that %s was durable, the tool started: %t, its result complete: %t; the log says %s, %t, false",
				f.LastStage, f.ToolStarted, f.Complete, call.Last, started)
		}
	}
}

// cutShort says whether somebody outside has cut a claim short, between two of its events:
// what was open is settled all the same.
func (c *cell) cutShort(claim int) bool {
	for _, s := range c.commits[claim+1:] {
		r := s.Commit.Records[0]
		if _, ok := r.Event.(*events.Recovered); !ok && r.Event.Kind() != events.KindUnknown && r.Event.Kind() != events.KindResolved {
			return s.Commit.By.Boot == ""
		}
	}
	return false
}

// findings are what the owner recorded, by call, that claimed the turn with this event.
func (c *cell) findings(claim int) map[int]*events.Recovered {
	out := make(map[int]*events.Recovered)
	for _, s := range c.commits[claim+1:] {
		r := s.Commit.Records[0]
		switch e := r.Event.(type) {
		case *events.TurnClaimed:
			return out
		case *events.Recovered:
			if out[r.Call] == nil {
				out[r.Call] = e
			}
		}
	}
	return out
}

// finding is the last finding about a call, or nil.
func (c *cell) finding(call int) *events.Recovered {
	for _, s := range slices.Backward(c.commits) {
		if r := s.Commit.Records[0]; r.Call == call {
			if e, ok := r.Event.(*events.Recovered); ok {
				return e
			}
		}
	}
	return nil
}

// counts are how often each effect ran.
func (c *cell) counts() []Count {
	out := make([]Count, len(c.s.calls))
	for i, k := range c.s.calls {
		out[i] = Count{Call: i, Tool: k.tool, Tier: k.verdict.Tier, Runs: c.ledger.times(i), Effects: c.ledger.effects(i)}
	}
	return out
}

// sameAnswer says whether the model is told the same. What the gates said of a person's
// arguments is played where they are first asked, before that person has answered: of such
// a denial it does not count whose arguments they were.
func sameAnswer(a, b events.Answer) bool {
	a.Terminal, b.Terminal = "", ""
	if a.Standing == events.AnswerDenied && b.Standing == events.AnswerDenied {
		a.Changed, b.Changed = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// place is an event in words.
func place(r events.Record) string {
	if r.Call == events.TurnEvent {
		return string(r.Event.Kind())
	}
	return fmt.Sprintf("%s of call %d", r.Event.Kind(), r.Call)
}

func who(c events.Commit) string {
	if c.By.Boot == "" {
		return "anybody"
	}
	return fmt.Sprintf("node %s (epoch %d)", c.By.Boot, c.By.Epoch)
}

// gist is what matters of an event, in the story.
func gist(e events.Event) string {
	switch e := e.(type) {
	case *events.TurnClaimed:
		return ": " + e.Why
	case *events.Recovered:
		return fmt.Sprintf(": %s: %s", e.Action, e.Reason)
	case *events.Denied:
		return fmt.Sprintf(": %s: %s", e.Code, e.Reason)
	case *events.Retrying:
		return fmt.Sprintf(": %s", e.Class)
	case *events.Unknown:
		return fmt.Sprintf(": %s, effects %s", e.Why, e.Effects)
	}
	if o := events.OutcomeOf(e); o != nil {
		return fmt.Sprintf(": %s, effects %s", o.Class, o.Effects)
	}
	return ""
}
