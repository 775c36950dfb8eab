package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// both is two events side by side; one may be missing.
type both struct{ a, b *told }

// mostCells bounds the table that aligns two lists. Longer ones are compared from
// both ends, and what is between is not set side by side.
const mostCells = 4 << 20

// align sets the events of two lists beside each other so that as many as can be are
// of the same kind, and then those between them that answer the same question.
func align(a, b []told) []both {
	var out []both
	for len(a) > 0 && len(b) > 0 && a[0].ev.Kind() == b[0].ev.Kind() {
		out, a, b = append(out, both{&a[0], &b[0]}), a[1:], b[1:]
	}
	var tail []both
	for len(a) > 0 && len(b) > 0 && a[len(a)-1].ev.Kind() == b[len(b)-1].ev.Kind() {
		tail, a, b = append(tail, both{&a[len(a)-1], &b[len(b)-1]}), a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	return ends(append(append(out, middle(a, b)...), tail...))
}

// ends sets the terminals of the two beside each other where they are of different
// kinds: completed here, unknown there, whatever came between.
func ends(list []both) []both {
	only := func(have, other *told) bool {
		return have != nil && other == nil && events.IsTerminal(have.ev.Kind())
	}
	ia := slices.IndexFunc(list, func(p both) bool { return only(p.a, p.b) })
	ib := slices.IndexFunc(list, func(p both) bool { return only(p.b, p.a) })
	if ia < 0 || ib < 0 {
		return list
	}
	list[ia].b = list[ib].b
	return slices.Delete(list, ib, ib+1)
}

// middle aligns what is left between two equal ends.
func middle(a, b []told) []both {
	if (len(a)+1)*(len(b)+1) > mostCells {
		return gap(a, b)
	}
	// long[i][j] is how many pairs a[i:] and b[j:] have at most.
	long := make([][]int32, len(a)+1)
	for i := range long {
		long[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i].ev.Kind() == b[j].ev.Kind() {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	var out []both
	i, j, fromA, fromB := 0, 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i].ev.Kind() == b[j].ev.Kind():
			out = append(append(out, gap(a[fromA:i], b[fromB:j])...), both{&a[i], &b[j]})
			i, j = i+1, j+1
			fromA, fromB = i, j
		case long[i+1][j] >= long[i][j+1]:
			i++
		default:
			j++
		}
	}
	return append(out, gap(a[fromA:], b[fromB:])...)
}

// gap sets what has no partner of its kind side by side where it answers the same
// question: authorized beside denied.
func gap(a, b []told) []both {
	var out []both
	used := make([]bool, len(b))
	for i := range a {
		p := both{a: &a[i]}
		for j := range b {
			if !used[j] && p.b == nil && alike(a[i].ev.Kind(), b[j].ev.Kind()) {
				p.b, used[j] = &b[j], true
			}
		}
		out = append(out, p)
	}
	for j := range b {
		if !used[j] {
			out = append(out, both{b: &b[j]})
		}
	}
	return out
}

// alike says whether two kinds answer the same question.
func alike(a, b events.Kind) bool {
	decides := func(k events.Kind) bool {
		return k == events.KindAuthorized || k == events.KindDenied || k == events.KindApprovalRequested
	}
	return events.IsTerminal(a) && events.IsTerminal(b) || events.EndsTurn(a) && events.EndsTurn(b) || decides(a) && decides(b)
}

// volatile are members of events that are different in every run.
var volatile = map[string]bool{
	"deadline": true, "expires": true, "until": true, "due": true, "mtime": true, "stages": true,
	"owner": true, "boot": true, "epoch": true, "node": true, "reply": true, "revision": true, "pids": true,
	"provider_id": true, "traceparent": true, "of": true, "deduplicated_from": true, "imported": true,
	"args_hash": true, // of arguments that are compared themselves
}

// hashes are members that fit nothing in a redacted archive.
var hashes = map[string]bool{"args_hash": true, "digest": true, "of": true, "traceparent": true}

