package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// contextAfter is what the turn changes in its trace's shared context: the
// modifiers of its calls, in request order, merged. nil means nothing.
func contextAfter(t Turn) json.RawMessage {
	changes := make(map[string]json.RawMessage)
	for _, c := range t.Calls {
		if c.Outcome == nil || c.Last == events.KindDeduplicated {
			continue
		}
		for _, m := range c.Outcome.Result.Context {
			if m.Value == nil || json.Valid(m.Value) { // what is no JSON, though a tool said so, changes nothing
				changes[m.Name] = m.Value
			}
		}
	}
	return encodeContext(changes)
}

// encodeContext is a JSON object with sorted members, nil if there are none. A
// removed name is null.
func encodeContext(m map[string]json.RawMessage) json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil // a tool's value that is no JSON changes nothing
	}
	return b
}

// Inherit is what the earlier turns of a trace leave to a new one, everything of it.
// commits are those of the whole trace, in the log's order; those of the new turn, and of
// other traces, are passed over. See Heritage.
func Inherit(turn events.TurnKey, commits []events.Commit) (events.Inherited, json.RawMessage) {
	archived := slices.ContainsFunc(commits, func(c events.Commit) bool {
		return c.Turn == turn && slices.ContainsFunc(c.Records, func(r events.Record) bool {
			s, ok := r.Event.(*events.TurnSubmitted)
			return ok && s.Archived()
		})
	})
	h := HeritageWithout(turn.Turn, archived)
	for i, c := range commits {
		if c.Turn.Trace == turn.Trace {
			h.Add(uint64(i), c)
		}
	}
	return h.everything()
}

// SeenIn is what a turn's next call may expect of a file: what the turn itself
// last saw of it, else what it inherited. ok is false for a file never seen.
func SeenIn(t Turn, path string) (s events.Seen, ok bool) {
	if t.Planned != nil {
		for _, p := range t.Planned.Inherited.Seen {
			if p.Path == path {
				s, ok = p, true
			}
		}
	}
	for _, c := range t.Calls {
		if c.Outcome == nil || c.Last != events.KindCompleted {
			continue
		}
		for _, p := range c.Outcome.Result.Seen {
			if p.Path == path {
				s, ok = p, true
			}
		}
	}
	return s, ok
}
