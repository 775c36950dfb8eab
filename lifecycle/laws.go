package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Violation is a law that a recorded history breaks.
type Violation struct {
	Law    string `json:"law"`  // L1 … L12, or "life": an event that may not follow the one before
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
// that a fault there cannot hide here. L4's durability, L7's renderings and
// L9's folds need more than a history, and are proven elsewhere.
func Laws(commits []events.Commit) []Violation {
	k := &books{}
	for i, c := range commits {
		k.commit, k.index, k.at, k.by = i, 0, c.At, c.By
		if !c.At.Equal(c.At.Truncate(time.Microsecond)) {
			k.fail("L9", events.TurnEvent, "decided at %s, finer than what is stored", c.At.Format(time.RFC3339Nano))
		}
		for j, r := range c.Records {
			k.index = j
			k.enter(c, r)
		}
	}
	if k.submitted == nil && k.found == nil {
		k.fail("L1", events.TurnEvent, "no turn_submitted")
	}
	return k.found
}

// books are what the laws need to remember of a turn.
type books struct {
	commit, index int
	at            time.Time    // of the commit
	by            events.Owner // of the commit
	found         []Violation
	turn          uint32
	owner         events.Owner
	parked        bool
	cancelled     bool
	submitted     *events.TurnSubmitted
	inherited     events.Inherited
	ended         bool
	calls         map[int]*page
}

// page is what the laws need to remember of a call.
type page struct {
	seq        uint32
	last       events.Kind // on its way
	tool       string
	terminal   events.Kind
	authorized *events.Authorized
	asked      string // hash that policy asked a person about; "" if none
	approved   string // hash that a person approved; "" if none
	cancelled  bool
	attempt    int
	open       bool // the attempt is open
	probing    bool // the attempt is over, and its tool may still say how
	key        string
	resources  []events.ResourceUse
	refused    bool
	input      asking
}

func (k *books) fail(law string, call int, format string, args ...any) {
	k.found = append(k.found, Violation{Law: law, Call: call, Commit: k.commit, Index: k.index, Why: fmt.Sprintf(format, args...)})
}

func (k *books) enter(c events.Commit, r events.Record) {
	if f, ok := r.Event.(events.Foreign); ok {
		k.fail("L9", r.Call, "%s version %d is of a newer release, and cannot be folded", f.Name, f.Version)
	}
	if r.Call == events.TurnEvent {
		k.turnEvent(c, r)
		return
	}
	p := k.calls[r.Call]
	if p == nil {
		k.fail("L7", r.Call, "%s of a call that is not in the submission", r.Event.Kind())
		return
	}
	before := len(k.found)
	kind := r.Event.Kind()
	if r.Seq != p.seq+1 {
		k.fail("L1", r.Call, "event %d follows %d", r.Seq, p.seq)
	}
	p.seq = r.Seq
	k.fence(c, r)
	switch {
	case p.last == "" && kind != events.KindRequested:
		k.fail("L1", r.Call, "%s before requested", kind)
	case p.terminal == events.KindDenied && kind == events.KindStarted:
		k.fail("L10", r.Call, "started after it was denied")
	case p.terminal != "" && (events.IsTerminal(kind) || kind == events.KindStarted):
		k.fail("L2", r.Call, "%s after its terminal %s", kind, p.terminal)
	}
	k.callEvent(p, r.Call, r.Event)
	if len(k.found) == before && !goesOn(r.Event) && !MayFollow(p.last, kind) {
		k.fail("life", r.Call, "%s follows %s", kind, p.last)
	}
	k.turnPage(p, r.Event)
}

// turnPage notes where the call stands now.
func (k *books) turnPage(p *page, e events.Event) {
	kind := e.Kind()
	if events.IsTerminal(kind) && p.terminal == "" {
		p.terminal, p.open = kind, false
	}
	if p.terminal == "" && !slices.Contains(beside, kind) && !goesOn(e) || p.terminal == kind {
		p.last = kind
	}
}

// goesOn says that an event is the finding that a call goes on where it stood.
func goesOn(e events.Event) bool {
	r, ok := e.(*events.Recovered)
	return ok && r.Action == events.RecoverContinue
}

// fence is L11: an owner writes nothing but late results once another has
// claimed, or once it has given the turn up.
func (k *books) fence(c events.Commit, r events.Record) {
	kind := r.Event.Kind()
	switch {
	case slices.Contains([]events.Kind{events.KindTurnSubmitted, events.KindTurnClaimed, events.KindLateResult, events.KindResolved}, kind):
	case c.By.Boot == "" && slices.Contains(ofOwners, kind):
		k.fail("L11", r.Call, "%s by nobody: only an owner may write it", kind)
	case c.By.Boot == "":
	case c.By != k.owner:
		k.fail("L11", r.Call, "%s by %s epoch %d, which does not own the turn (%s epoch %d does)",
			kind, c.By.Boot, c.By.Epoch, k.owner.Boot, k.owner.Epoch)
	case k.parked && kind != events.KindTurnParked:
		k.fail("L11", r.Call, "%s by %s epoch %d, which had parked the turn", kind, c.By.Boot, c.By.Epoch)
	}
}

// ofOwners are the kinds that no door and no person writes.
var ofOwners = []events.Kind{
	events.KindDeduplicated, events.KindApprovalRequested, events.KindAuthorized, events.KindStarted, events.KindProgress,
	events.KindRetrying, events.KindRecovered, events.KindCompleted, events.KindFailed, events.KindTimedOut,
	events.KindCancelled, events.KindUnknown, events.KindTurnPlanned, events.KindTurnParked, events.KindTurnCompleted,
	events.KindTurnAbandoned, events.KindInputRequested,
}

func (k *books) turnEvent(c events.Commit, r events.Record) {
	kind := r.Event.Kind()
	if r.Seq != k.turn+1 {
		k.fail("L1", events.TurnEvent, "event %d follows %d", r.Seq, k.turn)
	}
	k.turn = r.Seq
	if k.submitted == nil && kind != events.KindTurnSubmitted {
		k.fail("L1", events.TurnEvent, "%s before turn_submitted", kind)
	}
	if k.ended && kind != events.KindModelStarted && kind != events.KindModelCompleted {
		k.fail("L2", events.TurnEvent, "%s after the turn's end", kind)
	}
	switch e := r.Event.(type) {
	case *events.TurnSubmitted:
		k.submit(e)
	case *events.TurnClaimed:
		if e.Owner.Epoch != k.owner.Epoch+1 {
			k.fail("L11", events.TurnEvent, "claimed with epoch %d after %d", e.Owner.Epoch, k.owner.Epoch)
		}
		k.owner, k.parked = e.Owner, false
	case *events.TurnPlanned:
		k.inherited = e.Inherited
	case *events.TurnParked:
		k.parked = true
	case *events.TurnCancelRequested:
		k.cancelled = true
	case *events.TurnCompleted, *events.TurnAbandoned:
		k.ended = true
		k.allAnswered(kind)
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
		if p.last != "" {
			k.fail("L7", call, "requested twice")
		}
		p.tool = e.Tool
	case *events.ApprovalRequested:
		p.asked, p.approved, p.resources = e.Hash, "", e.Verdict.Resources
	case *events.Approved:
		if p.cancelled || k.cancelled {
			k.fail("L3", call, "approved after its cancel request")
		}
		if e.By.Kind == KindAgent {
			k.fail("L3", call, "approved by %q, which is an agent", e.By.ID)
		}
		p.approved = e.Hash
	case *events.Authorized:
		k.authorize(p, call, e)
	case *events.Started:
		k.start(p, call, e)
	case *events.InputRequested:
		k.inputAsked(p, call, e)
	case *events.InputGiven:
		k.inputGiven(p, call, e)
	case *events.CancelRequested:
		p.cancelled = true
	case *events.Denied:
		if p.attempt > 0 {
			k.fail("L10", call, "denied after attempt %d had started", p.attempt)
		}
	default:
		k.attemptEvent(p, call, e)
	}
}

func (k *books) authorize(p *page, call int, e *events.Authorized) {
	agreed := p.approved != "" && p.approved == e.Verdict.Hash || k.forSession(p, e.Verdict)
	if !agreed && (p.asked != "" || e.Decision == "approved" || e.Verdict.Tier == events.Approval) {
		k.fail("L3", call, "authorized without the approval of these arguments")
	}
	p.authorized, p.resources = e, e.Verdict.Resources
}

// forSession says whether the turn inherits an approval of exactly this call.
func (k *books) forSession(p *page, v events.Verdict) bool {
	return slices.Contains(k.inherited.Approvals, SessionApproval(p.tool, v.Hash)) ||
		slices.ContainsFunc(k.inherited.Session, func(y events.SessionYes) bool {
			return y.Tool == p.tool && y.Hash == v.Hash && y.ToolVersion == v.ToolVersion && y.Policy == v.Policy &&
				k.submitted != nil && sameAsker(&y, k.submitted)
		})
}

// attemptEvent is L4 and L5 for what names an attempt.
func (k *books) attemptEvent(p *page, call int, e events.Event) {
	kind := e.Kind()
	switch e := e.(type) {
	case *events.Progress:
		k.says(p, call, kind, e.Attempt, !p.open)
	case *events.Retrying:
		k.says(p, call, kind, e.Attempt, !p.open && !p.probing)
		p.open, p.probing = false, false
	case *events.Recovered:
		if e.Attempt != 0 {
			k.says(p, call, kind, e.Attempt, false)
		}
		p.open = false
		p.probing = e.Action == events.RecoverProbe || p.probing && e.Action == events.RecoverContinue
	case *events.LateResult:
		if e.Outcome.Attempt > p.attempt {
			k.says(p, call, kind, e.Outcome.Attempt, false)
		}
	case *events.Completed:
		k.says(p, call, kind, e.Attempt, !p.open && !p.probing)
	case *events.Failed, *events.TimedOut, *events.Cancelled, *events.Unknown:
		k.says(p, call, kind, events.OutcomeOf(e).Attempt, false)
	}
}

// says checks what is said of attempt n; over says that it may not be said of an
// attempt that is over, and that this one is.
func (k *books) says(p *page, call int, kind events.Kind, n int, over bool) {
	switch {
	case n > p.attempt || n < 1 && kind == events.KindCompleted:
		k.fail("L4", call, "%s of attempt %d, which had not started", kind, n)
	case n < p.attempt:
		k.fail("L5", call, "%s of attempt %d, the last one started is %d", kind, n, p.attempt)
	case over:
		k.fail("L5", call, "%s of attempt %d, which was over", kind, n)
	}
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
	if e.Owner != k.owner {
		k.fail("L11", call, "started for %s epoch %d, which does not own the turn", e.Owner.Boot, e.Owner.Epoch)
	}
	if e.Attempt != p.attempt+1 || p.open {
		k.fail("L5", call, "attempt %d starts after attempt %d (open: %t)", e.Attempt, p.attempt, p.open)
	}
	if p.authorized != nil && p.attempt > 0 {
		k.again(p, call, e)
	}
	k.order(p, call)
	k.inputStart(p, call, e)
	p.input.goes = false
	p.attempt, p.open, p.probing, p.key = e.Attempt, true, false, e.Key
}

// again is L6: who may start a second time. Where the attempt before it ended as its tool
// asked a person, whoever it is: that is the tool's own way to go on, with the same key.
func (k *books) again(p *page, call int, e *events.Started) {
	v := p.authorized.Verdict
	switch {
	case v.Tier == events.Readonly:
	case p.input.goes && e.Key == p.key:
	case !p.input.goes && (!v.HonoursKey || v.Key == ""):
		k.fail("L6", call, "a %s call starts again, and its tool does not honour a key", v.Tier)
	case e.Key != p.key:
		k.fail("L6", call, "a %s call starts again with another key", v.Tier)
	}
}

// order is L8: calls on one resource keep the model's order.
func (k *books) order(p *page, call int) {
	for i := range call {
		if q := k.calls[i]; q.terminal == "" && meet(q.resources, p.resources) {
			k.fail("L8", call, "started before call %d, which needs the same resource, had ended", i)
		}
	}
	for i := call + 1; i < len(k.calls); i++ {
		if q := k.calls[i]; q.attempt > 0 && meet(q.resources, p.resources) {
			k.fail("L8", call, "started after call %d, which needs the same resource", i)
		}
	}
}
