package codec

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// extra is what a provider wants back with a call, beside its id, name and arguments:
// what the model thought before it, and signatures. It stands in events.RawCall.Extra as
// JSON, and only the codec that wrote it reads it. It may come out of a stranger's archive,
// so what is read of it passes the same sieve as what came from the provider.
type extra struct {
	Format Format                     `json:"format"`
	Before []json.RawMessage          `json:"before,omitempty"`  // items that stand before the call, as they came
	With   map[string]json.RawMessage `json:"with,omitempty"`    // members of the call itself
	Around map[string]json.RawMessage `json:"message,omitempty"` // members of the message, kept with its first call
}

// body is extra as it is stored. What is over lifecycle.MaxExtra is left out as a whole:
// half of it would be refused by the provider.
func (e extra) body() events.Body {
	if len(e.Before)+len(e.With)+len(e.Around) == 0 {
		return events.Body{}
	}
	return e.marked()
}

// marked is body, and says whose call it is where there is nothing else to say.
func (e extra) marked() events.Body {
	b := marshal(e)
	if len(b) > lifecycle.MaxExtra {
		return events.Body{}
	}
	return events.Body{Text: string(b)}
}

// extraOf is what a call of the format f carries; ok is false where it carries nothing,
// or what another format wants back.
func extraOf(f Format, c events.RawCall) (e extra, ok bool) {
	b := []byte(c.Extra.Text)
	if len(b) == 0 || len(b) > lifecycle.MaxExtra || checkDepth(b) != nil {
		return e, false
	}
	if err := json.Unmarshal(toUnicode(b), &e); err != nil || e.Format != f {
		return extra{}, false
	}
	return e, true
}

// pick are the members of m that have one of the names and are not null.
func pick(m map[string]json.RawMessage, names ...string) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	for _, n := range names {
		v, ok := m[n]
		if !ok || absent(v) {
			continue
		}
		if out == nil {
			out = make(map[string]json.RawMessage)
		}
		out[n] = bytes.TrimSpace(v)
	}
	return out
}

// add puts the members of m that have one of the names behind those of o, in the order of
// the names.
func (o members) add(m map[string]json.RawMessage, names ...string) members {
	for _, n := range names {
		if v, ok := m[n]; ok && !absent(v) {
			o = append(o, member{n, v})
		}
	}
	return o
}

// typed are the items that are objects whose type is one of the kinds.
func typed(items []json.RawMessage, kinds ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, raw := range items {
		if slices.Contains(kinds, typeOf(raw)) {
			out = append(out, raw)
		}
	}
	return out
}

// typeOf is the type of an item or block, "" where it says none.
func typeOf(raw json.RawMessage) string {
	m, err := fields(raw, "")
	if err != nil {
		return ""
	}
	kind, _ := text(m["type"], "")
	return kind
}

// freeText is the text of a call of a custom tool, which stands in its arguments as the
// only member; other arguments are their own text.
func freeText(args string) string {
	m, err := fields(json.RawMessage(args), "")
	if err != nil || len(m) > 1 {
		return args
	}
	s, err := text(m["input"], "")
	if err != nil {
		return args
	}
	return s
}

// ofText are the arguments of a call that is free text, written in the one way in which
// freeText gives the text back.
func ofText(input json.RawMessage) json.RawMessage {
	if absent(input) {
		return nil
	}
	if s, err := text(input, ""); err == nil {
		input = marshal(s)
	}
	return marshal(map[string]json.RawMessage{"input": input})
}
