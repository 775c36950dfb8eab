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
			case f == Responses:
				out = append(out, itemOf(words[0], id))
			case f == Gemini:
				parts = append(parts, partOf(words[0], id))
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
		case f == Responses:
		case f == Gemini && words[0] == "call":
			out = append(out, marshal(map[string]any{"role": "model", "parts": parts}))
		case f == Gemini:
			out = append(out, marshal(map[string]any{"role": "user", "parts": parts}))
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

// itemOf is an item of Responses; think is reasoning, and an id with a star is of a custom call.
func itemOf(word, id string) json.RawMessage {
	plain, isCustom := strings.CutSuffix(id, "*")
	kind, of := "function_call", "arguments"
	if isCustom {
		kind, of = "custom_tool_call", "input"
	}
	switch word {
	case "think":
		return marshal(map[string]any{"type": "reasoning", "id": id, "summary": []int{}})
	case "call":
		return marshal(map[string]any{"type": kind, "id": "fc_" + plain, "call_id": plain, "name": "t", of: "{}"})
	}
	return marshal(map[string]any{"type": kind + "_output", "call_id": plain, "output": "x"})
}

// partOf is a part of Gemini; an id of - is none.
func partOf(word, id string) any {
	one := map[string]any{"name": "t"}
	if id != "-" {
		one["id"] = id
	}
	switch {
	case id == "text":
		return map[string]any{"text": "x"}
	case word == "call":
		one["args"] = map[string]int{}
		return map[string]any{"functionCall": one}
	}
	one["response"] = map[string]string{"output": "x"}
	return map[string]any{"functionResponse": one}
}

// valid is messages in the shorthand of conversation, and where their fault is.
type valid struct {
	name  string
	f     Format
	lines []string
	path  string // of the fault; "" means that there is none
}

func checkValid(t *testing.T, cases []valid) {
	t.Helper()
	for _, c := range cases {
		err := Validate(c.f, conversation(c.f, c.lines...))
		e, _ := errors.AsType[*Error](err)
		if (err == nil) != (c.path == "") || e != nil && e.Path != c.path {
			t.Errorf("%s, %s: %v, want the fault at %q", c.f, c.name, err, c.path)
		}
	}
}

const (
	saysUser  = `{"role":"user","content":"hi"}`
	saysModel = `{"role":"assistant","content":"hi"}`
)

func TestValidateOpenAI(t *testing.T) {
	checkValid(t, []valid{
		{"whole", OpenAI, []string{saysUser, "call a b", "answer a", "answer b", saysModel, "call a", "answer a", saysUser}, ""},
		{"one missing", OpenAI, []string{saysUser, "call a b", "answer a"}, "/2"},
		{"one missing, then another", OpenAI, []string{"call a b", "answer a", saysUser}, "/2"},
		{"none", OpenAI, []string{"call a", saysModel}, "/1"},
		{"twice", OpenAI, []string{"call a", "answer a", "answer a"}, "/2"},
		{"orphan", OpenAI, []string{"answer a"}, "/0"},
		{"out of order", OpenAI, []string{"call a b", "answer b", "answer a"}, "/1"},
		{"something between", OpenAI, []string{"call a b", "answer a", saysUser, "answer b"}, "/2"},
		{"one id twice", OpenAI, []string{"call a a", "answer a", "answer a"}, "/0/tool_calls/1/id"},
		{"no id", OpenAI, []string{`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"t","arguments":"{}"}}]}`}, "/0/tool_calls/0/id"},
		{"no calls", OpenAI, []string{`{"role":"assistant","tool_calls":[]}`}, "/0/tool_calls"},
		{"arguments as an object", OpenAI, []string{`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":{}}}]}`}, "/0/tool_calls/0/function/arguments"},
		{"no content", OpenAI, []string{"call a", `{"role":"tool","tool_call_id":"a"}`}, "/1/content"},
		{"no message", OpenAI, []string{saysUser, `{"role":7}`}, "/1/role"},
	})
}

