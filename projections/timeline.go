package projections

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// Timeline is what happened, in order, with the time between.
var Timeline = Projection[Moments]{
	Name: "timeline", Version: 1,
	Init:  func() Moments { return Moments{Open: map[string]*Clock{}} },
	Apply: passTime,
}

// Moments is the timeline of a trace or a turn.
type Moments struct {
	All  []Moment          `json:"all,omitempty"`
	Open map[string]*Clock `json:"open"` // by turn; dropped when the turn ends
}

// Moment is one event.
type Moment struct {
	Pos     string         `json:"pos"` // generation.sequence.index
	Turn    events.TurnKey `json:"turn"`
	Call    int            `json:"call"` // events.TurnEvent for the turn
	Seq     uint32         `json:"seq"`
	At      time.Time      `json:"at"`
	Kind    events.Kind    `json:"kind"`
	Tool    string         `json:"tool,omitempty"`
	Attempt int            `json:"attempt,omitempty"`
	// AfterUS is the time since the same call's, or the turn's, event before, in
	// microseconds; 0 for the first. Below 0: two clocks do not agree.
	AfterUS int64  `json:"after_us"`
	Detail  string `json:"detail,omitempty"` // at most maxDetail bytes; control characters as they came
}

// Clock is what a turn's next moment needs of those before.
type Clock struct {
	Tools []string          `json:"tools,omitempty"`
	Last  map[int]time.Time `json:"last"`
}

func passTime(m Moments, e Event) Moments {
	key := e.Turn.String()
	clock := m.Open[key]
	if clock == nil {
		clock = &Clock{Last: map[int]time.Time{}}
		if !events.EndsTurn(e.Kind()) && e.Call == events.TurnEvent {
			m.Open[key] = clock // an event behind the turn's end keeps nothing
		}
	}
	if s, ok := e.Event.(*events.TurnSubmitted); ok {
		clock.Tools = make([]string, len(s.Calls))
		for i, c := range s.Calls {
			clock.Tools[i] = c.Tool
		}
	}
	mo := Moment{
		Pos: e.Pos.String(), Turn: e.Turn, Call: e.Call, Seq: e.Seq, At: e.At, Kind: e.Kind(),
		Attempt: attemptOf(e.Event), Detail: clip(detail(e.Event)),
	}
	if e.Call >= 0 && e.Call < len(clock.Tools) {
		mo.Tool = clock.Tools[e.Call]
	}
	if before, ok := clock.Last[e.Call]; ok {
		mo.AfterUS = e.At.Sub(before).Microseconds()
	}
	clock.Last[e.Call] = e.At
	m.All = append(m.All, mo)
	if events.EndsTurn(e.Kind()) {
		delete(m.Open, key)
	}
	return m
}

func attemptOf(e events.Event) int {
	if o := events.OutcomeOf(e); o != nil {
		return o.Attempt
	}
	switch v := e.(type) {
	case *events.Started:
		return v.Attempt
	case *events.Progress:
		return v.Attempt
	case *events.Retrying:
		return v.Attempt
	case *events.InputRequested:
		return v.Attempt
	case *events.Recovered:
		return v.Attempt
	}
	return 0
}

