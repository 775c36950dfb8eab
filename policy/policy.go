// Package policy holds the judges: who may call what, decided from the parsed
// operation and never from what a model says of it. It is pure: no clock, no
// I/O, no state, and every function may be called from many goroutines.
package policy

import (
	"encoding/json"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Decision is what a judge says.
type Decision string

// The decisions, from mild to strict. Deny wins over ask, ask over allow.
const (
	Allow Decision = "allow"
	Ask   Decision = "ask"
	Deny  Decision = "deny"
)

// Request is one call to be judged.
type Request struct {
	Principal events.Principal
	// Allowlists must each hold the tool's name, or the glob * alone: the
	// principal's, its parents', the turn's. A nil list does not narrow; an
	// empty one that is not nil holds nothing.
	Allowlists [][]string
	Tool       string
	Said       string // how the model spelled Tool; "": the same way
	Known      bool   // a tool of that name is registered
	Tier       events.Tier
	Mode       string // events.ModeRead or events.ModeWrite
	CanAsk     bool   // somebody can be asked; otherwise ask is deny, but for Agreed
	Agreed     bool   // somebody has said yes before to these very arguments, for the rest of the trace
	Network    bool   // the operator allows the network
	Workspace  string // absolute; "" where the call has none
	Args       json.RawMessage
	Op         events.Operation
	// Time is the moment of the judgement, in UTC and whole milliseconds. Zero means that
	// it is not known: then a policy that looks at the time denies.
	Time    time.Time
	Session Session

	lineless bool // its shell line is judged elsewhere: see Readings
}

// Session is where a call belongs. Every part may be "": then it is not known.
type Session struct {
	Trace     string // the agent's run
	Turn      string // the model's message, unique in its trace
	Placement string // which nodes may run it
}

// Verdict is a decision with its reasons.
type Verdict struct {
	Decision Decision
	Gate     string      // allow or authorize
	Code     events.Code // only for deny
	Reason   string      // a sentence for the model, or for the person who is asked
	Path     string      // JSON Pointer to the argument that decided, if one did
	Policies []string    // ids of the deciding policies, sorted
	Version  string      // of the policy set
	// Judged is Request.Time where a policy of the set looks at the time: the verdict then
	// holds for this moment, and must be asked for again at another one. Zero means that
	// the verdict is the same at any time.
	Judged time.Time
}

// Authorizer judges the operation of a call that is on every allowlist.
type Authorizer interface {
	Authorize(Request) Verdict
	// Version changes whenever any verdict could.
	Version() string
}
