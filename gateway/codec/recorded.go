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

// newRecorded takes a message, block or item apart. content is the member that holds what
// was said, own are the others that every answer of the format has.
func newRecorded(f Format, m map[string]json.RawMessage, content string, own ...string) (recorded, error) {
	r := recorded{Format: f, Fields: map[string]json.RawMessage{}}
	for name, value := range m {
		if name != content && !slices.Contains(own, name) {
			r.Fields[name] = value
		}
	}
	said, ok := m[content]
	switch {
	case !ok:
		r.Absent = true
	case f == Gemini:
		return r, r.response(said)
	case f == AISDK:
		return r, r.output(said)
	case first(said) != '"':
		r.Raw = said
	default:
		return r, json.Unmarshal(said, &r.text)
	}
	return r, nil
}

// response takes what a function response says. Where it is a text alone, it is one here.
func (r *recorded) response(said json.RawMessage) error {
	m, err := fields(said, "")
	if err != nil {
		return err
	}
	r.Raw = said
	if out := m["output"]; len(m) == 1 && first(out) == '"' {
		r.Raw = nil
		return json.Unmarshal(out, &r.text)
	}
	return nil
}

// output takes the output of a result of the AI SDK; one that is a text alone is one here.
func (r *recorded) output(said json.RawMessage) error {
	m, err := fields(said, "")
	if err != nil {
		return err
	}
	r.Raw = said
	if kind, _ := text(m["type"], ""); len(m) == 2 && kind == "text" && first(m["value"]) == '"' {
		r.Raw = nil
		return json.Unmarshal(m["value"], &r.text)
	}
	return nil
}

// result is what an import stores.
func (r recorded) result() events.Result {
	out := events.Result{Status: events.Success, Text: events.Body{Text: r.text}}
	if len(r.Fields) > 0 || r.Absent || r.Raw != nil {
		out.Data = marshal(r)
	}
	if r.failed() {
		out.Status = events.Failure
	}
	return out
}

// failed says whether the answer was marked as an error.
func (r recorded) failed() bool {
	switch r.Format {
	case Gemini:
		m, err := fields(r.Raw, "")
		return err == nil && !absent(m["error"]) && absent(m["output"])
	case AISDK:
		return slices.Contains([]string{"error-text", "error-json", "execution-denied"}, typeOf(r.Raw))
	}
	return bytes.Equal(bytes.TrimSpace(r.Fields["is_error"]), []byte("true"))
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

// of says whether the answer was recorded in the format f, or is a text as every format
// has it.
func (r recorded) of(f Format) bool { return r.Format == f || r.Format == "" }

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
	if !r.of(OpenAI) {
		return append(o, member{"content", r.portable("text", marshal(""))}).marshal()
	}
	return r.rest(o, "content")
}

// responses is the answer as an item of that format.
func (r recorded) responses(kind, id string) json.RawMessage {
	o := members{{"type", marshal(kind)}, {"call_id", marshal(id)}}
	if !r.of(Responses) {
		return append(o, member{"output", r.portable("input_text", marshal(""))}).marshal()
	}
	return r.rest(o, "output")
}

// anthropic is the answer as a block of that format.
func (r recorded) anthropic(id string) json.RawMessage {
	o := members{{"type", marshal("tool_result")}, {"tool_use_id", marshal(id)}}
	if r.of(Anthropic) {
		return r.rest(o, "content")
	}
	o = append(o, member{"content", r.portable("text", json.RawMessage("[]"))})
	if r.failed() {
		o = append(o, member{"is_error", marshal(true)})
	}
	return o.marshal()
}

// gemini is the answer as a part of that format.
func (r recorded) gemini(id, name string) json.RawMessage {
	var o members
	if id != "" {
		o = append(o, member{"id", marshal(id)})
	}
	o = append(o, member{"name", marshal(name)})
	said := r.plain()
	switch {
	case r.Format == Gemini && r.Absent:
		o = append(o, member{"response", json.RawMessage("{}")})
	case r.Format == Gemini && r.Raw != nil:
		o = append(o, member{"response", r.Raw})
	case r.failed():
		o = append(o, member{"response", marshal(geminiError{said})})
	default:
		o = append(o, member{"response", marshal(geminiOutput{said})})
	}
	if r.Format == Gemini {
		o = r.fields(o)
	}
	return members{{"functionResponse", o.marshal()}}.marshal()
}

// aiSDK is the answer as a part of that format.
func (r recorded) aiSDK(id, name string) json.RawMessage {
	o := members{{"type", marshal(answerPart)}, {"toolCallId", marshal(id)}, {"toolName", marshal(name)}}
	out := marshal(aiOutput{"text", r.plain()})
	switch {
	case r.Format == AISDK && r.Raw != nil:
		out = r.Raw
	case r.failed():
		out = marshal(aiOutput{"error-text", r.plain()})
	}
	o = append(o, member{"output", out})
	if r.Format == AISDK {
		o = r.fields(o)
	}
	return o.marshal()
}

// rest adds the content and what else was recorded, sorted.
func (r recorded) rest(o members, content string) json.RawMessage {
	o = r.fields(o)
	if !r.Absent {
		o = append(o, member{content, r.content()})
	}
	return o.marshal()
}

// fields adds what was recorded beside the content, sorted.
func (r recorded) fields(o members) members {
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		o = append(o, member{name, r.Fields[name]})
	}
	return o
}

// nothing says that there was no content.
func (r recorded) nothing() bool { return r.Absent || r.Raw != nil && absent(r.Raw) }

// portable is a content that another format takes: text, text parts of the kind that it
// has, or else the recorded JSON as text. none stands for no content.
func (r recorded) portable(kind string, none json.RawMessage) json.RawMessage {
	switch texts, ok := r.texts(); {
	case r.nothing() || ok && len(texts) == 0:
		return none
	case ok:
		parts := make([]json.RawMessage, len(texts))
		for i, t := range texts {
			parts[i] = members{{"type", marshal(kind)}, {"text", marshal(t)}}.marshal()
		}
		return marshal(parts)
	}
	return marshal(r.plain())
}

// plain is the content as one text.
func (r recorded) plain() string {
	switch texts, ok := r.texts(); {
	case r.nothing() || ok && len(texts) == 0:
		return ""
	case len(texts) == 1:
		return texts[0]
	case r.Raw != nil:
		return string(r.Raw)
	}
	return r.text
}

// texts are the texts of a content that is parts of text alone.
func (r recorded) texts() ([]string, bool) {
	var parts []struct {
		Type string
		Text *string
	}
	if r.Raw == nil || json.Unmarshal(r.Raw, &parts) != nil {
		return nil, false
	}
	out := make([]string, len(parts))
	for i, p := range parts {
		if p.Text == nil || !slices.Contains([]string{"text", "input_text", "output_text"}, p.Type) {
			return nil, false
		}
		out[i] = *p.Text
	}
	return out, true
}

// members is a JSON object whose members keep their order.
type members []member

type member struct {
	name  string
	value json.RawMessage
}

func (o members) marshal() json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(marshal(m.name))
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return marshal(json.RawMessage(out.Bytes())) // compact, whatever was recorded
}
