package events

import (
	"encoding/json"
	"time"
)

// Tier says how the effects of a call behave.
type Tier string

// The tiers, from mild to strict; see Tier.Rank.
const (
	Readonly     Tier = "readonly"     // no effects: may be started again at any time
	Reversible   Tier = "reversible"   // effects that a compensation can undo
	Irreversible Tier = "irreversible" // effects that stay: never started twice blindly
	Approval     Tier = "approval"     // irreversible, and a person must agree first
)

// Rank orders tiers by strictness, 0 for readonly; an unknown tier is the strictest.
func (t Tier) Rank() int {
	switch t {
	case Readonly:
		return 0
	case Reversible:
		return 1
	case Irreversible:
		return 2
	}
	return 3
}

// Stricter is the stricter of two tiers.
func (t Tier) Stricter(u Tier) Tier {
	if u.Rank() > t.Rank() {
		return u
	}
	return t
}

// Effects says what a call that has ended did to the world.
type Effects string

// What is known of effects. Only EffectsNone frees an idempotency key.
const (
	EffectsNone     Effects = "none"
	EffectsPossible Effects = "possible"
	EffectsDone     Effects = "done"
)

// Status is the tool's own verdict on its result.
type Status string

// The statuses of a Result.
const (
	Success Status = "success"
	Partial Status = "partial"
	Failure Status = "error"
)

// Code says what went wrong, in a word that a model and a script can match.
type Code string

// The codes, all of them.
const (
	NotFound            Code = "NOT_FOUND"
	AccessDenied        Code = "ACCESS_DENIED"
	PermissionDenied    Code = "PERMISSION_DENIED"
	InvalidParam        Code = "INVALID_PARAM"
	Timeout             Code = "TIMEOUT"
	CodeCancelled       Code = "CANCELLED"
	InternalError       Code = "INTERNAL_ERROR"
	ExecutionError      Code = "EXECUTION_ERROR"
	IsDirectory         Code = "IS_DIRECTORY"
	BinaryFile          Code = "BINARY_FILE"
	Conflict            Code = "CONFLICT"
	CircuitOpen         Code = "CIRCUIT_OPEN"
	UnknownTool         Code = "UNKNOWN_TOOL"
	UnknownOutcome      Code = "UNKNOWN_OUTCOME"
	ApprovalRejected    Code = "APPROVAL_REJECTED"
	ApprovalExpired     Code = "APPROVAL_EXPIRED"
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT"
	TruncatedByModel    Code = "TRUNCATED_BY_MODEL"
	TooLarge            Code = "TOO_LARGE"
	RateLimited         Code = "RATE_LIMITED"
	MCPParamError       Code = "MCP_PARAM_ERROR"
	MCPExecutionError   Code = "MCP_EXECUTION_ERROR"
	MCPNetworkError     Code = "MCP_NETWORK_ERROR"
	MCPTimeout          Code = "MCP_TIMEOUT"
	MCPNotFound         Code = "MCP_NOT_FOUND"
)

// Class says how an attempt ended, as far as the runtime is concerned. It
// decides whether the attempt may be repeated and what it tells the breaker.
type Class string

// The classes of an attempt's end.
const (
	ClassOK          Class = "ok"          // the tool answered, and its answer is a success
	ClassTool        Class = "tool"        // the tool answered: it failed for a reason of its own
	ClassInvalid     Class = "invalid"     // the tool refused its arguments
	ClassConflict    Class = "conflict"    // what the call was based on has changed
	ClassUnavailable Class = "unavailable" // connection lost or refused, 429, 5xx
	ClassTimeout     Class = "timeout"     // the deadline passed first
	ClassCancelled   Class = "cancelled"   // somebody asked for the end
	ClassPanic       Class = "panic"       // the tool's code broke
	ClassLost        Class = "lost"        // its owner is gone
	ClassInput       Class = "input"       // the tool answered: it asks a person before it can go on
)

// BlobRef points to bytes kept outside the log.
type BlobRef struct {
	Digest string `json:"digest"`               // "sha256:" and 64 hex digits
	Size   int64  `json:"size"`                 // bytes
	Media  string `json:"media_type,omitempty"` // "" means text/plain; charset=utf-8
}

