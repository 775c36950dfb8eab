package codec

import (
	"encoding/json"
	"slices"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// decodeAnthropic reads a message as the API returned it, the message as it
// stands in a conversation, or its content blocks.
func decodeAnthropic(body []byte) (Message, error) {
	if first(body) == '[' {
		calls, err := eachCall(body, "", blockAnthropic)
		return Message{Calls: calls}, err
	}
	m, err := fields(body, "")
	if err != nil {
		return Message{}, err
	}
	var out Message
	role, err := text(m["role"], "/role")
	switch {
	case err != nil:
		return out, err
	case role != "" && role != "assistant":
		return out, malformed("/role", "%q, want assistant", shorten(role, 32))
	}
	if out.Reason, err = text(m["stop_reason"], "/stop_reason"); err != nil {
		return out, err
	}
	if out.Model, err = text(m["model"], "/model"); err != nil {
		return out, err
	}
	if usage, err := fields(m["usage"], ""); err == nil {
		out.Input, out.Output = count(usage["input_tokens"]), count(usage["output_tokens"])
	}
	switch first(m["content"]) {
	case '"':
		return out, nil // text alone
	case 0:
		return out, malformed("/content", "is missing: want a message")
	}
	out.Calls, err = eachCall(m["content"], "/content", blockAnthropic)
	return out, err
}

// blockAnthropic reads a tool_use block. Other blocks are text, thinking, or calls
// that the provider itself runs.
func blockAnthropic(raw json.RawMessage, path string) (c events.RawCall, ok bool, err error) {
	b, err := fields(raw, path)
	if err != nil {
		return c, false, err
	}
	kind, err := text(b["type"], path+"/type")
	if err != nil || kind != "tool_use" {
		return c, false, err
	}
	id, err := text(b["id"], path+"/id")
	if err != nil {
		return c, false, err
	}
	name, err := text(b["name"], path+"/name")
	if err != nil {
		return c, false, err
	}
	c, err = newCall(id, name, b["input"], path)
	return c, err == nil, err
}

func finishedAnthropic(reason string) bool {
	return slices.Contains([]string{"", "tool_use", "end_turn"}, reason)
}

// idsAnthropic are unique in the conversation, of the characters that are allowed.
func idsAnthropic(calls []asked, seen []string) []string {
	calls = slices.Clone(calls)
	for i, c := range calls {
		p := plain(c.id)
		calls[i] = asked{p, c.own && p == c.id}
	}
	return unique(calls, seen)
}

type anthropicMessage struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

type anthropicUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

func callsAnthropic(calls []events.RawCall, ids []string) json.RawMessage {
	m := anthropicMessage{Role: "assistant", Content: []json.RawMessage{}}
	for i, c := range calls {
		m.Content = append(m.Content, marshal(anthropicUse{"tool_use", ids[i], functionName(c.Tool), object(c.Args.Text)}))
	}
	return marshal(m)
}

type anthropicAnswer struct {
	Type    string `json:"type"`
	ID      string `json:"tool_use_id"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitempty"`
}

func answersAnthropic(answers []events.Answer, ids []string) []json.RawMessage {
	m := anthropicMessage{Role: "user", Content: make([]json.RawMessage, len(answers))}
	for i, a := range answers {
		if a.Verbatim && a.Standing != events.AnswerOpen {
			m.Content[i] = recordedOf(a.Result).anthropic(ids[i])
			continue
		}
		m.Content[i] = marshal(anthropicAnswer{"tool_result", ids[i], string(lifecycle.Envelope(a)), isError(a)})
	}
	return []json.RawMessage{marshal(m)}
}

// isError says whether a model is told that the call did not do what it asked for.
func isError(a events.Answer) bool {
	switch a.Standing {
	case events.AnswerFailed, events.AnswerDenied, events.AnswerUnknown:
		return true
	}
	return false
}
