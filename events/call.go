package events

import "time"

// Requested is a call's first event, whatever comes of it.
type Requested struct {
	ProviderID string      `json:"provider_id,omitempty"`
	Tool       string      `json:"tool"`
	Args       Body        `json:"args"`                // as the model sent them
	Hash       string      `json:"args_hash,omitempty"` // of the canonical arguments; "" where they do not parse
	Secrets    []SecretRef `json:"secrets,omitempty"`
}

// Deduplicated ends a call with the result of another one that holds its key.
type Deduplicated struct {
	Of      string  `json:"of"` // that call's key: trace/turn/offset
	Key     string  `json:"key"`
	Outcome Outcome `json:"outcome"` // that call's
	As      Kind    `json:"as"`      // that call's terminal
}

// Denied ends a call before it had any effect.
type Denied struct {
	Gate     string     `json:"gate"`
	Code     Code       `json:"code"`
	Reason   string     `json:"reason"`         // a sentence for the model
	Path     string     `json:"path,omitempty"` // JSON Pointer into the arguments
	Policies []string   `json:"policies,omitempty"`
	Policy   string     `json:"policy,omitempty"`          // version
	Judged   time.Time  `json:"judged,omitempty,omitzero"` // as in Verdict
	By       *Principal `json:"by,omitempty"`              // a person, where one said no
	Circuit  string     `json:"circuit,omitempty"`         // that was open, of one of its tool's endpoints; "": the tool's own, or none
}

// ApprovalRequested asks a person. The call waits, and may be parked.
type ApprovalRequested struct {
	Asks        string    `json:"asks"` // what would happen, for a person to read
	Why         string    `json:"why"`
	Hash        string    `json:"args_hash"`
	ToolVersion string    `json:"tool_version,omitempty"`
	Policies    []string  `json:"policies,omitempty"`
	Policy      string    `json:"policy,omitempty"`
	Expires     time.Time `json:"expires"`
	Operands    []Seen    `json:"operands,omitempty"` // files that the call would run
	Verdict     Verdict   `json:"verdict"`            // what else the gates found
	Asking      int       `json:"asking,omitempty"`   // 1 for the call's first, 2 where it is asked again …; 0 in logs that do not count
	Preview     *Preview  `json:"preview,omitempty"`  // what the call would change, as its owner found it; nil: its tool shows nothing
}

// Number is the asking's number in its call, from 1.
func (a *ApprovalRequested) Number() int { return max(1, a.Asking) }

// Base are the files that the preview was made from, and that must be the same as the
// call starts. A Digest of "" says that there was none.
func (a *ApprovalRequested) Base() []Seen {
	if a.Preview == nil {
		return nil
	}
	return a.Preview.Base
}

// Kinds of previews.
const (
	PreviewDiff     = "diff"     // a unified diff
	PreviewCommands = "commands" // the parsed commands of a shell line
	PreviewTarget   = "target"   // what would be reached over the network
	PreviewText     = "text"     // words of the tool's own
)

// Preview is what a call would change, for a person to read.
type Preview struct {
	Kind   string `json:"kind"`
	Text   Body   `json:"text,omitempty,omitzero"` // exact, of one or more lines; who shows it makes the rest visible
	Failed string `json:"failed,omitempty"`        // why none could be made; "" where it was
	Note   string `json:"note,omitempty"`          // what it leaves out, or what else a person should know
	Base   []Seen `json:"base,omitempty"`          // files that it was made from; see ApprovalRequested.Base
}

// Verdict is what the gates found of a call that may go on.
type Verdict struct {
	Operation   Operation     `json:"operation"`
	Tier        Tier          `json:"tier"`
	Hash        string        `json:"args_hash"`
	ToolVersion string        `json:"tool_version,omitempty"`
	Policies    []string      `json:"policies,omitempty"`
	Policy      string        `json:"policy,omitempty"`
	Judged      time.Time     `json:"judged,omitempty,omitzero"` // the moment that it holds for, where the policy looks at the time; zero: any
	Key         string        `json:"key,omitempty"`             // scoped idempotency key
	Resources   []ResourceUse `json:"resources,omitempty"`
	HonoursKey  bool          `json:"honours_key,omitempty"` // the tool does one effect for one key
	Probe       bool          `json:"probe,omitempty"`       // the tool can be asked whether an effect happened
	Undo        bool          `json:"undo,omitempty"`        // the tool has a compensation
	Retries     int           `json:"retries,omitempty"`     // most attempts after the first
}

// Scopes of an approval.
const (
	ScopeCall    = "call"
	ScopeSession = "session" // this exact call, for the rest of the trace
)

// Approved is a person's yes.
type Approved struct {
	By    Principal `json:"by"`
	Scope string    `json:"scope"`
	Hash  string    `json:"args_hash"`      // of what was approved
	Args  *Body     `json:"args,omitempty"` // changed arguments: they pass all gates again
	// Secrets are the sealed values that Args refers to.
	Secrets []SecretRef `json:"secrets,omitempty"`
	Note    string      `json:"note,omitempty"`
	// Told says that the model is told of Args. It is false in logs of releases that told
	// none: what their models have read stays as it was.
	Told bool `json:"told,omitempty"`
}

// Authorized says that every gate up to a person has let the call through.
type Authorized struct {
	Verdict  Verdict `json:"verdict"`
	Decision string  `json:"decision"` // allow, or approved where a person said yes
}

