package readstore

import (
	"slices"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

// Matcher finds the traces that pass a query's filters of calls by folding commits,
// for who has no store. It finds what a store finds. It remembers what has not ended,
// and two bytes a call that could still pass. It belongs to one goroutine at a time.
type Matcher struct {
	q      Query
	terms  []term
	traces map[string]*matching // by id; nil for one that has passed for good
}

// matching is what is known of a trace that has not passed for good.
type matching struct {
	turns map[string]*turn    // that have not ended, or have calls whose status may change
	late  map[string][]uint16 // of the others: calls that pass but for their text
}

// NewMatcher makes a matcher of a query's tools, statuses, principals and text. Times,
// order and limit are for who lists the traces. It returns ErrQuery.
func NewMatcher(q Query) (*Matcher, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	return &Matcher{q: q, terms: termsOf(q.Text), traces: make(map[string]*matching)}, nil
}

// Add folds one more commit, in the log's order.
func (m *Matcher) Add(s bus.Stored) {
	key := s.Commit.Turn
	in, seen := m.traces[key.Trace]
	switch {
	case !m.q.ofCalls() || seen && in == nil:
		return // nothing is asked, or it has passed for good
	case !seen:
		in = &matching{turns: make(map[string]*turn), late: make(map[string][]uint16)}
		m.traces[key.Trace] = in
	}
	if m.add(in, key, s) {
		m.traces[key.Trace] = nil
	}
}

// add folds a commit, and says whether the trace has passed for good.
func (m *Matcher) add(in *matching, key events.TurnKey, s bus.Stored) bool {
	if calls, ok := in.late[key.Turn]; ok {
		return m.addLate(calls, s)
	}
	t := in.turns[key.Turn]
	if t == nil {
		t = newTurn(key)
		in.turns[key.Turn] = t
	}
	t.apply(s, nil)
	open := false
	for i := range t.calls {
		c := &t.calls[i]
		if m.stays(t, c) && m.says(c) {
			return true
		}
		open = open || c.status == "" || c.unresolved() && m.unresolved()
	}
	if t.end != "" && !open {
		delete(in.turns, key.Turn)
		in.late[key.Turn] = m.missing(t)
	}
	return false
}

// missing are the calls of a turn that could pass by what comes late.
func (m *Matcher) missing(t *turn) []uint16 {
	var calls []uint16
	for i := range t.calls {
		if len(m.terms) > 0 && m.stays(t, &t.calls[i]) {
			calls = append(calls, uint16(i))
		}
	}
	return calls
}

func (m *Matcher) addLate(calls []uint16, s bus.Stored) bool {
	for _, r := range s.Commit.Records {
		if r.Call < 0 || r.Call >= maxCalls || !slices.Contains(calls, uint16(r.Call)) {
			continue
		}
		var late call
		if late.sayLate(r.Event); len(late.more) > 0 && holdAll(m.terms, late.more[0]) {
			return true
		}
	}
	return false
}

// passes says whether a call as it stands passes all but the text.
func (m *Matcher) passes(t *turn, c *call) bool {
	in := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	status := in(m.q.Statuses, c.statusOf()) || c.unresolved() && m.unresolved()
	return in(m.q.Tools, c.tool) && status && in(m.q.Principals, t.who)
}

// stays says whether a call passes all but the text, and will whatever comes: it has
// ended, and it is not only its being unresolved that lets it pass.
func (m *Matcher) stays(t *turn, c *call) bool {
	settled := *c
	settled.resolved = max(1, c.resolved)
	return c.status != "" && m.passes(t, &settled)
}

// unresolved says whether it is asked for what is unresolved.
func (m *Matcher) unresolved() bool { return slices.Contains(m.q.Statuses, StatusUnresolved) }

// says says whether a text of a call passes.
func (m *Matcher) says(c *call) bool {
	return len(m.terms) == 0 || holdAll(m.terms, c.words) ||
		slices.ContainsFunc(c.more, func(words []byte) bool { return holdAll(m.terms, words) })
}

// Matches says whether a trace passes, as it stands. Every trace does where the query
// filters no calls.
func (m *Matcher) Matches(trace string) bool {
	if !m.q.ofCalls() {
		return true
	}
	in, seen := m.traces[trace]
	if !seen || in == nil {
		return seen
	}
	for _, t := range in.turns {
		for i := range t.calls {
			if c := &t.calls[i]; m.passes(t, c) && m.says(c) {
				return true
			}
		}
	}
	return false
}