// events compares two events of one kind, member by member.
func (m *matcher) events(of string, a, b told, at events.Position) {
	m.values(a.what(), "", m.data(a), m.data(b), func(path, va, vb string) difference {
		kind := string(a.ev.Kind())
		return difference{
			What: a.what(), Of: of, Path: path, at: at,
			A: &sideView{Position: a.ev.Pos.String(), Kind: kind, Value: va}, B: &sideView{Position: b.ev.Pos.String(), Kind: kind, Value: vb},
		}
	})
}

// elsewhere are members that are compared where the calls are.
var elsewhere = map[events.Kind][]string{events.KindTurnSubmitted: {"calls"}, events.KindRequested: {"tool", "args", "provider_id"}}

// data is an event's members, and with all of it also what its commit says.
func (m *matcher) data(e told) any {
	raw, err := cloudEvent(e.ev, "")
	if err != nil {
		return err.Error()
	}
	all, _ := decoded(raw).(map[string]any)
	data, _ := all["data"].(map[string]any)
	for _, name := range elsewhere[e.ev.Kind()] {
		delete(data, name)
	}
	if !m.all {
		return data
	}
	out := map[string]any{"data": data}
	for _, name := range []string{"time", "commit", "boot", "epoch"} {
		if v, ok := all[name]; ok {
			out[name] = v
		}
	}
	return out
}

// decoded is JSON with its numbers to the digit; nil where it is none.
func decoded(raw []byte) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	return v
}

// values compares two JSON values and notes each member that differs.
func (m *matcher) values(what, path string, a, b any, note func(path, a, b string) difference) {
	ma, okA := a.(map[string]any)
	mb, okB := b.(map[string]any)
	if okA && okB {
		keys := slices.Sorted(maps.Keys(ma))
		for k := range mb {
			if _, both := ma[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			if m.skips(what, k) {
				continue
			}
			m.values(what, path+"/"+pointer(k), ma[k], mb[k], note)
		}
		return
	}
	la, okA := a.([]any)
	lb, okB := b.([]any)
	if okA && okB && len(la) == len(lb) {
		for i := range la {
			m.values(what, fmt.Sprintf("%s/%d", path, i), la[i], lb[i], note)
		}
		return
	}
	va, vb := scalar(a), scalar(b)
	if va == vb {
		return
	}
	if m.redacted && (placeholder(va) || placeholder(vb)) {
		m.skipped++
		return
	}
	va, vb = apart(va, vb)
	m.add(note(path, va, vb))
}

// skips says whether a member is left out.
func (m *matcher) skips(what, name string) bool {
	switch {
	case m.redacted && hashes[name]:
		return true
	case m.all:
		return false
	case what == whatMessage && (name == "id" || name == "call"):
		return true
	}
	return volatile[name]
}

func pointer(k string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(k) }

// scalar is a value as it is compared and shown.
func scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return "(none)"
	case string:
		return v
	}
	raw, err := plainJSON(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// placeholder says whether a text stands where another one was.
func placeholder(s string) bool {
	return strings.Contains(s, "[redacted ") || strings.Contains(s, `{"redacted":`)
}

// mostApart is how many bytes of a long text are shown, around the first difference.
const mostApart = 100

// apart cuts two texts around the place where they part.
func apart(a, b string) (string, string) {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	cut := func(s string) string {
		from, to := max(n-mostApart/4, 0), min(n+mostApart, len(s))
		if from < mostApart/4 {
			from = 0
		}
		for from > 0 && from < len(s) && !utf8.RuneStart(s[from]) {
			from--
		}
		for to < len(s) && !utf8.RuneStart(s[to]) {
			to++
		}
		out := s[min(from, len(s)):to]
		if from > 0 {
			out = "…" + out
		}
		if to < len(s) {
			out += fmt.Sprintf("… (%d bytes)", len(s))
		}
		return out
	}
	return cut(a), cut(b)
}
