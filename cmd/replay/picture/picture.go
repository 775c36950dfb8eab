// Package picture draws: a matrix of faults, the waterfall of a trace, and a trace
// as one page that can be mailed. It knows plain values, and no log: whoever
// calls it fills structs with strings, times and durations, and gets bytes.
//
// Everything in it is a pure function. The same values give the same bytes, in
// every time zone and on every machine. Pictures are SVG 1.1 with a style sheet
// of their own, for light and dark backgrounds, without scripts, fonts or links;
// pages are HTML 5 that fetches nothing.
//
// All texts may come from strangers. They are shown escaped as tools.Visible does
// it, cut where they are long, and are never markup. Nothing that is passed in
// makes a picture or a page larger than MaxPicture and MaxPage: what has no place
// in it is left out, and the picture says so.
package picture

import "time"

// Bounds of what is made, whatever is passed in, in bytes.
const (
	MaxPicture = 1 << 20 // of a Matrix or a Waterfall
	MaxPage    = 6 << 20 // of a Page
)

// Trace is what is drawn of a trace. The zero value is an empty trace.
type Trace struct {
	Title string // the trace's id
	// Subtitle is a line below it, for example "2 turns, 9 calls, 36 events".
	Subtitle string
	// Warnings are what is wrong with what is shown: missing or unreadable commits,
	// broken laws, a position behind which there is more. Each is a sentence; they
	// stand on top, marked.
	Warnings []string
	Turns    []Turn // in the log's order
}

// State is how a call or a turn stands: its glyph and its colour.
type State int

// The states of calls and turns. A turn that has ended is Completed or Failed
// (abandoned).
const (
	Open         State = iota // has no end yet, or none is known
	Waiting                   // parked: a person or a delay decides when it goes on
	Completed                 // the tool's own success
	Failed                    // the tool's own failure, or the runtime's
	Denied                    // never ran
	TimedOut                  // its deadline passed, and its end is confirmed
	Cancelled                 // somebody asked for its end, and that is confirmed
	Unknown                   // nobody can tell how it ended
	Deduplicated              // has the answer of another call
	states                    // how many there are
)

// Turn is the calls of one message of the model.
type Turn struct {
	Name   string // the turn's id
	State  State
	Status string    // in a word or two: "completed", "parked", "its beginning is missing"
	Start  time.Time // of its first event; zero: that of its earliest segment, mark or call
	End    time.Time // when it ended, else of its last event; zero: that of the last thing that is drawn. What is later is drawn behind it
	// About are lines about it for the page: who submitted it, what it is allowed.
	About    []string
	Segments []Segment // the turn's own: in the queue, parked, without an owner
	Marks    []Mark    // the turn's own: claimed, taken over, cancel requested
	Batches  []Batch   // in the order in which they run
	Events   []Event   // the turn's own, for the page, in order
}

// Batch is calls that run at the same time. Calls that are in no batch (not
// planned, or not in the submission) stand in one with Loose set.
type Batch struct {
	Loose bool
	Calls []Call // in the order of the model's message
}

// Call is one call: a row of the waterfall.
type Call struct {
	Number int    // its offset in the turn, from 0
	Tool   string // "" is shown as a dash
	Hint   string // what it was asked, in few words, for example its arguments; may be ""
	State  State
	Status string // in a word: its terminal, or "open: started"
	// Effects are what is known of them, in a word or two: "none", "possible", "done",
	// "possible, resolved: done". "" is not shown.
	Effects  string
	Segments []Segment // in order of time; they may touch
	Marks    []Mark    // in order of time
	Facts    []Fact    // for the page: arguments, policy, answer
	Events   []Event   // for the page, in order
}

// Kind is what a call did in a stretch of time.
type Kind int

// The kinds of segments.
const (
	Queue    Kind = iota // submitted, and no node has claimed the turn
	Gates                // requested, and not yet authorized: the runtime decides
	Asking               // waits for a person's yes
	Holding              // authorized, and waits for its batch, a key or a lock
	Attempt              // the tool runs
	Delay                // waits for the next attempt
	Lost                 // its owner was gone, and nobody had found that yet
	Recovery             // a new owner finds out, or asks the tool
	Ending               // its end was asked for, and is not confirmed
	Parked               // of turns: nothing of it is in memory
	kinds                // how many there are
)

// Segment is a stretch of time of one kind. An End before Start, or a zero one, is
// one that has not ended: it is drawn to the end of the turn, open at its right.
type Segment struct {
	Kind  Kind
	Start time.Time
	End   time.Time
	// Label is drawn in the bar where it has room, for example "attempt 2".
	Label string
	// Title is shown while the pointer rests on it. "" means the kind, the label and
	// how long it took.
	Title string
}

// Sign is what happened at a moment.
type Sign int

// The signs of marks.
const (
	Note      Sign = iota // anything worth a dot: progress, claimed
	Cancel                // somebody asked for the end
	Yes                   // a person said yes
	No                    // a person said no
	TakenOver             // a new owner found the call, or took the turn over
	Late                  // an answer after its attempt had ended
	Settled               // an unknown end was settled, by a probe or a person
	Undone                // the effect was taken back
	Broken                // a law is broken here, or something cannot be read
	signs                 // how many there are
)

// Mark is a moment.
type Mark struct {
	Sign  Sign
	At    time.Time
	Title string // what happened, shown while the pointer rests on it; "" means the sign's name
}

// Fact is a line about a call: a name of a word or two, and a text of any length.
type Fact struct {
	Name string
	Text string
}

// Event is a line of the page's tree.
type Event struct {
	Position string // for example 1.42.0
	At       time.Time
	After    string // the time since the one before it, for example "+1.5ms"; may be ""
	Kind     string // its stored name
	Text     string // what is worth knowing of it, in a line
	Wrong    bool   // it breaks something: it is marked
}

// Message is one message that answers calls, as a provider's API is given it.
type Message struct {
	Role string // tool, user, …
	Of   string // which call or id it answers; may be ""
	Text string // may have many lines
	// State is that of the call which it answers: its glyph and colour.
	State State
}

// Document is what a page shows.
type Document struct {
	Trace    Trace
	Summary  []Fact // on top: from, to, who, which release wrote it
	Messages []Message
	// Format is that of Messages, for example "openai".
	Format string
	// Footer says what made the page and how to get more, in a line or two.
	Footer string
}
