package fault

import (
	"fmt"

	"github.com/sluice-run/sluice/events"
)

// What failures are named by that are no law of lifecycle.
const (
	lawAnswers = "answers" // one of the three questions has no answer, or a wrong one
	lawEffects = "effects" // what a call says of its effects is not what happened
	lawPolicy  = "policy"  // the model is told something else than policy says
	lawEnd     = "end"     // the turn does not come to its end
	lawEngine  = "engine"  // the turn cannot be played
)

// Failure is something that must not be.
type Failure struct {
	Law  string `json:"law"`  // L1 … L11, life, answers, effects, policy, end or engine
	Call int    `json:"call"` // events.TurnEvent: the turn
	Why  string `json:"why"`
}

func (f Failure) String() string {
	if f.Call == events.TurnEvent {
		return fmt.Sprintf("%s: %s", f.Law, f.Why)
	}
	return fmt.Sprintf("%s: call %d: %s", f.Law, f.Call, f.Why)
}

// Verdict is what came of a cell.
type Verdict string

// The verdicts.
const (
	Same          Verdict = "same"           // the model is told what it was told
	Differs       Verdict = "differs"        // it is told something else, as policy says it must
	Failed        Verdict = "failed"         // a law broke, a question has no answer, or policy says otherwise
	NotApplicable Verdict = "not applicable" // the fault cannot occur there
)

// Result is one cell.
type Result struct {
	Trace       string       `json:"trace"`
	Turn        string       `json:"turn"`
	Pair        Pair         `json:"pair"`
	Kind        Kind         `json:"kind"`
	Verdict     Verdict      `json:"verdict"`
	Why         string       `json:"why,omitempty"` // it is not applicable
	Answers     *Answers     `json:"answers,omitempty"`
	Effects     []Count      `json:"effects,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
	Failures    []Failure    `json:"failures,omitempty"`
	Story       []string     `json:"story,omitempty"`
}

// Answers are what the log says right behind the fault, before anybody has done
// anything about it.
type Answers struct {
	// Durable is the last event that the log has, in words.
	Durable string      `json:"durable"`
	Kind    events.Kind `json:"kind,omitempty"` // "": the log has none
	Call    int         `json:"call"`           // whose event that is
	Events  int         `json:"events"`         // how many the turn has
	// Started says whether the tool may have been started, and Complete whether its
	// result is in the log, whole: of the call that the cell is about, or of any, and
	// of all calls of the turn.
	Started  bool `json:"tool_started"`
	Complete bool `json:"result_complete"`
	// Began and Answered are what the tools know themselves: whether one had really
	// begun, and whether it had its answer.
	Began    bool `json:"tool_began"`
	Answered bool `json:"tool_answered"`
	// Finding is what the next owner recorded of the call; nil if nobody took over.
	Finding *events.Recovered `json:"finding,omitempty"`
}

// Count is how often something happened to the world.
type Count struct {
	Call    int         `json:"call"`
	Tool    string      `json:"tool"`
	Tier    events.Tier `json:"tier"`
	Runs    int         `json:"runs"`    // how often its tool was run
	Effects int         `json:"effects"` // how often its effect happened
}

// Difference is a call whose answer is not the recorded one, and the sentence of policy
// that says so.
type Difference struct {
	Call     int    `json:"call"`
	Recorded string `json:"recorded"`
	Now      string `json:"now"`
	Policy   string `json:"policy"`           // why that must be so
	Reason   string `json:"reason,omitempty"` // what the log itself says
}