// Body is text that is inline, or by reference where it is large.
type Body struct {
	Text string   `json:"text,omitempty"`
	Ref  *BlobRef `json:"ref,omitempty"` // non-nil: Text is empty and the bytes are there
}

// Principal is who acts. A child may only narrow what its parents may do.
type Principal struct {
	ID      string   `json:"id"`
	Kind    string   `json:"kind,omitempty"`    // agent (the meaning of ""), person or service
	Parents []string `json:"parents,omitempty"` // nearest first
	Via     string   `json:"via,omitempty"`     // of an act: how its door knew who it was, in one of the words Via…; "": not recorded
}

// How a door knew who acts.
const (
	ViaCommand     = "command"     // the command line, at the log itself: it was told the name
	ViaLoopback    = "loopback"    // HTTP that asks nobody who they are: the body said the name
	ViaToken       = "token"       // HTTP
	ViaCertificate = "certificate" // HTTP
	ViaNATS        = "nats"        // the NATS door: the user of the connection
	ViaMCP         = "mcp"         // a question at an MCP client, or a request of one
)

// RawCall is a call as the model asked for it, before anything was decided.
type RawCall struct {
	ProviderID string      `json:"provider_id,omitempty"`
	Tool       string      `json:"tool"`
	Said       string      `json:"said,omitempty"`    // how the model spelled Tool; "": the same way
	Args       Body        `json:"args"`              // verbatim; "" where the model sent none
	Key        string      `json:"key,omitempty"`     // the caller's idempotency key
	Secrets    []SecretRef `json:"secrets,omitempty"` // sealed values that Args refers to
	Refused    *Refusal    `json:"refused,omitempty"` // the door's finding: this call must not start
	Custom     bool        `json:"custom,omitempty"`  // the model wrote free text: Args are {"input": that text}
	// Extra is what the provider wants back with the call, as JSON: signatures, and what the
	// model thought before it. Nobody but that provider's codec reads it.
	Extra Body `json:"extra,omitempty,omitzero"`
}

// Refusal is why a door hands over a call that must be denied, so that its id gets an answer.
type Refusal struct {
	Code   Code   `json:"code"`
	Reason string `json:"reason"`
}

// SecretRef stands in arguments for a value that is sealed outside the log.
type SecretRef struct {
	ID   string `json:"id"`             // what the placeholder in the arguments names
	Path string `json:"path,omitempty"` // JSON Pointer to the placeholder
}

// Operation is what a call would do, parsed from its arguments and never from
// what the model says of it.
type Operation struct {
	Class    OpClass  `json:"class"`
	Paths    []string `json:"paths,omitempty"`    // as given, relative to the workspace
	Hosts    []string `json:"hosts,omitempty"`    // host or host:port
	Commands []string `json:"commands,omitempty"` // the simple commands of a shell line
	Reads    bool     `json:"reads,omitempty"`    // execute only: understood as reading, the whole line
}

// OpClass is the class of an operation.
type OpClass string

// The classes of operations.
const (
	OpRead     OpClass = "read"
	OpWrite    OpClass = "write"
	OpExecute  OpClass = "execute"
	OpNetwork  OpClass = "network"
	OpDelegate OpClass = "delegate"
)

// ResourceUse is one resource that a call needs, and how.
type ResourceUse struct {
	Name      string `json:"name"` // for example file:src/a.go
	Exclusive bool   `json:"exclusive,omitempty"`
}

// Lock is a lease that a call holds. Its token is the boot id and the revision:
// a revision alone can be reused after a lost tail.
type Lock struct {
	Resource  string `json:"resource"`
	Exclusive bool   `json:"exclusive,omitempty"`
	Boot      string `json:"boot"`
	Revision  uint64 `json:"revision"`
}

// Limit is a limit that a start has passed, and what it has of it.
type Limit struct {
	Rule      string `json:"rule"`                // its id
	Principal string `json:"principal,omitempty"` // whose bucket, where each principal has one
	Slot      Lock   `json:"slot,omitempty,omitzero"`
	Token     bool   `json:"token,omitempty"` // it has used one start of the rule's rate
}

