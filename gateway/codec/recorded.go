package codec

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// recorded is an answer as a transcript has it, in the shape in which it is
// kept: a content that is a string is the result's text, and everything else
// stands as JSON in its data.
type recorded struct {
	Format Format                     `json:"format"`
	Fields map[string]json.RawMessage `json:"fields,omitempty"`  // beside role, id and content
	Raw    json.RawMessage            `json:"content,omitempty"` // where it is no string
	Absent bool                       `json:"absent,omitempty"`  // there was no content at all

	text string
}

// newRecorded takes a message or block apart. own are the members that every
// answer of the format has.
func newRecorded(f Format, m map[string]json.RawMessage, own ...string) (recorded, error) {
	r := recorded{Format: f, Fields: map[string]json.RawMessage{}}
	for name, value := range m {
		if name != "content" && !slices.Contains(own, name) {
			r.Fields[name] = value
		}
	}
	content, ok := m["content"]
	switch {
	case !ok:
		r.Absent = true
	case first(content) != '"':
		r.Raw = content
	default:
		return r, json.Unmarshal(content, &r.text)
	}
	return r, nil
}

// result is what an import stores.
func (r recorded) result() events.Result {
	out := events.Result{Status: events.Success, Text: events.Body{Text: r.text}}
	if len(r.Fields) > 0 || r.Absent || r.Raw != nil {
		out.Data = marshal(r)
	}
	if bytes.Equal(bytes.TrimSpace(r.Fields["is_error"]), []byte("true")) {
		out.Status = events.Failure
	}
	return out
}

// recordedOf is what result made. Data that is not of its making is left out.
func recordedOf(res events.Result) recorded {
	var r recorded
	if json.Unmarshal(res.Data, &r) != nil {
		r = recorded{}
	}
	r.text = res.Text.Text
	return r
}

// content is the recorded content as one JSON value; null where there was none.
func (r recorded) content() json.RawMessage {
	switch {
	case r.Absent:
		return json.RawMessage("null")
	case r.Raw != nil:
		return r.Raw
	}
	return marshal(r.text)
}

// openAI is the answer as a message of that format, as recorded where it was recorded in it.
func (r recorded) openAI(id string) json.RawMessage {
	o := members{{"role", marshal("tool")}, {"tool_call_id", marshal(id)}}
	if r.Format == Anthropic {
		return append(o, member{"content", r.portable("")}).marshal()
	}
	return r.rest(o)
}

// anthropic is the answer as a block of that format.
func (r recorded) anthropic(id string) json.RawMessage {
	o := members{{"type", marshal("tool_result")}, {"tool_use_id", marshal(id)}}
	if r.Format == OpenAI {
		return append(o, member{"content", r.portable("[]")}).marshal()
	}
	return r.rest(o)
}

// rest adds the content and what else was recorded, sorted.
func (r recorded) rest(o members) json.RawMessage {
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		o = append(o, member{name, r.Fields[name]})
	}
	if !r.Absent {
		o = append(o, member{"content", r.content()})
	}
	return o.marshal()
}

// portable is a content that every format takes: text, text parts, or else the
// recorded JSON as text. none stands for no content.
func (r recorded) portable(none string) json.RawMessage {
	if r.Absent || absent(r.Raw) && r.Raw != nil {
		if none == "" {
			return marshal("")
		}
		return json.RawMessage(none)
	}
	if r.Raw == nil {
		return marshal(r.text)
	}
	var parts []struct{ Type string }
	err := json.Unmarshal(r.Raw, &parts)
	for _, p := range parts {
		if err != nil || p.Type != "text" {
			return marshal(string(r.Raw))
		}
	}
	if err != nil {
		return marshal(string(r.Raw))
	}
	return r.Raw
}

// members is a JSON object whose members keep their order.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

func (o members) marshal() json.RawMessage {
	var out bytes.Buffer
	for i, m := range o {
		out.WriteByte("{,"[min(i, 1)])
		out.Write(marshal(m.name))
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return marshal(json.RawMessage(out.Bytes())) // compact, whatever was recorded
}
