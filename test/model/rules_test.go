package model

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestRules: what the providers refuse besides a broken order of calls and answers.
func TestRules(t *testing.T) {
	s := New(t, steps...)
	const (
		chat, responses, messages, gemini = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/x:generateContent"

		user = `{"role":"user","content":"go"}`
	)
	for name, c := range map[string][3]string{
		"no model":                   {chat, `{"messages":[` + user + `]}`, "'model'"},
		"no bound":                   {messages, `{"model":"x","messages":[` + user + `]}`, "'max_tokens'"},
		"a tool's name":              {chat, `{"model":"x","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"a:b","parameters":{"type":"object"}}}]}`, "does not match"},
		"a name twice":               {responses, `{"model":"x","input":[` + user + `],"tools":[{"type":"function","name":"a"},{"type":"function","name":"a"}]}`, "unique"},
		"a schema of no object":      {messages, `{"model":"x","max_tokens":9,"messages":[` + user + `],"tools":[{"name":"a","input_schema":{"type":"string"}}]}`, "type object"},
		"what an SDK had added":      {responses, `{"model":"x","input":[` + user + `,{"type":"function_call","call_id":"a","name":"x","arguments":"{}","parsed_arguments":{}},{"type":"function_call_output","call_id":"a","output":""}]}`, "parsed_arguments"},
		"broken arguments":           {chat, `{"model":"x","messages":[` + user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{\"a"}}]},{"role":"tool","tool_call_id":"a","content":""}]}`, "JSON object"},
		"the model first":            {messages, `{"model":"x","max_tokens":9,"messages":[{"role":"assistant","content":"hi"}]}`, "user role"},
		"calls without tools":        {messages, `{"model":"x","max_tokens":9,"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}]}`, "define tools"},
		"an empty text":              {messages, `{"model":"x","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":" "}]}]}`, "non-empty"},
		"a call without its thought": {gemini, `{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":"x","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"x","response":{}}}]}]}`, "thought_signature"},
	} {
		t.Run(name, func(t *testing.T) {
			status, said := post(t, s.URL+c[0], c[1])
			if status != http.StatusBadRequest || !strings.Contains(string(said), c[2]) {
				t.Errorf("%d %s, want %q", status, said, c[2])
			}
		})
	}
}

// TestWhims: no time first, then a stream that breaks, then the whole; of each conversation.
func TestWhims(t *testing.T) {
	s := New(t, Step{Text: "a long answer, in parts", Busy: 1, Breaks: 1})
	for _, begin := range []string{"one", "two"} {
		body := `{"stream":true,"model":"x","messages":[{"role":"user","content":"` + begin + `"}]}`
		if status, said := post(t, s.URL+chat.path, body); status != http.StatusServiceUnavailable {
			t.Errorf("%d %s", status, said)
		}
		if status, said := post(t, s.URL+chat.path, body); status != http.StatusOK || strings.Contains(string(said), "finish_reason\":\"stop") {
			t.Errorf("%d %s", status, said)
		}
		if status, said := post(t, s.URL+chat.path, body); status != http.StatusOK || !strings.Contains(string(said), "[DONE]") {
			t.Errorf("%d %s", status, said)
		}
	}
}
