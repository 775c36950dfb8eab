package codec

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// conversation makes messages of shorthand: "call a b" and "answer a" in a format.
func conversation(f Format, lines ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, line := range lines {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "{") {
			out = append(out, json.RawMessage(line))
			continue
		}
		var parts []any
		for _, id := range words[1:] {
			switch {
			case id == "text":
				parts = append(parts, map[string]string{"type": "text", "text": "x"})
			case f == OpenAI:
				parts = append(parts, map[string]any{"id": id, "type": "function", "function": map[string]string{"name": "t", "arguments": "{}"}})
			case words[0] == "call":
				parts = append(parts, map[string]any{"type": "tool_use", "id": id, "name": "t", "input": map[string]int{}})
			default:
				parts = append(parts, map[string]any{"type": "tool_result", "tool_use_id": id, "content": "x"})
			}
		}
		switch {
		case f == OpenAI && words[0] == "call":
			out = append(out, marshal(map[string]any{"role": "assistant", "content": nil, "tool_calls": parts}))
		case f == OpenAI:
			out = append(out, marshal(map[string]any{"role": "tool", "tool_call_id": words[1], "content": "x"}))
		case words[0] == "call":
			out = append(out, marshal(map[string]any{"role": "assistant", "content": parts}))
		default:
			out = append(out, marshal(map[string]any{"role": "user", "content": parts}))
		}
	}
	return out
}

func TestValidate(t *testing.T) {
	user, said := `{"role":"user","content":"hi"}`, `{"role":"assistant","content":"hi"}`
	for _, c := range []struct {
		name  string
		f     Format
		lines []string
		path  string // of the fault; "" means that there is none
	}{
		{"whole", OpenAI, []string{user, "call a b", "answer a", "answer b", said, "call a", "answer a", user}, ""},
		{"one missing", OpenAI, []string{user, "call a b", "answer a"}, "/2"},
		{"one missing, then another", OpenAI, []string{"call a b", "answer a", user}, "/2"},
		{"none", OpenAI, []string{"call a", said}, "/1"},
		{"twice", OpenAI, []string{"call a", "answer a", "answer a"}, "/2"},
		{"orphan", OpenAI, []string{"answer a"}, "/0"},
		{"out of order", OpenAI, []string{"call a b", "answer b", "answer a"}, "/1"},
		{"something between", OpenAI, []string{"call a b", "answer a", user, "answer b"}, "/2"},
		{"one id twice", OpenAI, []string{"call a a", "answer a", "answer a"}, "/0/tool_calls/1/id"},
		{"no id", OpenAI, []string{`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"t","arguments":"{}"}}]}`}, "/0/tool_calls/0/id"},
		{"no calls", OpenAI, []string{`{"role":"assistant","tool_calls":[]}`}, "/0/tool_calls"},
		{"arguments as an object", OpenAI, []string{`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":{}}}]}`}, "/0/tool_calls/0/function/arguments"},
		{"no content", OpenAI, []string{"call a", `{"role":"tool","tool_call_id":"a"}`}, "/1/content"},
		{"no message", OpenAI, []string{user, `{"role":7}`}, "/1/role"},

		{"whole", Anthropic, []string{user, "call text a b", "answer a b text", said, user, "call c", "answer c"}, ""},
		{"one missing", Anthropic, []string{"call a b", "answer a"}, "/1"},
		{"none", Anthropic, []string{"call a", user}, "/1"},
		{"the end is missing", Anthropic, []string{user, "call a"}, "/1"},
		{"two messages", Anthropic, []string{"call a b", "answer a", "answer b"}, "/1"},
		{"twice", Anthropic, []string{"call a", "answer a a"}, "/1/content/1"},
		{"orphan", Anthropic, []string{said, "answer a"}, "/1/content/0"},
		{"orphan later", Anthropic, []string{"call a", "answer a", said, "answer a"}, "/3/content/0"},
		{"out of order", Anthropic, []string{"call a b", "answer b a"}, "/1/content/0"},
		{"text first", Anthropic, []string{"call a", "answer text a"}, "/1/content/1"},
		{"text behind a call", Anthropic, []string{"call a text", "answer a"}, "/0/content/1"},
		{"something between", Anthropic, []string{"call a", said, "answer a"}, "/1"},
		{"an id again", Anthropic, []string{"call a", "answer a", "call a", "answer a"}, "/2/content/0/id"},
		{"an id twice", Anthropic, []string{"call a a", "answer a a"}, "/0/content/1/id"},
		{"an id's characters", Anthropic, []string{"call edit:22", "answer edit:22"}, "/0/content/0/id"},
		{"a name's characters", Anthropic, []string{`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"mcp:x","input":{}}]}`}, "/0/content/0/name"},
		{"a name's length", Anthropic, []string{`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"` + strings.Repeat("n", 65) + `","input":{}}]}`}, "/0/content/0/name"},
		{"input as text", Anthropic, []string{`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":"{}"}]}`}, "/0/content/0/input"},
		{"a result of the assistant", Anthropic, []string{`{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]}`}, "/0/content/0"},
		{"a call of the user", Anthropic, []string{`{"role":"user","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}`}, "/0/content/0"},
		{"a content that is none", Anthropic, []string{"call a", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":7}]}`}, "/1/content/0/content"},
		{"no content", Anthropic, []string{`{"role":"user","content":[]}`}, "/0/content"},
		{"another role", Anthropic, []string{`{"role":"tool","content":"x"}`}, "/0/role"},

		{"whole", Neutral, []string{`{"calls":[{"tool":"t"},{"tool":"t"}]}`, `{"call":0,"answer":"success"}`, `{"call":1,"answer":"open"}`}, ""},
		{"out of order", Neutral, []string{`{"calls":[{"tool":"t"},{"tool":"t"}]}`, `{"call":1,"answer":"success"}`}, "/1"},
		{"one missing", Neutral, []string{`{"calls":[{"tool":"t"}]}`}, "/0"},
		{"orphan", Neutral, []string{`{"call":0,"answer":"success"}`}, "/0/calls"},
	} {
		err := Validate(c.f, conversation(c.f, c.lines...))
		e, _ := errors.AsType[*Error](err)
		if (err == nil) != (c.path == "") || e != nil && e.Path != c.path {
			t.Errorf("%s, %s: %v, want the fault at %q", c.f, c.name, err, c.path)
		}
	}
	if err := Validate("gopher", nil); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}
