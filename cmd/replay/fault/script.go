package fault

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// Script is one recorded turn, to be played. It is only read once it is built.
type Script struct {
	Key      events.TurnKey
	Imported bool
	Notes    []string // what is not played as it was recorded, each a sentence

	was      lifecycle.Turn  // as recorded
	recorded []events.Answer // what the model was told
	sub      events.TurnSubmitted
	calls    []*callScript
	acts     []act
	legacy   []events.Commit // of earlier turns of the trace
	holders  []holder
	blobs    map[string][]byte // by digest
	registry *tools.Registry
	policy   string // version
	recheck  bool   // policy was asked once more as a call started, and said otherwise
	byArgs   map[string]*callScript
	deadline bool // the turn has one: durations are played as they were
	place    string

	lastOfAll act // what had happened last, while the script is made
	claims    int
}

// holder is a call outside the turn that holds a key of one of its calls.
type holder struct {
	key, of, hash string
	commits       []events.Commit
}

// callScript is what is known of one call.
type callScript struct {
	offset   int
	tool     string
	hash     string // of its arguments, as a person left them
	args     []string
	verdict  events.Verdict
	judged   bool   // verdict was recorded
	circuit  string // of the endpoint that it reaches, as its start or its denial says; "": its tool's own
	attempts []attempt
	asked    *events.ApprovalRequested // the last
	answered bool                      // a person answered
	inputs   int                       // how often its tool asked a person
	heard    int                       // how often a person answered it
	denied   *events.Denied
	limited  string // why a limit did not let a further attempt through; "": none did
	behind   int    // with limited: behind so many attempts
	late     bool   // it was denied as it was about to start
	reuses   *events.Deduplicated
	safe     bool
	ended    events.Event
	made     bool // how it ends is made up
	idle     bool // it had not started by the time its end was asked for, or its turn's deadline passed
}

// attempt is how one run of a tool ended.
type attempt struct {
	outcome   events.Outcome
	answered  bool
	confirmed bool
	pids      []int
	after     time.Duration
	wall      time.Duration // from its start to its deadline; 0: not known
	until     time.Time     // its deadline
	at        time.Time
	over      bool                   // outcome is known
	lost      bool                   // with its owner
	cancelled bool                   // somebody asked for its end
	asks      *events.InputRequested // it ended as its tool asked a person; nil: it did not
	settled   events.Effects         // what was found out about it later; "" if nothing was
}

func (s *Script) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// actOf says what a person or a caller did.
type actOf string

const (
	doApprove actOf = "approve"
	doReject  actOf = "reject"
	doAnswer  actOf = "answer" // what the tool has asked
	doCancel  actOf = "cancel"
	doOpen    actOf = "open"  // the tool's breaker had opened
	doClose   actOf = "close" // and does not matter any more
)

// act is what somebody outside did, once something had happened.
type act struct {
	do    actOf
	call  int         // events.TurnEvent: the turn
	after events.Kind // of which event
	of    int         // of which call
	nth   int         // the how-many-th of that kind, from 1
	cmd   lifecycle.Command
	wait  time.Duration // how long it took them; 0: before the runtime's next event
	ended []int         // calls that had ended by then
}

// record takes up one recorded event.
func (s *Script) record(c events.Commit, r events.Record) {
	defer s.passed(r)
	if r.Call == events.TurnEvent {
		s.turnEvent(c, r.Event)
		return
	}
	k := s.calls[r.Call]
	switch e := r.Event.(type) {
	case *events.Requested:
		k.hash = e.Hash
	case *events.ApprovalRequested:
		k.asked, k.verdict, k.judged = e, e.Verdict, true
	case *events.Approved:
		s.approved(k, e)
	case *events.Authorized:
		k.verdict, k.judged = e.Verdict, true
	case *events.InputGiven:
		s.given(k, e)
	case *events.Denied:
		k.circuit = cmp.Or(circuitIn(e.Circuit), k.circuit)
		k.denied, k.ended, k.late = e, e, k.judged && k.asked == nil
		if e.By != nil {
			k.answered = true
			s.acts = append(s.acts, act{doReject, r.Call, events.KindApprovalRequested, r.Call, 1, lifecycle.Reject{Call: r.Call, By: *e.By, Note: noteIn(e.Reason)}, patience, nil})
		}
	case *events.Deduplicated:
		k.reuses, k.ended = e, e
	case *events.CancelRequested:
		s.cancelled(r.Call, lifecycle.CancelCall{Call: r.Call, By: e.By, Reason: e.Reason})
	case *events.Started:
		k.circuit = circuitIn(e.Breaker.Circuit)
		k.attempt(c, e)
	default:
		s.refusedAgain(k, e)
		k.attempt(c, e)
	}
}