func TestValidateResponses(t *testing.T) {
	message := `{"type":"message","role":"assistant","id":"m","content":[]}`
	checkValid(t, []valid{
		{"whole", Responses, []string{saysUser, "think r", "call a b* c", message, "answer a b* c", saysModel, saysUser, "call d", "answer d"}, ""},
		{"kept by the provider", Responses, []string{saysUser, `{"type":"item_reference","id":"rs_1"}`, "call a", "answer a", `{"type":"item_reference","id":"ctc_1"}`, "answer b*", saysUser, `{"type":"item_reference","id":"rs_1"}`}, ""},
		{"one more than it keeps", Responses, []string{`{"type":"item_reference","id":"ctc_1"}`, "answer b*", "answer c*"}, "/2"},
		{"one missing", Responses, []string{saysUser, "call a b", "answer a"}, "/3"},
		{"none", Responses, []string{"call a", saysUser}, "/1"},
		{"one missing, then the model", Responses, []string{"call a b", "answer a", message}, "/3"},
		{"one missing, then another call", Responses, []string{"call a b", "answer a", "call c"}, "/3"},
		{"twice", Responses, []string{"call a", "answer a", "answer a"}, "/2"},
		{"orphan", Responses, []string{"answer a"}, "/0"},
		{"out of order", Responses, []string{"call a b", "answer b a"}, "/2"},
		{"of another kind", Responses, []string{"call a*", "answer a"}, "/1/type"},
		{"something between", Responses, []string{"call a", `{"role":"user","content":"x"}`, "answer a"}, "/1"},
		{"an id twice", Responses, []string{"call a", `{"type":"function_call","call_id":"a","name":"t","arguments":""}`}, "/1/call_id"},
		{"an id again", Responses, []string{"call a", "answer a", `{"type":"function_call","call_id":"a","name":"t","arguments":""}`}, "/2/call_id"},
		{"an item again", Responses, []string{"think r", "call a", "answer a", "think r", "call b", "answer b"}, "/3/id"},
		{"reasoning for nothing", Responses, []string{"think r", saysUser}, "/1"},
		{"reasoning at the end", Responses, []string{"call a", "answer a", "think r"}, "/2"},
		{"reasoning before an answer", Responses, []string{"call a", "think r", "answer a"}, "/2"},
		{"no id", Responses, []string{`{"type":"function_call","name":"t","arguments":"{}"}`}, "/0/call_id"},
		{"a long id", Responses, []string{`{"type":"function_call","call_id":"` + strings.Repeat("i", 65) + `","name":"t","arguments":"{}"}`}, "/0/call_id"},
		{"a name's characters", Responses, []string{`{"type":"function_call","call_id":"a","name":"mcp:x","arguments":"{}"}`}, "/0/name"},
		{"arguments as an object", Responses, []string{`{"type":"function_call","call_id":"a","name":"t","arguments":{}}`}, "/0/arguments"},
		{"a status", Responses, []string{`{"type":"function_call","call_id":"a","name":"t","arguments":"","status":"evil"}`}, "/0/status"},
		{"no output", Responses, []string{"call a", `{"type":"function_call_output","call_id":"a"}`}, "/1/output"},
		{"no item", Responses, []string{`{"type":7}`}, "/0/type"},
	})
}

func TestValidateAnthropic(t *testing.T) {
	checkValid(t, []valid{
		{"whole", Anthropic, []string{saysUser, "call text a b", "answer a b text", saysModel, saysUser, "call c", "answer c"}, ""},
		{"one missing", Anthropic, []string{"call a b", "answer a"}, "/1"},
		{"none", Anthropic, []string{"call a", saysUser}, "/1"},
		{"the end is missing", Anthropic, []string{saysUser, "call a"}, "/1"},
		{"two messages", Anthropic, []string{"call a b", "answer a", "answer b"}, "/1"},
		{"twice", Anthropic, []string{"call a", "answer a a"}, "/1/content/1"},
		{"orphan", Anthropic, []string{saysModel, "answer a"}, "/1/content/0"},
		{"orphan later", Anthropic, []string{"call a", "answer a", saysModel, "answer a"}, "/3/content/0"},
		{"out of order", Anthropic, []string{"call a b", "answer b a"}, "/1/content/0"},
		{"text first", Anthropic, []string{"call a", "answer text a"}, "/1/content/1"},
		{"text behind a call", Anthropic, []string{"call a text", "answer a"}, "/0/content/1"},
		{"something between", Anthropic, []string{"call a", saysModel, "answer a"}, "/1"},
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
		{"thoughts between calls", Anthropic, []string{`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}},{"type":"thinking","thinking":"x","signature":"s"},{"type":"tool_use","id":"b","name":"t","input":{}}]}`, "answer a b"}, ""},
		{"thoughts behind the last", Anthropic, []string{`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}},{"type":"thinking","thinking":"x","signature":"s"}]}`, "answer a"}, "/0/content/1"},
	})
}

