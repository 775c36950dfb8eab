package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
)

// submitted answers POST /v1/turns.
type submitted struct {
	Trace    string `json:"trace"`
	Turn     string `json:"turn"`
	State    string `json:"state"`
	Attached bool   `json:"attached"` // the turn was there already
	// NotTaken are settings of a submission that attached which the turn does not have, by
	// their names, each with what stands in the turn instead.
	NotTaken map[string]any    `json:"not_taken,omitempty"`
	Format   codec.Format      `json:"format,omitempty"`   // of Messages
	Messages []json.RawMessage `json:"messages,omitempty"` // once the turn has ended
	// Asked is the model's message that Messages answer, as it may be sent back: only where
	// its ids, names or arguments are not those of the message that was submitted.
	Asked json.RawMessage `json:"assistant,omitempty"`
	// Unanswered are calls in the message that was submitted which are neither run nor
	// answered here: whoever submitted it answers them.
	Unanswered []codec.Unanswered `json:"unanswered,omitempty"`
	// Next are the requests that go on from here, where the turn has not ended.
	Next *nextRequests `json:"next,omitempty"`
}

// nextRequests are what can be asked about a turn that has not ended, as its door takes it.
type nextRequests struct {
	Messages  string `json:"messages"`            // waits for the end, and gives the messages for the model
	Turn      string `json:"turn"`                // how each call stands
	Cancel    string `json:"cancel"`              // asks for its end
	Approvals string `json:"approvals,omitempty"` // what waits for a person: of a turn whose calls may be asked about
}

// nextWaitMS is how long the request that is proposed waits for the end.
const nextWaitMS = 60_000

// submittedOf is the answer to a submission whose turn has not ended, or of which nobody
// knows.
func submittedOf(t Ticket, state string, o Order) submitted {
	return submitted{Trace: t.Key.Trace, Turn: t.Key.Turn, State: state, Attached: t.Attached, NotTaken: t.NotTaken, Unanswered: o.Unanswered}
}

// tell puts the answers into what is answered.
func (s *submitted) tell(m Messages) {
	s.Format, s.Messages = m.Format, m.Answered
	if m.Mended {
		s.Asked = m.Asked
	}
}

// overHTTP adds the requests that go on from here.
func (s submitted) overHTTP(canAsk bool) submitted {
	at := "/v1/turns/" + s.Trace + "/" + s.Turn
	s.Next = &nextRequests{
		Messages: fmt.Sprintf("GET %s/messages?wait_ms=%d", at, nextWaitMS), Turn: "GET " + at, Cancel: "POST " + at + "/cancel",
	}
	if canAsk {
		s.Next.Approvals = "GET /v1/approvals"
	}
	return s
}

// overNATS adds the requests that go on from here, of a user: subject and body.
func (s submitted) overNATS(user string, canAsk bool) submitted {
	of := fmt.Sprintf(`{"trace":%q,"turn":%q`, s.Trace, s.Turn) // ids have nothing to quote
	s.Next = &nextRequests{
		Messages: fmt.Sprintf(`%s %s,"wait_ms":%d}`, bus.DoorSubject(user, "messages"), of, nextWaitMS),
		Turn:     bus.DoorSubject(user, "turn") + " " + of + "}", Cancel: bus.DoorSubject(user, "cancel") + " " + of + "}",
	}
	if canAsk {
		s.Next.Approvals = bus.DoorSubject(user, "inbox") + " {}"
	}
	return s
}

// notTaken are the settings of a submission that attaches to a turn with others, with what
// stands: nil where they mean the same. own is the workspace of the node at this door, ""
// where it is not known. Its format and its trace context are each request's own.
func notTaken(have, said events.TurnSubmitted, own string) map[string]any {
	out := make(map[string]any)
	place := func(s events.TurnSubmitted) string {
		if dir := cmp.Or(s.Workspace, own); dir != "" {
			return filepath.Clean(dir)
		}
		return ""
	}
	for _, is := range []struct {
		field       string
		stands, was any
	}{
		{"workspace", place(have), place(said)},
		{"mode", cmp.Or(have.Mode, events.ModeWrite), cmp.Or(said.Mode, events.ModeWrite)},
		{"can_ask", have.CanAsk, said.CanAsk},
		{"placement", cmp.Or(have.Placement, events.DefaultPlacement), cmp.Or(said.Placement, events.DefaultPlacement)},
		{"on_error", cmp.Or(have.OnError, events.OnErrorContinue), cmp.Or(said.OnError, events.OnErrorContinue)},
		{"parallel_disjoint", have.Disjoint, said.Disjoint},
		{"limits.max_concurrency", cmp.Or(have.Limits.Concurrency, lifecycle.DefaultConcurrency), cmp.Or(said.Limits.Concurrency, lifecycle.DefaultConcurrency)},
		{"limits.deadline_ms", have.Limits.DeadlineMS, said.Limits.DeadlineMS},
		{"limits.call_deadline_ms", have.Limits.CallMS, said.Limits.CallMS},
		{"limits.call_bytes", cmp.Or(have.Limits.CallBytes, lifecycle.CallBytes), cmp.Or(said.Limits.CallBytes, lifecycle.CallBytes)},
		{"limits.turn_bytes", cmp.Or(have.Limits.TurnBytes, lifecycle.TurnBytes), cmp.Or(said.Limits.TurnBytes, lifecycle.TurnBytes)},
	} {
		if is.stands != is.was {
			out[is.field] = is.stands
		}
	}
	if !slices.Equal(sortedSet(have.Allow), sortedSet(said.Allow)) {
		out["allow"] = append([]string{}, have.Allow...) // a list, also where it is empty
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// sortedSet are the names of a list, each once, in order.
func sortedSet(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}
