package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const responsesTranscript = `{"model":"m","input":[
	{"role":"user","content":"go"},
	{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"eA=="},
	{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{\"n\":9007199254740993}","status":"completed"},
	{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"and"}]},
	{"type":"custom_tool_call","id":"ctc_1","call_id":"call_2","name":"patch","input":"*** Begin"},
	{"type":"custom_tool_call_output","call_id":"call_2","output":"Done!"},
	{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"a\u0000b"},{"type":"input_image","image_url":"data:x"}],"id":"fco_1","status":"completed"},
	{"type":"message","role":"assistant","content":[{"type":"output_text","text":"now"}]},
	{"role":"user","content":[{"type":"input_text","text":"on"}]},
	{"type":"function_call","call_id":"call_1","name":"read","arguments":"{}"},
	{"type":"function_call_output","call_id":"call_1","output":""},
	{"type":"function_call_output","call_id":"call_9","output":"whose?"}],
	"output":[{"type":"function_call","call_id":"call_3","name":"read","arguments":"{"}]}`

func TestResponsesTranscript(t *testing.T) {
	rec, err := Transcript([]byte(responsesTranscript))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Format != Responses || len(rec.Turns) != 3 || len(rec.Turns[0].Calls) != 2 || rec.Turns[2].Answers[0] != nil || len(rec.Skipped) != 1 {
		t.Fatalf("%+v", rec)
	}
	conv := importAll(t, rec)
	got := checkConversation(t, Responses, conv.Turns)
	want := `[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"eA=="},
		{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"n\":9007199254740993}","id":"fc_1","status":"completed"},
		{"type":"custom_tool_call","call_id":"call_2","name":"patch","input":"*** Begin","id":"ctc_1"},
		{"type":"function_call_output","call_id":"call_1","id":"fco_1","status":"completed","output":[{"type":"input_text","text":"a\u0000b"},{"type":"input_image","image_url":"data:x"}]},
		{"type":"custom_tool_call_output","call_id":"call_2","output":"Done!"},
		{"type":"function_call","call_id":"call_1-2","name":"read","arguments":"{}"},
		{"type":"function_call_output","call_id":"call_1-2","output":""},
		{"type":"function_call","call_id":"call_3","name":"read","arguments":"{\"invalid_json\":\"{\"}"},
		{"type":"function_call_output","call_id":"call_3","output":"{\"status\":\"open\",\"text\":\"(no answer yet: this call has not ended)\"}"}]`
	if diff := cmp.Diff(value(t, []byte(want)), value(t, marshal(got))); diff != "" {
		t.Error(diff)
	}
	for _, f := range Formats() {
		checkConversation(t, f, conv.Turns)
	}
}

const geminiTranscript = `{"contents":[
	{"role":"user","parts":[{"text":"go"}]},
	{"role":"model","parts":[{"text":"I will","thought":true},
		{"functionCall":{"name":"read","args":{"n":9007199254740993}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"write","args":{}}},{"functionCall":{"name":"read","args":{"n":2}}}]},
	{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"one"}}},{"functionResponse":{"name":"write","response":{"error":"no"}}},
		{"functionResponse":{"name":"read","response":{"lines":[1,2.50]},"parts":[{"inlineData":{"mimeType":"image/png","data":"eA=="}}]}}]},
	{"role":"model","parts":[{"text":"done"}]},
	{"role":"user","parts":[{"function_response":{"id":"x","name":"read","response":{}}}]},
	{"role":"user","parts":[{"text":"more"}]},
	{"role":"model","parts":[{"function_call":{"id":"a","name":"read","args":{}},"thought_signature":"bW9yZQ=="}]},
	{"role":"function","parts":[{"function_response":{"id":"a","name":"read","response":{"result":"r"}}}]}]}`