// detail is what is worth knowing of an event, in one line.
func detail(e events.Event) string {
	if o := events.OutcomeOf(e); o != nil {
		return outcomeDetail(e, o)
	}
	switch v := e.(type) {
	case *events.Requested:
		return v.Args.Text
	case *events.Deduplicated:
		return "same as " + v.Of + ", which " + string(v.As)
	case *events.Denied:
		return words(v.Gate, string(v.Code)+":", v.Reason, v.Path)
	case *events.ApprovalRequested:
		return words(v.Why, "expires", v.Expires.UTC().Format(time.RFC3339))
	case *events.Approved:
		return words("by", v.By.ID, v.Scope, v.Note)
	case *events.Authorized:
		return words(v.Decision, string(v.Verdict.Tier), string(v.Verdict.Operation.Class), strings.Join(v.Verdict.Policies, ","))
	case *events.Started:
		return words("on", v.Owner.Boot, "until", v.Deadline.UTC().Format(time.RFC3339), limitsDetail(v))
	case *events.Progress:
		return v.Text
	case *events.CancelRequested:
		return words("by", v.By.ID, v.Reason)
	case *events.Retrying:
		return words(string(v.Class), errorDetail(v.Error))
	case *events.Recovered:
		return fmt.Sprintf("after %s: started %t, complete %t, so %s: %s", v.LastStage, v.ToolStarted, v.Complete, v.Action, v.Reason)
	case *events.InputRequested, *events.InputGiven:
		return inputDetail(e)
	case *events.Resolved:
		return words("effects", string(v.Effects), "by", v.By.ID, v.Note)
	case *events.Compensated:
		return words("by", v.By.ID)
	}
	return turnDetail(e)
}

// inputDetail is what is worth knowing of what a tool asks a person, and gets.
func inputDetail(e events.Event) string {
	switch v := e.(type) {
	case *events.InputRequested:
		var asked []string
		for _, r := range v.Requests {
			asked = append(asked, words(r.ID+":", r.Message, r.URL))
		}
		return words(v.Why, strings.Join(asked, "; "), "expires", v.Expires.UTC().Format(time.RFC3339))
	case *events.InputGiven:
		var given []string
		for _, a := range v.Answers {
			given = append(given, a.ID+" "+a.Action)
		}
		by := "nobody in time"
		if v.By != nil {
			by = v.By.ID
		}
		return words("by", by, strings.Join(given, ", "), v.Note)
	}
	return ""
}

func turnDetail(e events.Event) string {
	switch v := e.(type) {
	case *events.TurnSubmitted:
		return fmt.Sprintf("%d calls by %s", len(v.Calls), v.Principal.ID)
	case *events.TurnClaimed:
		return words(v.Why, v.Node, v.Owner.Boot, "epoch", fmt.Sprint(v.Owner.Epoch))
	case *events.TurnPlanned:
		return fmt.Sprint(v.Batches)
	case *events.TurnParked:
		return "waits for calls " + fmt.Sprint(v.Waiting)
	case *events.TurnCancelRequested:
		return words("by", v.By.ID, v.Reason)
	case *events.TurnAbandoned:
		return v.Reason
	case *events.ModelStarted:
		return v.Model
	case *events.ModelCompleted:
		return words(v.Model, v.Reason)
	case events.Foreign:
		return fmt.Sprintf("version %d, of a newer release", v.Version)
	}
	return ""
}

func outcomeDetail(e events.Event, o *events.Outcome) string {
	why := ""
	switch v := e.(type) {
	case *events.Cancelled:
		why = v.Reason
	case *events.Unknown:
		why = v.Why
	}
	exit := ""
	if o.Exit != nil {
		exit = fmt.Sprintf("exit %d", *o.Exit)
	}
	return words(why, string(o.Class), "effects", string(o.Effects), exit, o.Signal, errorDetail(o.Result.Error))
}

func errorDetail(e *events.Error) string {
	if e == nil {
		return ""
	}
	return string(e.Code) + ": " + e.Message
}

// maxDetail bounds a detail: a timeline of many events must stay small.
const maxDetail = 512

func clip(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	n := maxDetail - len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// words joins what is not empty.
func words(parts ...string) string {
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " ")
}

// limitsDetail names the limits that a start has passed, and how long it has waited for
// them.
func limitsDetail(s *events.Started) string {
	if len(s.Limits) == 0 {
		return ""
	}
	var ids []string
	for _, l := range s.Limits {
		if !slices.Contains(ids, l.Rule) {
			ids = append(ids, l.Rule)
		}
	}
	out := "limits " + strings.Join(ids, ",")
	if s.LimitWaitMS > 0 {
		out += " after " + (time.Duration(s.LimitWaitMS) * time.Millisecond).String()
	}
	return out
}
