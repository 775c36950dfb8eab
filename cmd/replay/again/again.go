// Package again decides recorded turns once more: it reconstructs from a history
// the commands that led to it, gives them to today's deciders and, where it is
// asked to, to a policy, and names the first place where something else would have
// been decided. What only the world can say is taken from the record: how an attempt
// ended, what a person said, what a file or a breaker looked like.
//
// Nothing here runs a tool, reads a clock or does I/O, and everything may be used
// from many goroutines at once.
package again

import (
	"fmt"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// Settings are what an operator sets and no log holds. The zero value takes from the
// record what was so then, as far as that can be told.
type Settings struct {
	Network   *bool  // tools may use the network; nil: as would have given what is recorded
	Mode      string // of every turn: events.ModeRead or events.ModeWrite; "" means the turn's own
	CanAsk    *bool  // somebody can be asked; nil means the turn's own word
	Workspace string // of turns that name none; "" means that it is not known
	// Allow is the allowlist of a principal and of each of its parents; nil, or an
	// answer of nil, does not narrow.
	Allow func(principal string) []string
	// Body gives the text of arguments that are kept outside the log; ok is false
	// where they are not there. nil: none is.
	Body func(events.BlobRef) (text string, ok bool)
	// Redacted says that texts and digests were replaced: no digest fits what it is of, and
	// what a placeholder stands for is compared with nothing, and not judged.
	Redacted bool
	// Tiers are the tiers of tools whose calls can be read by nobody here, "*" of all of
	// them: a call of such a tool reads or executes, and no more is known of it. nil: what
	// it would do is not known.
	Tiers map[string]events.Tier
	// Registered says whether a tool is registered now; nil: that is not known.
	Registered func(tool string) bool
}

// Config is how turns are decided again.
type Config struct {
	Settings
	// Policy judges calls anew; nil takes the recorded verdicts, so that only the
	// deciders are asked.
	Policy policy.Authorizer
	// Strict counts as a difference what can only be explained by something that the
	// log does not hold, for example that the other side asked for a long pause.
	Strict bool
}

// Report is what came of deciding one turn again.
type Report struct {
	Turn    events.TurnKey
	Events  int // of the turn, in the log
	Decided int // that today's deciders have made again, as they are recorded
	Given   int // among those, that only say what came from outside, and were accepted
	// Difference is the first one; nil if there is none up to where Stopped says.
	Difference *Difference
	Stopped    *Stop    // why the rest could not be decided; nil: there is no rest
	Notes      []Note   // what the reader should know, in order; at most MaxNotes
	MoreNotes  int      // that were left out
	Missing    []string // tools of the turn that are not registered now, sorted
}

// MaxNotes bounds the notes of one turn.
const MaxNotes = 64

// Difference is the first event that would not be decided as it is recorded.
type Difference struct {
	Position events.Position // of the recorded event; where Recorded is "", of the one before
	Event    int             // its number in the turn, from 1
	Call     int             // offset, or events.TurnEvent
	Recorded string          // what is recorded, in a few words; "" nothing
	Decided  string          // what would be decided; "" nothing
	Field    string          // where both are the same kind: the first member that differs, as JSON Pointer
	Was      string          // of the field, as JSON
	Would    string
	Why      string // the refusal, or the policy's sentence; "" if there is none
}

// String is the difference in a line, as it was written: with whatever characters
// strangers have put into the log.
func (d *Difference) String() string {
	where := whose(d.Call)
	s := fmt.Sprintf("diverged at event %d (%s), %s: recorded %s, would decide %s", d.Event, d.Position, where, orNothing(d.Recorded), orNothing(d.Decided))
	if d.Field != "" && d.Recorded == d.Decided {
		s = fmt.Sprintf("diverged at event %d (%s), %s: %s with %s %s, would decide %s", d.Event, d.Position, where, d.Recorded, d.Field, d.Was, d.Would)
	}
	if d.Why != "" {
		s += ": " + d.Why
	}
	return s
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// Why the rest of a turn cannot be decided.
const (
	StopNewer    = "newer"    // an event of a newer release
	StopBroken   = "broken"   // the history is not one that any release writes
	StopGap      = "gap"      // an event before it is missing
	StopHeadless = "headless" // its beginning is not in the log
)

// Stop is where deciding ended before the turn's history did.
type Stop struct {
	Position events.Position // of the first event that was not decided
	Kind     string          // one of the above
	Why      string
}

// Kinds of notes.
const (
	NotePolicy   = "policy"            // decided the same by other policies, or by another version
	NoteUnjudged = "cannot_be_judged"  // the policy could not be asked: the record was taken
	NoteAssumed  = "assumed"           // something that the log does not hold explains the record
	NoteMissing  = "missing_at_replay" // a tool that is not registered now
	NoteImported = "imported"          // an imported turn: only its form can be decided again
	NoteCut      = "cut"               // a decision whose last events never came into the log
)

// Note is something that a reader should know of an event.
type Note struct {
	Position events.Position
	Call     int // offset, or events.TurnEvent
	Kind     string
	Text     string
}

// Turn decides a turn again. commits are all of it, in the log's order, or as many of
// them from its beginning as there are.
func Turn(key events.TurnKey, commits []bus.Stored, c Config) Report {
	w := newWalker(key, commits, c)
	w.run()
	return w.report
}
