package codec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
)

func TestDecodeAISDK(t *testing.T) {
	reasoned := `{"type":"reasoning","text":"hm","providerOptions":{"anthropic":{"signature":"c2ln"}}}`
	one := `{"type":"tool-call","toolCallId":"a","toolName":"echo","input":{"v":9007199254740993},"providerOptions":{"google":{"thoughtSignature":"c2ln"}},"dynamic":true}`
	a := with(rawCall("a", "echo", `{"v":9007199254740993}`), `{"format":"aisdk","before":[`+reasoned+`],"with":{"providerOptions":{"google":{"thoughtSignature":"c2ln"}}}}`)
	two := `{"type":"tool-call","toolCallId":"b","toolName":"echo","input":"{\"v\":1}"}`
	b := rawCall("b", "echo", `{"v":1}`)
	theirs := `{"type":"tool-call","toolCallId":"c","toolName":"web_search","input":{},"providerExecuted":true}`
	for _, c := range []struct {
		name, body string
		want       Message
	}{
		{"message", `{"role":"assistant","content":[{"type":"text","text":"x"},` + reasoned + `,` + one + `,` + theirs + `,` + two + `]}`, Message{Calls: []events.RawCall{a, b}}},
		{"parts", items(reasoned, one, two), Message{Calls: []events.RawCall{a, b}}},
		{"result", `{"finishReason":"tool-calls","toolCalls":[` + two + `],"usage":{"inputTokens":3,"outputTokens":4}}`, Message{Calls: []events.RawCall{b}, Reason: "tool-calls", Input: 3, Output: 4}},
		{"what a model gives", `{"content":[` + two + `],"finishReason":{"unified":"stop","raw":"end_turn"}}`, Message{Calls: []events.RawCall{b}, Reason: "stop"}},
		{"text", `{"role":"assistant","content":"hi"}`, Message{}},
		{"no input", items(`{"type":"tool-call","toolCallId":"b","toolName":"echo"}`), Message{Calls: []events.RawCall{rawCall("b", "echo", "")}}},
	} {
		got, err := Decode(AISDK, []byte(c.body))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", c.name, err, diff)
		}
	}
	for reason, refused := range map[string]bool{"tool-calls": false, "stop": false, "length": true, "content-filter": true, "error": true, "other": true, "new": true} {
		m, err := Decode(AISDK, fmt.Appendf(nil, `{"finishReason":%q,"toolCalls":[%s]}`, reason, two))
		if err != nil || (m.Calls[0].Refused != nil) != refused {
			t.Errorf("%s: %+v, %v", reason, m, err)
		}
	}
	for body, path := range map[string]string{
		`{}`: "/content", `{"role":"tool","content":[]}`: "/role", `{"role":7}`: "/role", `{"content":7}`: "/content", `[7]`: "/0", `{"finishReason":7,"content":[]}`: "/finishReason",
		`{"finishReason":{"unified":7},"content":[]}`: "/finishReason/unified", `[{"type":"tool-call","toolCallId":7}]`: "/0/toolCallId", `[{"type":"tool-call","toolName":7}]`: "/0/toolName", `[{"type":7}]`: "/0/type",
	} {
		_, err := Decode(AISDK, []byte(body))
		if e, ok := errors.AsType[*Error](err); !ok || e.Path != path {
			t.Errorf("%s: %v, want the fault at %q", body, err, path)
		}
	}
}

