package bus

import "context"

// Seat is the other side of Workers, a worker's, as a keeper in memory gives it. Workers
// of their own speak to NATS directly.
type Seat interface {
	// Announce says something of a tool to all who hear workers.
	Announce(tool string, body []byte) error
	// Hear waits for what is said next: an offer of one of the seat's tools, or what
	// this worker, or all of them, are told. It returns ErrUnavailable or ctx's error.
	Hear(ctx context.Context) (Heard, error)
	// Answer says something where the other side asked for it: to a Heard.Reply.
	Answer(reply string, body []byte) error
	// Close leaves the seat: nothing is offered or told any more.
	Close()
}

// Heard is what a worker hears.
type Heard struct {
	Tool  string // that is offered; "" where the worker is told something
	Reply string // where to answer; "" where no answer is wanted
	Body  []byte
}