func TestValidateGemini(t *testing.T) {
	asks, says := `{"role":"user","parts":[{"text":"hi"}]}`, `{"role":"model","parts":[{"text":"hi"}]}`
	answered := func(more string) string {
		return `{"role":"user","parts":[{"functionResponse":{"name":"t",` + more + `}}]}`
	}
	checkValid(t, []valid{
		{"whole", Gemini, []string{asks, "call text a -", "answer a - text", says, asks, "call -", "answer -", "call b", "answer b"}, ""},
		{"one missing", Gemini, []string{"call a b", "answer a"}, "/1"},
		{"none", Gemini, []string{"call a", asks}, "/1"},
		{"the end is missing", Gemini, []string{asks, "call a"}, "/1"},
		{"two contents", Gemini, []string{"call a b", "answer a", "answer b"}, "/1"},
		{"one too many", Gemini, []string{"call -", "answer - -"}, "/1/parts/1"},
		{"orphan", Gemini, []string{says, "answer a"}, "/1/parts/0"},
		{"out of order", Gemini, []string{"call a b", "answer b a"}, "/1/parts/0/functionResponse/id"},
		{"no id for one", Gemini, []string{"call a", "answer -"}, "/1/parts/0/functionResponse/id"},
		{"an id for none", Gemini, []string{"call -", "answer a"}, "/1/parts/0/functionResponse/id"},
		{"text first", Gemini, []string{"call a", "answer text a"}, "/1/parts/1"},
		{"behind the model's words", Gemini, []string{says, "call a", "answer a"}, "/1"},
		{"model again", Gemini, []string{"call a", says, "answer a"}, "/1"},
		{"an id twice", Gemini, []string{"call a a", "answer a a"}, "/0/parts/1/functionCall/id"},
		{"a name's characters", Gemini, []string{`{"role":"model","parts":[{"functionCall":{"name":"a b","args":{}}}]}`}, "/0/parts/0/functionCall/name"},
		{"args as text", Gemini, []string{`{"role":"model","parts":[{"functionCall":{"name":"t","args":"[]"}}]}`}, "/0/parts/0/functionCall/args"},
		{"another name", Gemini, []string{"call -", `{"role":"user","parts":[{"functionResponse":{"name":"u","response":{}}}]}`}, "/1/parts/0/functionResponse/name"},
		{"response as text", Gemini, []string{"call -", answered(`"response":"x"`)}, "/1/parts/0/functionResponse/response"},
		{"a function's role", Gemini, []string{"call -", strings.Replace(answered(`"response":{}`), "user", "function", 1)}, ""},
		{"a call of the user", Gemini, []string{`{"role":"user","parts":[{"functionCall":{"name":"t"}}]}`}, "/0/parts/0"},
		{"an answer of the model", Gemini, []string{`{"role":"model","parts":[{"functionResponse":{"name":"t"}}]}`}, "/0/parts/0"},
		{"another role", Gemini, []string{`{"role":"system","parts":[]}`}, "/0/role"},
		{"no parts", Gemini, []string{`{"role":"model"}`}, "/0/parts"},
	})
}

func TestValidateNeutral(t *testing.T) {
	checkValid(t, []valid{
		{"whole", Neutral, []string{`{"calls":[{"tool":"t"},{"tool":"t"}]}`, `{"call":0,"answer":"success"}`, `{"call":1,"answer":"open"}`}, ""},
		{"out of order", Neutral, []string{`{"calls":[{"tool":"t"},{"tool":"t"}]}`, `{"call":1,"answer":"success"}`}, "/1"},
		{"one missing", Neutral, []string{`{"calls":[{"tool":"t"}]}`}, "/0"},
		{"orphan", Neutral, []string{`{"call":0,"answer":"success"}`}, "/0/calls"},
	})
	if err := Validate("gopher", nil); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}
