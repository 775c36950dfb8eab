package model

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/gateway/codec"
)

var steps = []Step{
	{Text: "I shall look — at both.", Calls: []Call{{"call_1", "Read", `{"path":"größe.txt"}`}, {"call_2", "echo", `{"v":9007199254740993}`}}},
	{Calls: []Call{{"call_1", "write", `{"path":"a","text":"cut"}`}}, Cut: true},
	{Text: "Done."},
}

// asks are the requests of a conversation in which the model has said nothing yet.
var asks = []struct {
	format codec.Format
	whole  string
	stream string
	body   string
}{
	{codec.OpenAI, "/v1/chat/completions", "/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"go"}]}`},
	{codec.Responses, "/v1/responses", "/v1/responses", `{"model":"x","input":[{"role":"user","content":"go"}]}`},
	{codec.Anthropic, "/v1/messages", "/v1/messages", `{"model":"x","max_tokens":9,"messages":[{"role":"user","content":"go"}]}`},
	{codec.Gemini, "/v1beta/models/x:generateContent", "/v1beta/models/x:streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"go"}]}]}`},
}

func post(t *testing.T, url, body string) (int, []byte) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, out
}

// TestWholeAndStreamAgree: what the model says in parts is what it says at once.
func TestWholeAndStreamAgree(t *testing.T) {
	for at, step := range steps {
		s := New(t, steps[at:]...)
		for _, a := range asks {
			status, body := post(t, s.URL+a.whole, a.body)
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", a.format, status, body)
			}
			whole, err := codec.Decode(a.format, body)
			if err != nil {
				t.Fatalf("%s: %v in %s", a.format, err, body)
			}
			_, streamed := post(t, s.URL+a.stream, strings.Replace(a.body, "{", `{"stream":true,`, 1))
			_, got, err := codec.DecodeStream(a.format, streamed, codec.StreamOptions{})
			if err != nil {
				t.Fatalf("%s: %v in %s", a.format, err, streamed)
			}
			if len(whole.Calls) != len(step.Calls) || len(got.Calls) != len(step.Calls) {
				t.Fatalf("%s: %d calls at once, %d in parts, want %d", a.format, len(whole.Calls), len(got.Calls), len(step.Calls))
			}
			for i, c := range step.Calls {
				for _, one := range []codec.Message{whole, got} {
					is := one.Calls[i]
					if is.ProviderID != c.ID || is.Tool != c.Tool || !sameJSON(is.Args.Text, c.Args) || (is.Refused != nil) != step.Cut {
						t.Errorf("%s: call %d is %+v, want %+v", a.format, i, is, c)
					}
				}
			}
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && x.String() == y.String()
}

// TestABrokenConversationIsRefused: a call without an answer.
func TestABrokenConversationIsRefused(t *testing.T) {
	s := New(t, steps...)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}}]},{"role":"user","content":"?"}]}`,
		"/v1/responses":        `{"input":[{"type":"function_call","call_id":"a","name":"x","arguments":"{}"},{"role":"user","content":"?"}]}`,
		"/v1/messages":         `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]},{"role":"user","content":"?"}]}`,
		"/v1beta/models/x:generateContent": `{"contents":[{"role":"model","parts":[{"functionCall":{"name":"x","args":{}},"thoughtSignature":"cw=="}]},` +
			`{"role":"user","parts":[{"text":"?"}]}]}`,
	} {
		if status, said := post(t, s.URL+path, body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, status, said)
		}
	}
	for _, r := range s.Requests() {
		if r.Error == "" {
			t.Errorf("%s was not refused", r.Path)
		}
	}
}