// circuitIn is a recorded circuit's name, if it can be one: anybody may have written a log.
func circuitIn(of string) string {
	if !bus.ValidCircuit(of) {
		return ""
	}
	return of
}

// noteIn is what a person said who rejected a call, as the reason repeats it.
func noteIn(reason string) string {
	_, said, _ := strings.Cut(reason, "; they said: ")
	return said
}

func (s *Script) turnEvent(c events.Commit, e events.Event) {
	switch e := e.(type) {
	case *events.TurnSubmitted:
		s.submitted(e)
	case *events.TurnPlanned:
		s.policy = e.Policy
		for _, b := range e.Batches {
			for _, i := range b {
				s.calls[i].safe = len(b) > 1
			}
		}
	case *events.TurnCancelRequested:
		s.cancelled(events.TurnEvent, lifecycle.CancelTurn{By: e.By, Reason: e.Reason})
	}
}

// boundless is a limit of answers that cuts none: what was recorded verbatim was
// under no limit of this runtime.
const boundless = 64 << 20

func (s *Script) submitted(e *events.TurnSubmitted) {
	s.sub = *e
	s.deadline, s.place = e.Limits.DeadlineMS > 0, cmp.Or(e.Placement, events.DefaultPlacement)
	if s.Imported {
		s.sub.Imported = ""
		s.sub.Limits.CallBytes, s.sub.Limits.TurnBytes = boundless, boundless
	}
	for i, raw := range e.Calls {
		s.calls = append(s.calls, &callScript{offset: i, tool: raw.Tool})
	}
}

// passed notes what the runtime has appended last.
func (s *Script) passed(r events.Record) {
	kind := r.Event.Kind()
	a := act{after: kind, of: r.Call, nth: 1}
	asks := slices.ContainsFunc(s.calls, func(k *callScript) bool { return k.asked != nil || k.inputs > 0 })
	if kind == events.KindTurnParked && !asks { // for a key, which need not be held when it is played
		return
	}
	if e, ok := r.Event.(*events.TurnClaimed); ok {
		if e.Why != events.ClaimNew && (e.Why != events.ClaimWoken || !asks) {
			return
		}
		s.claims++
		a.nth = s.claims
	}
	if e, ok := r.Event.(*events.InputGiven); ok && e.By != nil {
		return
	}
	switch kind {
	case events.KindRecovered, events.KindApproved, events.KindProgress, events.KindLateResult, events.KindResolved,
		events.KindCancelRequested, events.KindTurnCancelRequested, events.KindModelStarted, events.KindModelCompleted:
		return // people's, or not played again
	case events.KindStarted, events.KindRetrying:
		a.nth = len(s.calls[r.Call].attempts)
	case events.KindInputRequested, events.KindInputGiven:
		a.nth = s.calls[r.Call].inputs
	}
	s.lastOfAll = a
}

func (s *Script) cancelled(call int, cmd lifecycle.Command) {
	a := s.lastOfAll
	a.do, a.call, a.cmd = doCancel, call, cmd
	for _, k := range s.calls {
		if k.ended != nil {
			a.ended = append(a.ended, k.offset)
		}
		if n := len(k.attempts); n > 0 && !k.attempts[n-1].over {
			a.wait = midway // it runs by then
			k.attempts[n-1].cancelled = k.attempts[n-1].cancelled || call == events.TurnEvent || call == k.offset
		}
	}
	s.acts = append(s.acts, a)
}

// midway is when somebody asks for the end of what runs: no attempt ends sooner.
const midway = time.Millisecond

