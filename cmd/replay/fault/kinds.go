package fault

import "github.com/sluice-run/sluice/events"

// Kind names a kind of fault. The names are stable.
type Kind string

// The kinds of faults.
const (
	CrashLost   Kind = "crash-lost"
	CrashKept   Kind = "crash-kept"
	NodeDeath   Kind = "node-death"
	Zombie      Kind = "zombie"
	Redelivery  Kind = "redelivery"
	Uncertain   Kind = "uncertain"
	Hang        Kind = "hang"
	Cancel      Kind = "cancel"
	LateResult  Kind = "late-result"
	LeaseLoss   Kind = "lease-loss"
	BreakerOpen Kind = "breaker-open"
	Expiry      Kind = "approval-expiry"
	PowerLoss   Kind = "power-loss"
)

// errorKind is the kind of a tool's error of one class: error-tool, error-invalid …
func errorKind(c events.Class) Kind { return Kind("error-" + string(c)) }

// errorClasses are the classes of an attempt's end that are errors.
var errorClasses = []events.Class{
	events.ClassTool, events.ClassInvalid, events.ClassConflict, events.ClassUnavailable,
	events.ClassTimeout, events.ClassCancelled, events.ClassPanic, events.ClassLost,
}

// KindRow is one row of the table of kinds.
type KindRow struct {
	Kind  Kind         `json:"kind"`
	About string       `json:"about"` // what goes wrong, in a sentence
	class events.Class // of an error; "" for all others
	loses bool         // the owner is lost
	tool  bool         // it happens to an attempt, while that runs
}

// Kinds is the one table of kinds, in the order in which they are shown.
var Kinds = makeKinds()

func makeKinds() []KindRow {
	rows := []KindRow{
		{Kind: CrashLost, About: "the process dies as it appends the later stage, and the append is lost", loses: true},
		{Kind: CrashKept, About: "the process dies as it appends the later stage, and the append is kept", loses: true},
		{Kind: NodeDeath, About: "the node dies between the stages, and another one takes the turn over", loses: true},
		{Kind: Zombie, About: "the owner stands still, another node takes over, and then the first one goes on", loses: true},
		{Kind: Redelivery, About: "the queue delivers the turn's message once more, to another node too"},
		{Kind: Uncertain, About: "the append of the later stage is not answered: the first time it is lost, the second time kept"},
		{Kind: Hang, About: "the tool does not answer before its deadline", tool: true},
	}
	for _, c := range errorClasses {
		rows = append(rows, KindRow{Kind: errorKind(c), About: aboutClass[c], class: c, tool: true})
	}
	return append(
		rows,
		KindRow{Kind: Cancel, About: "somebody asks for the end of the call, or of the turn"},
		KindRow{Kind: LateResult, About: "the tool does not stop at its deadline, and answers when its attempt is over", tool: true},
		KindRow{Kind: LeaseLoss, About: "another call gets the lease on the resource while the tool runs", tool: true},
		KindRow{Kind: BreakerOpen, About: "the breaker of the tool opens"},
		KindRow{Kind: Expiry, About: "nobody answers the request for approval in time"},
		KindRow{Kind: PowerLoss, About: "the power fails, and what is not past the barrier is lost", loses: true},
	)
}

var aboutClass = map[events.Class]string{
	events.ClassTool:        "the tool answers that it failed, and had its effect all the same",
	events.ClassInvalid:     "the tool refuses its arguments",
	events.ClassConflict:    "the tool finds that what the call was based on has changed",
	events.ClassUnavailable: "the connection to the tool breaks behind its effect",
	events.ClassTimeout:     "a time limit inside the tool passes behind its effect",
	events.ClassCancelled:   "the tool stops by itself behind its effect, without an answer",
	events.ClassPanic:       "the tool's code breaks behind its effect",
	events.ClassLost:        "whoever ran the tool is gone, and its effect has happened",
}

// OfTool says whether the fault happens to an attempt, while its tool runs.
func (r KindRow) OfTool() bool { return r.tool }

// Stages that are no events.
const (
	StageStart = "start" // before the first event
	StageEnd   = "end"   // behind the last one
)

// Pair is two neighbouring stages of a call, or of a turn, as they occur when the
// script is played without a fault. Each is the kind of an event, StageStart or StageEnd.
type Pair struct {
	Call int    `json:"call"` // offset; events.TurnEvent for the turn's own stages
	From string `json:"from"`
	To   string `json:"to"`
	// Event is the number of the earlier event among its call's or its turn's, from 1; 0 for
	// start. It tells pairs apart that occur more than once.
	Event uint32 `json:"event"`
	at    int    // how many events of the turn have happened when the earlier one has
}

// label is the pair without its place.
func (p Pair) label() string { return p.From + " → " + p.To }

// runs says whether an attempt of the call is under way between the two.
func (p Pair) runs() bool { return p.Call != events.TurnEvent && p.From == string(events.KindStarted) }
