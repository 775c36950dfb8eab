package lifecycle

import (
	"time"

	"github.com/sluice-run/sluice/events"
)

// Glance is an open turn as a sweep remembers it: as little as tells whether
// somebody still has it in mind. Its zero value is a turn of which nothing was seen.
type Glance struct {
	Placement string
	Owner     string    // boot of the last claim; "" before the first
	Due       time.Time // of a parked turn; zero means never
	Deadline  time.Time // of the turn; zero means never
	Submitted time.Time
	First     uint64 // sequence of its first commit; 0: not seen
	Last      uint64 // of its last one
	Parked    bool
	Since     bool // somebody has appended since it was parked
	Cancelled bool // its end, or that of one of its calls, was asked for
	Ended     bool // or imported: it is never run
}

// See is the glance after one more commit of the turn.
func (g Glance) See(seq uint64, c events.Commit) Glance {
	if g.First == 0 {
		g.First = seq
	}
	g.Last = seq
	for _, r := range c.Records {
		g.Since = g.Parked
		switch e := r.Event.(type) {
		case *events.TurnSubmitted:
			g.Placement, g.Submitted, g.Ended = e.Placement, c.At, e.Imported != ""
			if g.Placement == "" {
				g.Placement = events.DefaultPlacement
			}
			if ms := e.Limits.DeadlineMS; ms > 0 {
				g.Deadline = c.At.Add(time.Duration(ms) * time.Millisecond)
			}
		case *events.TurnClaimed:
			g.Owner, g.Parked, g.Since = e.Owner.Boot, false, false
		case *events.TurnParked:
			g.Due, g.Parked, g.Since = e.Due, true, false
		case *events.TurnCancelRequested, *events.CancelRequested:
			g.Cancelled = true
		case *events.TurnCompleted, *events.TurnAbandoned:
			g.Ended = true
		}
	}
	return g
}

// Around is what a sweep knows beside the turns.
type Around struct {
	Now       time.Time
	Retention time.Duration // of the log; 0: for ever
	OwnerGone bool          // its owner has no presence and does not answer
	Passed    bool          // its placement's queue has nothing left that is as old as the turn
	Served    bool          // a node that lives serves its placement
}

// Remedy is what a sweep does about a turn.
type Remedy string

// The remedies.
const (
	RemedyNone  Remedy = ""      // somebody has it in mind
	RemedyQueue Remedy = "queue" // put it into its placement's queue
	RemedyEnd   Remedy = "end"   // put it into events.EndPlacement: see Finish
)

// overdue is how long a timer and its wake-up may take before a sweep steps in.
const overdue = 5 * time.Second

// Stranded says what to do about an open turn that nobody may have in mind: its
// message was never pushed, or was lost with whoever had it. A turn that looks so may
// just be on its way: a sweep acts on what it has found twice in a row.
func Stranded(g Glance, a Around) Remedy {
	late := !g.Due.IsZero() && a.Now.Sub(g.Due) > overdue
	queued := RemedyQueue
	if !a.Served {
		queued = RemedyEnd
	}
	switch {
	case g.Ended || g.First == 0 || g.Submitted.IsZero():
		return RemedyNone
	case g.Owner == "" && a.Retention > 0 && a.Now.Sub(g.Submitted) > a.Retention/2:
		return RemedyEnd
	case g.Owner == "" && a.Served && a.Passed:
		return RemedyQueue
	case g.Owner == "" && !a.Served && (g.Cancelled || !g.Deadline.IsZero() && a.Now.Sub(g.Deadline) > overdue):
		return RemedyEnd
	case g.Owner == "":
		return RemedyNone
	case g.Parked && (g.Since || late):
		return queued
	case !g.Parked && a.OwnerGone:
		return queued
	}
	return RemedyNone
}
