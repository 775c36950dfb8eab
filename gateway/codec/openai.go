package codec

import (
	"encoding/json"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// decodeOpenAI reads a chat completion, one of its choices, the choice's
// message, or the message's tool_calls.
func decodeOpenAI(body []byte) (Message, error) {
	if first(body) == '[' {
		calls, err := eachCall(body, "", callOpenAI)
		return Message{Calls: calls}, err
	}
	top, err := fields(body, "")
	if err != nil {
		return Message{}, err
	}
	var m Message
	choice, path := top, ""
	if raw, ok := top["choices"]; ok {
		if choice, err = onlyChoice(raw); err != nil {
			return m, err
		}
		path = "/choices/0"
	}
	if m.Reason, err = text(choice["finish_reason"], path+"/finish_reason"); err != nil {
		return m, err
	}
	if ofOllama(top) {
		if m.Reason, err = endOfOllama(top); err == nil && m.Reason == "" {
			err = malformed("/done", "false: this is a piece of a stream, and the model has not ended: send the whole stream, or the last answer")
		}
		if err != nil {
			return m, err
		}
	}
	message := choice
	if raw, ok := choice["message"]; ok {
		path += "/message"
		if message, err = fields(raw, path); err != nil {
			return m, err
		}
	}
	if m.Model, err = text(top["model"], "/model"); err != nil {
		return m, err
	}
	if usage, err := fields(top["usage"], ""); err == nil {
		m.Input, m.Output = count(usage["prompt_tokens"]), count(usage["completion_tokens"])
	}
	if m.Calls, err = toolCalls(message, path); err == nil && len(m.Calls) > 0 {
		m.Calls[0].Extra = aroundOpenAI(m.Calls[0], message)
	}
	return m, err
}

// thoughtsOpenAI are members of a message in which servers of this format say what the
// model thought; some want them back while tools are called.
var thoughtsOpenAI = []string{"reasoning_content", "reasoning", "reasoning_details"}

// extraOpenAI is the member of a call in which such servers keep signatures.
const extraOpenAI = "extra_content"

// aroundOpenAI is what the first call of a message carries for the message.
func aroundOpenAI(c events.RawCall, message map[string]json.RawMessage) events.Body {
	e, _ := extraOf(OpenAI, c)
	e.Format, e.Around = OpenAI, pick(message, thoughtsOpenAI...)
	return e.body()
}

// onlyChoice is the choice of a response with one: of several nobody could say
// which one the conversation goes on with.
func onlyChoice(raw json.RawMessage) (map[string]json.RawMessage, error) {
	choices, err := list(raw, "/choices")
	if err != nil {
		return nil, err
	}
	if len(choices) != 1 {
		return nil, malformed("/choices", "%d choices, want one: send the message that the conversation goes on with", len(choices))
	}
	return fields(choices[0], "/choices/0")
}

func toolCalls(message map[string]json.RawMessage, path string) ([]events.RawCall, error) {
	role, err := text(message["role"], path+"/role")
	switch {
	case err != nil:
		return nil, err
	case role != "" && role != "assistant":
		return nil, malformed(path+"/role", "%q, want assistant", shorten(role, 32))
	case legacyCall(message["function_call"]):
		return nil, malformed(path+"/function_call", "the form before tool_calls is not supported: ask the model with tools, not functions")
	case absent(message["tool_calls"]) && otherName(message):
		return nil, malformed(path+"/toolCalls", "calls stand under tool_calls in this format")
	case absent(message["tool_calls"]):
		if role == "" && message["content"] == nil {
			return nil, malformed(path, "want an assistant's message")
		}
		return nil, nil
	}
	return eachCall(message["tool_calls"], path+"/tool_calls", callOpenAI)
}

// otherName says whether calls stand under the name that some gateways make of tool_calls.
func otherName(message map[string]json.RawMessage) bool {
	calls := message["toolCalls"]
	return !absent(calls) && string(calls) != "[]"
}

// legacyCall says whether a message has a call in the form before tool_calls. Some servers
// put an empty one beside those.
func legacyCall(raw json.RawMessage) bool {
	if absent(raw) {
		return false
	}
	m, err := fields(raw, "")
	return err != nil || !nothing(m["name"]) || !nothing(m["arguments"])
}

func callOpenAI(raw json.RawMessage, path string) (c events.RawCall, ok bool, err error) {
	m, err := fields(raw, path)
	if err != nil {
		return c, false, err
	}
	id, err := text(m["id"], path+"/id")
	if err != nil {
		return c, false, err
	}
	kind, err := text(m["type"], path+"/type")
	if err != nil {
		return c, false, err
	}
	args := "arguments"
	switch kind {
	case "", "function":
		kind = "function"
	case "custom":
		args = "input"
	default:
		return c, false, malformed(path+"/type", "%q, want function or custom", shorten(kind, 32))
	}
	f, err := fields(m[kind], path+"/"+kind)
	if err != nil {
		return c, false, err
	}
	name, err := text(f["name"], path+"/"+kind+"/name")
	if err != nil {
		return c, false, err
	}
	value := f[args]
	if kind == "custom" { // free text, for a tool with a single input
		value = ofText(value)
	}
	c, err = newCall(id, name, value, path)
	c.Custom = kind == "custom"
	c.Extra = extra{Format: OpenAI, With: pick(m, extraOpenAI)}.body()
	return c, err == nil, err
}

// idsOpenAI are unique in their message, which is all that is asked.
func idsOpenAI(calls []asked, _ []string) []string { return unique(calls, nil, 0) }

func callsOpenAI(calls []events.RawCall, ids []string, _ map[string]bool) []json.RawMessage {
	m := members{{"role", marshal("assistant")}, {"content", marshal(nil)}}
	var list []json.RawMessage
	for i, c := range calls {
		e, _ := extraOf(OpenAI, c)
		if i == 0 {
			m = m.add(e.Around, thoughtsOpenAI...)
		}
		list = append(list, callOf(c, ids[i]).add(e.With, extraOpenAI).marshal())
	}
	if list != nil {
		m = append(m, member{"tool_calls", marshal(list)})
	}
	return []json.RawMessage{m.marshal()}
}

// callOf is one element of tool_calls.
func callOf(c events.RawCall, id string) members {
	o := members{{"id", marshal(id)}}
	if c.Custom {
		custom := struct {
			Name  string `json:"name"`
			Input string `json:"input"`
		}{functionName(c.Tool), freeText(c.Args.Text)}
		return append(o, member{"type", marshal("custom")}, member{"custom", marshal(custom)})
	}
	function := struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}{functionName(c.Tool), string(object(c.Args.Text))}
	return append(o, member{"type", marshal("function")}, member{"function", marshal(function)})
}

type openAIAnswer struct {
	Role    string `json:"role"`
	ID      string `json:"tool_call_id"`
	Name    string `json:"name,omitempty"`
	Content string `json:"content"`
}

func answersOpenAI(answers []events.Answer, ids []string) []json.RawMessage {
	out := make([]json.RawMessage, len(answers))
	for i, a := range answers {
		if a.Verbatim && a.Standing != events.AnswerOpen {
			out[i] = recordedOf(a.Result).openAI(ids[i])
			continue
		}
		out[i] = marshal(openAIAnswer{"tool", ids[i], shownName(a.Tool), string(lifecycle.Envelope(a))})
	}
	return out
}