func (s *Script) approved(k *callScript, e *events.Approved) {
	cmd := lifecycle.Approve{Call: k.offset, By: e.By, Scope: e.Scope, Note: e.Note}
	if e.Args != nil {
		if a, err := lifecycle.Parse(e.Args.Text); err == nil {
			cmd.Args, cmd.Secrets, cmd.Untold, k.hash = &a, e.Secrets, !e.Told, e.Hash
			k.args = append(k.args, string(a.JSON))
		}
	}
	k.answered = true
	s.acts = append(s.acts, act{doApprove, k.offset, events.KindApprovalRequested, k.offset, 1, cmd, patience, nil})
}

// given takes up what a tool got for its asking.
func (s *Script) given(k *callScript, e *events.InputGiven) {
	if e.By == nil {
		return
	}
	k.heard++
	cmd := lifecycle.Answer{Call: k.offset, By: *e.By, Round: e.Round, Answers: e.Answers, Note: e.Note}
	s.acts = append(s.acts, act{doAnswer, k.offset, events.KindInputRequested, k.offset, e.Round, cmd, patience, nil})
}

// attempt takes up what is recorded of an attempt.
func (k *callScript) attempt(c events.Commit, e events.Event) {
	if st, ok := e.(*events.Started); ok {
		if n := len(k.attempts); n > 0 && !k.attempts[n-1].over { // its owner was lost, and it was started again
			k.attempts = k.attempts[:n-1]
		}
		k.attempts = append(k.attempts, attempt{wall: st.Deadline.Sub(c.At), until: st.Deadline, at: c.At})
		return
	}
	if r, ok := e.(*events.InputRequested); ok {
		k.inputs = r.Round
	}
	n := len(k.attempts)
	if n > 0 {
		k.attempts[n-1].take(c, e)
	}
	if x, ok := e.(*events.Resolved); ok && n > 0 {
		k.attempts[n-1].settled = x.Effects
	}
	if events.IsTerminal(e.Kind()) {
		k.ended = e
	}
}

// refusedAgain takes up that a further attempt was not let through, since the breaker had
// opened meanwhile, or a limit had no room for it.
func (s *Script) refusedAgain(k *callScript, e events.Event) {
	f, ok := e.(*events.Failed)
	n := len(k.attempts)
	if !ok || n == 0 || !k.attempts[n-1].over || f.Result.Error == nil {
		return
	}
	if _, why, found := strings.Cut(f.Result.Error.Message, lifecycle.NotLetThrough); found && f.Result.Error.Code == events.RateLimited {
		k.limited, k.behind, s.recheck = why, n, true
		return
	}
	if f.Result.Error.Code != events.CircuitOpen {
		return
	}
	s.acts = append(
		s.acts,
		act{do: doOpen, call: k.offset, after: events.KindRetrying, of: k.offset, nth: n},
		act{do: doClose, call: k.offset, after: events.KindFailed, of: k.offset, nth: 1},
	)
}

// take is how the attempt ended.
func (a *attempt) take(c events.Commit, e events.Event) {
	o := events.OutcomeOf(e)
	switch e := e.(type) {
	case *events.Recovered:
		a.lost = a.lost || e.Attempt > 0
		return
	case *events.Retrying:
		o = &events.Outcome{Class: e.Class, Effects: e.Effects, Result: events.Result{Status: events.Failure, Error: e.Error}}
		o.Stages.Run = c.At.Sub(a.at).Microseconds()
		if a.lost {
			return // the tool was asked, and said that it had done nothing: it was started again
		}
	case *events.InputRequested:
		a.asks = e
		o = &events.Outcome{Class: events.ClassInput, Effects: e.Effects, Stages: events.Stages{Run: e.Run}}
	case *events.LateResult:
		return
	}
	if o == nil || a.over {
		return
	}
	a.outcome, a.over, a.confirmed = *o, true, true
	a.answered = o.Class == events.ClassOK || o.Class == events.ClassTool || o.Class == events.ClassInvalid || o.Class == events.ClassConflict || o.Class == events.ClassInput
	switch e := e.(type) {
	case *events.Unknown:
		a.pids = e.Pids
		if e.Why == events.UnknownUnconfirmed {
			a.confirmed = false
		} else {
			a.outcome.Class = events.ClassLost
		}
	case *events.Failed, *events.TimedOut:
		a.after = giveUp
	}
}

// giveUp is a Retry-After that no retry waits for: what had failed for good when it
// was recorded does so again.
const giveUp = 2 * time.Minute

