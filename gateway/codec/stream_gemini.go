package codec

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// geminiStream puts a message of Gemini together from its chunks, each of which is a
// response that holds the next parts.
type geminiStream struct {
	*kit
	id     []byte // of the response
	reason []byte
	parts  []json.RawMessage // those that are calls, and signatures of thoughts
	open   *geminiCall       // whose arguments go on in the next chunks
}

// geminiCall is a call that comes in pieces.
type geminiCall struct {
	*call
	part json.RawMessage // that began it, for what stands beside the call
	args argTree
	at   int // in the parts
}

func looksGemini(_ event, top map[string]json.RawMessage) bool {
	for _, name := range []string{"candidates", "usageMetadata", "usage_metadata", "promptFeedback", "prompt_feedback", "modelVersion"} {
		if _, ok := top[name]; ok {
			return true
		}
	}
	return false
}

// spelled are the members that its Python SDK writes with underscores.
var spelled = [][2]string{
	{"response_id", "responseId"},
	{"model_version", "modelVersion"},
	{"usage_metadata", "usageMetadata"},
	{"prompt_feedback", "promptFeedback"},
	{"block_reason", "blockReason"},
	{"finish_reason", "finishReason"},
	{"function_call", "functionCall"},
	{"will_continue", "willContinue"},
	{"partial_args", "partialArgs"},
	{"thought_signature", signature},
	{"json_path", "jsonPath"},
	{"string_value", "stringValue"},
	{"number_value", "numberValue"},
	{"bool_value", "boolValue"},
	{"null_value", "nullValue"},
}

// inCamels gives members the names that the API gives them.
func inCamels(m map[string]json.RawMessage, path string) (map[string]json.RawMessage, error) {
	for _, s := range spelled {
		raw, err := either(m, s[1], s[0], path)
		if err != nil {
			return nil, ofMessage(err)
		}
		if raw != nil {
			m[s[1]] = raw
		}
		delete(m, s[0])
	}
	return m, nil
}

// fieldsGemini are the members of an object, with the names that the API gives them.
func fieldsGemini(raw json.RawMessage, path string) (map[string]json.RawMessage, error) {
	m, err := fields(raw, path)
	if err != nil {
		return nil, ofMessage(err)
	}
	return inCamels(m, path)
}

func (s *geminiStream) missing() string { return "a finishReason" }

func (s *geminiStream) over() bool { return len(s.reason) > 0 }

func (s *geminiStream) take(_ event, top map[string]json.RawMessage) error {
	top, err := inCamels(top, "")
	if err != nil {
		return err
	}
	if err := s.identify(&s.id, top["responseId"], "response id"); err != nil {
		return err
	}
	if err := s.note(top["modelVersion"], top["usageMetadata"]); err != nil {
		return err
	}
	if err := s.blocked(top["promptFeedback"]); err != nil {
		return err
	}
	if absent(top["candidates"]) {
		return nil
	}
	candidates, err := list(top["candidates"], "/candidates")
	switch {
	case err != nil:
		return ofMessage(err)
	case len(candidates) == 0:
		return nil
	case len(candidates) > 1:
		return fault(FaultChoices, "%d candidates in a chunk: ask the model for one (candidateCount 1)", len(candidates))
	}
	return s.candidate(candidates[0])
}

// blocked takes the reason of a filter that let no answer begin.
func (s *geminiStream) blocked(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	f, err := fieldsGemini(raw, "/promptFeedback")
	if err != nil {
		return err
	}
	return s.stop(f["blockReason"])
}

func (s *geminiStream) candidate(raw json.RawMessage) error {
	c, err := fieldsGemini(raw, "/candidates/0")
	if err != nil {
		return err
	}
	if n, err := place(c["index"], "/candidates/0/index"); err != nil || n > 0 {
		if err == nil {
			err = fault(FaultChoices, "a chunk of candidate %d: ask the model for one (candidateCount 1)", n)
		}
		return err
	}
	if !absent(c["content"]) {
		if err := s.content(c["content"]); err != nil {
			return err
		}
	}
	return s.stop(c["finishReason"])
}

