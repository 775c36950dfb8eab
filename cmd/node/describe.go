package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
)

// describe is one event in a line for a person.
func describe(e gateway.FeedEvent) string {
	rec := e.Record()
	turn := e.Stored.Commit.Turn
	what, tool := turn.String(), "-"
	if rec.Call != events.TurnEvent {
		what, tool = turn.Call(rec.Call).String(), show.Short(e.Tool, 40)
	}
	line := fmt.Sprintf("%-10s %s  %-18s %-8s %s", e.Position, e.Stored.Commit.At.Local().Format("15:04:05.000"), rec.Event.Kind(), tool, what)
	if d := detail(rec.Event); d != "" {
		line += "  " + d
	}
	return line
}

// detail is what is most worth knowing of an event.
func detail(e events.Event) string {
	switch e := e.(type) {
	case *events.TurnSubmitted:
		return fmt.Sprintf("%d calls by %s", len(e.Calls), show.Short(e.Principal.ID, 40))
	case *events.TurnClaimed:
		return fmt.Sprintf("%s, epoch %d", e.Why, e.Owner.Epoch)
	case *events.TurnPlanned:
		return "batches " + batches(e.Batches)
	case *events.TurnAbandoned:
		return show.Short(e.Reason, 120)
	case *events.TurnCompleted:
		return show.Counts(e.Counts)
	case *events.Denied:
		if e.By != nil {
			return byWhom(fmt.Sprintf("%s %s ", e.Gate, e.Code), *e.By, lifecycle.NoteOf(e))
		}
		return fmt.Sprintf("%s %s: %s", e.Gate, e.Code, show.Short(e.Reason, 160))
	case *events.ApprovalRequested:
		return tell(onLine(e.Asks))
	case *events.Approved:
		return approvedBy(e)
	case *events.InputRequested:
		return tell(onLine(askedFor(e)))
	case *events.InputGiven:
		return givenBy(e)
	case *events.Authorized:
		return fmt.Sprintf("%s, %s", e.Decision, e.Verdict.Tier)
	case *events.Started:
		return fmt.Sprintf("attempt %d", e.Attempt)
	case *events.Retrying:
		return fmt.Sprintf("attempt %d: %s", e.Attempt, e.Class)
	case *events.Recovered:
		return fmt.Sprintf("%s: %s", e.Action, show.Short(e.Reason, 120))
	case *events.Deduplicated:
		return "the result of " + e.Of
	case *events.Progress:
		return show.Short(e.Text, 120)
	case *events.Unknown:
		return e.Why + ended(e.Outcome)
	case *events.LateResult:
		return "" // it changed nothing any more
	case *events.Resolved:
		return byWhom("effects "+string(e.Effects)+", ", e.By, e.Note)
	case *events.Compensated:
		return byWhom("", e.By, e.Result.Text.Text)
	case *events.CancelRequested:
		return byWhom("", e.By, e.Reason)
	case *events.TurnCancelRequested:
		return byWhom("", e.By, e.Reason)
	}
	if o := events.OutcomeOf(e); o != nil {
		return strings.TrimPrefix(ended(*o), ", ")
	}
	return ""
}

// askedFor is what a tool asks a person, in its own words, which are still to be made
// safe to show.
func askedFor(e *events.InputRequested) string {
	var asks []string
	for _, r := range e.Requests {
		asks = append(asks, strings.TrimSuffix(r.ID+" ("+r.Kind+") "+strings.TrimSpace(r.Message+" "+r.URL), " "))
	}
	return strings.Join(asks, "; ")
}

// givenBy is whose answers a tool goes on with.
func givenBy(e *events.InputGiven) string {
	if e.By == nil {
		return "by nobody: no one had answered in time"
	}
	var what []string
	for _, a := range e.Answers {
		what = append(what, a.ID+" "+a.Action)
	}
	return byWhom(show.Short(strings.Join(what, ", "), 120)+" ", *e.By, e.Note)
}

// approvedBy is whose yes a call has, and what it is to.
func approvedBy(e *events.Approved) string {
	what := ""
	if e.Args != nil {
		what = "with other arguments "
	}
	if e.Scope == events.ScopeSession {
		what += "for the session "
	}
	return byWhom(what, e.By, e.Note)
}

// byWhom is who did something, and their words.
func byWhom(what string, by events.Principal, words string) string {
	out := what + "by " + show.Short(by.ID, 40)
	if words != "" {
		out += ": " + show.Short(words, 120)
	}
	return out
}

// tell is the whole of what a person is asked, on one line.
func tell(asks string) string { return show.Short(asks, 1<<20) }

func ended(o events.Outcome) string {
	out := fmt.Sprintf(", effects %s", o.Effects)
	if o.Stages.Run > 0 {
		out += fmt.Sprintf(", ran %v", (time.Duration(o.Stages.Run) * time.Microsecond).Round(10*time.Microsecond))
	}
	if err := o.Result.Error; err != nil {
		out += fmt.Sprintf(": %s %s", err.Code, show.Short(err.Message, 160))
	}
	return out
}

// batches is for example (2)(1)(1): how many calls each batch has.
func batches(list [][]int) string {
	var b strings.Builder
	for _, one := range list {
		fmt.Fprintf(&b, "(%d)", len(one))
	}
	return b.String()
}
