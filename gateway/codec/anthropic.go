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
		calls, err := blocksAnthropic(body, "")
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
	out.Calls, err = blocksAnthropic(m["content"], "/content")
	return out, err
}

// What is kept with a tool_use block: the thinking before it, which the API wants back as
// it was, and who called.
var (
	thoughtsAnthropic = []string{"thinking", "redacted_thinking"}
	extraAnthropic    = []string{"caller", "toolset_name"}
)

// blocksAnthropic makes calls of content blocks.
func blocksAnthropic(raw json.RawMessage, path string) ([]events.RawCall, error) {
	var before []json.RawMessage
	return eachCall(raw, path, func(raw json.RawMessage, path string) (events.RawCall, bool, error) {
		c, ok, err := blockAnthropic(raw, path)
		switch {
		case err != nil:
		case ok:
			m, _ := fields(raw, path)
			c.Extra = extra{Format: Anthropic, Before: before, With: pick(m, extraAnthropic...)}.body()
			before = nil
		default:
			before = append(before, typed([]json.RawMessage{raw}, thoughtsAnthropic...)...)
		}
		return c, ok, err
	})
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

// idsAnthropic are unique in the conversation, of the characters that are allowed.
func idsAnthropic(calls []asked, seen []string) []string {
	calls = slices.Clone(calls)
	for i, c := range calls {
		p := plain(c.id)
		calls[i] = asked{id: p, own: c.own && p == c.id}
	}
	return unique(calls, seen, 0)
}

type anthropicMessage struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

func callsAnthropic(calls []events.RawCall, ids []string, _ map[string]bool) []json.RawMessage {
	m := anthropicMessage{Role: "assistant", Content: []json.RawMessage{}}
	for i, c := range calls {
		e, _ := extraOf(Anthropic, c)
		o := members{{"type", marshal("tool_use")}, {"id", marshal(ids[i])}, {"name", marshal(functionName(c.Tool))}, {"input", object(c.Args.Text)}}
		m.Content = append(append(m.Content, typed(e.Before, thoughtsAnthropic...)...), o.add(e.With, extraAnthropic...).marshal())
	}
	return []json.RawMessage{marshal(m)}
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