func TestGeminiTranscript(t *testing.T) {
	rec, err := Transcript([]byte(geminiTranscript))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Format != Gemini || len(rec.Turns) != 2 || len(rec.Turns[0].Calls) != 3 || len(rec.Skipped) != 1 {
		t.Fatalf("%+v", rec)
	}
	conv := importAll(t, rec)
	got := checkConversation(t, Gemini, conv.Turns)
	want := `[{"role":"model","parts":[{"functionCall":{"name":"read","args":{"n":9007199254740993}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"write","args":{}}},{"functionCall":{"name":"read","args":{"n":2}}}]},
	{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"one"}}},{"functionResponse":{"name":"write","response":{"error":"no"}}},
		{"functionResponse":{"name":"read","response":{"lines":[1,2.50]},"parts":[{"inlineData":{"mimeType":"image/png","data":"eA=="}}]}}]},
	{"role":"model","parts":[{"functionCall":{"id":"a","name":"read","args":{}},"thoughtSignature":"bW9yZQ=="}]},
	{"role":"user","parts":[{"functionResponse":{"id":"a","name":"read","response":{"result":"r"}}}]}]`
	if diff := cmp.Diff(value(t, []byte(want)), value(t, marshal(got))); diff != "" {
		t.Error(diff)
	}
	anthropic := checkConversation(t, Anthropic, conv.Turns)
	for _, want := range []string{
		`{"type":"tool_result","tool_use_id":"call_0","content":"one"}`, `{"type":"tool_result","tool_use_id":"call_1","content":"{\"error\":\"no\"}","is_error":true}`,
		`{"type":"tool_result","tool_use_id":"call_2","content":"{\"lines\":[1,2.50]}"}`, `{"type":"tool_result","tool_use_id":"a","content":"{\"result\":\"r\"}"}`,
	} {
		if !strings.Contains(string(marshal(anthropic)), want) {
			t.Errorf("%s is not in %s", want, marshal(anthropic))
		}
	}
	for _, f := range Formats() {
		checkConversation(t, f, conv.Turns)
	}
}

// What one provider's transcript has as an answer, another reads: the text as text, parts of
// text as its own, an error as one, and everything else as JSON.
func TestRecordedAnswersCross(t *testing.T) {
	chat := func(content string) string {
		return `[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a"` + content + `}]`
	}
	claude := func(rest string) string {
		return `[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"` + rest + `}]}]`
	}
	items := func(output string) string {
		return `[{"type":"function_call","call_id":"a","name":"t","arguments":"{}"},{"type":"function_call_output","call_id":"a"` + output + `}]`
	}
	gemini := func(response string) string {
		return `[{"role":"model","parts":[{"functionCall":{"id":"a","name":"t","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"t","response":` + response + `}}]}]`
	}
	for _, c := range []struct {
		doc                                  string
		chat, claude, items, gemini, neutral string // contents; neutral is what was recorded
	}{
		{chat(`,"content":"x <1>"`), `"x <1>"`, `"x <1>"`, `"x <1>"`, `{"output":"x <1>"}`, `"x <1>"`},
		{chat(`,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"t"`), `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]`, `{"output":"[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]"}`, `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`},
		{claude(`,"content":"no","is_error":true`), `"no"`, `"no"`, `"no"`, `{"error":"no"}`, `"no"`},
		{claude(``), `""`, ``, `""`, `{"output":""}`, `null`},
		{claude(`,"content":[]`), `""`, `[]`, `""`, `{"output":""}`, `[]`},
		{claude(`,"content":[{"type":"text","text":"only"}]`), `[{"type":"text","text":"only"}]`, `[{"type":"text","text":"only"}]`, `[{"type":"input_text","text":"only"}]`, `{"output":"only"}`, `[{"type":"text","text":"only"}]`},
		{claude(`,"content":[{"type":"image","source":{}}]`), `"[{\"type\":\"image\",\"source\":{}}]"`, `[{"type":"image","source":{}}]`, `"[{\"type\":\"image\",\"source\":{}}]"`, `{"output":"[{\"type\":\"image\",\"source\":{}}]"}`, `[{"type":"image","source":{}}]`},
		{items(`,"output":"x"`), `"x"`, `"x"`, `"x"`, `{"output":"x"}`, `"x"`},
		{items(`,"output":[{"type":"input_text","text":"x"}],"status":"completed"`), `[{"type":"text","text":"x"}]`, `[{"type":"text","text":"x"}]`, `[{"type":"input_text","text":"x"}]`, `{"output":"x"}`, `[{"type":"input_text","text":"x"}]`},
		{gemini(`{"output":"x"}`), `"x"`, `"x"`, `"x"`, `{"output":"x"}`, `"x"`},
		{gemini(`{"error":"x"}`), `"{\"error\":\"x\"}"`, `"{\"error\":\"x\"}"`, `"{\"error\":\"x\"}"`, `{"error":"x"}`, `{"error":"x"}`},
		{gemini(`{}`), `"{}"`, `"{}"`, `"{}"`, `{}`, `{}`},
	} {
		rec, err := Transcript([]byte(c.doc))
		if err != nil {
			t.Fatal(err)
		}
		conv := importAll(t, rec)
		for f, want := range map[Format]string{OpenAI: c.chat, Anthropic: c.claude, Responses: c.items, Gemini: c.gemini, Neutral: c.neutral} {
			if got := saidIn(t, f, rebuilt(t, f, conv)[0][0]); got != want {
				t.Errorf("%s as %s: %s, want %s", c.doc, f, got, want)
			}
		}
	}
}

