package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
)

func rawCall(id, tool, args string) events.RawCall {
	return events.RawCall{ProviderID: id, Tool: tool, Args: events.Body{Text: args}}
}

// with is a call with what its provider wants back.
func with(c events.RawCall, extra string) events.RawCall {
	c.Extra.Text = extra
	return c
}

func custom(c events.RawCall) events.RawCall {
	c.Custom = true
	return c
}

func TestDecodeOpenAI(t *testing.T) {
	message := `{"role":"assistant","content":null,"refusal":null,"tool_calls":[
		{"id":"a","type":"function","function":{"name":"echo","arguments":"{\"v\": 1}"},"index":0},
		{"id":"b","type":"function","function":{"name":"echo","arguments":"{\"v\":2}"}}]}`
	two := []events.RawCall{rawCall("a", "echo", `{"v": 1}`), rawCall("b", "echo", `{"v":2}`)}
	one := func(call string) string { return `{"role":"assistant","tool_calls":[` + call + `]}` }
	for _, c := range []struct {
		name, body string
		want       Message
	}{
		{"message", message, Message{Calls: two}},
		{"choice", `{"index":0,"finish_reason":"tool_calls","message":` + message + `}`, Message{Calls: two, Reason: "tool_calls"}},
		{
			"response", `{"id":"x","model":"m-1","choices":[{"finish_reason":"stop","message":` + message + `}],"usage":{"prompt_tokens":7,"completion_tokens":9}}`,
			Message{Calls: two, Reason: "stop", Model: "m-1", Input: 7, Output: 9},
		},
		{"bare array", ` [{"id":"a","function":{"name":"t","arguments":"{}"}}]`, Message{Calls: []events.RawCall{rawCall("a", "t", "{}")}}},
		{"no calls", `{"role":"assistant","content":"hello"}`, Message{}},
		{"null calls", `{"role":"assistant","content":"hello","tool_calls":null}`, Message{}},
		// 6: nothing, blanks and null are kept as they are: they mean the empty object.
		{"no arguments", one(`{"id":"a","function":{"name":"t"}}`), Message{Calls: []events.RawCall{rawCall("a", "t", "")}}},
		{"empty arguments", one(`{"id":"a","function":{"name":"t","arguments":""}}`), Message{Calls: []events.RawCall{rawCall("a", "t", "")}}},
		{"blank arguments", one(`{"id":"a","function":{"name":"t","arguments":"   "}}`), Message{Calls: []events.RawCall{rawCall("a", "t", "   ")}}},
		{"null arguments", one(`{"id":"a","function":{"name":"t","arguments":null}}`), Message{Calls: []events.RawCall{rawCall("a", "t", "")}}},
		{"arguments as an object", one(`{"id":"a","function":{"name":"t","arguments": {"v" : 1.0} }}`), Message{Calls: []events.RawCall{rawCall("a", "t", `{"v" : 1.0}`)}}},
		// 8: the finish reason lies; parsing decides later, and the text is kept.
		{"cut, and not said", `{"finish_reason":"tool_calls","message":` + one(`{"id":"a","function":{"name":"t","arguments":"{\"path\":\"a\""}}`) + `}`, Message{Calls: []events.RawCall{rawCall("a", "t", `{"path":"a"`)}, Reason: "tool_calls"}},
		// 11: one id for all calls.
		{
			"ids repeated", one(`{"id":"edit:22","function":{"name":"write","arguments":"{\"a\":1}"}},{"id":"edit:22","function":{"name":"write","arguments":"{\"a\":2}"}}`),
			Message{Calls: []events.RawCall{rawCall("edit:22", "write", `{"a":1}`), rawCall("edit:22", "write", `{"a":2}`)}},
		},
		{"no ids", one(`{"function":{"name":"t","arguments":""}},{"id":null,"function":{"name":"t","arguments":""}}`), Message{Calls: []events.RawCall{rawCall("", "t", ""), rawCall("", "t", "")}}},
		// 14: digits stay.
		{"big integers", one(`{"id":"a","function":{"name":"t","arguments":"{\"id\":9007199254740993}"}}`), Message{Calls: []events.RawCall{rawCall("a", "t", `{"id":9007199254740993}`)}}},
		{"custom tool", one(`{"id":"a","type":"custom","custom":{"name":"t","input":"ls \"x\""}}`), Message{Calls: []events.RawCall{custom(rawCall("a", "t", `{"input":"ls \"x\""}`))}}},
		{"what the provider wants back", `{"role":"assistant","reasoning_content":"hm","tool_calls":[{"id":"a","function":{"name":"t","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}},"other":1}]}`, Message{
			Calls: []events.RawCall{with(rawCall("a", "t", "{}"), `{"format":"openai","with":{"extra_content":{"google":{"thought_signature":"c2ln"}}},"message":{"reasoning_content":"hm"}}`)},
		}},
		{"half of a pair", one(`{"id":"a","function":{"name":"t","arguments":"{\"v\":\"\ud83d \\ud83d \\\\ud83d \\ud83d\\ude00\"}"}}`), Message{Calls: []events.RawCall{rawCall("a", "t", "{\"v\":\"\uFFFD "+`\ufffd \\ud83d \ud83d\ude00"}`)}}},
		{"no unicode", one("{\"id\":\"a\",\"function\":{\"name\":\"t\",\"arguments\":\"\xff\"}}"), Message{Calls: []events.RawCall{rawCall("a", "t", "\uFFFD")}}},
		{"names are case sensitive", `{"role":"assistant","content":"","Tool_Calls":[{"id":"a"}]}`, Message{}},
	} {
		got, err := Decode(OpenAI, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestDecodeAnthropic(t *testing.T) {
	blocks := `[{"type":"thinking","thinking":"…","signature":"s"},{"type":"text","text":"ok"},
		{"type":"server_tool_use","id":"srv","name":"web_search","input":{}},
		{"type":"tool_use","id":"toolu_1","name":"echo","input":{"v": 12345678901234567890, "w":1e3},"cache_control":{}},
		{"type":"tool_use","id":"toolu_2","name":"echo","input":{}}]`
	two := []events.RawCall{
		with(rawCall("toolu_1", "echo", `{"v": 12345678901234567890, "w":1e3}`), `{"format":"anthropic","before":[{"type":"thinking","thinking":"…","signature":"s"}]}`),
		rawCall("toolu_2", "echo", `{}`),
	}
	for _, c := range []struct {
		name, body string
		want       Message
	}{
		{
			"response", `{"type":"message","role":"assistant","model":"m","content":` + blocks + `,"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`,
			Message{Calls: two, Reason: "tool_use", Model: "m", Input: 3, Output: 4},
		},
		{"message", `{"role":"assistant","content":` + blocks + `}`, Message{Calls: two}},
		{"blocks", blocks, Message{Calls: two}},
		{"text", `{"role":"assistant","content":"hi","stop_reason":"end_turn"}`, Message{Reason: "end_turn"}},
		{"no input", `[{"type":"tool_use","id":"a","name":"t"},{"type":"tool_use","id":"b","name":"t","input":null}]`, Message{Calls: []events.RawCall{rawCall("a", "t", ""), rawCall("b", "t", "")}}},
		{"input as text", `[{"type":"tool_use","id":"a","name":"t","input":"{\"v\":1}"}]`, Message{Calls: []events.RawCall{rawCall("a", "t", `{"v":1}`)}}},
		{"half of a pair", `[{"type":"tool_use","id":"a","name":"t","input":{"v":"\uDE00\ud83d"}}]`, Message{Calls: []events.RawCall{rawCall("a", "t", `{"v":"\ufffd\ufffd"}`)}}},
	} {
		got, err := Decode(Anthropic, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestDecodeNeutral(t *testing.T) {
	want := Message{Calls: []events.RawCall{
		{ProviderID: "a", Tool: "t", Args: events.Body{Text: `{"v": 1}`}, Key: "k"},
		{Tool: "t", Args: events.Body{Text: `{"v":1`}},
	}}
	calls := `[{"id":"a","tool":"t","args":{"v": 1},"key":"k"},{"tool":"t","args":"{\"v\":1"}]`
	for _, body := range []string{calls, `{"calls":` + calls + `}`} {
		got, err := Decode(Neutral, []byte(body))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	for body, path := range map[string]string{
		`{"calls":[],"x":1}`:         "/x",
		`[{"tool":"t","name":"t"}]`:  "/0/name",
		`{"calls":[{"tool":"t"},7]}`: "/calls/1",
		`{}`:                         "/calls",
	} {
		_, err := Decode(Neutral, []byte(body))
		if e, ok := errors.AsType[*Error](err); !ok || e.Path != path {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestDecodeSeesCallsOfOtherFormats: a message whose calls stand where its format has none is
// no last word of a model.
func TestDecodeSeesCallsOfOtherFormats(t *testing.T) {
	for _, c := range []struct {
		as   Format
		body string
		want string // "" means that it is a last word
	}{
		{Anthropic, `{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"read","arguments":"{}"}}]}`, "as openai writes them"},
		{Anthropic, `{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"read","arguments":"{}"}}]}}]}`, "/content: is missing"},
		{OpenAI, `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"read","input":{}}]}`, "as anthropic writes them"},
		{OpenAI, `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"read","input":{}}]}`, "as aisdk writes them"},
		{OpenAI, `{"role":"assistant","content":"","toolCalls":[{"id":"a","function":{"name":"read","arguments":"{}"}}]}`, "/toolCalls: calls stand under tool_calls in this format"},
		{AISDK, `{"role":"assistant","content":null,"toolCalls":[{"id":"a","function":{"name":"read","arguments":"{}"}}]}`, "/toolCalls/0: no call as the AI SDK writes them"},
		{AISDK, `{"role":"assistant","content":"","toolCalls":[{"id":"a","function":{"name":"read","arguments":"{}"}}]}`, "/toolCalls/0: no call as the AI SDK writes them"},
		{Responses, `{"role":"assistant","content":null,"output":[],"tool_calls":[{"id":"a","function":{"name":"read","arguments":"{}"}}]}`, "as openai writes them"},
		{OpenAI, `{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":""}}]}`, `the model stopped for "tool_calls", and no call is in it`},
		{Anthropic, `{"role":"assistant","stop_reason":"tool_use","content":[{"type":"text","text":"x"}]}`, `the model stopped for "tool_use", and no call is in it`},
		{OpenAI, `{"role":"assistant","content":"done: {\"tool_calls\": 1}"}`, ""},
		{Anthropic, `{"role":"assistant","stop_reason":"end_turn","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]}`, ""},
		{AISDK, `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"read","input":{},"providerExecuted":true}]}`, ""},
		{Gemini, `{"candidates":[{"finishReason":"STOP","content":{"role":"model","parts":[{"text":"done"}]}}]}`, ""},
	} {
		m, err := Decode(c.as, []byte(c.body))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(m.Calls) > 0 {
			t.Errorf("%s %s: %+v, %v, want %q", c.as, c.body, m, err, c.want)
		}
	}
	m, err := Decode(AISDK, []byte(`{"text":"","toolCalls":[{"toolCallType":"function","toolCallId":"a","toolName":"read","args":"{\"v\":1}"}],"finishReason":"tool-calls"}`))
	if err != nil || len(m.Calls) != 1 || m.Calls[0].Tool != "read" || m.Calls[0].Args.Text != `{"v":1}` {
		t.Errorf("a model's own list of calls: %+v, %v", m, err)
	}
	if m, err = Decode(OpenAI, []byte(`{"message":{"role":"assistant","tool_calls":[{"function":{"name":"read","arguments":{}}}]},"done":true,"done_reason":"length"}`)); err != nil || m.Reason != "length" || m.Calls[0].Refused == nil {
		t.Errorf("one of Ollama's own API that was cut off: %+v, %v", m, err)
	}
	if m, err = Decode(OpenAI, []byte(`{"message":{"role":"assistant","tool_calls":[{"function":{"name":"read","arguments":{}}}]},"done":false}`)); err == nil {
		t.Errorf("a piece of one of Ollama's own API: %+v", m)
	}
}

// 7: a cut message starts nothing, and each of its calls gets an answer.
func TestDecodeRefusesWhatWasCut(t *testing.T) {
	for _, c := range []struct {
		f       Format
		reason  string
		refused bool
	}{
		{OpenAI, "tool_calls", false},
		{OpenAI, "stop", false},
		{OpenAI, "length", true},
		{OpenAI, "content_filter", true},
		{OpenAI, "surprise", true},
		{Anthropic, "tool_use", false},
		{Anthropic, "end_turn", false},
		{Anthropic, "max_tokens", true},
		{Anthropic, "refusal", true},
		{Anthropic, "model_context_window_exceeded", true},
	} {
		body := fmt.Sprintf(`{"choices":[{"finish_reason":%q,"message":{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"write","arguments":"{\"path\":\"a.md\"}"}},{"id":"b","function":{"name":"write","arguments":"{\"path"}}]}}]}`, c.reason)
		if c.f == Anthropic {
			body = fmt.Sprintf(`{"stop_reason":%q,"role":"assistant","content":[{"type":"tool_use","id":"a","name":"write","input":{"path":"a.md"}},{"type":"tool_use","id":"b","name":"write","input":{}}]}`, c.reason)
		}
		m, err := Decode(c.f, []byte(body))
		if err != nil || len(m.Calls) != 2 || m.Reason != c.reason {
			t.Fatalf("%s: %+v, %v", c.reason, m, err)
		}
		for _, call := range m.Calls {
			if (call.Refused != nil) != c.refused {
				t.Errorf("%s %s: refused %+v", c.f, c.reason, call.Refused)
			}
			if r := call.Refused; r != nil && (r.Code != events.TruncatedByModel || !strings.Contains(r.Reason, "Send less")) {
				t.Errorf("%s %s: %+v", c.f, c.reason, r)
			}
		}
	}
}

func TestDecodeBounds(t *testing.T) {
	call := func(id, name, args string) string {
		return fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%q,"arguments":%q}}`, marshal(id), name, args)
	}
	message := func(calls ...string) string {
		return `{"role":"assistant","tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	many := func(n int) string {
		calls := make([]string, n)
		for i := range calls {
			calls[i] = call("a", "t", "")
		}
		return message(calls...)
	}
	for _, c := range []struct {
		name, body string
		want       error
		status     int
	}{
		{"as many calls as may be", many(MaxCalls), nil, 0},
		{"one more", many(MaxCalls + 1), ErrTooManyCalls, 413},
		{"as long arguments as may be", message(call("a", "t", strings.Repeat("x", MaxArgs))), nil, 0},
		{"one byte more", message(call("a", "t", strings.Repeat("x", MaxArgs+1))), ErrTooLarge, 413},
		{"a large body", strings.Repeat(" ", MaxBody) + "[]", ErrTooLarge, 413},
		{"deep", `{"role":"assistant","content":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + "}", ErrTooDeep, 400},
		{"deep in a string", `{"role":"assistant","content":"` + strings.Repeat(`[\"`, MaxDepth*2) + `"}`, nil, 0},
		{"the longest id", message(call(strings.Repeat("i", MaxID), "t", "")), nil, 0},
		{"a longer id", message(call(strings.Repeat("i", MaxID+1), "t", "")), ErrMalformed, 400},
		{"an id that grows", message(call(strings.Repeat("\x00", MaxID/6+1), "t", "")), ErrMalformed, 400},
		{"nothing", ``, ErrMalformed, 400},
		{"no JSON", `{"role"`, ErrMalformed, 400},
		{"something behind", `{"role":"assistant","content":""} {}`, ErrMalformed, 400},
		{"a string", `"x"`, ErrMalformed, 400},
		{"null", `null`, ErrMalformed, 400},
		{"no message", `{"error":{"message":"overloaded"}}`, ErrMalformed, 400},
		{"another role", `{"role":"tool","content":"x"}`, ErrMalformed, 400},
		{"no choice", `{"choices":[]}`, ErrMalformed, 400},
		{"two choices", `{"choices":[{"message":{"role":"assistant"}},{"message":{"role":"assistant"}}]}`, ErrMalformed, 400},
		{"old form", `{"role":"assistant","function_call":{"name":"t","arguments":""}}`, ErrMalformed, 400},
		{"a number for an id", message(`{"id":1,"function":{"name":"t"}}`), ErrMalformed, 400},
		{"another type", message(`{"id":"a","type":"mcp","mcp":{}}`), ErrMalformed, 400},
		{"no function", message(`{"id":"a"}`), ErrMalformed, 400},
	} {
		_, err := Decode(OpenAI, []byte(c.body))
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Status() != c.status {
			t.Errorf("%s: status %d", c.name, e.Status())
		}
	}
	if _, err := Decode("gopher", nil); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "openai, responses, anthropic, gemini, aisdk, json") {
		t.Errorf("no such format: %v", err)
	}
	for body, want := range map[string]string{`{"role":"assistant"}`: "/content", `{"role":"user","content":[]}`: "/role", `[7]`: "/0", `[{"type":"tool_use","id":1}]`: "/0/id"} {
		if _, err := Decode(Anthropic, []byte(body)); err == nil || err.(*Error).Path != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// A name that is too long is the model's mistake: it gets an answer, and its siblings run.
func TestDecodeLongName(t *testing.T) {
	body := marshal([]any{
		map[string]any{"id": "a", "function": map[string]string{"name": strings.Repeat("é", MaxName), "arguments": ""}},
		map[string]any{"id": "b", "function": map[string]string{"name": "echo", "arguments": ""}},
	})
	m, err := Decode(OpenAI, body)
	if err != nil || len(m.Calls) != 2 {
		t.Fatal(m, err)
	}
	if c := m.Calls[0]; len(c.Tool) > MaxName || c.Refused == nil || c.Refused.Code != events.UnknownTool || !json.Valid(marshal(c.Tool)) {
		t.Errorf("%+v", c)
	}
	if m.Calls[1].Refused != nil {
		t.Errorf("%+v", m.Calls[1])
	}
}
