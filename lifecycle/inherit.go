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
	h := heritage{seen: make(map[string]events.Seen), context: make(map[string]json.RawMessage), turns: make(map[string]*events.TurnSubmitted), asked: make(map[events.CallKey]askedCall)}
	brought := broughtIn(commits)
	for _, c := range commits {
		if c.Turn == turn || c.Turn.Trace != turn.Trace || brought[c.Turn] && !brought[turn] {
			continue
		}
		for _, r := range c.Records {
			h.add(c.Turn, r)
		}
	}
	var out events.Inherited
	out.Session = h.session
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
	session []events.SessionYes
	seen    map[string]events.Seen
	context map[string]json.RawMessage
	turns   map[string]*events.TurnSubmitted
	asked   map[events.CallKey]askedCall
}

// askedCall is what a call asks a person about.
type askedCall struct {
	tool string
	is   *events.ApprovalRequested
}

func (h *heritage) add(turn events.TurnKey, r events.Record) {
	call := turn.Call(r.Call)
	switch e := r.Event.(type) {
	case *events.TurnSubmitted:
		h.turns[turn.String()] = e
	case *events.Requested:
		h.asked[call] = askedCall{tool: e.Tool}
	case *events.ApprovalRequested:
		h.asked[call] = askedCall{h.asked[call].tool, e}
	case *events.Approved:
		h.yes(call, e)
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

// yes keeps an approval for the session, with what it was asked for. The last one of the
// same call counts.
func (h *heritage) yes(call events.CallKey, e *events.Approved) {
	s, a := h.turns[call.TurnKey().String()], h.asked[call]
	if e.Scope != events.ScopeSession || s == nil || a.is == nil {
		return
	}
	y := events.SessionYes{
		Tool: a.tool, Hash: e.Hash, ToolVersion: a.is.ToolVersion, Policy: a.is.Policy, Policies: a.is.Policies, Principal: s.Principal,
		Workspace: s.Workspace, Placement: s.Placement, Operands: a.is.Operands, Base: a.is.Base(), By: e.By, From: call.String(),
	}
	h.session = slices.DeleteFunc(h.session, func(o events.SessionYes) bool {
		return o.Tool == y.Tool && o.Hash == y.Hash && o.ToolVersion == y.ToolVersion && o.Policy == y.Policy && slices.Equal(o.Policies, y.Policies) && sameAsker(&o, s)
	})
	h.session = append(h.session, y)
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
// would write, and the approvals of exactly its calls, each named as SessionApproval does. The rest stays where it is,
// in the trace: a long trace must not make its turns large.
func Narrow(h events.Inherited, paths, approvals []string) events.Inherited {
	var out events.Inherited
	for _, y := range h.Session {
		if slices.Contains(approvals, SessionApproval(y.Tool, y.Hash)) {
			out.Session = append(out.Session, y)
		}
	}
	for _, s := range h.Seen {
		if slices.Contains(paths, s.Path) {
			out.Seen = append(out.Seen, s)
		}
	}
	return out
}
