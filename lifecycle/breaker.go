package lifecycle

import (
	"strings"
	"time"

	"github.com/sluice-run/sluice/events"
)

// Breaker constants.
const (
	BreakerFailures = 3                 // consecutive failures that open it
	BreakerWindow   = 300 * time.Second // it stays open
	ProbeLease      = 60 * time.Second  // a probe that has not reported by then is given up
)

// Breaker is the state of one tool's circuit breaker, shared by the cluster.
// Its zero value is closed.
type Breaker struct {
	Failures int       `json:"failures,omitempty"` // consecutive availability failures
	OpenedAt time.Time `json:"opened_at,omitzero"` // zero: closed
	Probe    string    `json:"probe,omitempty"`    // the call and boot that probes, "" if none
	ProbeEnd time.Time `json:"probe_end,omitzero"` // its lease

	// A person has switched the tool off: it is open until then, whatever the window.
	HeldUntil time.Time `json:"held_until,omitzero"`
	By        string    `json:"by,omitempty"`     // who has
	Reason    string    `json:"reason,omitempty"` // why
}

// BreakerState is a breaker's state in a word.
type BreakerState string

// The states of a breaker.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half_open" // open, its window over: one probe may pass
)

// BreakerConfig are the numbers of a breaker. Zero fields mean the constants.
type BreakerConfig struct {
	Failures int
	Window   time.Duration
	Lease    time.Duration
}

// Opens is how many consecutive failures open a breaker.
func (c BreakerConfig) Opens() int {
	if c.Failures > 0 {
		return c.Failures
	}
	return BreakerFailures
}

// Stays is how long an open breaker stays open.
func (c BreakerConfig) Stays() time.Duration {
	if c.Window > 0 {
		return c.Window
	}
	return BreakerWindow
}

func (c BreakerConfig) lease() time.Duration {
	if c.Lease > 0 {
		return c.Lease
	}
	return ProbeLease
}

// State is where the breaker stands. Asking changes nothing.
func (b Breaker) State(c BreakerConfig, now time.Time) BreakerState {
	switch {
	case b.OpenedAt.IsZero():
		return BreakerClosed
	case now.Before(b.Ends(c)):
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// Ends is when an open breaker lets its next probe through; zero where it is closed.
func (b Breaker) Ends(c BreakerConfig) time.Time {
	switch {
	case b.OpenedAt.IsZero():
		return time.Time{}
	case !b.HeldUntil.IsZero():
		return b.HeldUntil
	}
	return b.OpenedAt.Add(c.Stays())
}

// Hold is the breaker after a person has switched its tool off until a time. A probe
// that is under way has lost its slot, and says nothing any more. Behind that time
// one probe may pass, as behind any window.
func (b Breaker) Hold(now, until time.Time, by, reason string) Breaker {
	return Breaker{Failures: b.Failures, OpenedAt: now, HeldUntil: until, By: by, Reason: reason}
}

// Peek says whether a call has a chance to be admitted. It changes nothing.
func (b Breaker) Peek(c BreakerConfig, now time.Time) bool {
	switch b.State(c, now) {
	case BreakerClosed:
		return true
	case BreakerHalfOpen:
		return b.Probe == "" || !now.Before(b.ProbeEnd)
	}
	return false
}

// sameCall says whether two holders of the slot, each a call and its boot, are the
// same call: its next owner goes on as the probe.
func sameCall(a, b string) bool {
	x, _, _ := strings.Cut(a, " ")
	y, _, _ := strings.Cut(b, " ")
	return x == y
}

// Admit lets a call through, or not. In half_open it makes the call the probe,
// alone in the cluster until its lease ends. Admitting the probe again renews that.
func (b Breaker) Admit(c BreakerConfig, now time.Time, who string) (next Breaker, ok bool) {
	switch b.State(c, now) {
	case BreakerClosed:
		return b, true
	case BreakerOpen:
		return b, false
	}
	if b.Probe != "" && !sameCall(b.Probe, who) && now.Before(b.ProbeEnd) {
		return b, false
	}
	b.Probe, b.ProbeEnd = who, now.Add(c.lease())
	return b, true
}

// Report is the breaker after a call has ended. Only what says something about
// availability counts; everything else frees the probe and leaves the rest.
func (b Breaker) Report(c BreakerConfig, now time.Time, who string, class events.Class) Breaker {
	probing := b.Probe != "" && b.Probe == who
	if probing {
		b.Probe, b.ProbeEnd = "", time.Time{}
	}
	switch class {
	case events.ClassOK, events.ClassTool, events.ClassInput:
		if probing || b.OpenedAt.IsZero() {
			return Breaker{}
		}
	case events.ClassUnavailable, events.ClassTimeout:
		b.Failures++
		if probing || b.OpenedAt.IsZero() && b.Failures >= c.Opens() {
			b = Breaker{Failures: b.Failures, OpenedAt: now} // a failed probe restarts the full window
		}
	}
	return b
}

// Evidence is the class of an attempt's end as its tool's circuit hears of it. A time that
// ran out says something of the tool only where it was the tool's own: not where the caller
// has set it, for the call or the turn, and not of a shell line, which takes as long as
// what it was asked to do. Else one caller could switch a tool off for everybody.
func Evidence(t Turn, call *Call, class events.Class) events.Class {
	if class != events.ClassTimeout {
		return class
	}
	end := t.Deadline()
	callers := t.Submitted != nil && t.Submitted.Limits.CallMS > 0 ||
		call.Started != nil && !end.IsZero() && !call.Started.Deadline.Before(end)
	line := call.Verdict != nil && len(call.Verdict.Operation.Commands) > 0
	if callers || line {
		return events.ClassCancelled
	}
	return class
}