// alone makes a call that had another one's answer a call of its own.
func (k *callScript) alone() {
	a := attempt{outcome: k.reuses.Outcome, over: true, confirmed: true, answered: true}
	k.reuses, k.attempts = nil, []attempt{a}
}

// madeUp is what a tool answers whose answer was not recorded.
const madeUp = "(this answer was not recorded)"

// finish fills in what the recording does not say.
func (s *Script) finish(o Options) {
	s.byArgs = make(map[string]*callScript)
	for i, k := range s.calls {
		raw := s.sub.Calls[i]
		if a, err := lifecycle.Parse(raw.Args.Text); err == nil && raw.Args.Ref == nil {
			k.args = append(k.args, string(a.JSON))
			k.hash = cmp.Or(k.hash, a.Hash)
		}
		s.tier(k, o)
		s.endOf(k)
		for _, args := range k.args {
			if id := k.tool + "\x00" + args; s.byArgs[id] == nil {
				s.byArgs[id] = k
			}
		}
		s.recheck = s.recheck || k.late
	}
	for i := range s.acts {
		if a := &s.acts[i]; a.wait == patience && (s.deadline || s.ends()) {
			a.wait = quick
		}
	}
}

// tier settles how the effects of a call behave whose policy is not recorded.
func (s *Script) tier(k *callScript, o Options) {
	given, known := o.Tiers[k.tool]
	switch {
	case k.judged && !s.Imported:
		return
	case known:
		k.verdict.Tier, k.safe = given, given == events.Readonly
		if k.verdict.Retries = 0; given == events.Readonly {
			k.verdict.Retries = usualRetries
		}
	default:
		k.verdict.Tier = events.Irreversible
	}
	if given == events.Approval && k.denied == nil {
		s.sub.CanAsk, k.answered = true, true
		by := events.Principal{ID: "replay", Kind: "person"}
		s.acts = append(s.acts, act{doApprove, k.offset, events.KindApprovalRequested, k.offset, 1, lifecycle.Approve{Call: k.offset, By: by}, patience, nil})
	}
}

// usualRetries is how often a readonly tool is tried again that says nothing of it.
const usualRetries = 2

// endOf makes up an end for a call that has none.
func (s *Script) endOf(k *callScript) {
	if k.ended != nil && (len(k.attempts) == 0 || k.attempts[len(k.attempts)-1].over) {
		switch {
		case len(k.attempts) > 0:
		case k.reuses != nil:
			k.attempts = []attempt{{outcome: k.reuses.Outcome, over: true, answered: true, confirmed: true}}
		default: // denied, cancelled or timed out before it had run
			kind := k.ended.Kind()
			k.idle = (kind == events.KindCancelled || kind == events.KindTimedOut) && s.sub.OnError != events.OnErrorAbortRest && (s.deadline || s.ends())
			k.attempts = []attempt{{outcome: made(k), over: true, answered: true, confirmed: true}}
		}
		return
	}
	if n := len(k.attempts); n == 0 || k.attempts[n-1].over {
		k.attempts = append(k.attempts, attempt{})
	}
	a := &k.attempts[len(k.attempts)-1]
	a.outcome, a.over, a.answered, a.confirmed = made(k), true, true, true
	k.made = true
	if s.was.Ended == nil || s.Imported {
		s.note("no end is recorded of call %d: its tool is played as if it had answered %q", k.offset, madeUp)
	}
}

func made(k *callScript) events.Outcome {
	o := events.Outcome{Class: events.ClassOK, Effects: events.EffectsDone, Result: events.Result{Status: events.Success, Text: events.Body{Text: madeUp}}}
	if k.verdict.Tier == events.Readonly {
		o.Effects = events.EffectsNone
	}
	return o
}

// call is the script of the call with these arguments of a tool, or nil.
func (s *Script) call(tool string, args json.RawMessage) *callScript {
	if k := s.byArgs[tool+"\x00"+string(args)]; k != nil {
		return k
	}
	// Arguments that stand outside the log: the tool's first call says it.
	if i := slices.IndexFunc(s.calls, func(k *callScript) bool { return k.tool == tool }); i >= 0 {
		return s.calls[i]
	}
	return nil
}
