package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
)

// MaxRounds is how often one call's tool may ask a person before it is ended.
const MaxRounds = 8

// ErrAnswers says that answers do not fit what was asked. Nothing was kept, and the
// call waits on.
var ErrAnswers = errors.New("the answers do not fit what was asked")

// ErrNoInput says that a call's tool asks nothing.
var ErrNoInput = errors.New("its tool asks for nothing")

// Asks is what an attempt's tool asks a person before it can go on: see Settle.
type Asks struct {
	Requests []events.InputRequest
	State    string
	Secrets  []events.SecretRef // one: State is a placeholder for the sealed value
	Expire   time.Duration      // how long people have to answer; 0 means DefaultApproval
}

// Answer gives a tool what it has asked a person for. What the contents of a form say
// is checked before they come here: see Form.
type Answer struct {
	Call    int
	By      events.Principal
	Round   int // which of the call's askings the person saw, from 1; 0 means the one that is open
	Answers []events.InputAnswer
	Note    string // for the record
}

func (Answer) command() {}

// waitsForInput says that the call's tool has asked a person, and that its next attempt
// has not begun.
func (c *Call) waitsForInput() bool { return c.Phase == PhaseInput || c.Phase == PhaseGiven }

// Rounds is how often the call's tool has asked a person.
func (c *Call) Rounds() int {
	if c.Input == nil {
		return 0
	}
	return c.Input.Round
}

// Goes is what the call's next attempt, or the one that is open, goes on with; nil where
// no person has answered its tool. A sealed state or content is a placeholder.
func (c *Call) Goes() *events.Given {
	if c.Answered == nil || c.Input == nil {
		return nil
	}
	return &events.Given{State: c.Input.State, Answers: c.Answered.Answers}
}

// askInput ends an attempt whose tool asks a person. What no person can be shown, and
// one asking too many, ends the call.
func (d *decider) askInput(call *Call, c Settle) {
	if why := unaskable(call, c.Asks); why != "" {
		o := d.outcome(call, events.ClassTool, effectsOf(call, c), failure(events.ExecutionError, why))
		o.Stages.Run = c.Run.Microseconds()
		d.emit(c.Call, &events.Failed{Outcome: o})
		return
	}
	e := &events.InputRequested{
		Attempt: call.Attempt, Round: call.Rounds() + 1, Requests: c.Asks.Requests, State: c.Asks.State, Secrets: c.Asks.Secrets,
		Effects: attemptEffects(call, c), Run: c.Run.Microseconds(),
	}
	if d.t.Submitted.CanAsk {
		e.Expires = d.env.Now.Add(cmp.Or(max(c.Asks.Expire, 0), DefaultApproval)).Truncate(time.Microsecond)
		d.emit(c.Call, e)
		return
	}
	e.Expires, e.Why = d.env.Now.Truncate(time.Microsecond), "nobody can be asked in this turn"
	d.emit(c.Call, e)
	if _, _, cancelled := d.t.Cancelled(call); !cancelled {
		d.emit(c.Call, unanswered(e))
	}
}

// unaskable is why a tool's asking is no question that a person gets; "" where it is one.
func unaskable(call *Call, a *Asks) string {
	if call.Rounds() >= MaxRounds {
		return fmt.Sprintf("the tool has asked a person %d times, and asks once more: it is ended", MaxRounds)
	}
	if err := events.CheckInput(a.Requests, a.State); err != nil {
		return err.Error()
	}
	for _, r := range a.Requests {
		if r.Kind != events.InputForm {
			continue
		}
		if _, err := ReadForm(r.Schema); err != nil {
			return fmt.Sprintf("%s: the form %q: %s", events.ErrInput, events.Visible(r.ID), err)
		}
	}
	return ""
}

// unanswered are the answers of nobody.
func unanswered(e *events.InputRequested) *events.InputGiven {
	g := &events.InputGiven{Round: e.Round}
	for _, r := range e.Requests {
		g.Answers = append(g.Answers, events.InputAnswer{ID: r.ID, Action: events.InputCancel})
	}
	return g
}

// expireInput lets the tool go on without a person, where nobody has answered in time.
func (d *decider) expireInput(call *Call) {
	if d.env.Now.Before(call.Input.Expires) {
		return // the timer is an earlier asking's
	}
	if _, _, cancelled := d.t.Cancelled(call); cancelled {
		return // the closure ends it
	}
	d.emit(call.Offset, unanswered(call.Input))
}

