package codec

import (
	"strings"
	"testing"
)

func TestSniff(t *testing.T) {
	for in, want := range map[string]Format{
		`{"role":"assistant","tool_calls":[{"id":"a"}]}`: OpenAI,
		`{"choices":[]}`: OpenAI,
		`[{"id":"a","type":"function","function":{"name":"t"}}]`:           OpenAI,
		`{"role":"assistant","content":"hi"}`:                              OpenAI,
		`{"role":"assistant","function_call":{"name":"t","arguments":""}}`: OpenAI,
		`[{"type":"custom","id":"a","custom":{"name":"t","input":"x"}}]`:   OpenAI,
		`7`: OpenAI, `{`: OpenAI, `[]`: OpenAI, `[7]`: OpenAI, `null`: OpenAI, strings.Repeat("[", 5_000): OpenAI,
		`{"stop_reason":"end_turn","content":[]}`:                                          Anthropic,
		`[{"type":"text","text":"x"},{"type":"tool_use","id":"a"}]`:                        Anthropic,
		`{"content":[{"type":"redacted_thinking","data":"x"},{"type":"tool_use"}]}`:        Anthropic,
		`{"object":"response","status":"completed","output":[]}`:                           Responses,
		`{"output":[{"type":"function_call"}]}`:                                            Responses,
		`[{"type":"reasoning","id":"rs_1"},{"type":"function_call","call_id":"a"}]`:        Responses,
		`[{"type":"message","role":"assistant","content":[]},{"type":"custom_tool_call"}]`: Responses,
		`{"type":"function_call","call_id":"a","name":"t","arguments":""}`:                 Responses,
		`{"candidates":[{}]}`:                                                              Gemini,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`:                                      Gemini,
		`{"role":"model","parts":[{"text":"x"}]}`:                                          Gemini,
		`{"content":{"role":"model","parts":[]},"finishReason":"STOP"}`:                    Gemini,
		`[{"text":"x"},{"functionCall":{"name":"t"}}]`:                                     Gemini,
		`[{"function_call":{"name":"t"}}]`:                                                 Gemini,
		`[{"name":"t","args":{}}]`:                                                         Gemini,
		`[{"type":"reasoning","text":"x"},{"type":"tool-call"}]`:                           AISDK,
		`{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool-call"}]}`: AISDK,
		`{"finishReason":"tool-calls","toolCalls":[]}`:                                     AISDK,
		`[{"tool":"t","args":{}}]`:                                                         Neutral,
		`{"calls":[]}`:                                                                     Neutral,
	} {
		if got := Sniff([]byte(in)); got != want {
			t.Errorf("%.60s: %s, want %s", in, got, want)
		}
	}
}
