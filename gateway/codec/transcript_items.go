package codec

import (
	"encoding/json"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// item reads an item of the Responses API. Calls that come one behind the other, with
// nothing between them that is not the model's, are of one turn.
func (r *recorder) item(raw json.RawMessage, m map[string]json.RawMessage, kind, role, path string) error {
	call := kind == functionCall || kind == customCall
	answer := kind == functionCall+outputSuffix || kind == customCall+outputSuffix
	switch {
	case call:
		return r.called(m, kind, path)
	case answer:
		if err := r.speak(Responses, path); err != nil {
			return err
		}
		r.gathering, r.before = false, nil
		return r.answer(m, "call_id", "output", path, "type", "call_id")
	case kind == "message" && role != "assistant" || strings.HasSuffix(kind, outputSuffix):
		r.gathering, r.before = false, nil
	case kind == "reasoning" || len(r.before) > 0:
		r.before = append(r.before, raw)
	}
	return nil
}

// called adds a call to the turn whose calls are still coming, or begins one.
func (r *recorder) called(m map[string]json.RawMessage, kind, path string) error {
	c, err := itemResponses(m, kind, path)
	if err != nil {
		return err
	}
	c.Refused = nil // it is not run, and was answered as it was
	c.Extra = extra{Format: Responses, Before: r.before, With: pick(m, extraOfKind(kind)...)}.body()
	r.before = nil
	if r.gathering && r.open != nil && len(r.open.Calls) < MaxCalls {
		r.open.Calls, r.open.Answers = append(r.open.Calls, c), append(r.open.Answers, nil)
		return nil
	}
	if err := r.asked(Responses, []events.RawCall{c}, path); err != nil {
		return err
	}
	r.gathering = true
	return nil
}

// content reads a content of Gemini's.
func (r *recorder) content(m map[string]json.RawMessage, role, path string) error {
	if role == "model" {
		r.open = nil
		calls, err := partsGemini(m["parts"], path+"/parts")
		if err != nil || len(calls) == 0 {
			return err
		}
		return r.asked(Gemini, calls, path)
	}
	parts, err := list(m["parts"], path+"/parts")
	if err != nil {
		return err
	}
	for j, raw := range parts {
		path := path + "/parts" + at(j)
		part, err := fields(raw, path)
		if err != nil {
			return err
		}
		answer, err := either(part, "functionResponse", "function_response", path)
		if err != nil || answer == nil {
			if err != nil {
				return err
			}
			continue
		}
		path += "/functionResponse"
		a, err := fields(answer, path)
		if err != nil {
			return err
		}
		if err := r.speak(Gemini, path); err != nil {
			return err
		}
		if err := r.answer(a, "id", "response", path, "id", "name"); err != nil {
			return err
		}
	}
	return nil
}

// results looks for the results in a tool message of the AI SDK.
func (r *recorder) results(m map[string]json.RawMessage, path string) error {
	parts, err := list(m["content"], path+"/content")
	if err != nil {
		return err
	}
	for j, raw := range parts {
		path := path + "/content" + at(j)
		part, err := fields(raw, path)
		if err != nil {
			return err
		}
		if kind, err := text(part["type"], path+"/type"); err != nil || kind != answerPart {
			continue
		}
		if err := r.speak(AISDK, path); err != nil {
			return err
		}
		if err := r.answer(part, "toolCallId", "output", path, "type", "toolCallId", "toolName"); err != nil {
			return err
		}
	}
	return nil
}
