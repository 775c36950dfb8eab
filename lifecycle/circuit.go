package lifecycle

import "time"

// Circuit names a circuit breaker: the one of a tool as a whole, or, of a tool that
// reaches several endpoints which fail each by itself, that of one of them. Which one a
// call belongs to follows from its arguments.
type Circuit struct {
	Tool string
	Of   string // the endpoint, as its tool names it; "": the tool as a whole
}

// Own is the circuit of the tool as a whole.
func (c Circuit) Own() Circuit { return Circuit{Tool: c.Tool} }

// String is how people read it.
func (c Circuit) String() string {
	if c.Of == "" {
		return c.Tool
	}
	return c.Tool + " " + c.Of
}

// Bounds of the circuits that a cluster keeps.
const (
	// MaxCircuits is how many circuits of one tool's endpoints are kept. Beyond it the
	// failures of further endpoints are not counted: their calls are tried each time,
	// and nobody who names many endpoints takes the tool from others.
	MaxCircuits = 1024
	// CircuitKept is how long failures that opened nothing are remembered of an endpoint,
	// and how long behind its window its open circuit waits for a probe before it is forgotten.
	CircuitKept = time.Hour
	// ClosedKept is how long an endpoint's circuit that has closed is still told to those who watch.
	ClosedKept = time.Minute
)

// Keeps is how long the circuit's cell is kept from now on, where its breaker is b. What
// nobody asks for any more goes by itself: there are as many endpoints as there are names.
// 0 is for ever: of tools there are few.
func (c Circuit) Keeps(b Breaker, cfg BreakerConfig, now time.Time) time.Duration {
	switch {
	case c.Of == "":
		return 0
	case b == (Breaker{}):
		return ClosedKept
	}
	return max(0, b.Ends(cfg).Sub(now), b.ProbeEnd.Sub(now)) + CircuitKept
}

// Blocks says whether the breaker of a tool as a whole keeps the call of one of its
// endpoints from starting. Endpoints' calls are no evidence about the whole, so that
// behind its window none of them has to probe it.
func (b Breaker) Blocks(c BreakerConfig, now time.Time) bool { return b.State(c, now) == BreakerOpen }

// Lapse is the breaker of a tool as a whole as the call of one of its endpoints leaves it:
// a person's switch whose time is over is off, since nothing has failed, and none of these
// calls would probe.
func (b Breaker) Lapse(c BreakerConfig, now time.Time) Breaker {
	if !b.HeldUntil.IsZero() && b.State(c, now) == BreakerHalfOpen {
		return Breaker{}
	}
	return b
}
