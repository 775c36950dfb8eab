package codec

import (
	"cmp"
	"encoding/json"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// decodeGemini reads a response of generateContent, its candidate, the candidate's
// content, its parts, or bare function calls. The names of members may be written as
// the API writes them or in the way of its Python SDK, with underscores.
func decodeGemini(body []byte) (Message, error) {
	if first(body) == '[' {
		calls, err := partsGemini(body, "")
		return Message{Calls: calls}, err
	}
	top, err := fields(body, "")
	if err != nil {
		return Message{}, err
	}
	out, candidate, path, err := headGemini(top)
	if err != nil || candidate == nil {
		return out, err
	}
	content := candidate
	if raw, ok := candidate["content"]; ok {
		if absent(raw) {
			return out, nil // the model was stopped before it said anything
		}
		path += "/content"
		if content, err = fields(raw, path); err != nil {
			return out, err
		}
	} else if out.Reason != "" {
		return out, nil
	}
	role, err := text(content["role"], path+"/role")
	switch {
	case err != nil:
		return out, err
	case role != "" && role != "model":
		return out, malformed(path+"/role", "%q, want model", shorten(role, 32))
	case absent(content["parts"]) && (role != "" || out.Reason != ""):
		return out, nil
	case absent(content["parts"]):
		return out, malformed(path+"/parts", "is missing: want a model's message")
	}
	out.Calls, err = partsGemini(content["parts"], path+"/parts")
	return out, err
}

// headGemini reads what a response says of itself, and its only candidate. The candidate
// is nil where the provider gave none, and top itself where top is one, or its content.
func headGemini(top map[string]json.RawMessage) (out Message, candidate map[string]json.RawMessage, path string, err error) {
	feedback, err := either(top, "promptFeedback", "prompt_feedback", "")
	if err != nil {
		return out, nil, "", err
	}
	raw, whole := top["candidates"]
	switch {
	case whole && !absent(raw):
		if candidate, err = onlyCandidate(raw); err != nil {
			return out, nil, "", err
		}
		path = "/candidates/0"
	case whole || feedback != nil:
		out.Reason = blocked(feedback)
	default:
		candidate = top
	}
	ends := top["content"] != nil || top["finishReason"] != nil || top["finish_reason"] != nil
	if out.Reason == "" && (whole || ends) {
		if out.Reason, err = reasonGemini(candidate, path); err != nil {
			return out, nil, "", err
		}
	}
	if raw, err := either(top, "modelVersion", "model_version", ""); err == nil && first(raw) == '"' {
		out.Model, _ = text(raw, "")
	}
	if raw, err := either(top, "usageMetadata", "usage_metadata", ""); err == nil {
		usage, _ := optional(raw, "")
		in, _ := either(usage, "promptTokenCount", "prompt_token_count", "")
		said, _ := either(usage, "candidatesTokenCount", "candidates_token_count", "")
		out.Input, out.Output = count(in), count(said)
	}
	return out, candidate, path, nil
}

// onlyCandidate is the candidate of a response with one: of several nobody could say
// which one the conversation goes on with.
func onlyCandidate(raw json.RawMessage) (map[string]json.RawMessage, error) {
	all, err := list(raw, "/candidates")
	switch {
	case err != nil:
		return nil, err
	case len(all) != 1:
		return nil, malformed("/candidates", "%d candidates, want one: send the content that the conversation goes on with", len(all))
	}
	return fields(all[0], "/candidates/0")
}

// reasonGemini is why a candidate ended. One that does not say has not: it is a piece of
// a stream.
func reasonGemini(candidate map[string]json.RawMessage, path string) (string, error) {
	raw, err := either(candidate, "finishReason", "finish_reason", path)
	if err != nil {
		return "", err
	}
	reason, err := text(raw, path+"/finishReason")
	if err == nil && reason == "" {
		err = malformed(path+"/finishReason", "is missing: the response has not ended; send it when it has, or its content alone")
	}
	return reason, err
}

// noCandidates is why there is none where the provider does not say.
const noCandidates = "no candidates"

// blocked is why there is no candidate.
func blocked(feedback json.RawMessage) string {
	m, err := optional(feedback, "")
	if err != nil {
		return ""
	}
	raw, _ := either(m, "blockReason", "block_reason", "")
	reason, _ := text(raw, "")
	if reason == "" {
		return noCandidates
	}
	return "blocked: " + shorten(reason, 64)
}

// either is a member under one of its two spellings; nil where it is missing or null.
// Which of two that are both there is meant nobody could say.
func either(m map[string]json.RawMessage, camel, snake, path string) (json.RawMessage, error) {
	a, b := m[camel], m[snake]
	switch {
	case !absent(a) && !absent(b):
		return nil, malformed(path+"/"+snake, "stands beside %s: want one of them", camel)
	case !absent(a):
		return a, nil
	case !absent(b):
		return b, nil
	}
	return nil, nil
}

// partsGemini makes calls of parts, or of bare function calls. Whether the first one came
// from this provider is remembered, since others' calls must say that they have no signature.
func partsGemini(raw json.RawMessage, path string) ([]events.RawCall, error) {
	calls, err := eachCall(raw, path, partGemini)
	if err != nil || len(calls) == 0 {
		return calls, err
	}
	if e, _ := extraOf(Gemini, calls[0]); e.With == nil {
		calls[0].Extra = extra{Format: Gemini}.marked()
	} else if s, _ := text(e.With[signature], ""); s == noSignature {
		calls[0].Extra = events.Body{}
	}
	return calls, nil
}

// signature is the member beside a function call that the API wants back.
const signature = "thoughtSignature"

// noSignature is what the API wants in the place of a signature where a call was not made
// by one of its models.
const noSignature = "skip_thought_signature_validator"

func partGemini(raw json.RawMessage, path string) (c events.RawCall, ok bool, err error) {
	part, err := fields(raw, path)
	if err != nil {
		return c, false, err
	}
	call, err := either(part, "functionCall", "function_call", path)
	if err != nil {
		return c, false, err
	}
	answer, err := either(part, "functionResponse", "function_response", path)
	switch {
	case err != nil:
		return c, false, err
	case answer != nil:
		return c, false, malformed(path, "an answer in the model's message")
	case part["candidates"] != nil:
		return c, false, malformed(path, "a piece of a stream: send the whole response")
	case call == nil && first(part["name"]) == '"':
		call = raw // a bare call
	case call == nil:
		return c, false, nil
	}
	m, err := fields(call, path+"/functionCall")
	if err != nil {
		return c, false, err
	}
	if c, err = functionGemini(m, path+"/functionCall"); err != nil {
		return c, false, err
	}
	sign, err := either(part, signature, "thought_signature", path)
	if err != nil {
		return c, false, err
	}
	if first(sign) == '"' {
		c.Extra = extra{Format: Gemini, With: map[string]json.RawMessage{signature: sign}}.body()
	}
	return c, true, nil
}

// functionGemini reads a function call. A piece of one is refused with all that is around it.
func functionGemini(m map[string]json.RawMessage, path string) (c events.RawCall, err error) {
	pieces, err := either(m, "partialArgs", "partial_args", path)
	if err != nil {
		return c, err
	}
	more, err := either(m, "willContinue", "will_continue", path)
	if err != nil {
		return c, err
	}
	if pieces != nil || more != nil && string(more) != "false" {
		return c, malformed(path, "a piece of a call: send the whole of it")
	}
	id, err := text(m["id"], path+"/id")
	if err != nil {
		return c, err
	}
	name, err := text(m["name"], path+"/name")
	if err != nil {
		return c, err
	}
	return newCall(id, name, m["args"], path)
}

// idsGemini are unique in their message. A call without an id stays without: then calls and
// answers belong together by their places.
func idsGemini(calls []asked, _ []string) []string {
	var named []asked
	for _, c := range calls {
		if !c.none {
			named = append(named, c)
		}
	}
	given := unique(named, nil, 0)
	out := make([]string, len(calls))
	for i, c := range calls {
		if !c.none {
			out[i], given = given[0], given[1:]
		}
	}
	return out
}

// nameGemini is a tool's name as the API takes it. It stands beside every answer, so one
// that is too long is cut to what the bounds of answers leave for it.
func nameGemini(s string) string {
	switch {
	case shownName(s) != "":
		return s
	case len(s) > maxName:
		return plain(s)[:20] + "-" + shortHash(s)
	}
	return functionName(s)
}

type geminiMessage struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

type calledGemini struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

func callsGemini(calls []events.RawCall, ids []string, _ map[string]bool) []json.RawMessage {
	m := geminiMessage{Role: "model", Parts: []json.RawMessage{}}
	for i, c := range calls {
		o := members{{"functionCall", marshal(calledGemini{ids[i], nameGemini(cmp.Or(c.Said, c.Tool)), object(c.Args.Text)})}}
		e, own := extraOf(Gemini, c)
		switch sign := e.With[signature]; {
		case first(sign) == '"':
			o = append(o, member{signature, sign})
		case i == 0 && !own:
			o = append(o, member{signature, marshal(noSignature)})
		}
		m.Parts = append(m.Parts, o.marshal())
	}
	return []json.RawMessage{marshal(m)}
}

type geminiAnswer struct {
	Answer geminiResponse `json:"functionResponse"`
}

type geminiResponse struct {
	ID       string `json:"id,omitempty"`
	Name     string `json:"name"`
	Response any    `json:"response"`
}

// The two members of a response that the API knows. Both hold a text: as numbers of an
// object, long integers would lose their last digits on their way to the model.
type (
	geminiOutput struct {
		Output string `json:"output"`
	}
	geminiError struct {
		Error string `json:"error"`
	}
)

func answersGemini(answers []events.Answer, ids []string) []json.RawMessage {
	m := geminiMessage{Role: "user", Parts: make([]json.RawMessage, len(answers))}
	for i, a := range answers {
		name := nameGemini(cmp.Or(a.Said, a.Tool))
		if a.Verbatim && a.Standing != events.AnswerOpen {
			m.Parts[i] = recordedOf(a.Result).gemini(ids[i], name)
			continue
		}
		said := any(geminiOutput{string(lifecycle.Envelope(a))})
		if isError(a) {
			said = geminiError{string(lifecycle.Envelope(a))}
		}
		m.Parts[i] = marshal(geminiAnswer{geminiResponse{ids[i], name, said}})
	}
	return []json.RawMessage{marshal(m)}
}
