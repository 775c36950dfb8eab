package model

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-run/sluice/gateway/codec"
)

// chat is OpenAI's Chat Completions API.
var chat = api{
	path: "/v1/chat/completions", format: codec.OpenAI,
	conversation: func(body map[string]json.RawMessage) ([]json.RawMessage, int, error) {
		messages, err := list(body, "messages")
		return messages, counted(messages, "assistant"), err
	},
	rules: chatRules,
	whole: func(step Step, n int) any {
		message := m{"role": "assistant", "content": nil, "refusal": nil}
		if step.Text != "" {
			message["content"] = step.Text
		}
		if calls := chatCalls(step); len(calls) > 0 {
			message["tool_calls"] = calls
		}
		return m{
			"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion", "created": 1, "model": "scripted",
			"choices": []m{{"index": 0, "message": message, "finish_reason": chatReason(step), "logprobs": nil}},
			"usage":   m{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
		}
	},
	stream: chatStream,
	refuse: func(why string) any {
		return m{"error": m{"message": why, "type": "invalid_request_error", "param": "messages", "code": nil}}
	},
}

func chatReason(step Step) string {
	switch {
	case step.Cut:
		return "length"
	case len(step.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func chatCalls(step Step) []m {
	var out []m
	for _, c := range step.Calls {
		out = append(out, m{"id": c.ID, "type": "function", "function": m{"name": c.Tool, "arguments": c.Args}})
	}
	return out
}

// chatStream sends the parts of parallel calls in turns, as some routers do.
func chatStream(step Step, n int) []event {
	chunk := func(delta m, reason any) event {
		return event{data: m{
			"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion.chunk", "created": 1, "model": "scripted",
			"choices": []m{{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": nil}},
		}}
	}
	out := []event{chunk(m{"role": "assistant", "content": ""}, nil)}
	if step.Text != "" {
		for _, p := range pieces(step.Text) {
			out = append(out, chunk(m{"content": p}, nil))
		}
	}
	args := make([][]string, len(step.Calls))
	longest := 0
	for i, c := range step.Calls {
		out = append(out, chunk(m{"tool_calls": []m{{"index": i, "id": c.ID, "type": "function", "function": m{"name": c.Tool, "arguments": ""}}}}, nil))
		args[i] = pieces(c.Args)
		longest = max(longest, len(args[i]))
	}
	for k := range longest {
		for i, parts := range args {
			if k < len(parts) {
				out = append(out, chunk(m{"tool_calls": []m{{"index": i, "function": m{"arguments": parts[k]}}}}, nil))
			}
		}
	}
	return append(out, chunk(m{}, chatReason(step)), event{data: "[DONE]"})
}

// responses is OpenAI's Responses API.
var responses = api{
	path: "/v1/responses", format: codec.Responses,
	conversation: func(body map[string]json.RawMessage) ([]json.RawMessage, int, error) {
		var text string
		if json.Unmarshal(body["input"], &text) == nil {
			return nil, 0, nil
		}
		items, err := list(body, "input")
		return items, responseTurns(items), err
	},
	rules:  responsesRules,
	whole:  func(step Step, n int) any { return response(step, n, responseState(step)) },
	stream: responseStream,
	refuse: chat.refuse,
}

// responseTurns counts the runs of items that the model made.
func responseTurns(items []json.RawMessage) int {
	n, before := 0, false
	for _, raw := range items {
		var is struct{ Type, Role string }
		if json.Unmarshal(raw, &is) != nil {
			continue
		}
		own := is.Type == "function_call" || is.Type == "custom_tool_call" || is.Type == "reasoning" || is.Role == "assistant"
		if own && !before {
			n++
		}
		before = own
	}
	return n
}

func responseState(step Step) string {
	if step.Cut {
		return "incomplete"
	}
	return "completed"
}

func responseItems(step Step, n int) []m {
	var out []m
	if step.Text != "" {
		out = append(out, m{
			"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "status": "completed",
			"content": []m{{"type": "output_text", "text": step.Text, "annotations": []m{}}},
		})
	}
	for i, c := range step.Calls {
		out = append(out, m{
			"id": fmt.Sprintf("fc_%d_%d", n, i), "type": "function_call", "status": "completed", "call_id": c.ID, "name": c.Tool, "arguments": c.Args,
		})
	}
	return out
}

func response(step Step, n int, status string) m {
	r := m{
		"id": fmt.Sprintf("resp_%d", n), "object": "response", "created_at": 1, "model": "scripted", "status": status, "error": nil,
		"incomplete_details": nil, "instructions": nil, "metadata": m{}, "parallel_tool_calls": true, "temperature": 1, "top_p": 1,
		"tool_choice": "auto", "tools": []m{}, "output": responseItems(step, n), "usage": m{
			"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
			"input_tokens_details": m{"cached_tokens": 0}, "output_tokens_details": m{"reasoning_tokens": 0},
		},
	}
	if status == "incomplete" {
		r["incomplete_details"] = m{"reason": "max_output_tokens"}
	}
	if status == "in_progress" {
		r["output"] = []m{}
		r["usage"] = nil
	}
	return r
}

func responseStream(step Step, n int) []event {
	var out []event
	add := func(kind string, fields m) {
		fields["type"] = kind
		fields["sequence_number"] = len(out)
		out = append(out, event{kind, fields})
	}
	add("response.created", m{"response": response(step, n, "in_progress")})
	for i, item := range responseItems(step, n) {
		begun := m{}
		for k, v := range item {
			begun[k] = v
		}
		begun["status"] = "in_progress"
		if item["type"] == "message" {
			begun["content"] = []m{}
			add("response.output_item.added", m{"output_index": i, "item": begun})
			messageParts(add, item, i, step.Text)
		} else {
			begun["arguments"] = ""
			add("response.output_item.added", m{"output_index": i, "item": begun})
			args, _ := item["arguments"].(string)
			for _, p := range pieces(args) {
				add("response.function_call_arguments.delta", m{"item_id": item["id"], "output_index": i, "delta": p})
			}
			add("response.function_call_arguments.done", m{"item_id": item["id"], "output_index": i, "name": item["name"], "arguments": args})
		}
		add("response.output_item.done", m{"output_index": i, "item": item})
	}
	add("response."+responseState(step), m{"response": response(step, n, responseState(step))})
	return out
}

func messageParts(add func(string, m), item m, i int, text string) {
	at := func(more m) m {
		more["item_id"], more["output_index"], more["content_index"] = item["id"], i, 0
		return more
	}
	add("response.content_part.added", at(m{"part": m{"type": "output_text", "text": "", "annotations": []m{}}}))
	for _, p := range pieces(text) {
		add("response.output_text.delta", at(m{"delta": p, "logprobs": []m{}}))
	}
	add("response.output_text.done", at(m{"text": text, "logprobs": []m{}}))
	add("response.content_part.done", at(m{"part": m{"type": "output_text", "text": text, "annotations": []m{}}}))
}
