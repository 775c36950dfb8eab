package codec

import (
	"encoding/json"
	"strings"
)

// Sniff says which format a JSON text looks like: a provider's message, its bare
// calls, or ours; openai where nothing speaks for another. It never fails: what it
// says of a text that is no message is as good as any.
func Sniff(raw []byte) Format {
	if checkDepth(raw) != nil {
		return OpenAI
	}
	if all, err := list(raw, ""); err == nil {
		return sniffList(all)
	}
	m, err := fields(raw, "")
	if err != nil {
		return OpenAI
	}
	has := func(names ...string) bool {
		for _, n := range names {
			if !absent(m[n]) {
				return true
			}
		}
		return false
	}
	switch {
	case has("choices", "tool_calls"):
		return OpenAI
	case has("calls"):
		return Neutral
	case has("toolCalls") || has("finishReason") && !has("parts", "candidates") && first(m["content"]) != '{':
		return AISDK
	case has("stop_reason"):
		return Anthropic
	case has("candidates", "promptFeedback", "prompt_feedback", "parts"):
		return Gemini
	case first(m["output"]) == '[' || m["call_id"] != nil:
		return Responses
	case first(m["content"]) == '{': // of a candidate
		return Gemini
	}
	content, err := list(m["content"], "")
	if err != nil {
		return OpenAI
	}
	return sniffList(content)
}

// sniffList says of which format calls, blocks, parts or items are: the first that speaks
// decides.
func sniffList(all []json.RawMessage) Format {
	for _, raw := range all {
		m, err := fields(raw, "")
		if err != nil {
			continue
		}
		kind, _ := text(m["type"], "")
		tool, _ := text(m["tool"], "")
		switch {
		case !absent(m["function"]):
		case kind == callPart || kind == answerPart || kind == "reasoning" && m["summary"] == nil && m["text"] != nil:
			return AISDK
		case kind == "tool_use" || kind == "thinking" || kind == "redacted_thinking":
			return Anthropic
		case kind == "reasoning" || kind == "message" || strings.HasSuffix(kind, "_call") || m["call_id"] != nil:
			return Responses
		case tool != "":
			return Neutral
		case kind == "" && sniffPart(m):
			return Gemini
		}
	}
	return OpenAI
}

// sniffParts says whether content parts are those of the AI SDK.
func sniffParts(raw json.RawMessage) bool {
	all, err := list(raw, "")
	return err == nil && sniffList(all) == AISDK
}

// sniffPart says whether m is a part, or a bare function call.
func sniffPart(m map[string]json.RawMessage) bool {
	for _, n := range []string{"functionCall", "function_call", "thoughtSignature", "thought_signature", "inlineData", "thought"} {
		if !absent(m[n]) {
			return true
		}
	}
	return first(m["name"]) == '"' && first(m["args"]) == '{'
}
