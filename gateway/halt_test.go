package gateway

import (
	"fmt"
	"strings"
	"testing"
)

// TestAMessageThatIsNoLastWord: a message without calls ends a conversation only where the
// model has ended; else each door says what it is, in the provider's word, and what to do.
func TestAMessageThatIsNoLastWord(t *testing.T) {
	d, n := newDoor(t, nil), newNATSDoor(t)
	chat := func(reason string) (string, string) {
		return fmt.Sprintf(`{"choices":[{"finish_reason":%q,"message":{"role":"assistant","content":"a"}}]}`, reason),
			fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":%q}]}|[DONE]`, reason)
	}
	anthropic := func(reason string) (string, string) {
		return fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"a"}],"stop_reason":%q}`, reason),
			fmt.Sprintf(`{"type":"message_start","message":{"id":"m","role":"assistant","content":[]}}|{"type":"message_delta","delta":{"stop_reason":%q}}|{"type":"message_stop"}`, reason)
	}
	gemini := func(reason string) (string, string) {
		whole := fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]},"finishReason":%q}]}`, reason)
		return whole, whole
	}
	blocked := func(reason string) (string, string) {
		whole := fmt.Sprintf(`{"promptFeedback":{"blockReason":%q}}`, reason)
		return whole, whole
	}
	for _, c := range []struct {
		as     func(string) (message, stream string)
		reason string
		word   string // "" says that it is a last word
	}{
		{chat, "stop", ""},
		{chat, "eos_token", ""},
		{chat, "length", "model-cut"},
		{chat, "content_filter", "model-blocked"},
		{chat, "surprise", "model-unclear"},
		{anthropic, "end_turn", ""},
		{anthropic, "stop_sequence", ""},
		{anthropic, "max_tokens", "model-cut"},
		{anthropic, "model_context_window_exceeded", "model-cut"},
		{anthropic, "refusal", "model-blocked"},
		{anthropic, "pause_turn", "model-paused"},
		{gemini, "STOP", ""},
		{gemini, "MAX_TOKENS", "model-cut"},
		{gemini, "SAFETY", "model-blocked"},
		{gemini, "MALFORMED_FUNCTION_CALL", "model-failed"},
		{gemini, "OTHER", "model-unclear"},
		{blocked, "PROHIBITED_CONTENT", "model-blocked"},
		{responses, `"status":"completed"`, ""},
		{responses, `"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`, "model-cut"},
		{responses, `"status":"incomplete","incomplete_details":{"reason":"content_filter"}`, "model-blocked"},
		{responses, `"status":"completed","incomplete_details":{"reason":"max_output_tokens"}`, "model-cut"},
	} {
		message, stream := c.as(c.reason)
		stream = sent(strings.Split(stream, "|")...)
		status, word, streamed := 422, `urn:sluice:problem:`+c.word+`"`, 422
		if c.word == "" {
			word, streamed = "nothing-to-run", 200
		}
		text := d.want(status, word, "POST", "/v1/turns", `{"message":`+message+`}`)
		if c.word != "" && (!strings.Contains(text, `"stop":"`) || !strings.Contains(text, `"next":"`)) {
			t.Errorf("%s: %s", c.reason, text)
		}
		d.want(status, word, "POST", "/v1/turns", `{"stream":`+string(marshalled(stream))+`}`)
		n.want(status, word, "adm", "submit", `{"message":`+message+`}`)
		if c.word == "" {
			word = `"state":"nothing"`
		}
		d.want(streamed, word, "POST", turnsStream, stream, eventStream()...)
		if _, text := d.do("POST", turnsStream, stream, eventStream("Accept", "text/event-stream")...); !strings.Contains(text, word) {
			t.Errorf("%s, shown as it comes: %s", c.reason, text)
		}
	}
}

// TestAResponseThatFailed: it has no stream that ends, and there the stream's own fault says so.
func TestAResponseThatFailed(t *testing.T) {
	d := newDoor(t, nil)
	for status, part := range map[string]string{`"failed","error":{"code":"server_error","message":"m"}`: `"stop":"failed: server_error"`, `"cancelled"`: `"stop":"cancelled"`} {
		d.want(422, "model-failed", "POST", "/v1/turns", `{"message":{"object":"response","output":[],"status":`+status+`}}`)
		d.want(422, part, "POST", "/v1/turns", `{"message":{"object":"response","output":[],"status":`+status+`}}`)
	}
}

// responses is a response without calls, whole and as the end of its stream.
func responses(rest string) (string, string) {
	kind := "incomplete"
	if strings.Contains(rest, `"completed"`) {
		kind = "completed"
	}
	return `{"object":"response","output":[],` + rest + `}`, `{"type":"response.` + kind + `","response":{"output":[],` + rest + `}}`
}
