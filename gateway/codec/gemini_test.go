package codec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
)

const (
	ownGemini = `{"format":"gemini"}`
	signed    = `{"format":"gemini","with":{"thoughtSignature":"c2lnbmVk"}}`
)

func candidate(reason string, parts ...string) string {
	return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":%s},"finishReason":%q,"index":0}],"modelVersion":"g-3","usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7}}`, items(parts...), reason)
}

func TestDecodeGemini(t *testing.T) {
	a := `{"functionCall":{"id":"f1","name":"echo","args":{"v":9007199254740993,"w":1e3}},"thoughtSignature":"c2lnbmVk"}`
	b := `{"functionCall":{"name":"echo","args":{}}}`
	said := `{"text":"Let me see.","thoughtSignature":"dGV4dA=="}`
	one := with(rawCall("f1", "echo", `{"v":9007199254740993,"w":1e3}`), signed)
	two := rawCall("", "echo", "{}")
	for _, c := range []struct {
		name, body string
		want       Message
	}{
		{"response", candidate("STOP", said, a, b), Message{Calls: []events.RawCall{one, two}, Reason: "STOP", Model: "g-3", Input: 3, Output: 4}},
		{"candidate", `{"content":{"parts":[` + a + `],"role":"model"},"finishReason":"STOP"}`, Message{Calls: []events.RawCall{one}, Reason: "STOP"}},
		{"content", `{"role":"model","parts":[` + a + `,` + b + `]}`, Message{Calls: []events.RawCall{one, two}}},
		{"content without a role", `{"parts":[` + a + `]}`, Message{Calls: []events.RawCall{one}}},
		{"parts", items(said, a, b), Message{Calls: []events.RawCall{one, two}}},
		{"bare calls", `[{"id":"f1","name":"echo","args":{"v":1}},{"name":"echo"}]`, Message{Calls: []events.RawCall{with(rawCall("f1", "echo", `{"v":1}`), ownGemini), rawCall("", "echo", "")}}},
		{
			"as the Python SDK writes it",
			`{"candidates":[{"content":{"parts":[{"text":null,"function_call":{"id":null,"name":"echo","args":{"v":1},"partial_args":null,"will_continue":null},"function_response":null,"thought_signature":"c2lnbmVk"}],"role":"model"},"finish_reason":"STOP"}],"prompt_feedback":null,"model_version":"g-3","usage_metadata":{"prompt_token_count":3,"candidates_token_count":4}}`,
			Message{Calls: []events.RawCall{with(rawCall("", "echo", `{"v":1}`), signed)}, Reason: "STOP", Model: "g-3", Input: 3, Output: 4},
		},
		{"no arguments", items(`{"functionCall":{"name":"echo"}}`, `{"functionCall":{"name":"echo","args":null}}`), Message{Calls: []events.RawCall{with(rawCall("", "echo", ""), ownGemini), rawCall("", "echo", "")}}},
		{"no calls", candidate("STOP", said), Message{Reason: "STOP", Model: "g-3", Input: 3, Output: 4}},
		{"nothing said", `{"candidates":[{"finishReason":"SAFETY"}]}`, Message{Reason: "SAFETY"}},
		{"nothing said, bare", `{"finishReason":"MALFORMED_FUNCTION_CALL"}`, Message{Reason: "MALFORMED_FUNCTION_CALL"}},
		{"no parts", `{"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}]}`, Message{Reason: "STOP"}},
		{"the question was refused", `{"promptFeedback":{"blockReason":"SAFETY"}}`, Message{Reason: "blocked: SAFETY"}},
		{"what the provider runs", items(`{"executableCode":{"language":"PYTHON","code":"x"}}`, `{"toolCall":{"id":"x","toolType":"GOOGLE_SEARCH_WEB"}}`, a), Message{Calls: []events.RawCall{one}}},
		{"not from this provider", items(`{"functionCall":{"name":"echo","args":{}},"thoughtSignature":"skip_thought_signature_validator"}`, b), Message{Calls: []events.RawCall{rawCall("", "echo", "{}"), two}}},
	} {
		got, err := Decode(Gemini, []byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// 7: only STOP lets calls start; whatever else the candidate ended with, each of its calls
// is answered.
func TestGeminiThatWasCut(t *testing.T) {
	for reason, refused := range map[string]bool{
		"STOP": false, "FINISH_REASON_UNSPECIFIED": true, "MAX_TOKENS": true, "SAFETY": true, "RECITATION": true, "LANGUAGE": true, "OTHER": true,
		"BLOCKLIST": true, "PROHIBITED_CONTENT": true, "SPII": true, "MALFORMED_FUNCTION_CALL": true, "UNEXPECTED_TOOL_CALL": true,
		"TOO_MANY_TOOL_CALLS": true, "CONTINUATION": true, "NEW_ONE": true,
		"stop": false, "tool_calls": false, // as routers say it
	} {
		m, err := Decode(Gemini, []byte(candidate(reason, `{"functionCall":{"name":"write","args":{"path":"a.md"}}}`, `{"functionCall":{"name":"write","args":{}}}`)))
		if err != nil || len(m.Calls) != 2 || m.Reason != reason {
			t.Fatalf("%s: %+v, %v", reason, m, err)
		}
		for _, call := range m.Calls {
			if (call.Refused != nil) != refused || refused && call.Refused.Code != events.TruncatedByModel {
				t.Errorf("%s: refused %+v", reason, call.Refused)
			}
		}
	}
}

func TestDecodeGeminiRefuses(t *testing.T) {
	call := `{"functionCall":{"name":"t","args":{}}}`
	for body, path := range map[string]string{
		`{}`:                     "/parts",
		`{"error":{"code":400}}`: "/parts",
		`{"candidates":7}`:       "/candidates",
		`{"candidates":[{"finishReason":"STOP"},{"finishReason":"STOP"}]}`:                                 "/candidates",
		`{"candidates":[{"content":{"role":"model","parts":[` + call + `]}}]}`:                             "/candidates/0/finishReason",
		`{"content":{"role":"model","parts":[` + call + `]}}`:                                              "/finishReason",
		`{"candidates":[{"content":7,"finishReason":"STOP"}]}`:                                             "/candidates/0/content",
		`{"role":"user","parts":[` + call + `]}`:                                                           "/role",
		`{"role":"model","parts":7}`:                                                                       "/parts",
		`{"role":"model","parts":[7]}`:                                                                     "/parts/0",
		`{"parts":[{"functionCall":7}]}`:                                                                   "/parts/0/functionCall",
		`{"parts":[{"functionCall":{"name":7}}]}`:                                                          "/parts/0/functionCall/name",
		`{"parts":[{"functionCall":{"id":7}}]}`:                                                            "/parts/0/functionCall/id",
		`{"parts":[{"functionCall":{"name":"a"},"function_call":{"name":"b"}}]}`:                           "/parts/0/function_call",
		`{"parts":[{"functionCall":{"name":"a"},"thoughtSignature":"x","thought_signature":"y"}]}`:         "/parts/0/thought_signature",
		`{"parts":[{"functionCall":{"name":"a","willContinue":true}}]}`:                                    "/parts/0/functionCall",
		`{"parts":[{"functionCall":{"name":"a","partialArgs":[{"jsonPath":"$.x","stringValue":"y"}]}}]}`:   "/parts/0/functionCall",
		`{"parts":[` + call + `,{"functionResponse":{"name":"t","response":{}}}]}`:                         "/parts/1",
		`[{"candidates":[{"content":{"parts":[` + call + `]}}]},{"candidates":[{"finishReason":"STOP"}]}]`: "/0",
	} {
		_, err := Decode(Gemini, []byte(body))
		if e, ok := errors.AsType[*Error](err); !ok || e.Path != path {
			t.Errorf("%.90s: %v, want the fault at %q", body, err, path)
		}
	}
}

// The signature comes back beside its own call; a call that no model of this provider made
// says so, once in a message; and one that came without is left as it came.
func TestGeminiSignatures(t *testing.T) {
	own, err := Decode(Gemini, []byte(items(`{"functionCall":{"name":"a","args":{"x":1}},"thoughtSignature":"c2lnbmVk"}`, `{"functionCall":{"name":"b","args":{}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Decode(Gemini, []byte(items(`{"functionCall":{"name":"a","args":{"x":1}}}`, `{"functionCall":{"name":"b","args":{}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	foreign := []events.RawCall{rawCall("", "a", `{"x":1}`), rawCall("", "b", "")}
	for sign, calls := range map[string][]events.RawCall{`,"thoughtSignature":"c2lnbmVk"`: own.Calls, "": plain.Calls, `,"thoughtSignature":"skip_thought_signature_validator"`: foreign} {
		want := `{"role":"model","parts":[{"functionCall":{"name":"a","args":{"x":1}}` + sign + `},{"functionCall":{"name":"b","args":{}}}]}`
		got, err := RenderCalls(Gemini, calls, Options{})
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Error(err, diff)
		}
		for _, f := range []Format{OpenAI, Responses, Anthropic, Neutral} {
			if b, err := RenderCalls(f, calls, Options{}); err != nil || strings.Contains(string(b), "ignature") {
				t.Errorf("%s: %s, %v", f, b, err)
			}
		}
	}
}