// Expectation is what a file must be when a write finds it.
type Expectation struct {
	Path   string    `json:"path"`
	Digest string    `json:"digest"` // "sha256:…"; "" means that the file must not exist
	Size   int64     `json:"size"`
	Mtime  time.Time `json:"mtime,omitempty,omitzero"`
}

// BreakerView is what a call saw of its circuit's breaker when it started.
type BreakerView struct {
	State    string `json:"state,omitempty"` // closed, half_open; "" means no breaker
	Revision uint64 `json:"revision,omitempty"`
	Probe    bool   `json:"probe,omitempty"`   // this call is the probe
	Circuit  string `json:"circuit,omitempty"` // of its tool's endpoints, whose breaker it is; "": the tool's own
}

// Error is why a result is not a success.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Path    string `json:"path,omitempty"` // JSON Pointer into the arguments
}

// Cut says what a limit took from a text, and where the whole is.
type Cut struct {
	Bytes int64   `json:"bytes"` // taken away
	Lines int64   `json:"lines,omitempty"`
	Whole BlobRef `json:"whole"`
}

// Stats are the tool's own counts; they never hold a clock.
type Stats struct {
	Bytes int64            `json:"bytes,omitempty"`
	Lines int64            `json:"lines,omitempty"`
	More  map[string]int64 `json:"more,omitempty"`
}

// Modifier changes the turn's shared context once the turn completes. Modifiers
// are applied in request order. A nil Value removes the name.
type Modifier struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Seen is what a call learnt of a file: the base of later expectations.
type Seen struct {
	Path   string    `json:"path"`
	Digest string    `json:"digest"`
	Size   int64     `json:"size"`
	Mtime  time.Time `json:"mtime,omitempty,omitzero"`
}

// Result is what a tool gave, normalised. It is immutable.
type Result struct {
	Status  Status          `json:"status"`
	Text    Body            `json:"text,omitempty,omitzero"`
	Data    json.RawMessage `json:"data,omitempty"`  // JSON
	Error   *Error          `json:"error,omitempty"` // only when it is one
	Cut     *Cut            `json:"cut,omitempty"`
	Blobs   []BlobRef       `json:"blobs,omitempty"` // binaries that Text describes
	Stats   Stats           `json:"stats,omitempty,omitzero"`
	Seen    []Seen          `json:"seen,omitempty"`
	Context []Modifier      `json:"context,omitempty"`
	// Undo is what the tool needs to take the effect back: JSON of its own, which
	// no model is shown.
	Undo json.RawMessage `json:"undo,omitempty"`
}

// Stages are how long a call spent where, in microseconds; 0 where it did not stop.
type Stages struct {
	Queue    int64 `json:"queue_us,omitempty"`    // submitted to claimed
	Gates    int64 `json:"gates_us,omitempty"`    // requested to authorized, without the wait for people
	Approval int64 `json:"approval_us,omitempty"` // approval_requested to approved
	Wait     int64 `json:"wait_us,omitempty"`     // authorized to started: batch order, locks
	Run      int64 `json:"run_us,omitempty"`      // the last attempt
}

// Owner is the incarnation of a node that owns a turn.
type Owner struct {
	Boot  string `json:"boot"`  // unique to one start of one process
	Epoch uint32 `json:"epoch"` // 1 for the first claim of the turn
}

// Limits bound a turn. A zero field means the default beside it.
type Limits struct {
	Concurrency int   `json:"max_concurrency,omitempty"`  // calls at once; 0 means 4
	DeadlineMS  int64 `json:"deadline_ms,omitempty"`      // of the turn, from submitted; 0 means none
	CallBytes   int   `json:"call_bytes,omitempty"`       // serialised answer of a call; 0 means 50 000
	TurnBytes   int   `json:"turn_bytes,omitempty"`       // of all answers; 0 means 200 000
	CallMS      int64 `json:"call_deadline_ms,omitempty"` // of each attempt; 0 means the tool's own. One that passes is not retried
}
