// Package tools knows what can be called: the registry, typed tools, and the
// execution of one attempt. It decides nothing about calls: gates do.
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Spec is everything about a tool but its code. Functions in it are pure, quick
// and safe for many goroutines; each may be nil. args is always a JSON object
// that the schema accepts.
type Spec struct {
	Name        string // 1 to 64 of A-Za-z0-9_-; between a server's name and its tool's stands "__"
	Description string
	Version     string          // "" means 1; part of what an approval is bound to
	Schema      json.RawMessage // JSON Schema of the arguments; "" where Add derives it
	Tier        events.Tier     // "" means irreversible
	Limits      Limits

	// TierOf makes the tier depend on the arguments; nil means Tier.
	TierOf func(args json.RawMessage) events.Tier
	// Safe says whether the call may run beside its neighbours; nil means where
	// the tier is readonly.
	Safe func(args json.RawMessage) bool
	// Operation parses what the call would do; nil means OpRead for a readonly
	// tier and OpExecute otherwise, with no paths and no hosts.
	Operation func(args json.RawMessage) events.Operation
	// Resources are what the call must lock; nil means nothing.
	Resources func(args json.RawMessage) []events.ResourceUse
	// Key derives an idempotency key from business fields; nil or "" means none.
	Key func(args json.RawMessage) string
	// Circuit names the endpoint that the call reaches, where the tool reaches several
	// that fail each by itself, in one spelling for each: its failures then open the
	// circuit of that endpoint alone. nil or "" means the tool's own circuit. Names are
	// short plain text; others are told apart by their digests.
	Circuit func(args json.RawMessage) string
	// HonoursKey says that the tool itself does one effect for one key.
	HonoursKey bool
	// Writes are JSON Pointers to arguments that name workspace files which must
	// still be as this trace last saw them.
	Writes []string
	// Asks is what a person reads before saying yes; nil means the name and the arguments.
	Asks func(args json.RawMessage) string
	// Operands are the workspace files that the call would run; their digests
	// are bound to an approval.
	Operands func(args json.RawMessage) []string
	// Preview says what the call would change, for a person who is asked about it: see
	// events.Preview. It may read, for 5 s at most, and changes nothing. The files
	// named in Base must be the same as the call starts; those that it would change are
	// named as Writes says. An error, a panic and silence keep nobody from being asked.
	// nil means that what Asks says is all there is.
	Preview func(ctx context.Context, in Invocation) (events.Preview, error)

	// Containment is what would contain an attempt, in short words that never change
	// their meaning, with commas between them; nil means "": nothing but this process.
	// Of in only Tool, Args, Workspace, Mode and Network are set.
	Containment func(in Invocation) string

	// Probe asks whether the effect of an earlier attempt happened; nil means
	// that nobody can tell. It may do I/O.
	Probe func(ctx context.Context, in Invocation) (Finding, error)
	// Compensate undoes a completed call; nil means that nothing can. It may do I/O.
	Compensate func(ctx context.Context, in Invocation, done events.Result) (events.Result, error)
}

// Limits bound one attempt. Zero fields mean the defaults beside them.
type Limits struct {
	Wall    time.Duration // from started to its end; 0 means 120 s
	Output  int           // bytes of text kept before the answer's own limit; 0 means 16 MiB
	Lines   int           // lines of text in the answer; 0 means 2 000
	Text    int           // bytes of text in the answer; 0 means 51 200
	Keep    Keep          // which end of a long text stays; "" means head
	Retries int           // most attempts after the first, readonly or honouring a key; 0 means 2, negative none
}

// Keep says which end of a long text stays.
type Keep string

// The ends of a text. KeepBoth keeps 40 lines of each.
const (
	KeepHead Keep = "head"
	KeepTail Keep = "tail"
	KeepBoth Keep = "both"
)

// Finding is what a probe found.
type Finding struct {
	Found  bool          // the effect happened
	Result events.Result // what the tool would have answered; only if Found
}

// Invocation is one attempt, as its tool sees it.
type Invocation struct {
	Call      events.CallKey
	Attempt   int
	Tool      string
	Args      json.RawMessage // a JSON object, exact digits
	Key       string          // idempotency key, scoped; "" means none
	Workspace string          // absolute
	Mode      string
	Network   bool
	Deadline  time.Time
	Expect    []events.Expectation
	Locks     []events.Lock
	// Closed are absolute paths of the node's own: its log, its keys, its files of users. A tool
	// that opens files opens none of them, nor what is below, whatever workspace a turn names.
	Closed []string
	// Fence asks the cluster whether the attempt still has its Locks: ErrFenced where
	// somebody else may have them by now, any other error where nobody can say. A tool
	// that can ask asks right before its effect, since a process that was stopped for a
	// while does not know. nil: there is nothing to ask. It takes a millisecond or so; while
	// the log does not answer it waits for it, until ctx ends.
	Fence func(ctx context.Context) error
	// May asks the policy again, for what only turned up while the call runs: the real
	// name of a file behind a link, a file that a walk meets, the host that a redirect
	// leads to. Its error says why not; where a person would have to agree it is one,
	// too. It is quick and does no I/O. nil: there is nobody to ask.
	May     func(events.Operation) error
	Context json.RawMessage // shared context of the trace as the turn began: a JSON object, nil if there is none
	// Given are a person's answers to what the call's last InputRequired asked, and its
	// state; nil where none was asked.
	Given *events.Given
	// Traceparent is the W3C trace context that the attempt hands on to whatever it asks:
	// its own span, or the caller's where nobody exports spans. "": there is none.
	Traceparent string
	// Progress tells how far the attempt is. It never blocks, and drops what
	// comes too fast. Never nil.
	Progress func(events.Progress)
}

// ErrFenced says that an attempt has lost a lock, and must not have its effect.
var ErrFenced = errors.New("another owner has the lock by now")

// Tool is a Spec with its code.
type Tool struct {
	Spec
	// Run does the call. An error that is a *Error is the tool's failure, for
	// the model; one that is a *InputRequired asks a person before the tool can go
	// on; any other is ours, and the model is told INTERNAL_ERROR. It
	// must return soon after ctx ends. It may panic: that becomes a failure.
	Run func(ctx context.Context, in Invocation) (events.Result, error)
}

// Error is a tool's own failure, for the model to read.
type Error struct {
	Code    events.Code
	Class   events.Class // "" means ClassTool
	Message string
	Path    string         // JSON Pointer into the arguments, if one is to blame
	Effects events.Effects // "" means none for readonly, and for refused arguments and conflicts; possible otherwise
	After   time.Duration  // the other side's Retry-After; 0 means none
	Result  *events.Result // output to keep beside the error; nil means none

	// Absent says that nobody was there who could have run the tool, or had come to the
	// call before its time was over: no evidence for its circuit. Who comes back is not kept
	// waiting by an open one.
	Absent bool
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Report is how an attempt ended, before any limit on its answer.
type Report struct {
	Result    events.Result
	Class     events.Class
	Effects   events.Effects
	After     time.Duration // Retry-After; 0 means none
	Exit      *int
	Signal    string
	Output    int64 // bytes emitted
	Run       time.Duration
	Input     *InputRequired // what the tool asks a person, within its bounds; nil: it asks nothing
	Answered  bool           // the tool itself answered, success or failure
	Confirmed bool           // nothing of the attempt runs any more
	Absent    bool           // nobody came to it: see Error
	Pids      []int          // what may still run, if not Confirmed
}