// saidIn is the content of a message with one answer.
func saidIn(t *testing.T, f Format, message json.RawMessage) string {
	t.Helper()
	var m struct {
		Content json.RawMessage
		Output  json.RawMessage
		Parts   []struct {
			FunctionResponse struct{ Response json.RawMessage }
		}
	}
	if err := json.Unmarshal(message, &m); err != nil {
		t.Fatal(err)
	}
	switch f {
	case Responses:
		return string(m.Output)
	case Gemini:
		return string(m.Parts[0].FunctionResponse.Response)
	case Anthropic:
		var blocks []struct{ Content json.RawMessage }
		if err := json.Unmarshal(m.Content, &blocks); err != nil {
			t.Fatal(err)
		}
		return string(blocks[0].Content)
	}
	return string(m.Content)
}

func TestTranscriptsOfItemsRefuse(t *testing.T) {
	call := `{"type":"function_call","call_id":"a","name":"t","arguments":"{}"}`
	for _, c := range []struct{ doc, want string }{
		{`{"input":7}`, "/input"},
		{`{"input":[7]}`, "/input/0"},
		{`{"input":[],"messages":[]}`, "/input"},
		{`{"contents":[],"output":[]}`, "/output"},
		{`{"contents":[{"role":"model","parts":7}]}`, "/contents/0/parts"},
		{`{"contents":[{"role":"user","parts":[{"functionResponse":7}]}]}`, "/contents/0/parts/0/functionResponse"},
		{`[` + call + `,{"role":"tool","tool_call_id":"a","content":"x"}]`, "/1"},
		{`[` + call + `,{"role":"model","parts":[{"functionCall":{"name":"t"}}]}]`, "/1"},
		{`[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"t"}}]},{"type":"function_call_output","call_id":"a","output":""}]`, "/1"},
		{`[{"role":"model","parts":[{"functionCall":{"name":"t"}}]},{"role":"user","parts":[{"functionResponse":{"name":"t","response":"x"}}]}]`, "/1/parts/0/functionResponse/response"},
	} {
		_, err := Transcript([]byte(c.doc))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Path != c.want {
			t.Errorf("%s: %v, want the fault at %q", c.doc, err, c.want)
		}
	}
}

// Calls that come as items are gathered up to the most that a message may have.
func TestTranscriptGathersItems(t *testing.T) {
	var list []string
	for i := range MaxCalls + 1 {
		list = append(list, fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":"t","arguments":"{}"}`, i))
	}
	rec, err := Transcript([]byte("[" + strings.Join(list, ",") + "]"))
	if err != nil || len(rec.Turns) != 2 || len(rec.Turns[0].Calls) != MaxCalls || len(rec.Turns[1].Calls) != 1 {
		t.Errorf("%d turns, %v", len(rec.Turns), err)
	}
	for _, between := range []string{`{"role":"user","content":"x"}`, `{"type":"message","role":"user","content":"x"}`} {
		rec, err := Transcript([]byte("[" + list[0] + "," + between + "," + list[1] + "]"))
		if err != nil || len(rec.Turns) != 2 {
			t.Errorf("%s between two calls: %+v, %v", between, rec, err)
		}
	}
	rec, err = Transcript([]byte("[" + list[0] + `,{"role":"model","parts":[{"text":"x"}]},` + list[1] + "]"))
	if err != nil || len(rec.Turns) != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
}
