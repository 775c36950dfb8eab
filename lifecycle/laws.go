package lifecycle

import (
	"fmt"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// Violation is a law that a recorded history breaks.
type Violation struct {
	Law    string `json:"law"`  // L1 …
	Call   int    `json:"call"` // events.TurnEvent for the turn
	Commit int    `json:"commit"`
	Index  int    `json:"index"` // of the event in its commit
	Why    string `json:"why"`
}

func (v Violation) String() string {
	if v.Call == events.TurnEvent {
		return fmt.Sprintf("%s: turn: %s", v.Law, v.Why)
	}
	return fmt.Sprintf("%s: call %d: %s", v.Law, v.Call, v.Why)
}

// Laws checks the history of one turn, commit by commit, and returns every
// violation in order. It keeps its own small books and does not use Evolve, so
// that a fault there cannot hide here. L4's durability and L9 need more than a
// history, and are proven elsewhere.
func Laws(commits []events.Commit) []Violation {
	k := &books{}
	for i, c := range commits {
		for j, r := range c.Records {
			k.commit, k.index = i, j
			k.enter(c, r)
		}
	}
	k.end()
	return k.found
}

// books are what the laws need to remember of a turn.
type books struct {
	commit, index int
	found         []Violation
	turn          uint32
	owner         events.Owner
	cancelled     bool
	submitted     *events.TurnSubmitted
	ended         bool
	calls         map[int]*page
}

// page is what the laws need to remember of a call.
type page struct {
	seq        uint32
	requested  bool
	terminal   events.Kind
	authorized *events.Authorized
	asked      string // hash that policy asked a person about; "" if none
	approved   string // hash that a person approved; "" if none
	cancelled  bool
	attempt    int
	open       bool // the attempt is open
	ran        bool
	resources  []events.ResourceUse
	refused    bool
}

func (k *books) fail(law string, call int, format string, args ...any) {
	k.found = append(k.found, Violation{Law: law, Call: call, Commit: k.commit, Index: k.index, Why: fmt.Sprintf(format, args...)})
}

func (k *books) enter(c events.Commit, r events.Record) {
	if r.Call == events.TurnEvent {
		k.turnEvent(c, r)
		return
	}
	p := k.calls[r.Call]
	if p == nil {
		k.fail("L7", r.Call, "%s of a call that is not in the submission", r.Event.Kind())
		return
	}
	if r.Seq != p.seq+1 {
		k.fail("L1", r.Call, "event %d follows %d", r.Seq, p.seq)
	}
	p.seq = r.Seq
	k.fence(c, r)
	if p.terminal != "" && !afterTerminal(r.Event.Kind()) {
		k.fail("L2", r.Call, "%s after its terminal %s", r.Event.Kind(), p.terminal)
	}
	if !p.requested && r.Event.Kind() != events.KindRequested {
		k.fail("L1", r.Call, "%s before requested", r.Event.Kind())
	}
	k.callEvent(p, r.Call, r.Event)
	if events.IsTerminal(r.Event.Kind()) && p.terminal == "" {
		p.terminal, p.open = r.Event.Kind(), false
	}
}

// afterTerminal says which events may stand behind a call's terminal.
func afterTerminal(kind events.Kind) bool {
	return slices.Contains([]events.Kind{events.KindLateResult, events.KindResolved, events.KindCompensated}, kind)
}

// fence is L11: an owner writes nothing but late results once another has claimed.
func (k *books) fence(c events.Commit, r events.Record) {
	kind := r.Event.Kind()
	if c.By.Boot == "" || c.By == k.owner || kind == events.KindLateResult || kind == events.KindResolved {
		return
	}
	if kind == events.KindTurnClaimed {
		return
	}
	k.fail("L11", r.Call, "%s by %s epoch %d, which does not own the turn (%s epoch %d does)",
		kind, c.By.Boot, c.By.Epoch, k.owner.Boot, k.owner.Epoch)
}

func (k *books) turnEvent(c events.Commit, r events.Record) {
	if r.Seq != k.turn+1 {
		k.fail("L1", events.TurnEvent, "event %d follows %d", r.Seq, k.turn)
	}
	k.turn = r.Seq
	if k.submitted == nil && r.Event.Kind() != events.KindTurnSubmitted {
		k.fail("L1", events.TurnEvent, "%s before turn_submitted", r.Event.Kind())
	}
	if k.ended && !slices.Contains([]events.Kind{events.KindModelStarted, events.KindModelCompleted}, r.Event.Kind()) {
		k.fail("L2", events.TurnEvent, "%s after the turn's end", r.Event.Kind())
	}
	switch e := r.Event.(type) {
	case *events.TurnSubmitted:
		k.submit(e)
	case *events.TurnClaimed:
		if e.Owner.Epoch != k.owner.Epoch+1 {
			k.fail("L11", events.TurnEvent, "claimed with epoch %d after %d", e.Owner.Epoch, k.owner.Epoch)
		}
		k.owner = e.Owner
	case *events.TurnCancelRequested:
		k.cancelled = true
	case *events.TurnCompleted, *events.TurnAbandoned:
		k.ended = true
		k.allAnswered(r.Event.Kind())
	}
	k.fence(c, r)
}

func (k *books) submit(e *events.TurnSubmitted) {
	if k.submitted != nil {
		k.fail("L1", events.TurnEvent, "submitted twice")
		return
	}
	k.submitted, k.calls = e, make(map[int]*page, len(e.Calls))
	for i, raw := range e.Calls {
		k.calls[i] = &page{refused: raw.Refused != nil}
	}
}

// allAnswered is L7 at the end of a turn.
func (k *books) allAnswered(kind events.Kind) {
	for i := range len(k.calls) {
		if k.calls[i].terminal == "" {
			k.fail("L7", i, "no terminal at %s", kind)
		}
	}
}

func (k *books) callEvent(p *page, call int, e events.Event) {
	switch e := e.(type) {
	case *events.Requested:
		if p.requested {
			k.fail("L7", call, "requested twice")
		}
		p.requested = true
	case *events.ApprovalRequested:
		p.asked, p.approved = e.Hash, ""
	case *events.Approved:
		if p.cancelled || k.cancelled {
			k.fail("L3", call, "approved after its cancel request")
		}
		p.approved = e.Hash
	case *events.Authorized:
		p.authorized, p.resources = e, e.Verdict.Resources
	case *events.Started:
		k.start(p, call, e)
	case *events.CancelRequested:
		p.cancelled = true
	case *events.Retrying:
		k.over(p, call, e.Attempt, e.Kind())
	case *events.Recovered:
		p.open = false
	case *events.Denied:
		if p.ran {
			k.fail("L10", call, "denied after attempt %d had started", p.attempt)
		}
	default:
		k.settle(p, call, e)
	}
}

// over is L5 for an event that names the attempt it ends.
func (k *books) over(p *page, call, attempt int, kind events.Kind) {
	if attempt != p.attempt || !p.open && kind == events.KindRetrying && !p.ran {
		k.fail("L5", call, "%s of attempt %d, the last one started is %d", kind, attempt, p.attempt)
	}
	p.open = false
}

func (k *books) settle(p *page, call int, e events.Event) {
	o := outcomeOf(e)
	if o == nil || e.Kind() == events.KindDeduplicated {
		return
	}
	if o.Attempt != p.attempt {
		k.fail("L5", call, "%s by attempt %d, the last one started is %d", e.Kind(), o.Attempt, p.attempt)
	}
	if e.Kind() == events.KindCompleted && !p.ran {
		k.fail("L5", call, "completed without a start")
	}
}

// outcomeOf is the outcome in a terminal, or nil.
func outcomeOf(e events.Event) *events.Outcome {
	switch e := e.(type) {
	case *events.Completed:
		return &e.Outcome
	case *events.Failed:
		return &e.Outcome
	case *events.TimedOut:
		return &e.Outcome
	case *events.Cancelled:
		return &e.Outcome
	case *events.Unknown:
		return &e.Outcome
	}
	return nil
}

func (k *books) start(p *page, call int, e *events.Started) {
	switch {
	case p.authorized == nil:
		k.fail("L3", call, "started before authorized")
	case e.Hash != p.authorized.Verdict.Hash:
		k.fail("L3", call, "started with other arguments than were authorized")
	case p.asked != "" && p.approved != e.Hash:
		k.fail("L3", call, "started without the approval that policy asked for")
	}
	if p.cancelled || k.cancelled {
		k.fail("L3", call, "started after its cancel request")
	}
	if p.refused {
		k.fail("L10", call, "started although its door had refused it")
	}
	if e.Attempt != p.attempt+1 || p.open {
		k.fail("L5", call, "attempt %d starts after attempt %d (open: %t)", e.Attempt, p.attempt, p.open)
	}
	if p.authorized != nil && p.attempt > 0 {
		k.again(call, p.authorized.Verdict)
	}
	k.order(p, call)
	p.attempt, p.open, p.ran = e.Attempt, true, true
}

// again is L6: who may start a second time.
func (k *books) again(call int, v events.Verdict) {
	if v.Tier != events.Readonly && !(v.HonoursKey && v.Key != "") {
		k.fail("L6", call, "a %s call starts again, and its tool does not honour a key", v.Tier)
	}
}

// order is L8: calls on one resource keep the model's order.
func (k *books) order(p *page, call int) {
	for i := range call {
		q := k.calls[i]
		if q != nil && q.terminal == "" && meet(q.resources, p.resources) {
			k.fail("L8", call, "started before call %d, which needs the same resource, had ended", i)
		}
	}
	for i := call + 1; i < len(k.calls); i++ {
		if q := k.calls[i]; q.ran && meet(q.resources, p.resources) {
			k.fail("L8", call, "started after call %d, which needs the same resource", i)
		}
	}
}

// end is what can be said only of the whole history.
func (k *books) end() {
	if k.submitted == nil && k.found == nil {
		k.fail("L1", events.TurnEvent, "no turn_submitted")
	}
}
