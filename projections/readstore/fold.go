package readstore

import (
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/projections"
)

// endings are the terminals of calls, in the order of the table of kinds.
var endings = func() []events.Kind {
	var out []events.Kind
	for _, row := range events.Kinds {
		if row.Terminal && !row.Turn {
			out = append(out, row.Kind)
		}
	}
	return out
}()

// What may be asked for as a call's status, beside the kinds of its end.
const (
	StatusOpen = "open" // it has no terminal
	// StatusUnresolved is that of a call whose effects are possible and that nobody has
	// resolved, whatever the kind of its end: that is its status, too.
	StatusUnresolved = "unresolved"
)

// sums are counts over the commits of a trace, or of one turn.
type sums struct {
	turns    int64 // submissions
	ended    int64 // ends of turns
	calls    int64 // in all submissions
	ends     []int64
	events   int64
	imported bool
	newer    bool // holds events of a newer release
	first    int64
	last     int64 // microseconds since 1970, of the first and the last commit
	from, to events.Position
}

// add counts a commit.
func (m *sums) add(s bus.Stored) {
	if m.events == 0 {
		m.first, m.from = s.Commit.At.UnixMicro(), s.Position(0)
	}
	m.last, m.to = s.Commit.At.UnixMicro(), s.Position(len(s.Commit.Records)-1)
	m.events += int64(len(s.Commit.Records))
	for _, r := range s.Commit.Records {
		kind := r.Event.Kind()
		switch e := r.Event.(type) {
		case *events.TurnSubmitted:
			m.turns++
			m.calls += int64(len(e.Calls))
			m.imported = m.imported || e.Imported != ""
		case events.Foreign:
			m.newer = true
			continue
		}
		if events.EndsTurn(kind) {
			m.ended++
		}
		if i := slices.Index(endings, kind); i >= 0 {
			m.end(i, 1)
		}
	}
}

func (m *sums) end(i int, n int64) {
	if m.ends == nil {
		m.ends = make([]int64, len(endings))
	}
	m.ends[i] += n
}

// merge adds the counts of one more turn.
func (m *sums) merge(o sums) {
	if m.events == 0 || o.from.Seq < m.from.Seq {
		m.first, m.from = o.first, o.from
	}
	if m.events == 0 || o.to.Seq > m.to.Seq {
		m.last, m.to = o.last, o.to
	}
	m.turns, m.ended, m.calls, m.events = m.turns+o.turns, m.ended+o.ended, m.calls+o.calls, m.events+o.events
	m.imported, m.newer = m.imported || o.imported, m.newer || o.newer
	for i, n := range o.ends {
		m.end(i, n)
	}
}

// turn is what the store keeps of a turn, beside its timeline.
type turn struct {
	id    int64 // sequence of its first commit
	trace int64 // id of its trace
	key   events.TurnKey
	sums
	who       string // principal; "" before its submission
	submitted bool
	calls     []call
	end       events.Kind // how it ended; "" while it has not
	tokens    [2]int64    // that callers noted: input, output

	moments projections.Moments
	waiting projections.Waiting

	dirty     bool
	flushed   usage // of the turn, as it was written last
	flushedAs usageKey
	asked     map[int]bool // calls whose approvals stand in the table
}

// call is what the store keeps of a call.
type call struct {
	tool     string
	status   events.Kind // its first terminal; "" while it is open
	effects  events.Effects
	day      int64 // of its submission, since 1970, UTC
	attempts int64
	retries  int64
	asked    int64
	run      int64 // microseconds
	bytes    int64
	late     int64
	resolved int64
	undone   int64

	words []byte   // while it is open
	more  [][]byte // texts that came behind its end, each by itself, and are in no table yet
	texts bool     // words have changed since they were written
	doc   int64    // that holds words; 0: none yet

	dirty   bool
	flushed usage
}

// maxCalls is how many calls of a turn have rows of their own: the ids of calls leave
// room for no more. Doors let 256 through.
const maxCalls = 1 << 16

func newTurn(key events.TurnKey) *turn {
	return &turn{key: key, moments: projections.Timeline.Init(), waiting: projections.Inbox.Init(), asked: map[int]bool{}}
}

