package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// eventLine is an event as conversations show it.
func eventLine(r events.Record) string {
	what := string(r.Event.Kind())
	if said := detail(r.Event); said != "" {
		what += " " + said
	}
	if r.Call == events.TurnEvent {
		return what
	}
	return fmt.Sprintf("%d %s", r.Call, what)
}

func detail(e events.Event) string {
	switch e := e.(type) {
	case *events.Requested:
		if e.Hash == "" {
			return e.Tool + ", which does not parse"
		}
		return e.Tool
	case *events.Deduplicated:
		return fmt.Sprintf("of %s, which %s", e.Of, e.As)
	case *events.Denied:
		return fmt.Sprintf("by %s: %s", e.Gate, e.Code)
	case *events.ApprovalRequested:
		return fmt.Sprintf("until %s: %s", clock(e.Expires), e.Why)
	case *events.Approved:
		s := fmt.Sprintf("by %s for the %s", e.By.ID, e.Scope)
		if e.Args != nil {
			s += " with " + e.Args.Text
		}
		return s
	case *events.Authorized:
		return fmt.Sprintf("%s, %s", e.Verdict.Tier, e.Decision)
	case *events.Started:
		s := fmt.Sprintf("attempt %d by %s until %s", e.Attempt, owner(e.Owner), clock(e.Deadline))
		if e.Round > 0 {
			s += fmt.Sprintf(" with the answers to asking %d", e.Round)
		}
		if e.Key != "" && !strings.Contains(e.Key, "sha256:") {
			s += " with key " + e.Key
		}
		return s
	case *events.InputRequested:
		return because(fmt.Sprintf("asking %d by attempt %d, %d requests, effects %s, until %s", e.Round, e.Attempt, len(e.Requests), e.Effects, clock(e.Expires)), e.Why)
	case *events.InputGiven:
		return givenLine(e)
	case *events.Progress:
		return fmt.Sprintf("attempt %d %s", e.Attempt, e.Text)
	case *events.CancelRequested:
		return because("by "+e.By.ID, e.Reason)
	case *events.Retrying:
		return fmt.Sprintf("attempt %d was %s, next not before %s", e.Attempt, e.Class, clock(e.Until))
	case *events.Recovered:
		s := fmt.Sprintf("after %s: %s", e.LastStage, e.Action)
		if e.Attempt > 0 {
			s += fmt.Sprintf(", attempt %d is over", e.Attempt)
		}
		return s
	}
	return endDetail(e)
}

func givenLine(e *events.InputGiven) string {
	by := "nobody"
	if e.By != nil {
		by = e.By.ID
	}
	s := fmt.Sprintf("to asking %d by %s:", e.Round, by)
	for _, a := range e.Answers {
		s += " " + a.ID + " " + a.Action
		if len(a.Content) > 0 {
			s += " " + string(a.Content)
		}
	}
	return s
}

func endDetail(e events.Event) string {
	switch e := e.(type) {
	case *events.Completed:
		return outcomeLine(e.Outcome)
	case *events.Failed:
		return outcomeLine(e.Outcome)
	case *events.TimedOut:
		return outcomeLine(e.Outcome)
	case *events.Cancelled:
		s := outcomeLine(e.Outcome)
		if e.By != nil {
			s += " by " + e.By.ID
		}
		return because(s, e.Reason)
	case *events.Unknown:
		s := fmt.Sprintf("%s, %s", outcomeLine(e.Outcome), e.Why)
		if len(e.Pids) > 0 {
			s += fmt.Sprint(" ", e.Pids)
		}
		return s
	case *events.Resolved:
		return fmt.Sprintf("by %s: effects %s", e.By.ID, e.Effects)
	case *events.LateResult:
		return fmt.Sprintf("of %s, %s", owner(e.Owner), outcomeLine(e.Outcome))
	case *events.Compensated:
		return "by " + e.By.ID
	}
	return turnDetail(e)
}

func turnDetail(e events.Event) string {
	switch e := e.(type) {
	case *events.TurnSubmitted:
		return fmt.Sprintf("by %s, %d calls", e.Principal.ID, len(e.Calls))
	case *events.TurnClaimed:
		s := fmt.Sprintf("by %s, %s", owner(e.Owner), e.Why)
		if e.Takeovers > 0 {
			s += fmt.Sprintf(" for the %d. time", e.Takeovers)
		}
		return s
	case *events.TurnPlanned:
		return strings.ReplaceAll(fmt.Sprint(e.Batches), "] [", "] then [")
	case *events.TurnParked:
		s := fmt.Sprintf("waiting for %v", e.Waiting)
		if !e.Due.IsZero() {
			s += " until " + clock(e.Due)
		}
		return s
	case *events.TurnCancelRequested:
		return because("by "+e.By.ID, e.Reason)
	case *events.TurnCompleted:
		return counts(e.Counts)
	case *events.TurnAbandoned:
		return because(fmt.Sprintf("after %d takeovers", e.Takeovers), e.Reason)
	case *events.ModelStarted:
		return e.Model
	}
	return fmt.Sprintf("%+v", e)
}

func outcomeLine(o events.Outcome) string {
	s := fmt.Sprintf("%s, effects %s", o.Class, o.Effects)
	if o.Attempt > 0 {
		s = fmt.Sprintf("attempt %d %s", o.Attempt, s)
	}
	return s
}

func because(s, why string) string {
	if why == "" {
		return s
	}
	return s + ": " + why
}

func counts(m map[events.Kind]int) string {
	var out []string
	for k, n := range m {
		out = append(out, fmt.Sprintf("%d %s", n, k))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func owner(o events.Owner) string { return fmt.Sprintf("%s/%d", o.Boot, o.Epoch) }

// clock is a time as the span since the test began.
func clock(t time.Time) string { return "+" + t.Sub(start).String() }

// effectLine is an effect as conversations show it.
func effectLine(e lifecycle.Effect) string {
	s := string(e.Do)
	if e.Call != events.TurnEvent {
		s += fmt.Sprintf(" %d", e.Call)
	}
	if e.Attempt > 0 {
		s += fmt.Sprintf(" attempt %d", e.Attempt)
	}
	if !e.At.IsZero() {
		s += " at " + clock(e.At)
	}
	return s
}
