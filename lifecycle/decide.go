package lifecycle

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Refusals. A refused command leaves no event.
var (
	ErrNoTurn    = errors.New("no such turn")
	ErrNoCall    = errors.New("no such call in this turn")
	ErrDifferent = errors.New("this turn exists already, with other calls or another principal: use a new turn id")
	ErrNotOwner  = errors.New("this boot does not own the turn") // stop acting for it
	ErrStale     = errors.New("the attempt is over")             // drop the answer, or note it with Late
	ErrOpen      = errors.New("the attempt is open: settle it")
	ErrEnded     = errors.New("already ended")
	ErrCancelled = errors.New("its end was asked for")
	ErrHash      = errors.New("the arguments are not the ones that were asked about: look at the call again")
	ErrNotAsking = errors.New("no approval is asked for")
	// ErrSuperseded says that somebody answers an asking that is not the call's last.
	ErrSuperseded = errors.New("this asking is over, and another one is open: look at the call again")
	// ErrExpired says that an answer came after the time it was asked for.
	ErrExpired = errors.New("the time to answer is over")
	// ErrDecider says that who answers may not decide about the call.
	ErrDecider = errors.New("a person must decide, and not the one who asks")
	ErrForeign = errors.New("the turn holds events of a newer release: upgrade this node")
	ErrBroken  = errors.New("the turn's history is not one that any release writes: look at it with replay verify")
	ErrNothing = errors.New("there is nothing to resolve")
	ErrNoUndo  = errors.New("this call has nothing to undo")
)

// Command asks for a change. It may be refused.
type Command interface{ command() }

// Env is what a command brings from outside.
type Env struct {
	Now   time.Time
	Owner events.Owner // who acts; zero for a door or a person
}

// Decide returns the events that follow from a command, in order, or a refusal.
// A command whose effect is there already gives no events and no error.
func Decide(t Turn, env Env, cmd Command) ([]events.Record, error) {
	switch {
	case t.Foreign:
		return nil, fmt.Errorf("turn %s: %w", t.Key, ErrForeign)
	case t.Broken != "":
		return nil, fmt.Errorf("turn %s: %w: %s", t.Key, ErrBroken, t.Broken)
	}
	d := &decider{t: t, env: env}
	if err := d.decide(cmd); err != nil {
		return nil, fmt.Errorf("turn %s: %w", t.Key, err)
	}
	return d.out, nil
}

// decider folds while it decides: later parts of a command are judged with the
// events of the earlier ones in the state.
type decider struct {
	t   Turn
	env Env
	out []events.Record
}

func (d *decider) emit(call int, e events.Event) {
	r := events.Record{Call: call, Seq: d.t.Seq + 1, Event: e}
	if call != events.TurnEvent {
		r.Seq = d.t.Calls[call].Seq + 1
	}
	d.out = append(d.out, r)
	d.t = Evolve(d.t, Meta{At: d.env.Now, By: d.env.Owner}, r)
}

func (d *decider) decide(cmd Command) error {
	if c, ok := cmd.(Submit); ok {
		return d.submit(c)
	}
	if d.t.Submitted == nil {
		return ErrNoTurn
	}
	if err := checkWords(wordsOf(cmd)); err != nil {
		return err
	}
	switch c := cmd.(type) { // anyone may send these
	case Claim:
		return d.claim(c)
	case Finish:
		return d.finish(c)
	case Approve:
		return d.approve(c)
	case Reject:
		return d.reject(c)
	case Answer:
		return d.answer(c)
	case CancelCall:
		return d.cancelCall(c)
	case CancelTurn:
		return d.cancelTurn(c)
	case Late:
		return d.late(c)
	case Resolve:
		return d.resolve(c)
	case Undone:
		return d.undone(c)
	case Note:
		return d.note(c)
	}
	if err := d.owns(); err != nil {
		return err
	}
	if err := d.owned(cmd); err != nil {
		return err
	}
	d.close()
	return nil
}

// owned decides the commands of the turn's owner.
func (d *decider) owned(cmd Command) error {
	switch c := cmd.(type) {
	case Plan:
		return d.plan(c)
	case Judge:
		return d.judge(c)
	case Begin:
		return d.begin(c)
	case Settle:
		return d.settle(c)
	case Tell:
		return d.tell(c)
	case Probed:
		return d.probed(c)
	case Expire:
		return d.expire(c)
	case Park:
		return d.park(c)
	case Advance:
		return nil // the closure does it
	case Abandon:
		return d.abandon(c.Reason)
	}
	return fmt.Errorf("unknown command %T", cmd)
}

// owns refuses any owner but the current one.
func (d *decider) owns() error {
	switch {
	case d.t.Ended != nil:
		return ErrEnded
	case d.t.Parked != nil:
		return fmt.Errorf("%w: it is parked, claim it first", ErrNotOwner)
	case d.t.Owner.Boot == "" || d.env.Owner != d.t.Owner:
		return fmt.Errorf("%w: %s epoch %d acts, %s epoch %d owns",
			ErrNotOwner, d.env.Owner.Boot, d.env.Owner.Epoch, d.t.Owner.Boot, d.t.Owner.Epoch)
	}
	return nil
}

// open returns a call that has no terminal yet.
func (d *decider) open(offset int) (*Call, error) {
	c := d.t.Call(offset)
	switch {
	case c == nil:
		return nil, fmt.Errorf("call %d: %w", offset, ErrNoCall)
	case !c.Open():
		return nil, fmt.Errorf("call %d: %w: %s", offset, ErrEnded, c.Last)
	}
	return c, nil
}

// attempt returns a call whose attempt n is open, and this owner's.
func (d *decider) attempt(offset, n int) (*Call, error) {
	c := d.t.Call(offset)
	if c == nil {
		return nil, fmt.Errorf("call %d: %w", offset, ErrNoCall)
	}
	if c.Phase != PhaseStarted || c.Attempt != n || c.Started.Owner != d.t.Owner {
		return nil, fmt.Errorf("call %d, attempt %d: %w", offset, n, ErrStale)
	}
	return c, nil
}