// apply folds a commit of the turn, and yields the moments; with no yield only the
// calls are folded.
func (t *turn) apply(s bus.Stored, yield func(events.Position, projections.Moment)) {
	t.dirty = true
	t.sums.add(s)
	for e := range projections.Events(s.Generation, s.Seq, s.Commit) {
		if yield != nil {
			t.pass(e, yield)
		}
		t.count(e)
	}
}

func (t *turn) pass(e projections.Event, yield func(events.Position, projections.Moment)) {
	t.moments = projections.Timeline.Apply(t.moments, e)
	t.waiting = projections.Inbox.Apply(t.waiting, e)
	for _, m := range t.moments.All {
		yield(e.Pos, m)
	}
	t.moments.All = t.moments.All[:0]
}

// count folds an event into the calls.
func (t *turn) count(e projections.Event) {
	if e.Call == events.TurnEvent {
		t.countTurn(e)
		return
	}
	if e.Call < 0 || e.Call >= len(t.calls) {
		return
	}
	c := &t.calls[e.Call]
	c.count(e.Event)
	if c.status != "" {
		c.sayLate(e.Event)
		return
	}
	textsOf(e.Event, c.say)
	c.settle(e.Kind(), e.Event)
}

func (t *turn) countTurn(e projections.Event) {
	switch v := e.Event.(type) {
	case *events.TurnSubmitted:
		t.submit(e, v)
	case *events.ModelCompleted:
		t.tokens[0] += v.Input
		t.tokens[1] += v.Output
	}
	textsOf(e.Event, func(text string) { // it concerns all that is open
		for i := range t.calls {
			if t.calls[i].status == "" {
				t.calls[i].say(text)
			}
		}
	})
	if t.end == "" && events.EndsTurn(e.Kind()) {
		t.end = e.Kind()
	}
}

func (t *turn) submit(e projections.Event, v *events.TurnSubmitted) {
	if t.submitted {
		return
	}
	t.submitted, t.who = true, v.Principal.ID
	t.calls = make([]call, min(len(v.Calls), maxCalls))
	for i := range t.calls {
		raw, c := v.Calls[i], &t.calls[i]
		c.tool, c.day, c.dirty = raw.Tool, dayOf(e.At.UnixMicro()), true
		c.say(raw.Tool)
		c.say(raw.ProviderID)
		c.say(raw.Args.Text)
	}
}

const dayMicros = 24 * 3600 * 1_000_000

// dayOf is the day of a time, both since 1970, rounded down.
func dayOf(micros int64) int64 {
	day := micros / dayMicros
	if micros%dayMicros < 0 {
		day--
	}
	return day
}

// say keeps one more text of the call, which is open.
func (c *call) say(text string) {
	before := len(c.words)
	c.words = addText(c.words, text)
	if len(c.words) > before {
		c.dirty, c.texts = true, true
	}
}

// sayLate keeps what came behind the call's end.
func (c *call) sayLate(e events.Event) {
	var words []byte
	textsOf(e, func(text string) { words = addText(words, text) })
	if len(words) > 0 {
		c.more = append(c.more, words)
	}
}

func (c *call) count(e events.Event) {
	c.dirty = true
	switch e.(type) {
	case *events.Started:
		c.attempts++
	case *events.Retrying:
		c.retries++
	case *events.ApprovalRequested:
		c.asked++
	case *events.LateResult:
		c.late++
	case *events.Resolved:
		c.resolved++
	case *events.Compensated:
		c.undone++
	}
}

// settle keeps the call's first terminal.
func (c *call) settle(kind events.Kind, e events.Event) {
	if c.status != "" || !events.IsTerminal(kind) {
		return
	}
	c.status, c.effects = kind, events.EffectsNone
	if o := events.OutcomeOf(e); o != nil {
		c.effects, c.run, c.bytes = o.Effects, o.Stages.Run, o.Output
	}
}

// unresolved says what isUnresolved says of a row: what [events.Unresolved] says of the
// call's end, while nobody has resolved it.
func (c *call) unresolved() bool { return c.effects == events.EffectsPossible && c.resolved == 0 }

const isUnresolved = `effects = 'possible' AND resolved = 0`

// statusOf is a call's status in words.
func (c *call) statusOf() string {
	if c.status == "" {
		return StatusOpen
	}
	return string(c.status)
}