func TestRenderAISDK(t *testing.T) {
	calls := []events.RawCall{rawCall("a", "echo", `{"v": 1}`), rawCall("a", strings.Repeat("n", 90), "")}
	asked, err := RenderCalls(AISDK, calls, Options{Seen: []string{"x"}})
	long := nameAISDK(calls[1].Tool)
	want := `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"echo","input":{"v":1}},{"type":"tool-call","toolCallId":"a-2","toolName":"` + long + `","input":{}}]}`
	if diff := cmp.Diff(want, string(asked)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	answers := answersTo(calls)
	answers[1].Standing = events.AnswerDenied
	answers[1].Result = events.Result{Error: &events.Error{Code: events.UnknownTool, Message: "none"}}
	want = `{"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"echo","output":{"type":"text","value":"{\"status\":\"success\",\"text\":\"ok\"}"}},` +
		`{"type":"tool-result","toolCallId":"a-2","toolName":"` + long + `","output":{"type":"error-text","value":"{\"status\":\"denied\",\"error\":{\"code\":\"UNKNOWN_TOOL\",\"message\":\"none\"}}"}}]}`
	if diff := cmp.Diff(want, render(t, AISDK, answers, Options{})); diff != "" {
		t.Error(diff)
	}
}

func TestValidateAISDK(t *testing.T) {
	call := func(ids ...string) string {
		var parts []string
		for _, id := range ids {
			parts = append(parts, `{"type":"tool-call","toolCallId":"`+id+`","toolName":"t","input":{}}`)
		}
		return `{"role":"assistant","content":[{"type":"text","text":"x"},` + strings.Join(parts, ",") + `]}`
	}
	answer := func(ids ...string) string {
		var parts []string
		for _, id := range ids {
			parts = append(parts, `{"type":"tool-result","toolCallId":"`+id+`","toolName":"t","output":{"type":"text","value":"x"}}`)
		}
		return `{"role":"tool","content":[` + strings.Join(parts, ",") + `]}`
	}
	checkValid(t, []valid{
		{"whole", AISDK, []string{saysUser, call("a", "b"), answer("a", "b"), saysModel, call("c"), answer("c"), saysUser}, ""},
		{"one missing", AISDK, []string{call("a", "b"), answer("a")}, "/1/content"},
		{"none", AISDK, []string{call("a"), saysUser}, "/1"},
		{"the end is missing", AISDK, []string{call("a")}, "/0"},
		{"two messages", AISDK, []string{call("a", "b"), answer("a"), answer("b")}, "/1/content"},
		{"twice", AISDK, []string{call("a"), answer("a", "a")}, "/1/content/1"},
		{"orphan", AISDK, []string{saysUser, answer("a")}, "/1/content/0"},
		{"out of order", AISDK, []string{call("a", "b"), answer("b", "a")}, "/1/content/0"},
		{"an id again", AISDK, []string{call("a"), answer("a"), call("a"), answer("a")}, "/2/content"},
		{"no id", AISDK, []string{call("")}, "/0/content"},
		{"no tool", AISDK, []string{strings.Replace(call("a"), `"t"`, `""`, 1), answer("a")}, "/0/content"},
		{"no output", AISDK, []string{call("a"), strings.Replace(answer("a"), `"text"`, `"novel"`, 1)}, "/1/content/0/output"},
		{"no result", AISDK, []string{call("a"), strings.Replace(answer("a"), answerPart, "text", 1)}, "/1/content/0/type"},
		{"no parts", AISDK, []string{call("a"), `{"role":"tool","content":"x"}`}, "/1/content"},
	})
}

const aiSDKTranscript = `{"messages":[{"role":"user","content":"go"},
	{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"tool-call","toolCallId":"a","toolName":"read","input":{"n":9007199254740993}},{"type":"tool-call","toolCallId":"b","toolName":"read","input":{}}]},
	{"role":"tool","content":[{"type":"tool-result","toolCallId":"b","toolName":"read","output":{"type":"error-text","value":"no"}},{"type":"tool-result","toolCallId":"a","toolName":"read","output":{"type":"text","value":"one"}},{"type":"tool-approval-response","approvalId":"x","approved":true}]},
	{"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"read","input":{}}]},
	{"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"read","output":{"type":"json","value":{"n":2.50}},"providerOptions":{"x":{}}},{"type":"tool-result","toolCallId":"z","toolName":"read","output":{"type":"text","value":"whose?"}}]}]}`

func TestAISDKTranscript(t *testing.T) {
	rec, err := Transcript([]byte(aiSDKTranscript))
	if err != nil || rec.Format != AISDK || len(rec.Turns) != 2 || len(rec.Skipped) != 1 {
		t.Fatalf("%+v, %v", rec, err)
	}
	conv := importAll(t, rec)
	got := checkConversation(t, AISDK, conv.Turns)
	want := `[{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"tool-call","toolCallId":"a","toolName":"read","input":{"n":9007199254740993}},{"type":"tool-call","toolCallId":"b","toolName":"read","input":{}}]},
	{"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"read","output":{"type":"text","value":"one"}},{"type":"tool-result","toolCallId":"b","toolName":"read","output":{"type":"error-text","value":"no"}}]},
	{"role":"assistant","content":[{"type":"tool-call","toolCallId":"a-2","toolName":"read","input":{}}]},
	{"role":"tool","content":[{"type":"tool-result","toolCallId":"a-2","toolName":"read","output":{"type":"json","value":{"n":2.50}},"providerOptions":{"x":{}}}]}]`
	if diff := cmp.Diff(value(t, []byte(want)), value(t, marshal(got))); diff != "" {
		t.Error(diff)
	}
	for _, f := range Formats() {
		checkConversation(t, f, conv.Turns)
	}
	if got := string(marshal(checkConversation(t, Anthropic, conv.Turns))); !strings.Contains(got, `"is_error":true`) {
		t.Error(got)
	}
	if got := string(marshal(checkConversation(t, Gemini, conv.Turns))); !strings.Contains(got, `"response":{"error":`) {
		t.Error(got)
	}
}
