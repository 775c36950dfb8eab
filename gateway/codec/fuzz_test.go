package codec

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// FuzzDecodeMessage: no bytes make it panic; what it accepts is within the bounds, can be
// sent back and answered, and comes back with the same calls.
func FuzzDecodeMessage(f *testing.F) {
	for _, seed := range []string{
		`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":"{\"v\":1}"}},{"id":"a","type":"custom","custom":{"name":"t","input":"\ud800"}}]}`,
		`{"choices":[{"finish_reason":"length","message":{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"t","arguments":"{"}}]}}]}`,
		`[{"type":"tool_use","id":"edit:22","name":"mcp:x","input":{"a":[1e400,9007199254740993]}},{"type":"tool_use","id":"edit_22","name":"","input":null}]`,
		`{"role":"assistant","content":[{"type":"text","text":"\ude00"}],"stop_reason":"max_tokens"}`,
		`{"calls":[{"id":"\u0000","tool":"t","args":"{}","key":"k"}]}`,
		`[[[[`, "\"\xff\"", `null`,
		`{"object":"response","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"function_call","id":"fc_1","call_id":"c","name":"t","arguments":"{\"v\":1e3}","status":"completed"},{"type":"custom_tool_call","call_id":"c","name":"t","input":"\ud800"}]}`,
		`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"function_call","call_id":"` + strings.Repeat("c", 200) + `","name":"a:b","arguments":"{"}]}`,
		`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"t","args":{"v":9007199254740993}},"thoughtSignature":"eA=="},{"function_call":{"id":"a","name":"` + strings.Repeat("n", 90) + `"}}]},"finishReason":"STOP"}]}`,
		`[{"functionCall":{"id":"a","name":"1.x","args":{}},"thought_signature":"skip_thought_signature_validator"},{"name":"t","id":"a"}]`,
		`{"role":"assistant","content":[{"type":"reasoning","text":"x"},{"type":"tool-call","toolCallId":"a","toolName":"t","input":"{\"v\":1}","providerOptions":{}},{"type":"tool-call","toolCallId":"a","toolName":"1","input":{}}]}`,
		`[{"type":"thinking","thinking":"x","signature":"s"},{"type":"tool_use","id":"a","name":"t","input":{},"caller":{"type":"direct"}}]`,
		`{"role":"assistant","reasoning_content":"x","tool_calls":[{"id":"a","function":{"name":"t","arguments":"{}"},"extra_content":{"google":{}}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, format := range Formats() {
			m, err := Decode(format, body)
			if err != nil {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Fatalf("%s: %T %v", format, err, err)
				}
				continue
			}
			checkDecoded(t, format, m)
		}
	})
}

func checkDecoded(t *testing.T, format Format, m Message) {
	if len(m.Calls) > MaxCalls {
		t.Fatalf("%d calls", len(m.Calls))
	}
	turn := Turn{Calls: m.Calls}
	for i, c := range m.Calls {
		if len(c.Args.Text) > MaxArgs || len(c.Tool) > MaxName || !utf8.ValidString(c.Args.Text+c.Tool+c.ProviderID) {
			t.Fatalf("call %d: %+v", i, c)
		}
		turn.Answers = append(turn.Answers, lifecycle.AnswerOf(i, c, &events.Denied{Code: events.UnknownTool, Reason: c.Args.Text}))
	}
	if len(m.Calls) == 0 {
		return
	}
	// Twice, as two turns with the same ids.
	messages, err := Conversation(format, []Turn{turn, turn}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(format, messages); err != nil {
		t.Fatalf("%s: %v\n%s", format, err, messages)
	}
	raw, err := RenderCalls(format, m.Calls, Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(format, raw)
	if err != nil || len(again.Calls) != len(m.Calls) {
		t.Fatalf("%s: %d calls came back as %d: %v", format, len(m.Calls), len(again.Calls), err)
	}
	if twice, err := RenderCalls(format, again.Calls, Options{}); err != nil || !sameJSON(string(twice), string(raw)) {
		t.Fatalf("%s: %s, rendered again, is %s: %v", format, raw, twice, err)
	}
	before, _ := IDs(format, m.Calls, Options{})
	after, _ := IDs(format, again.Calls, Options{})
	if !slices.Equal(before, after) {
		t.Fatalf("%s: ids %q became %q", format, before, after)
	}
	for i, c := range m.Calls {
		whole := strings.HasPrefix(c.Args.Text, "{") && json.Valid([]byte(c.Args.Text))
		if again.Calls[i].Custom != c.Custom {
			t.Fatalf("%s: call %d, %+v, became %+v", format, i, c, again.Calls[i])
		}
		if got := again.Calls[i].Args.Text; whole && !sameJSON(got, c.Args.Text) {
			t.Fatalf("%s: arguments %q became %q", format, c.Args.Text, got)
		}
	}
}

func sameJSON(a, b string) bool {
	return string(marshal(json.RawMessage(a))) == string(marshal(json.RawMessage(b)))
}

// FuzzTranscript: no bytes make it panic, and what it accepts has an answer or none for
// each call, valid ids, and messages that every provider takes.
func FuzzTranscript(f *testing.F) {
	f.Add([]byte(anthropicTranscript))
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"t","arguments":""}}]},{"role":"tool","tool_call_id":"a","name":"t","content":[{"type":"text","text":"x"}]}]}`))
	f.Add([]byte(`[{"role":"tool","content":null}]`))
	f.Add([]byte(`{"messages":{}}`))
	f.Add([]byte(responsesTranscript))
	f.Add([]byte(geminiTranscript))
	f.Add([]byte(aiSDKTranscript))
	f.Fuzz(func(t *testing.T, doc []byte) {
		rec, err := Transcript(doc)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		var turns []Turn
		for _, turn := range rec.Turns {
			if len(turn.Answers) != len(turn.Calls) || len(turn.Results()) != len(turn.Calls) {
				t.Fatalf("%d answers to %d calls", len(turn.Answers), len(turn.Calls))
			}
			if err := (events.TurnKey{Trace: rec.Trace, Turn: turn.Turn}).Check(); err != nil {
				t.Fatal(err)
			}
			out := Turn{Calls: turn.Calls}
			for i, r := range turn.Results() {
				a := lifecycle.AnswerOf(i, turn.Calls[i], nil)
				if r != nil {
					a = lifecycle.AnswerOf(i, turn.Calls[i], &events.Completed{Outcome: events.Outcome{Result: *r}})
				}
				a.Verbatim = true
				out.Answers = append(out.Answers, a)
			}
			turns = append(turns, out)
		}
		for _, format := range Formats() {
			messages, err := Conversation(format, turns, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range messages {
				if !json.Valid(m) || !utf8.Valid(m) {
					t.Fatalf("%s: %q", format, m)
				}
			}
			if err := Validate(format, messages); err != nil && format != rec.Format { // of its own format it is what was recorded
				t.Fatalf("%s: %v: %s", format, err, messages)
			}
		}
	})
}