func (d *decider) answer(c Answer) error {
	if err := MayDecide(c.By, d.t.Submitted.Principal); err != nil {
		return fmt.Errorf("call %d: %w", c.Call, err)
	}
	call := d.t.Call(c.Call)
	switch {
	case call == nil:
		return fmt.Errorf("call %d: %w", c.Call, ErrNoCall)
	case call.Input == nil && !call.Open():
		return fmt.Errorf("call %d: %w: %s", c.Call, ErrEnded, endedHow(call))
	case call.Input == nil:
		return fmt.Errorf("call %d: %w: it is %s", c.Call, ErrNoInput, cmp.Or(call.Phase, "submitted"))
	case c.Round != 0 && c.Round != call.Input.Round:
		return otherRound(call, c.Round)
	}
	answers, err := checkAnswers(call.Input.Requests, c.Answers)
	if err != nil {
		return fmt.Errorf("call %d: %w", c.Call, err)
	}
	e := &events.InputGiven{Round: call.Input.Round, By: &c.By, Answers: answers, Note: c.Note}
	if have := call.Answered; have != nil { // the first durable answer wins
		return answeredAlready(call, e)
	}
	_, _, cancelled := d.t.Cancelled(call)
	switch {
	case !call.Open():
		return fmt.Errorf("call %d: %w: %s", c.Call, ErrEnded, endedHow(call))
	case cancelled:
		return fmt.Errorf("call %d: %w", c.Call, ErrCancelled)
	case !d.env.Now.Before(call.Input.Expires): // its timer is on the way, or nobody is there to hear it
		return fmt.Errorf("call %d: %w: nobody had answered by %s", c.Call, ErrExpired, call.Input.Expires.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	d.emit(c.Call, e)
	return nil
}

// answeredAlready is the answer to a second one: the same again is no error.
func answeredAlready(call *Call, e *events.InputGiven) error {
	have := call.Answered
	switch {
	case have.By == nil:
		return fmt.Errorf("call %d: %w: nobody had answered in time, and its tool was told so", call.Offset, ErrExpired)
	case slices.EqualFunc(have.Answers, e.Answers, sameAnswer):
		return nil
	}
	return fmt.Errorf("call %d: %w any more: %s has answered already, otherwise", call.Offset, ErrNoInput, have.By.ID)
}

// sameAnswer says whether two answers say the same, however their JSON is written.
func sameAnswer(a, b events.InputAnswer) bool {
	if a.ID != b.ID || a.Action != b.Action {
		return false
	}
	x, err := Parse(string(a.Content))
	y, bad := Parse(string(b.Content))
	return err == nil && bad == nil && x.Hash == y.Hash
}

// otherRound is the answer to who answers another asking than the call's last.
func otherRound(call *Call, round int) error {
	if round > call.Input.Round {
		return fmt.Errorf("call %d: %w: asking %d has not been made: the last one is %d", call.Offset, ErrNoInput, round, call.Input.Round)
	}
	return fmt.Errorf("call %d: %w: asking %d was answered, and its tool has asked again, as %d", call.Offset, ErrSuperseded, round, call.Input.Round)
}

// checkAnswers brings answers into the order of what was asked. Each request must have
// one, and only an accept has a content.
func checkAnswers(requests []events.InputRequest, answers []events.InputAnswer) ([]events.InputAnswer, error) {
	out := make([]events.InputAnswer, 0, len(requests))
	size := 0
	for _, r := range requests {
		i := slices.IndexFunc(answers, func(a events.InputAnswer) bool { return a.ID == r.ID })
		if i < 0 {
			return nil, fmt.Errorf("%w: there is none to %q", ErrAnswers, events.Visible(r.ID))
		}
		a := answers[i]
		if err := checkAction(r, a); err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrAnswers, events.Visible(r.ID), err)
		}
		if len(a.Content) == 0 {
			a.Content = nil
		}
		size += len(a.Content)
		out = append(out, a)
	}
	for i, a := range answers {
		asked := slices.ContainsFunc(requests, func(r events.InputRequest) bool { return r.ID == a.ID })
		twice := slices.ContainsFunc(answers[:i], func(b events.InputAnswer) bool { return b.ID == a.ID })
		switch {
		case !asked:
			return nil, fmt.Errorf("%w: nothing is asked as %.80q", ErrAnswers, events.Visible(a.ID))
		case twice:
			return nil, fmt.Errorf("%w: two are to %q", ErrAnswers, events.Visible(a.ID))
		}
	}
	if size > events.MaxInputAnswers {
		return nil, fmt.Errorf("%w: %d bytes, at most %d together", ErrAnswers, size, events.MaxInputAnswers)
	}
	return out, nil
}

func checkAction(r events.InputRequest, a events.InputAnswer) error {
	switch a.Action {
	case events.InputAccept:
	case events.InputDecline, events.InputCancel:
		if len(a.Content) > 0 {
			return fmt.Errorf("a %s with a content: say %s, or leave the content out", a.Action, events.InputAccept)
		}
		return nil
	default:
		return fmt.Errorf("action %.20q: say %s, %s or %s", events.Visible(a.Action), events.InputAccept, events.InputDecline, events.InputCancel)
	}
	switch {
	case r.Kind == events.InputURL && len(a.Content) > 0:
		return errors.New("a page that was visited has no content: leave it out")
	case r.Kind == events.InputForm && len(a.Content) == 0:
		return errors.New("an accept without a content: give the form's fields as a JSON object")
	case len(a.Content) == 0:
		return nil
	}
	if _, err := Parse(string(a.Content)); err != nil {
		return fmt.Errorf("its content is no JSON object: %w", err)
	}
	return nil
}