func (s *geminiStream) content(raw json.RawMessage) error {
	c, err := fieldsGemini(raw, "/candidates/0/content")
	if err != nil {
		return err
	}
	role, err := text(c["role"], "/candidates/0/content/role")
	if err != nil || role != "" && role != "model" {
		return fault(FaultMalformed, "/candidates/0/content/role: %s, want model", shorten(string(c["role"]), 32))
	}
	if absent(c["parts"]) {
		return nil
	}
	parts, err := list(c["parts"], "/candidates/0/content/parts")
	if err != nil {
		return ofMessage(err)
	}
	for _, p := range parts {
		if err := s.part(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *geminiStream) part(raw json.RawMessage) error {
	p, err := fieldsGemini(raw, "/candidates/0/content/parts")
	if err != nil {
		return err
	}
	if len(s.reason) > 0 {
		return s.late(p)
	}
	if absent(p["functionCall"]) {
		return nil // text, thoughts, and what the provider itself runs
	}
	f, err := fieldsGemini(p["functionCall"], "/candidates/0/content/parts/functionCall")
	if err != nil {
		return err
	}
	more, err := boolean(f["willContinue"], "willContinue")
	if err != nil {
		return err
	}
	named := !absent(f["name"]) && string(f["name"]) != `""`
	switch {
	case named && s.open != nil && s.again(f): // which says again whose it is
	case named && s.open != nil:
		return fault(FaultOrder, "a call begins, and the call %q before it has not ended", unquoted(s.open.name))
	case named && !more && absent(f["partialArgs"]):
		return s.wholeCall(raw, f)
	case named:
		if err := s.beginCall(raw); err != nil {
			return err
		}
	case s.open == nil && !more && absent(f["id"]) && absent(f["args"]) && absent(f["partialArgs"]):
		return nil // the mark of an end, behind a piece that was the last one already
	case s.open == nil:
		return fault(FaultAmbiguous, "a piece of a call without a name, and no call has begun")
	}
	return s.goOn(f, more)
}

// again says whether a piece with a name is one of the open call: its id tells.
func (s *geminiStream) again(f map[string]json.RawMessage) bool {
	id, err := inner(f["id"], "id")
	return err == nil && len(id) > 0 && bytes.Equal(id, s.open.id)
}

// late refuses what the model would say after it has stopped.
func (s *geminiStream) late(p map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if absent(p[name]) {
			continue
		}
		switch name {
		case "thought", signature:
			continue
		case "text":
			if nothing(p[name]) {
				continue
			}
		}
		return fault(FaultAfterEnd, "a part with %s follows the finishReason", shorten(name, 32))
	}
	return nil
}

// wholeCall takes a call that came at once.
func (s *geminiStream) wholeCall(raw json.RawMessage, f map[string]json.RawMessage) error {
	c, err := s.begin()
	if err != nil {
		return err
	}
	if err := s.named(c, f); err != nil {
		return err
	}
	if n := len(f["args"]); n > MaxArgs {
		return tooLarge("more than %d bytes of arguments of one call", MaxArgs)
	}
	s.parts = append(s.parts, raw)
	c.closed = true
	s.show(c, string(toUnicode(f["args"])))
	return s.hold(len(raw))
}

func (s *geminiStream) named(c *call, f map[string]json.RawMessage) error {
	if err := s.identify(&c.id, f["id"], "id"); err != nil {
		return err
	}
	return s.identify(&c.name, f["name"], "name")
}

// beginCall takes the beginning of a call that goes on in pieces.
func (s *geminiStream) beginCall(raw json.RawMessage) error {
	c, err := s.begin()
	if err != nil {
		return err
	}
	s.open = &geminiCall{call: c, part: raw, at: len(s.parts)}
	s.parts = append(s.parts, nil)
	return s.hold(len(raw))
}

// goOn takes the next piece of the open call.
func (s *geminiStream) goOn(f map[string]json.RawMessage, more bool) error {
	o := s.open
	if err := s.named(o.call, f); err != nil {
		return err
	}
	if args := bytes.TrimSpace(f["args"]); !absent(args) && strings.Trim(string(args), "{} \t\r\n") != "" {
		return fault(FaultConflict, "the call %q has args, and goes on in pieces", unquoted(o.name))
	}
	if !absent(f["partialArgs"]) {
		pieces, err := list(f["partialArgs"], "/functionCall/partialArgs")
		if err != nil {
			return ofMessage(err)
		}
		for _, p := range pieces {
			n, err := o.args.add(p)
			if err != nil {
				return err
			}
			if o.size += n; o.size > MaxArgs {
				return tooLarge("more than %d bytes of arguments of one call", MaxArgs)
			}
			s.show(o.call, string(toUnicode(p)))
			if err := s.hold(n); err != nil {
				return err
			}
		}
	}
	if more {
		return nil
	}
	s.open = nil
	s.close(o.call)
	return s.join(o, true)
}

// join puts a call that came in pieces in its place among the parts. One that was cut off
// has the arguments that came of it.
func (s *geminiStream) join(o *geminiCall, ended bool) error {
	if ended {
		if at := o.args.unfinished(); at != "" {
			return fault(FaultOrder, "the call %q has ended, and its argument %s has not", unquoted(o.name), shorten(at, 128))
		}
	}
	p, err := fieldsGemini(o.part, "")
	if err != nil {
		return err
	}
	f := map[string]json.RawMessage{"name": quoted(o.name), "args": o.args.value()}
	if len(o.id) > 0 {
		f["id"] = quoted(o.id)
	}
	part := map[string]json.RawMessage{"functionCall": marshal(f)}
	if sign := p[signature]; !absent(sign) {
		part[signature] = sign
	}
	s.parts[o.at] = marshal(part)
	return s.hold(len(s.parts[o.at]) - o.size)
}

// unspecified ends the zero of each of the API's enums, which some libraries write where
// there is nothing.
const unspecified = "_REASON_UNSPECIFIED"

// stop takes a finishReason.
func (s *geminiStream) stop(raw json.RawMessage) error {
	reason, err := inner(raw, "/candidates/0/finishReason")
	switch {
	case err != nil:
		return err
	case len(reason) == 0 || bytes.Equal(reason, s.reason) || bytes.HasSuffix(reason, []byte(unspecified)):
		return nil
	case len(s.reason) > 0:
		return fault(FaultConflict, "finishReason %q after %q", shorten(string(reason), 64), shorten(string(s.reason), 64))
	}
	s.reason = reason
	if s.open == nil {
		return s.hold(len(reason))
	}
	if string(reason) == "STOP" {
		return fault(FaultOrder, "finishReason STOP, and the call %q has not ended", unquoted(s.open.name))
	}
	o := s.open
	s.open = nil
	return s.join(o, false)
}

func (s *geminiStream) body() (json.RawMessage, error) {
	parts := s.parts
	if parts == nil {
		parts = []json.RawMessage{}
	}
	candidate := map[string]any{
		"content":      map[string]any{"role": "model", "parts": parts},
		"finishReason": quoted(s.reason),
	}
	out := map[string]any{"candidates": []any{candidate}}
	if s.model != nil {
		out["modelVersion"] = s.model
	}
	if s.usage != nil {
		out["usageMetadata"] = s.usage
	}
	return marshal(out), nil
}

// boolean is true, or false for nothing, null and false.
func boolean(raw json.RawMessage, what string) (bool, error) {
	switch v := string(bytes.TrimSpace(raw)); v {
	case "true":
		return true, nil
	case "", "null", "false":
		return false, nil
	default:
		return false, fault(FaultMalformed, "%s: %s, want true or false", what, shorten(v, 32))
	}
}
