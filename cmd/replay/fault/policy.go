package fault

import (
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// rule is what policy says of one call's answer behind a fault. It is written from the
// table of tiers, and not from what the deciders do.
type rule struct {
	same  bool              // it may be what it was without the fault
	other []events.Standing // or one of these
	code  events.Code       // with this code, if one is wanted
	why   string            // the sentence
}

func mustBeSame(why string) rule { return rule{same: true, why: why} }

func mustBe(s events.Standing, why string) rule { return rule{other: []events.Standing{s}, why: why} }

// differences holds the answers against those without the fault, and against policy.
func (c *cell) differences(x *strike, base, now []events.Answer) []Difference {
	var out []Difference
	t := lifecycle.Fold(c.s.Key, plain(x.snap.commits)...)
	for i := range now {
		r := c.rule(x, t, i, base, now)
		same := sameAnswer(base[i], now[i])
		if !r.fits(base[i], now[i]) {
			c.fail(lawPolicy, i, "the model is told %s, and without the fault it is told %s; policy: %s", gistOf(now[i]), gistOf(base[i]), r.why)
		}
		if !same {
			out = append(out, difference(i, base[i], now[i], r.why, c.reason(i)))
		}
	}
	return out
}

// fits says whether an answer is what the rule says.
func (r rule) fits(base, now events.Answer) bool {
	same := sameAnswer(base, now)
	return same && r.same || slices.Contains(r.other, now.Standing) && (r.code == "" || codeIn(now) == r.code || same)
}

// rule is what policy says of a call, given where it stood behind the fault: by itself
// or, where that is not enough, as a part of its turn.
func (c *cell) rule(x *strike, t lifecycle.Turn, i int, base, now []events.Answer) rule {
	r := c.own(x, t, i)
	if r.fits(base[i], now[i]) {
		return r
	}
	switch {
	case c.s.sub.OnError == events.OnErrorAbortRest && !sameAnswer(base[i], now[i]) && c.upset(i, now):
		r.other, r.why = append(r.other, events.AnswerFailed), "another call did not succeed, and the turn says "+events.OnErrorAbortRest+"; "+r.why
		r.code = ""
	case c.s.deadline && !sameAnswer(base[i], now[i]):
		r.same, r.other = true, append(r.other, events.AnswerFailed, events.AnswerUnknown)
		r.why, r.code = "the fault took time, and the turn has a deadline; "+r.why, ""
	case base[i].Standing == now[i].Standing && base[i].Standing != events.AnswerSuccess && !sameAnswer(base[i], now[i]):
		r.other, r.why, r.code = append(r.other, now[i].Standing), "it did not succeed without the fault either; "+r.why, ""
	case c.s.ends() && !sameAnswer(base[i], now[i]):
		r.same, r.other = true, append(r.other, events.AnswerSuccess, events.AnswerFailed, events.AnswerUnknown)
		r.why, r.code = "somebody asked for an end when this was recorded, and with the fault that comes at another moment of its life; "+r.why, ""
	case c.s.calls[i].reuses != nil:
		r.same, r.other = true, append(r.other, events.AnswerSuccess, events.AnswerUnknown, events.AnswerDenied, events.AnswerFailed)
		r.why, r.code = "it has the answer of the call that holds its key, whatever that is, and runs itself where that one had no effect; "+r.why, ""
	}
	return r
}

// ends says whether somebody had asked for an end.
func (s *Script) ends() bool {
	return slices.ContainsFunc(s.acts, func(a act) bool { return a.do == doCancel })
}

// upset says whether another call has not succeeded.
func (c *cell) upset(i int, now []events.Answer) bool {
	for j := range now {
		if j != i && now[j].Standing != events.AnswerSuccess {
			return true
		}
	}
	return false
}

// own is the rule of a call by itself.
func (c *cell) own(x *strike, t lifecycle.Turn, i int) rule {
	call := t.Call(i)
	switch {
	case call != nil && !call.Open():
		return mustBeSame("it had ended before the fault: what the model was told stands")
	case x.row.Kind == Redelivery:
		return mustBeSame("a delivery is a hint: only the log decides, and it says who owns the turn")
	case x.row.Kind == Uncertain:
		return mustBeSame("an append that is not answered is looked for in the log, and decided again where it is not there")
	case x.row.Kind == BreakerOpen && c.s.calls[i].tool == c.s.calls[x.pair.Call].tool:
		return c.broken(call, i)
	case x.pair.Call != events.TurnEvent && x.pair.Call != i && !x.row.loses:
		return mustBeSame("the fault is another call's")
	case x.row.Kind == Expiry:
		return rule{same: c.s.deadline || !c.s.calls[i].answered, other: []events.Standing{events.AnswerDenied}, code: events.ApprovalExpired, why: "nobody answered the request for approval in time: it is denied"}
	case x.row.Kind == Cancel:
		return c.cancelled(call, i)
	case x.row.loses:
		return c.afterLoss(x, call, i)
	}
	return c.afterEnd(x, i)
}

// broken is the rule where the tool's breaker has opened.
func (c *cell) broken(call *lifecycle.Call, i int) rule {
	r := rule{same: true, other: []events.Standing{events.AnswerDenied, events.AnswerFailed}, code: events.CircuitOpen, why: "the breaker of its tool is open: it is denied where the breaker is asked once more before its start"}
	if call != nil && call.Attempt > 0 || c.s.calls[i].inputs > 0 { // it may be asked behind a person's answers, too
		r.other = append(r.other, events.AnswerUnknown)
		r.code = ""
	}
	return r
}

// cancelled is the rule where somebody has asked for the end.
func (c *cell) cancelled(call *lifecycle.Call, i int) rule {
	r := rule{same: true, other: []events.Standing{events.AnswerFailed}, code: events.CodeCancelled, why: "its end was asked for before it had ended: it is cancelled"}
	if call != nil && call.Attempt > 0 {
		r.code = "" // its last attempt may have failed by itself, and is not tried again
	}
	if call != nil && call.Attempt > 0 && c.tier(i) != events.Readonly {
		r.other = append(r.other, events.AnswerUnknown)
		r.why = fmt.Sprintf("its end was asked for while its tool ran, which is %s: a cancel proves nothing about the effect", c.tier(i))
	}
	return r
}

func (c *cell) tier(i int) events.Tier { return c.s.calls[i].verdict.Tier }

// honours says whether the tool does one effect for the key that the call has.
func (c *cell) honours(i int) bool {
	v := c.s.calls[i].verdict
	return v.HonoursKey && (v.Key != "" || c.s.sub.Calls[i].Key != "")
}

// afterLoss is the rule where the owner was lost.
func (c *cell) afterLoss(x *strike, call *lifecycle.Call, i int) rule {
	tier := c.tier(i)
	switch {
	case call == nil || call.Phase != lifecycle.PhaseStarted && call.Phase != lifecycle.PhaseProbing:
		return mustBeSame("no attempt was open when its owner was lost: it goes on where it stood")
	case tier == events.Readonly:
		return c.again(i, events.AnswerFailed, "it is readonly: it is started again")
	case tier == events.Reversible && c.honours(i):
		return c.again(i, events.AnswerUnknown, "its tool does one effect for one key: it is started again with the same key")
	case c.s.calls[i].verdict.Probe:
		return c.probed(x, i)
	}
	return mustBe(events.AnswerUnknown, fmt.Sprintf("it is %s and had started when its owner was lost, and nobody can tell whether its effect happened: the model is told that it is not known", tier))
}

// again is the rule where a call is started again. The attempt that was lost counts: one
// that needed all that it may have fails sooner.
func (c *cell) again(i int, spent events.Standing, why string) rule {
	r := mustBeSame(why)
	if k := c.s.calls[i]; k.tries(len(k.attempts)) > k.verdict.Retries {
		r.other, r.why = []events.Standing{spent}, why+", as often as it may be tried: the lost attempt counts"
	}
	return r
}

// tries is what an attempt's number is without those before it that ended as the tool
// asked a person: they count for none that may be repeated.
func (k *callScript) tries(attempt int) int {
	n := attempt
	for i := range min(attempt, len(k.attempts)) {
		if k.attempts[i].asks != nil && i < attempt-1 {
			n--
		}
	}
	return n
}

// probed is the rule where a tool can be asked what happened.
func (c *cell) probed(x *strike, i int) rule {
	k := c.s.calls[i]
	_, cannot := k.ended.(*events.Unknown)
	happened := slices.ContainsFunc(x.snap.runs, func(r run) bool { return r.call == i && r.effect })
	switch {
	case cannot && !k.made:
		return mustBe(events.AnswerUnknown, "its tool was asked and could not tell: it is not known")
	case !happened && c.ledger.effects(i) > 0:
		return rule{same: true, other: []events.Standing{events.AnswerSuccess, events.AnswerUnknown}, why: "its effect came while nobody knew who owned it, before or after its tool was asked: it is settled with it, or not known"}
	case happened:
		return rule{same: true, other: []events.Standing{events.AnswerSuccess}, why: "its tool was asked, and has found the effect: it is settled with it"}
	case c.honours(i):
		return mustBeSame("its tool was asked and has found no effect, and honours the key: it is started again with the same key")
	}
	return mustBe(events.AnswerUnknown, "its tool was asked and has found no effect, which does not prove that none is on its way: it is not known")
}

// afterEnd is the rule where an attempt ended as the fault has it.
func (c *cell) afterEnd(x *strike, i int) rule {
	k, tier := c.s.calls[i], c.tier(i)
	answered := x.row.class == events.ClassTool || x.row.class == events.ClassInvalid || x.row.class == events.ClassConflict
	passing := x.row.Kind == Hang || x.row.class == events.ClassUnavailable || x.row.class == events.ClassTimeout
	harmless := tier == events.Readonly || tier == events.Reversible && c.honours(i)
	retries := passing && harmless && c.s.sub.Limits.CallMS == 0 && k.tries(x.attempt) <= k.verdict.Retries
	if x.row.class == events.ClassUnavailable {
		retries = harmless && k.tries(x.attempt) <= k.verdict.Retries
	}
	switch {
	case retries:
		return rule{same: true, other: []events.Standing{events.AnswerFailed, events.AnswerUnknown}, code: events.CircuitOpen, why: "its tool was not there, and a second attempt can do no harm: it is tried again"}
	case (x.row.class == events.ClassInvalid || x.row.class == events.ClassConflict) && tier != events.Readonly && k.tries(x.attempt) < x.attempt:
		return mustBe(events.AnswerUnknown, "its tool refused to go on with what a person had answered, and what it had done before it asked is not known")
	case x.row.class == events.ClassInvalid || x.row.class == events.ClassConflict:
		return mustBe(events.AnswerFailed, "its tool refused before it had an effect: it has failed")
	case tier == events.Readonly:
		return mustBe(events.AnswerFailed, "it is readonly, and its attempt had no answer that can be used: it has failed, and had no effect")
	case !answered && k.verdict.Probe && c.ledger.effects(i) > 0 && !c.deafToProbe(k):
		return rule{same: true, other: []events.Standing{events.AnswerSuccess}, why: "its attempt ended without an answer, and its tool was asked and has found the effect: it is settled with it"}
	case answered:
		return mustBe(events.AnswerUnknown, fmt.Sprintf("it is %s, and its tool said that it failed and not that it had no effect: the model is told to check", tier))
	}
	return mustBe(events.AnswerUnknown, fmt.Sprintf("it is %s, and its attempt ended without the tool's own answer: an effect is possible, so that the model is told that it is not known", tier))
}

// deafToProbe says that the tool could not tell when it was asked.
func (c *cell) deafToProbe(k *callScript) bool {
	_, cannot := k.ended.(*events.Unknown)
	return cannot && !k.made
}

func codeIn(a events.Answer) events.Code {
	if a.Result.Error == nil {
		return ""
	}
	return a.Result.Error.Code
}

// difference is how one answer differs from another.
func difference(call int, was, now events.Answer, policy, reason string) Difference {
	d := Difference{Call: call, Recorded: gistOf(was), Now: gistOf(now), Policy: policy, Reason: reason}
	if d.Recorded == d.Now {
		d.Recorded, d.Now = d.Recorded+wordsOf(was), d.Now+wordsOf(now)
	}
	return d
}

// wordsOf is what an answer says, where its gist does not tell two apart.
func wordsOf(a events.Answer) string {
	switch {
	case a.Result.Error != nil:
		return ": " + a.Result.Error.Message
	case a.Of != "":
		return ", the answer of call " + a.Of
	}
	return fmt.Sprintf(", %d bytes, %s", len(a.Result.Text.Text), lifecycle.Digest([]byte(a.Result.Text.Text)))
}

// gistOf is an answer in a few words.
func gistOf(a events.Answer) string {
	if a.Standing == events.AnswerSuccess || a.Result.Error == nil {
		return string(a.Standing)
	}
	return string(a.Standing) + " (" + string(a.Result.Error.Code) + ")"
}

// reason is what the log itself says about a call's end.
func (c *cell) reason(i int) string {
	for _, s := range slices.Backward(c.commits) {
		r := s.Commit.Records[0]
		if r.Call != i {
			continue
		}
		switch e := r.Event.(type) {
		case *events.Denied:
			return e.Reason
		case *events.Recovered:
			return e.Reason
		}
		if o := events.OutcomeOf(r.Event); o != nil && o.Result.Error != nil && r.Event.Kind() != events.KindLateResult {
			return o.Result.Error.Message
		}
	}
	return ""
}
