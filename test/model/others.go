package model

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-run/sluice/gateway/codec"
)

// anthropic is Anthropic's Messages API.
var anthropic = api{
	path: "/v1/messages", format: codec.Anthropic,
	conversation: func(body map[string]json.RawMessage) ([]json.RawMessage, int, error) {
		messages, err := list(body, "messages")
		return messages, counted(messages, "assistant"), err
	},
	rules: anthropicRules,
	whole: func(step Step, n int) any {
		message := anthropicMessage(n)
		content := []m{}
		if step.Text != "" {
			content = append(content, m{"type": "text", "text": step.Text, "citations": nil})
		}
		for _, c := range step.Calls {
			content = append(content, m{"type": "tool_use", "id": c.ID, "name": c.Tool, "input": object(c.Args)})
		}
		message["content"], message["stop_reason"] = content, anthropicReason(step)
		return message
	},
	stream: anthropicStream,
	refuse: func(why string) any {
		return m{"type": "error", "error": m{"type": "invalid_request_error", "message": why}}
	},
}

// object is arguments as a provider that gives them parsed would have them: where the
// model wrote none that are whole, there are none.
func object(args string) json.RawMessage {
	if !json.Valid([]byte(args)) {
		return json.RawMessage(`{}`)
	}
	return json.RawMessage(args)
}

func anthropicReason(step Step) string {
	switch {
	case step.Cut:
		return "max_tokens"
	case len(step.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func anthropicMessage(n int) m {
	return m{
		"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "model": "scripted", "content": []m{},
		"stop_reason": nil, "stop_sequence": nil, "usage": m{"input_tokens": 10, "output_tokens": 5},
	}
}

func anthropicStream(step Step, n int) []event {
	var out []event
	add := func(kind string, fields m) {
		fields["type"] = kind
		out = append(out, event{kind, fields})
	}
	add("message_start", m{"message": anthropicMessage(n)})
	index := 0
	if step.Text != "" {
		add("content_block_start", m{"index": index, "content_block": m{"type": "text", "text": ""}})
		add("ping", m{})
		for _, p := range pieces(step.Text) {
			add("content_block_delta", m{"index": index, "delta": m{"type": "text_delta", "text": p}})
		}
		add("content_block_stop", m{"index": index})
		index++
	}
	for _, c := range step.Calls {
		add("content_block_start", m{"index": index, "content_block": m{"type": "tool_use", "id": c.ID, "name": c.Tool, "input": m{}}})
		add("content_block_delta", m{"index": index, "delta": m{"type": "input_json_delta", "partial_json": ""}})
		for _, p := range pieces(c.Args) {
			add("content_block_delta", m{"index": index, "delta": m{"type": "input_json_delta", "partial_json": p}})
		}
		add("content_block_stop", m{"index": index})
		index++
	}
	add("message_delta", m{"delta": m{"stop_reason": anthropicReason(step), "stop_sequence": nil}, "usage": m{"output_tokens": 5}})
	add("message_stop", m{})
	return out
}

// gemini is the Gemini API's generateContent.
var gemini = api{
	format: codec.Gemini,
	conversation: func(body map[string]json.RawMessage) ([]json.RawMessage, int, error) {
		contents, err := list(body, "contents")
		return contents, counted(contents, "model"), err
	},
	rules: geminiRules,
	whole: func(step Step, n int) any { return geminiChunk(geminiParts(step, []string{step.Text}), step, n, true) },
	stream: func(step Step, n int) []event {
		var out []event
		parts := geminiParts(step, pieces(step.Text))
		for i, p := range parts {
			out = append(out, event{data: geminiChunk([]m{p}, step, n, i == len(parts)-1)})
		}
		return out
	},
	refuse: func(why string) any {
		return m{"error": m{"code": 400, "message": why, "status": "INVALID_ARGUMENT"}}
	},
}

// geminiParts has a signature at the first call, without which the API refuses the
// conversation.
func geminiParts(step Step, words []string) []m {
	var out []m
	if step.Text != "" {
		for _, p := range words {
			out = append(out, m{"text": p})
		}
	}
	for i, c := range step.Calls {
		call := m{"name": c.Tool, "args": object(c.Args)}
		if c.ID != "" {
			call["id"] = c.ID
		}
		part := m{"functionCall": call}
		if i == 0 {
			part["thoughtSignature"] = "c2lnbmF0dXJl"
		}
		out = append(out, part)
	}
	return out
}

func geminiChunk(parts []m, step Step, n int, last bool) m {
	candidate := m{"index": 0, "content": m{"role": "model", "parts": parts}}
	if last {
		candidate["finishReason"] = "STOP"
		if step.Cut {
			candidate["finishReason"] = "MAX_TOKENS"
		}
	}
	return m{
		"candidates": []m{candidate}, "modelVersion": "scripted", "responseId": fmt.Sprintf("r%d", n),
		"usageMetadata": m{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
	}
}
