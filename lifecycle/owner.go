package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Plan fixes a turn's batches and gives every call its first event.
type Plan struct {
	Facts     []CallFacts // one a call, in order
	Inherited events.Inherited
	Context   json.RawMessage // shared, as the trace left it
	Policy    string          // version
}

// Begin starts an attempt of a call whose batch has come. The edge has asked
// the start gates, and holds the leases.
type Begin struct {
	Call        int
	Findings    []Finding
	Verdict     events.Verdict // as judged now
	Wall        time.Duration  // the tool's own limit; 0 means DefaultWall
	Locks       []events.Lock
	Limits      []events.Limit // that it has passed
	LimitWait   time.Duration  // how long it has waited for them
	Expect      []events.Expectation
	Breaker     events.BreakerView
	Containment string
	Asks        string          // for a person, should the policy ask now
	Operands    []events.Seen   // with Looked: files that the call would run, as they are now
	Preview     *events.Preview // with Looked: what it would change
	Looked      bool            // an approval must be for these files. Otherwise the lock gate has compared them
}

// Tell notes the progress of an attempt.
type Tell struct {
	Call     int
	Progress events.Progress
}

// Expire says that the timer of an approval, or of what a tool has asked, has arrived.
type Expire struct{ Call int }

// Park gives the turn up until somebody or a timer wakes it.
type Park struct {
	// Keys are calls whose idempotency key another call holds, as the dedupe gate has
	// just found, and those whose judgement waits for theirs. They are judged again
	// once the turn is woken: by the holder's owner, or at Until.
	Keys  []int
	Until time.Time // with Keys; zero otherwise
}

// Advance lets whatever already follows from the state happen, after others
// have appended to the turn or its deadline has passed.
type Advance struct{}

// Abandon ends a turn that nobody can run.
type Abandon struct{ Reason string }

func (Plan) command()    {}
func (Begin) command()   {}
func (Tell) command()    {}
func (Expire) command()  {}
func (Park) command()    {}
func (Advance) command() {}
func (Abandon) command() {}

// DefaultWall is how long an attempt may run where its tool does not say.
const DefaultWall = 120 * time.Second

func (d *decider) plan(c Plan) error {
	if d.t.Planned != nil {
		return nil
	}
	if len(c.Facts) != len(d.t.Calls) {
		return fmt.Errorf("facts of %d calls for a turn of %d", len(c.Facts), len(d.t.Calls))
	}
	for i, raw := range d.t.Submitted.Calls { // BEFORE the plan: a planned turn has no call without its request
		if d.t.Calls[i].Phase == PhaseNone {
			d.emit(i, request(raw, c.Facts[i].Hash))
		}
	}
	d.emit(events.TurnEvent, &events.TurnPlanned{
		Batches: Batches(c.Facts, d.t.Submitted.Disjoint), Inherited: c.Inherited, Policy: c.Policy, Context: c.Context,
	})
	return nil
}

// ready says whether a call may be started once its batch has come.
func (c *Call) ready() bool {
	return c.Phase == PhaseAuthorized || c.Phase == PhaseRetrying || c.Phase == PhaseGiven
}

func (d *decider) begin(c Begin) error {
	if _, err := d.open(c.Call); err != nil {
		return err
	}
	d.close() // a deadline, or what others have appended, may end it
	call := d.t.Calls[c.Call]
	early := call.Phase == PhaseRetrying && d.env.Now.Before(call.RetryAt)
	switch {
	case !call.Open():
		return nil
	case early || !call.ready() || !d.startable(call):
		return fmt.Errorf("call %d: %w: it is %s", c.Call, ErrStale, call.Phase)
	}
	end, asks, err := settled(StartGates, c.Findings)
	if asks == nil && c.Verdict.Tier == events.Approval {
		asks = &Finding{Gate: GateAuthorize, Ruling: Ask, Reason: alwaysAsked}
	}
	switch {
	case err != nil:
		return err
	case end != nil && end.Ruling == Deny && call.Attempt > 0:
		d.failAgain(call, end)
		return nil
	case end != nil && end.Ruling == Deny:
		d.deny(c.Call, end)
		return nil
	case end != nil:
		return nil // wait
	case c.Verdict.Hash != call.Verdict.Hash:
		return fmt.Errorf("call %d: %w", c.Call, ErrHash)
	case asks != nil && !d.approvedNow(call, c):
		if call.Attempt > 0 {
			d.failAgain(call, asks)
			return nil
		}
		d.askAgain(call, c, asks.Reason)
		return nil
	}
	key := c.Verdict.Key
	if call.Phase == PhaseGiven { // it goes on with what the attempt before it has begun
		key = call.Started.Key
	}
	d.emit(c.Call, &events.Started{
		Attempt: call.Attempt + 1, Round: call.Rounds(), Owner: d.t.Owner, Deadline: d.attemptDeadline(c.Wall), Hash: c.Verdict.Hash,
		Key: key, Locks: c.Locks, Expect: c.Expect, Breaker: c.Breaker, Containment: c.Containment, Judged: c.Verdict.Judged,
		Limits: c.Limits, LimitWaitMS: c.LimitWait.Milliseconds(),
	})
	return nil
}

