package lifecycle

import "github.com/sluice-run/sluice/events"

// asking is what the laws need to remember of what a call's tool has asked a person.
type asking struct {
	round    int                    // the last one; 0: it has asked nothing
	last     *events.InputRequested // of that round
	answered bool
	goes     bool // the next attempt goes on with the answers
}

// inputAsked is L12 for what a tool asks: one asking after another, and none without end.
func (k *books) inputAsked(p *page, call int, e *events.InputRequested) {
	k.says(p, call, e.Kind(), e.Attempt, !p.open)
	switch {
	case e.Round != p.input.round+1:
		k.fail("L12", call, "asking %d follows %d", e.Round, p.input.round)
	case p.input.last != nil && !p.input.answered:
		k.fail("L12", call, "asks again, and nobody has answered asking %d", p.input.round)
	case e.Round > MaxRounds:
		k.fail("L12", call, "asks for the %d. time, at most %d", e.Round, MaxRounds)
	}
	if err := events.CheckInput(e.Requests, e.State); err != nil {
		k.fail("L12", call, "%s", err)
	}
	p.open, p.input = false, asking{round: e.Round, last: e}
}

// inputGiven is L12 for answers: there is one to each request, of a person who may
// decide, in time and before a cancel, or of nobody once the time is over.
func (k *books) inputGiven(p *page, call int, e *events.InputGiven) {
	was := p.input.last
	switch {
	case was == nil || e.Round != p.input.round:
		k.fail("L12", call, "answers asking %d, the last one is %d", e.Round, p.input.round)
		return
	case p.input.answered:
		k.fail("L12", call, "asking %d is answered twice", e.Round)
	case p.cancelled || k.cancelled:
		k.fail("L12", call, "answered after its cancel request")
	case e.By != nil && agentKind(*e.By) == KindAgent:
		k.fail("L12", call, "answered by %q, which is an agent", e.By.ID)
	case e.By != nil && !k.at.Before(was.Expires):
		k.fail("L12", call, "answered by %q after the time to answer was over", e.By.ID)
	case e.By == nil && k.at.Before(was.Expires):
		k.fail("L12", call, "answered by nobody before the time to answer was over")
	case e.By == nil && k.by.Boot == "":
		k.fail("L12", call, "answered by nobody, and no owner has found that")
	}
	k.inputAnswers(call, was, e)
	p.input.answered, p.input.goes = true, true
}

func (k *books) inputAnswers(call int, was *events.InputRequested, e *events.InputGiven) {
	if len(e.Answers) != len(was.Requests) {
		k.fail("L12", call, "%d answers to %d requests", len(e.Answers), len(was.Requests))
		return
	}
	for i, a := range e.Answers {
		switch {
		case a.ID != was.Requests[i].ID:
			k.fail("L12", call, "answer %d is to %q, and the request was %q", i+1, a.ID, was.Requests[i].ID)
		case e.By == nil && a.Action != events.InputCancel:
			k.fail("L12", call, "nobody answered, and the tool is told %s", a.Action)
		}
	}
}

// inputStart is L12 for an attempt: it goes on with the last answers there are, and not
// while there are none.
func (k *books) inputStart(p *page, call int, e *events.Started) {
	switch {
	case e.Round != p.input.round:
		k.fail("L12", call, "attempt %d goes on with asking %d, the last one is %d", e.Attempt, e.Round, p.input.round)
	case p.input.last != nil && !p.input.answered:
		k.fail("L12", call, "attempt %d starts, and nobody has answered asking %d", e.Attempt, p.input.round)
	}
}
