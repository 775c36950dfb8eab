package tools

import (
	"fmt"

	"github.com/sluice-run/sluice/events"
)

// InputRequired is the error that Run returns, as a pointer, where the tool needs a
// person's answers before it can go on. It ends the attempt, and settles nothing: the
// call waits for a person as for an approval, and once there are answers it is made
// again, with the same arguments and the same idempotency key, and with the answers in
// Invocation.Given. Where nobody answers in time, or nobody can be asked, the answers
// say cancel, and what the tool says to that settles the call.
//
// What the tool has done before it asks is done, and may be done a second time by the
// next attempt: a tool asks first.
type InputRequired struct {
	// Requests are what is asked, 1 to events.MaxInputRequests: see events.CheckInput.
	Requests []events.InputRequest
	// State comes back with the answers; nobody else reads it. "" means none; at most
	// events.MaxInputState bytes of UTF-8.
	State string
}

func (e *InputRequired) Error() string {
	return fmt.Sprintf("the tool asks a person for %d things before it can go on", len(e.Requests))
}
