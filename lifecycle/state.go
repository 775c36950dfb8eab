// Package lifecycle decides. A turn is a fold of its events; what may happen
// next is a pure function of that fold and a command; what is still owed to the
// world can be recomputed from it at any time, by any process.
//
// There is no clock here, no I/O and no order of maps: the time, a gate's
// finding and a file's digest arrive as values in the command.
package lifecycle

import (
	"slices"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Phase is where a call stands.
type Phase string

// The phases of a call.
const (
	PhaseNone       Phase = ""           // in the submission, not yet requested
	PhaseRequested  Phase = "requested"  // to be judged
	PhaseAsking     Phase = "asking"     // a person is asked
	PhaseApproved   Phase = "approved"   // with changed arguments: to be judged again
	PhaseAuthorized Phase = "authorized" // may start once its batch comes
	PhaseStarted    Phase = "started"    // an attempt is open
	PhaseRetrying   Phase = "retrying"   // may start again, not before RetryAt
	PhaseProbing    Phase = "probing"    // its owner was lost: the tool is asked what happened
	PhaseInput      Phase = "input"      // its tool has asked a person, and waits for the answers
	PhaseGiven      Phase = "given"      // there are answers: it may start again with them
	PhaseEnded      Phase = "ended"      // has its terminal
)

// Call is the fold of one call's events.
type Call struct {
	Offset   int
	Seq      uint32 // of its last event
	Phase    Phase
	Last     events.Kind // its last event that moves it along
	Tool     string
	Args     events.Body        // as the model sent them, or as a person changed them
	Hash     string             // of the canonical Args; "" where they do not parse
	Secrets  []events.SecretRef // the sealed values that Args refers to
	Verdict  *events.Verdict
	Asked    *events.ApprovalRequested
	Approved *events.Approved
	Given    string          // hash of the arguments as the model sent them; "" where they do not parse
	Changed  *events.Body    // see ChangedArgs
	Decision string          // of the last Authorized
	Attempt  int             // the last one started; 0 before the first
	Started  *events.Started // of that attempt
	Cancel   *events.CancelRequested
	RetryAt  time.Time
	Doubt    bool                   // an attempt that is over may have had its effect
	Input    *events.InputRequested // what its tool asked a person last; nil: nothing
	Answered *events.InputGiven     // the answers to Input; nil while there are none
	Sealed   []events.SecretRef     // the sealed values of all that it asked, and of all answers

	RequestedAt, AskedAt, ApprovedAt, AuthorizedAt, StartedAt, InputAt, AnsweredAt time.Time

	Terminal events.Event // nil while open
	Outcome  *events.Outcome
	Told     *events.Progress     // the last
	Late     []*events.LateResult // all of them
	Resolved *events.Resolved
	Undone   bool
}

// Open says that the call has no terminal yet.
func (c *Call) Open() bool { return c.Phase != PhaseEnded }

// Unresolved says that the call has ended, that what it did is open, and that nobody has
// resolved it. A duplicate has had no effect of its own: its holder's is what is open.
func (c *Call) Unresolved() bool {
	return c.Terminal != nil && events.Unresolved(c.Terminal) && c.Resolved == nil
}

// Turn is the fold of one turn's events. A Turn is never changed: Evolve makes
// a new one, and older ones stay valid.
type Turn struct {
	Key         events.TurnKey
	Seq         uint32 // of the turn's own last event
	Submitted   *events.TurnSubmitted
	SubmittedAt time.Time
	Owner       events.Owner // of the last claim; zero before the first
	Claim       *events.TurnClaimed
	ClaimedAt   time.Time
	Parked      *events.TurnParked // non-nil: nobody owns it until it is claimed again
	Takeovers   int                // consecutive ones without a terminal
	Planned     *events.TurnPlanned
	Cancel      *events.TurnCancelRequested
	Calls       []*Call
	Notes       []events.Event // the caller's, about its model
	Ended       events.Event   // TurnCompleted or TurnAbandoned
	Foreign     bool           // holds an event of a newer release: may be shown, not built upon
	Broken      string         // why the history is not one that any release writes; "" if it is. Not built upon either
}

// Call returns the call at offset, or nil.
func (t Turn) Call(offset int) *Call {
	if offset < 0 || offset >= len(t.Calls) {
		return nil
	}
	return t.Calls[offset]
}

// Cancelled says whether the end of the call has been asked for, by itself or
// with its turn, and by whom and why.
func (t Turn) Cancelled(c *Call) (by events.Principal, reason string, ok bool) {
	switch {
	case c.Cancel != nil:
		return c.Cancel.By, c.Cancel.Reason, true
	case t.Cancel != nil:
		return t.Cancel.By, t.Cancel.Reason, true
	}
	return events.Principal{}, "", false
}

// Deadline is when the turn must have ended; zero means never.
func (t Turn) Deadline() time.Time {
	if t.Submitted == nil || t.Submitted.Limits.DeadlineMS <= 0 {
		return time.Time{}
	}
	return t.SubmittedAt.Add(time.Duration(t.Submitted.Limits.DeadlineMS) * time.Millisecond)
}

// Concurrency is how many calls may run at once.
func (t Turn) Concurrency() int {
	if n := t.Submitted.Limits.Concurrency; n > 0 {
		return n
	}
	return DefaultConcurrency
}

// allEnded says whether every call has its terminal.
func (t Turn) allEnded() bool {
	return !slices.ContainsFunc(t.Calls, (*Call).Open)
}

// Meta is what a commit says of all its events.
type Meta struct {
	At time.Time
	By events.Owner
}

// Fold is the state after the commits, in order.
func Fold(key events.TurnKey, commits ...events.Commit) Turn {
	return FoldOn(Turn{Key: key}, commits...)
}

// FoldOn is the state after the commits, which follow those that made t.
func FoldOn(t Turn, commits ...events.Commit) Turn {
	for _, c := range commits {
		for _, r := range c.Records {
			t = Evolve(t, Meta{c.At, c.By}, r)
		}
	}
	return t
}