// approvedNow says whether what is about to start is what somebody has said yes to.
func (d *decider) approvedNow(call *Call, c Begin) bool {
	req := events.ApprovalRequested{Operands: c.Operands, Preview: c.Preview}
	return d.approvedFor(call, c.Verdict, bound(&req), c.Looked)
}

// askAgain asks about a call whose batch has come, and that nobody has said yes to as
// it is now.
func (d *decider) askAgain(call *Call, c Begin, why string) {
	expire := time.Duration(0)
	if call.Asked != nil { // asked again: as long as the first time
		expire = call.Asked.Expires.Sub(call.AskedAt)
	}
	req := &events.ApprovalRequested{Asks: c.Asks, Operands: c.Operands, Preview: c.Preview}
	d.ask(call, c.Verdict, d.sinceYes(call, c.Verdict, bound(req), c.Looked)+why, req, expire)
}

// NotLetThrough stands before a gate's reason where it does not let a further attempt through.
const NotLetThrough = " is not let through: "

// failAgain ends a call whose further attempt a gate does not let through. It
// has run, so it is not denied.
func (d *decider) failAgain(call *Call, f *Finding) {
	code := f.Code
	if code == "" {
		code = events.PermissionDenied
	}
	text := fmt.Sprintf("attempt %d failed, and another one%s%s", call.Attempt, NotLetThrough, f.Reason)
	if call.Phase == PhaseGiven {
		text = "its tool had asked a person, and with the answers it is not let through any more: " + f.Reason
	}
	r := failure(code, text)
	o := d.outcome(call, events.ClassUnavailable, effectsUnanswered(call), r)
	d.emit(call.Offset, &events.Failed{Outcome: o})
}

func (d *decider) attemptDeadline(wall time.Duration) time.Time {
	if wall <= 0 {
		wall = DefaultWall
	}
	if ms := d.t.Submitted.Limits.CallMS; ms > 0 {
		wall = min(wall, time.Duration(ms)*time.Millisecond)
	}
	at := d.env.Now.Add(wall)
	if end := d.t.Deadline(); !end.IsZero() && end.Before(at) {
		return end
	}
	return at
}

// startable says whether the call's batch has come and has room for it.
func (d *decider) startable(call *Call) bool {
	batch, running := d.t.currentBatch(), 0
	for _, i := range batch {
		if d.t.Calls[i].Phase == PhaseStarted {
			running++
		}
	}
	return slices.Contains(batch, call.Offset) && running < d.t.Concurrency()
}

func (d *decider) tell(c Tell) error {
	call, err := d.attempt(c.Call, c.Progress.Attempt)
	if err != nil {
		return err
	}
	if call.Told == nil || *call.Told != c.Progress {
		d.emit(c.Call, &c.Progress)
	}
	return nil
}

func (d *decider) expire(c Expire) error {
	call := d.t.Call(c.Call)
	if call != nil && call.Phase == PhaseInput {
		d.expireInput(call)
		return nil
	}
	if call == nil || call.Phase != PhaseAsking || d.env.Now.Before(call.Asked.Expires) {
		return nil // somebody answered, it has ended, or the timer is an earlier request's
	}
	d.emit(c.Call, &events.Denied{
		Gate: string(GateApprove), Code: events.ApprovalExpired, Policies: call.Asked.Policies, Policy: call.Asked.Policy,
		Reason: "nobody answered the request for approval in time: it was not run; ask again if it is still needed",
	})
	return nil
}

func (d *decider) park(c Park) error {
	d.close() // others may have appended since
	p := parkable(d.t, c.Keys...)
	if p != nil && !c.Until.IsZero() && (p.Due.IsZero() || c.Until.Before(p.Due)) {
		p.Due = c.Until
	}
	switch {
	case len(d.out) > 0:
		return nil
	case len(c.Keys) > 0 && c.Until.IsZero():
		return errors.New("a turn that waits for keys needs a time to be woken at")
	case p == nil || !p.Due.IsZero() && !d.env.Now.Before(p.Due):
		return fmt.Errorf("%w: it does not only wait for others", ErrStale)
	}
	d.emit(events.TurnEvent, &events.TurnParked{Due: p.Due, Waiting: p.Waiting})
	return nil
}

