package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/projections"
)

// What differs.
const (
	whatTurn     = "turn"     // one side has it only
	whatCall     = "call"     // one side has it only, or asked for something else
	whatEvent    = "event"    // an event that decides nothing and settles nothing
	whatDecision = "decision" // what was allowed, asked or denied, and by what
	whatResult   = "result"   // how a call ended, or was settled
	whatMessage  = "message"  // what the model was told of a call
)

// difference is one difference in JSON. Scripts read it. A side that has nothing there
// is left out.
type difference struct {
	What string    `json:"what"`
	Of   string    `json:"of"` // turn or turn/call; of two turns with different ids, both
	Path string    `json:"path,omitempty"`
	A    *sideView `json:"a,omitempty"`
	B    *sideView `json:"b,omitempty"`

	at events.Position // where it is told, by A's events
}

// sideView is what one side has.
type sideView struct {
	Position string `json:"position,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Value    string `json:"value,omitempty"`
}

// place is what the two sides have in common: an event's kind, and a member of it.
func (d difference) place() string {
	out := ""
	if d.A != nil && d.B != nil && d.A.Kind == d.B.Kind {
		out = show.Short(d.A.Kind, 64)
	}
	return strings.TrimSpace(out + " " + show.Short(d.Path, 100))
}

// text is what one side has, in a line.
func (v *sideView) text(kindSaid bool) string {
	if v == nil {
		return "-"
	}
	parts := []string{v.Position}
	if !kindSaid {
		parts = append(parts, show.Short(v.Kind, 64))
	}
	parts = append(parts, show.Short(v.Value, 200))
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// sentence is a difference in a line.
func (d difference) sentence() string {
	place := d.place()
	said := d.A != nil && d.B != nil && d.A.Kind == d.B.Kind
	if place != "" {
		place += ": "
	}
	return fmt.Sprintf("%s, %s: %s%s in A, %s in B", show.Short(d.Of, 200), d.What, place, d.A.text(said), d.B.text(said))
}

// matcher sets two traces beside each other.
type matcher struct {
	all      bool
	redacted bool
	found    []difference
	skipped  int // values that are redacted on one side
}

// traces compares two traces.
func (m *matcher) traces(a, b *side) {
	pairs := pairTurns(a, b)
	for _, p := range pairs {
		from := len(m.found)
		switch {
		case p.b == nil:
			m.add(difference{What: whatTurn, Of: p.a.key.Turn, A: turnView(p.a)})
		case p.a == nil:
			m.add(difference{What: whatTurn, Of: p.b.key.Turn, B: turnView(p.b)})
		default:
			m.turns(p, a, b)
		}
		slices.SortStableFunc(m.found[from:], func(x, y difference) int { return x.at.Compare(y.at) })
	}
}

func (m *matcher) add(d difference) { m.found = append(m.found, d) }

func turnView(st *story) *sideView {
	at := events.Position{}
	for _, e := range st.events {
		at = cmp.Or(at, e.ev.Pos)
	}
	return &sideView{Position: at.String(), Value: fmt.Sprintf("%s, %s", st.standing(), count(len(st.turn.Calls), "call"))}
}

// pair is two turns side by side; one may be missing.
type pair struct{ a, b *story }

// name is the pair's turn, by both ids where they differ.
func (p pair) name() string {
	if p.a.key.Turn == p.b.key.Turn {
		return p.a.key.Turn
	}
	return p.a.key.Turn + "~" + p.b.key.Turn
}

// began is where the pair's turn was submitted, by A.
func (p pair) began() events.Position {
	if len(p.a.events) == 0 {
		return events.Position{}
	}
	return p.a.events[0].ev.Pos
}

// pairTurns sets turns beside each other: by id where the sides have one in common,
// else by order. What only B has stands behind what it follows there.
func pairTurns(a, b *side) []pair {
	ids := make(map[string]*story)
	for _, st := range b.turns {
		ids[st.key.Turn] = st
	}
	named := slices.ContainsFunc(a.turns, func(st *story) bool { return ids[st.key.Turn] != nil })
	if !named || len(a.turns) == 1 && len(b.turns) == 1 {
		return pairByOrder(a, b)
	}
	var out []pair
	j := 0
	paired := make(map[string]bool)
	for _, st := range a.turns {
		paired[st.key.Turn] = true
	}
	for _, st := range a.turns {
		other := ids[st.key.Turn]
		out = append(out, pair{st, other})
		if other == nil {
			continue
		}
		for j < len(b.turns) && b.turns[j] != other {
			if !paired[b.turns[j].key.Turn] {
				out = slices.Insert(out, len(out)-1, pair{nil, b.turns[j]})
			}
			j++
		}
		j = min(j+1, len(b.turns))
	}
	for ; j < len(b.turns); j++ {
		if !paired[b.turns[j].key.Turn] {
			out = append(out, pair{nil, b.turns[j]})
		}
	}
	return out
}

func pairByOrder(a, b *side) []pair {
	var out []pair
	for i := range max(len(a.turns), len(b.turns)) {
		var p pair
		if i < len(a.turns) {
			p.a = a.turns[i]
		}
		if i < len(b.turns) {
			p.b = b.turns[i]
		}
		out = append(out, p)
	}
	return out
}

// turns compares two turns: their own events, each call's, and what the model was
// told; or one call of each, where calls were named.
func (m *matcher) turns(p pair, a, b *side) {
	told := p.told(a, b)
	if a.of.call != noCall || b.of.call != noCall {
		na, nb := a.of.call, b.of.call
		if na == noCall {
			na = nb
		}
		if nb == noCall {
			nb = na
		}
		m.calls(p, na, nb, told)
		return
	}
	m.lists(p.name(), p.a.events, p.b.events)
	offsets := sortedKeys(p.a.calls)
	for _, n := range sortedKeys(p.b.calls) {
		if p.a.calls[n] == nil {
			offsets = append(offsets, n)
		}
	}
	slices.Sort(offsets)
	for _, n := range offsets {
		m.calls(p, n, n, told)
	}
}

// calls compares a call of each side.
func (m *matcher) calls(p pair, na, nb int, told func(na, nb int) (a, b any)) {
	of := fmt.Sprintf("%s/%d", p.name(), na)
	if na != nb {
		of += fmt.Sprintf("~%d", nb)
	}
	ea, eb := p.a.told(na), p.b.told(nb)
	ca, cb := p.a.turn.Call(na), p.b.turn.Call(nb)
	switch {
	case ca == nil && cb != nil && len(ea) == 0:
		m.add(difference{What: whatCall, Of: of, B: &sideView{Value: cb.Tool + " " + standing(cb)}, at: p.began()})
		return
	case cb == nil && ca != nil && len(eb) == 0:
		m.add(difference{What: whatCall, Of: of, A: &sideView{Value: ca.Tool + " " + standing(ca)}, at: p.began()})
		return
	}
	m.asked(of, p, na, nb)
	m.lists(of, ea, eb)
	ma, mb := told(na, nb)
	m.values(whatMessage, "", ma, mb, func(path, va, vb string) difference {
		return difference{What: whatMessage, Of: of, Path: path, A: &sideView{Value: va}, B: &sideView{Value: vb}, at: end}
	})
}

// told is what the model was told of a call of each side; nil of one that has no answer.
func (p pair) told(a, b *side) func(na, nb int) (any, any) {
	ma, mb := neutral(a.conv.Turn(p.a.key), a), neutral(b.conv.Turn(p.b.key), b)
	of := func(list []any, n int) any {
		if n < 0 || n >= len(list) {
			return nil
		}
		return list[n]
	}
	return func(na, nb int) (any, any) { return of(ma, na), of(mb, nb) }
}

// asked compares what the model asked for.
func (m *matcher) asked(of string, p pair, na, nb int) {
	sa, sb := p.a.turn.Submitted, p.b.turn.Submitted
	if sa == nil || sb == nil || na < 0 || na >= len(sa.Calls) || nb < 0 || nb >= len(sb.Calls) {
		return
	}
	value := func(c events.RawCall) any {
		raw, err := plainJSON(c)
		if err != nil {
			return err.Error()
		}
		return decoded(raw)
	}
	m.values(whatCall, "", value(sa.Calls[na]), value(sb.Calls[nb]), func(path, va, vb string) difference {
		return difference{What: whatCall, Of: of, Path: path, A: &sideView{Value: va}, B: &sideView{Value: vb}, at: p.began()}
	})
}

// lists compares the events of a turn or of a call.
func (m *matcher) lists(of string, a, b []told) {
	if !m.all {
		steady := func(e told) bool { return e.ev.Kind() == events.KindProgress }
		a, b = slices.DeleteFunc(slices.Clone(a), steady), slices.DeleteFunc(slices.Clone(b), steady)
	}
	anchor := events.Position{}
	for _, p := range align(a, b) {
		if p.a != nil {
			anchor = p.a.ev.Pos
		}
		if p.a != nil && p.b != nil && p.a.ev.Kind() == p.b.ev.Kind() {
			m.events(of, *p.a, *p.b, anchor)
			continue
		}
		m.add(difference{What: cmp.Or(p.a, p.b).what(), Of: of, A: p.a.view(), B: p.b.view(), at: anchor})
	}
}

// what is the sort of an event.
func (e *told) what() string {
	switch k := e.ev.Kind(); {
	case k == events.KindAuthorized, k == events.KindDenied, k == events.KindApprovalRequested, k == events.KindApproved:
		return whatDecision
	case events.IsTerminal(k), events.EndsTurn(k), k == events.KindResolved, k == events.KindCompensated:
		return whatResult
	}
	return whatEvent
}

func (e *told) view() *sideView {
	if e == nil {
		return nil
	}
	return &sideView{Position: e.ev.Pos.String(), Kind: string(e.ev.Kind()), Value: e.detail}
}

// neutral is what the model is told of each call of a turn, in our own format.
func neutral(t *projections.Turn, s *side) []any {
	if t == nil {
		return nil // the turn's beginning is missing, and that was said
	}
	answers, err := t.Answers(s.blobs)
	if err != nil {
		s.wrong = append(s.wrong, err.Error())
	}
	list, err := codec.Render(codec.Neutral, answers, codec.Options{CallBytes: t.Limits.CallBytes, TurnBytes: t.Limits.TurnBytes})
	if err != nil {
		s.wrong = append(s.wrong, err.Error())
	}
	out := make([]any, len(list))
	for i, raw := range list {
		out[i] = decoded(raw)
	}
	return out
}
