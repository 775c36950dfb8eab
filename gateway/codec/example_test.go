package codec_test

import (
	"fmt"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
)

// The calls of a chat completion, as a turn wants them.
func ExampleDecode() {
	m, err := codec.Decode(codec.OpenAI, []byte(`{"choices": [{
		"finish_reason": "tool_calls",
		"message": {"role": "assistant", "tool_calls": [
			{"id": "call_1", "type": "function", "function": {"name": "echo", "arguments": "{\"v\": 9007199254740993}"}}
		]}
	}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range m.Calls {
		fmt.Println(c.ProviderID, c.Tool, c.Args.Text, m.Reason)
	}
	// Output: call_1 echo {"v": 9007199254740993} tool_calls
}

// A message that was cut off starts nothing.
func ExampleDecode_truncated() {
	m, err := codec.Decode(codec.Anthropic, []byte(`{"stop_reason": "max_tokens", "content": [
		{"type": "tool_use", "id": "toolu_1", "name": "write", "input": {"path": "a.md"}}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Calls[0].Tool, m.Calls[0].Refused.Code)
	// Output: write TRUNCATED_BY_MODEL
}

// The same two answers for two providers.
func ExampleRender() {
	calls := []events.RawCall{{ProviderID: "call_1", Tool: "echo"}, {ProviderID: "call_2", Tool: "rm"}}
	answers := []events.Answer{
		lifecycle.AnswerOf(0, calls[0], &events.Completed{Outcome: events.Outcome{Result: events.Result{Text: events.Body{Text: "hello"}}}}),
		lifecycle.AnswerOf(1, calls[1], &events.Denied{Code: events.UnknownTool, Reason: "There is no tool rm."}),
	}
	for _, f := range []codec.Format{codec.OpenAI, codec.Anthropic} {
		messages, err := codec.Render(f, answers, codec.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, m := range messages {
			fmt.Println(string(m))
		}
	}
	// Output:
	// {"role":"tool","tool_call_id":"call_1","name":"echo","content":"{\"status\":\"success\",\"text\":\"hello\"}"}
	// {"role":"tool","tool_call_id":"call_2","name":"rm","content":"{\"status\":\"denied\",\"error\":{\"code\":\"UNKNOWN_TOOL\",\"message\":\"There is no tool rm.\"}}"}
	// {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"{\"status\":\"success\",\"text\":\"hello\"}"},{"type":"tool_result","tool_use_id":"call_2","content":"{\"status\":\"denied\",\"error\":{\"code\":\"UNKNOWN_TOOL\",\"message\":\"There is no tool rm.\"}}","is_error":true}]}
}

// What one provider's model has asked for, as another one's conversation.
func ExampleConversation() {
	m, err := codec.Decode(codec.Gemini, []byte(`{"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
		{"functionCall": {"name": "echo", "args": {"v": 1}}, "thoughtSignature": "c2lnbmVk"}
	]}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer := lifecycle.AnswerOf(0, m.Calls[0], &events.Completed{Outcome: events.Outcome{Result: events.Result{Text: events.Body{Text: "hello"}}}})
	turns := []codec.Turn{{Calls: m.Calls, Answers: []events.Answer{answer}}}
	for _, f := range []codec.Format{codec.Gemini, codec.Responses} {
		messages, err := codec.Conversation(f, turns, 0)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, m := range messages {
			fmt.Println(string(m))
		}
	}
	// Output:
	// {"role":"model","parts":[{"functionCall":{"name":"echo","args":{"v":1}},"thoughtSignature":"c2lnbmVk"}]}
	// {"role":"user","parts":[{"functionResponse":{"name":"echo","response":{"output":"{\"status\":\"success\",\"text\":\"hello\"}"}}}]}
	// {"type":"function_call","call_id":"call_0","name":"echo","arguments":"{\"v\": 1}"}
	// {"type":"function_call_output","call_id":"call_0","output":"{\"status\":\"success\",\"text\":\"hello\"}"}
}

// A recorded conversation becomes turns with answers.
func ExampleTranscripts() {
	file := strings.NewReader(`{"messages": [
		{"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "ls", "arguments": ""}}]},
		{"role": "tool", "tool_call_id": "a", "content": "README.md"}
	]}`)
	for rec, err := range codec.Transcripts(file) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, t := range rec.Turns {
			fmt.Println(t.Turn, t.Calls[0].Tool, t.Answers[0].Result.Text.Text)
		}
	}
	// Output: t0001 ls README.md
}