// close appends what already follows from the state: it runs after every
// command of the owner, so that a debt of events is never left.
func (d *decider) close() {
	end := d.t.Deadline()
	late := !end.IsZero() && !d.env.Now.Before(end)
	if d.t.Ended != nil || d.t.Parked != nil || d.t.Planned == nil && d.t.Cancel == nil && !late {
		return
	}
	if d.t.Planned == nil {
		d.requestAll()
	}
	d.closeLost()
	d.closeApproved()
	d.closeCancelled()
	d.closeDeadline()
	d.closeAborted()
	if d.t.allEnded() {
		d.complete()
	}
}

// closeLost settles what an earlier owner started, where the commit of the claim
// that should have done it was cut short.
func (d *decider) closeLost() {
	for i := range d.t.Calls {
		if c := d.t.Calls[i]; c.Phase == PhaseStarted && c.Started.Owner != d.t.Owner {
			d.recover(c)
		}
	}
}

func (d *decider) closeApproved() {
	for i := range d.t.Calls {
		c := d.t.Calls[i]
		_, _, cancelled := d.t.Cancelled(c)
		if c.Phase == PhaseApproved && c.Approved.Args == nil && !cancelled {
			d.emit(i, &events.Authorized{Verdict: *c.Verdict, Decision: "approved"})
		}
	}
}

// idle says whether the call is open with no attempt whose end must be awaited.
func (c *Call) idle() bool {
	return c.Open() && c.Phase != PhaseStarted && c.Phase != PhaseProbing
}

func (d *decider) closeCancelled() {
	for i := range d.t.Calls {
		c := d.t.Calls[i]
		by, reason, ok := d.t.Cancelled(c)
		if ok && c.idle() {
			d.cancelIdle(c, by, reason)
		}
	}
}

// cancelIdle ends a call that is not running.
func (d *decider) cancelIdle(c *Call, by events.Principal, reason string) {
	text := "it was cancelled before it had run"
	if c.waitsForInput() {
		text = "it was cancelled while it waited for a person's answers"
	}
	if reason != "" {
		text += ": " + reason
	}
	o := d.outcome(c, events.ClassCancelled, effectsUnanswered(c), failure(events.CodeCancelled, text))
	e := &events.Cancelled{Outcome: o, Reason: reason}
	if by.ID != "" {
		e.By = &by
	}
	d.emit(c.Offset, e)
}

func (d *decider) closeDeadline() {
	end := d.t.Deadline()
	if end.IsZero() || d.env.Now.Before(end) {
		return
	}
	for i := range d.t.Calls {
		if c := d.t.Calls[i]; c.idle() {
			text := "the turn's deadline passed before it had run"
			if c.waitsForInput() {
				text = "the turn's deadline passed while it waited for a person's answers"
			}
			o := d.outcome(c, events.ClassTimeout, effectsUnanswered(c), failure(events.Timeout, text))
			d.emit(i, &events.TimedOut{Outcome: o})
		}
	}
}

func (d *decider) closeAborted() {
	if d.t.Submitted.OnError != events.OnErrorAbortRest {
		return
	}
	for i := range d.t.Calls {
		if c := d.t.Calls[i]; !c.Open() && !c.succeeded() {
			d.abortRest(i)
			return
		}
	}
}

// succeeded says whether the call, or the one whose result it has, completed.
func (c *Call) succeeded() bool {
	if e, ok := c.Terminal.(*events.Deduplicated); ok {
		return e.As == events.KindCompleted
	}
	return c.Last == events.KindCompleted
}

func (d *decider) abortRest(failed int) {
	for i := range d.t.Calls {
		if c := d.t.Calls[i]; c.idle() {
			d.cancelIdle(c, events.Principal{}, fmt.Sprintf("call %d did not succeed, and the turn says %s", failed, events.OnErrorAbortRest))
		}
	}
}

func (d *decider) complete() {
	counts := make(map[events.Kind]int)
	for _, c := range d.t.Calls {
		counts[c.Last]++
	}
	done := &events.TurnCompleted{Counts: counts, Context: contextAfter(d.t)}
	for _, w := range TurnWholes(d.t) {
		done.Cuts = append(done.Cuts, events.TurnCut{Call: w.Call, Whole: w.Whole.Ref})
	}
	d.emit(events.TurnEvent, done)
}