// Started is a durable fact BEFORE anything is done.
type Started struct {
	Attempt     int           `json:"attempt"`
	Owner       Owner         `json:"owner"`
	Deadline    time.Time     `json:"deadline"`
	Hash        string        `json:"args_hash"`
	Key         string        `json:"key,omitempty"`
	Locks       []Lock        `json:"locks,omitempty"`
	Expect      []Expectation `json:"expect,omitempty"`
	Breaker     BreakerView   `json:"breaker,omitempty,omitzero"`
	Containment string        `json:"containment,omitempty"`
	Judged      time.Time     `json:"judged,omitempty,omitzero"` // the moment that the policy was asked again for; see Verdict
	Round       int           `json:"round,omitempty"`           // of the InputRequested whose answers it goes on with; 0: none was asked
	Limits      []Limit       `json:"limits,omitempty"`          // that fit the call, in their order
	LimitWaitMS int64         `json:"limit_wait_ms,omitempty"`   // how long it has waited for them; 0: less than 1 ms
}

// Progress is a coalesced note from a running attempt. It never extends a deadline.
type Progress struct {
	Attempt int     `json:"attempt"`
	Text    string  `json:"text,omitempty"`
	Done    float64 `json:"done,omitempty"`
	Total   float64 `json:"total,omitempty"`
}

// CancelRequested asks for the end of a call. It proves nothing about the process.
type CancelRequested struct {
	By     Principal `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// Retrying ends an attempt that will be repeated.
type Retrying struct {
	Attempt int       `json:"attempt"` // the one that failed
	Class   Class     `json:"class"`
	Error   *Error    `json:"error,omitempty"`
	Until   time.Time `json:"until"`             // no start before
	Effects Effects   `json:"effects,omitempty"` // of that attempt alone; "" means that they are not known
}

// What a new owner does about an open call.
const (
	RecoverContinue = "continue" // it had not started: go on where it stood
	RecoverRestart  = "restart"  // start another attempt
	RecoverProbe    = "probe"    // ask the tool whether the effect happened
	RecoverUnknown  = "unknown"  // say honestly that it is not known
)

// Recovered is a new owner's finding. It ends the attempt, if one was open.
type Recovered struct {
	LastStage   Kind   `json:"last_stage"`        // the call's last durable event
	Attempt     int    `json:"attempt,omitempty"` // the one that is over; 0 if none had started
	ToolStarted bool   `json:"tool_started"`      // may it have been started
	Complete    bool   `json:"result_complete"`   // is its result in the log, whole
	Action      string `json:"action"`
	Reason      string `json:"reason"` // the sentence of policy behind Action
}

// Outcome is how a call's last attempt ended.
type Outcome struct {
	Attempt int     `json:"attempt"`
	Class   Class   `json:"class"`
	Effects Effects `json:"effects"`
	Result  Result  `json:"result"`
	Exit    *int    `json:"exit_status,omitempty"`
	Signal  string  `json:"signal,omitempty"`
	Output  int64   `json:"output_bytes,omitempty"` // emitted, before any limit
	Stages  Stages  `json:"stages,omitempty,omitzero"`
}

// Completed is the tool's own success.
type Completed struct {
	Outcome
}

// Failed is the tool's own failure, or one before it had any effect.
type Failed struct {
	Outcome
}

// TimedOut says that the deadline passed, and that the attempt's end is confirmed.
type TimedOut struct {
	Outcome
}

// Cancelled says that somebody asked for the end, and that it is confirmed.
type Cancelled struct {
	Outcome
	By     *Principal `json:"by,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// Why the end of a call is unknown.
const (
	UnknownOwnerLost   = "owner_lost"
	UnknownUnconfirmed = "termination_unconfirmed" // something may still run
	UnknownNoAnswer    = "no_answer"               // the attempt ended without the tool's own answer
)

// Unknown says that how the call ended is not known.
type Unknown struct {
	Outcome
	Why  string `json:"why"`
	Pids []int  `json:"pids,omitempty"` // what may still run, on the owner's machine
}

// Resolved settles an unknown or possible end. It never rewrites messages already given.
type Resolved struct {
	By      Principal `json:"by"` // kind service and id probe for a tool's probe
	Effects Effects   `json:"effects"`
	Result  *Result   `json:"result,omitempty"`
	Note    string    `json:"note,omitempty"`
}

// LateResult is an answer after its attempt had ended: evidence, never a second terminal.
type LateResult struct {
	Owner   Owner   `json:"owner"`
	Outcome Outcome `json:"outcome"`
}

// Compensated is the undo of a reversible call.
type Compensated struct {
	By     Principal `json:"by"`
	Result Result    `json:"result"`
}

// OutcomeOf is the outcome in an event that says how an attempt of its own call
// ended: completed, failed, timed_out, cancelled, unknown or late_result. It is nil
// for every other event, deduplicated too, whose outcome is another call's. The
// outcome is the event's own, not a copy.
func OutcomeOf(e Event) *Outcome {
	switch e := e.(type) {
	case *Completed:
		return &e.Outcome
	case *Failed:
		return &e.Outcome
	case *TimedOut:
		return &e.Outcome
	case *Cancelled:
		return &e.Outcome
	case *Unknown:
		return &e.Outcome
	case *LateResult:
		return &e.Outcome
	}
	return nil
}

// Unresolved says whether an end of a call leaves open what the call has done: whatever
// its kind, its effects are possible, and until a [Resolved] stands behind it somebody
// must look. It is false for an event that ends no call.
func Unresolved(e Event) bool {
	o := OutcomeOf(e)
	return o != nil && IsTerminal(e.Kind()) && o.Effects == EffectsPossible
}
