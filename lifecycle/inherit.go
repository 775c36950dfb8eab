package lifecycle

import (
	"encoding/json"
	"slices"
	"strings"

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

// Inherit is what the earlier turns of a trace leave to a new one: approvals
// for the session, files as last seen, and the shared context. commits are those
// of the whole trace, in the log's order; those of the new turn are passed over. A turn
// that came out of an archive leaves nothing to one that did not: who wrote the archive
// has no say in what runs here.
func Inherit(turn events.TurnKey, commits []events.Commit) (events.Inherited, json.RawMessage) {
	h := heritage{seen: make(map[string]events.Seen), context: make(map[string]json.RawMessage), tools: make(map[events.CallKey]string)}
	brought := broughtIn(commits)
	for _, c := range commits {
		if c.Turn == turn || c.Turn.Trace != turn.Trace || brought[c.Turn] && !brought[turn] {
			continue
		}
		for _, r := range c.Records {
			h.add(c.Turn.Call(r.Call), r.Event)
		}
	}
	var out events.Inherited
	out.Approvals = h.approvals
	for _, s := range h.seen {
		out.Seen = append(out.Seen, s)
	}
	slices.SortFunc(out.Seen, func(a, b events.Seen) int { return strings.Compare(a.Path, b.Path) })
	return out, encodeContext(h.context)
}

// broughtIn are the turns that came out of an archive.
func broughtIn(commits []events.Commit) map[events.TurnKey]bool {
	var out map[events.TurnKey]bool
	for _, c := range commits {
		for _, r := range c.Records {
			if s, ok := r.Event.(*events.TurnSubmitted); ok && s.Archived() {
				if out == nil {
					out = make(map[events.TurnKey]bool)
				}
				out[c.Turn] = true
			}
		}
	}
	return out
}

type heritage struct {
	approvals []string
	seen      map[string]events.Seen
	context   map[string]json.RawMessage
	tools     map[events.CallKey]string
}

func (h *heritage) add(call events.CallKey, e events.Event) {
	switch e := e.(type) {
	case *events.Requested:
		h.tools[call] = e.Tool
	case *events.Approved:
		if a := SessionApproval(h.tools[call], e.Hash); e.Scope == events.ScopeSession && !slices.Contains(h.approvals, a) {
			h.approvals = append(h.approvals, a)
		}
	case *events.Completed:
		h.look(e.Result.Seen)
	case *events.TurnCompleted:
		var changes map[string]json.RawMessage
		if json.Unmarshal(e.Context, &changes) != nil {
			return
		}
		for name, v := range changes {
			if string(v) == "null" {
				delete(h.context, name)
				continue
			}
			h.context[name] = v
		}
	}
}

func (h *heritage) look(seen []events.Seen) {
	for _, s := range seen {
		h.seen[s.Path] = s
	}
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

// Narrow is what of an inheritance a turn can need: the files that its calls
// would write, and the approvals of exactly its calls. The rest stays where it is,
// in the trace: a long trace must not make its turns large.
func Narrow(h events.Inherited, paths, approvals []string) events.Inherited {
	var out events.Inherited
	for _, a := range h.Approvals {
		if slices.Contains(approvals, a) {
			out.Approvals = append(out.Approvals, a)
		}
	}
	for _, s := range h.Seen {
		if slices.Contains(paths, s.Path) {
			out.Seen = append(out.Seen, s)
		}
	}
	return out
}
