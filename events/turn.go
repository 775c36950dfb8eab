package events

import (
	"encoding/json"
	"strings"
	"time"
)

// Modes of a turn.
const (
	ModeRead  = "read_only"
	ModeWrite = "write"
)

// What one call's failure does to its siblings.
const (
	OnErrorContinue  = "continue"   // nothing; the meaning of ""
	OnErrorAbortRest = "abort_rest" // what has not started is cancelled
)

// DefaultPlacement is where a turn runs that names no placement.
const DefaultPlacement = "default"

// EndPlacement holds turns that nobody can serve. Every node serves it, and may
// there only cancel, expire, deny, settle or abandon.
const EndPlacement = "_end"

// TurnSubmitted is a turn's first event: the raw calls and what they need to run.
type TurnSubmitted struct {
	Principal   Principal `json:"principal"`
	Calls       []RawCall `json:"calls"`
	Format      string    `json:"format,omitempty"`    // the provider's: openai, anthropic, …
	Workspace   string    `json:"workspace,omitempty"` // absolute path; "" means the node's own
	Mode        string    `json:"mode,omitempty"`      // read_only or write; "" means write
	CanAsk      bool      `json:"can_ask,omitempty"`   // somebody can be asked for approval
	Allow       []string  `json:"allow,omitempty"`     // narrows the principal's allowlist; empty: does not
	Placement   string    `json:"placement,omitempty"` // "" means DefaultPlacement
	OnError     string    `json:"on_error,omitempty"`
	Disjoint    bool      `json:"parallel_disjoint,omitempty"` // calls on disjoint resources may run together
	Limits      Limits    `json:"limits,omitempty,omitzero"`
	Traceparent string    `json:"traceparent,omitempty"` // W3C trace context of the caller
	Imported    string    `json:"imported,omitempty"`    // where a recorded transcript came from; never run
}

// ArchiveMark begins TurnSubmitted.Imported of a turn that was recorded in another
// log and came here in an archive. No transcript's source has a slash.
const ArchiveMark = "archive/"

// Verbatim says whether the turn is a transcript's: its answers are what the
// recording has, to the byte. A turn out of an archive is none, since its answers are
// rendered as those of the log that it was recorded in.
func (s *TurnSubmitted) Verbatim() bool { return s.Imported != "" && !s.Archived() }

// Archived says whether the turn was recorded in another log, and came out of an archive.
func (s *TurnSubmitted) Archived() bool { return strings.HasPrefix(s.Imported, ArchiveMark) }

// TurnClaimed is a node's claim. It fences every earlier owner.
type TurnClaimed struct {
	Owner     Owner  `json:"owner"`
	Node      string `json:"node,omitempty"`      // for people; ownership is by boot id
	Reply     string `json:"reply,omitempty"`     // reply subject of the claim's queue message
	Why       string `json:"why"`                 // new, woken, drained, taken_over
	Takeovers int    `json:"takeovers,omitempty"` // consecutive ones without a terminal, this one included
}

// Why a turn was claimed.
const (
	ClaimNew       = "new"
	ClaimWoken     = "woken"
	ClaimDrained   = "drained"
	ClaimTakenOver = "taken_over"
)

// TurnPlanned fixes the batches and what the turn inherits from its trace.
type TurnPlanned struct {
	Batches   [][]int         `json:"batches"` // offsets, in the order they run
	Inherited Inherited       `json:"inherited,omitempty,omitzero"`
	Policy    string          `json:"policy,omitempty"` // version of the policy at planning
	Context   json.RawMessage `json:"context,omitempty"`
}

// Inherited is what earlier turns of the trace leave to a turn.
type Inherited struct {
	Approvals []string     `json:"approvals,omitempty"` // tools and argument hashes; only in logs of releases that bound an approval to no more
	Seen      []Seen       `json:"seen,omitempty"`      // files, as last read or written
	Session   []SessionYes `json:"session,omitempty"`   // approvals for the session
}

// SessionYes is an approval for the session, with everything that it is bound to: a
// call that differs in any of it is asked about anew.
type SessionYes struct {
	Tool        string    `json:"tool"`
	Hash        string    `json:"args_hash"`
	ToolVersion string    `json:"tool_version,omitempty"`
	Policy      string    `json:"policy,omitempty"`
	Policies    []string  `json:"policies,omitempty"` // that asked: they count where they look at the time
	Principal   Principal `json:"principal"`          // who asked, with its parents
	Workspace   string    `json:"workspace,omitempty"`
	Placement   string    `json:"placement,omitempty"`
	Operands    []Seen    `json:"operands,omitempty"` // files that the call would run, as they were shown
	Base        []Seen    `json:"base,omitempty"`     // files that its preview was made from
	By          Principal `json:"by"`                 // who said yes
	From        string    `json:"from,omitempty"`     // the call that it was given to: trace/turn/offset
}

// TurnParked says that a turn waits only for people or a long delay, and that
// nothing of it is in memory.
type TurnParked struct {
	Due     time.Time `json:"due,omitempty,omitzero"` // earliest; its timer was written first. Zero means no timer
	Waiting []int     `json:"waiting,omitempty"`
}

// TurnCancelRequested asks for the end of all calls that have not ended.
type TurnCancelRequested struct {
	By     Principal `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

// TurnCompleted says that every call has its terminal.
type TurnCompleted struct {
	Counts  map[Kind]int    `json:"counts"`            // terminals by kind
	Context json.RawMessage `json:"context,omitempty"` // shared context, modifiers applied in request order
	Cuts    []TurnCut       `json:"cuts,omitempty"`    // answers that the turn's budget shortens; their whole is stored
}

// TurnCut says where the whole of an answer is that the turn's budget shortens.
type TurnCut struct {
	Call  int     `json:"call"`
	Whole BlobRef `json:"whole"`
}

// TurnAbandoned ends a turn that cannot be run.
type TurnAbandoned struct {
	Reason    string `json:"reason"`
	Takeovers int    `json:"takeovers,omitempty"`
}

// ModelStarted is the caller's note that a model was asked.
type ModelStarted struct {
	Model string `json:"model"`
}

// ModelCompleted is the caller's note that a model answered.
type ModelCompleted struct {
	Model  string `json:"model"`
	Reason string `json:"finish_reason,omitempty"`
	Input  int64  `json:"input_tokens,omitempty"`
	Output int64  `json:"output_tokens,omitempty"`
}
