package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/sluice-run/sluice/gateway/codec"
)

func TestSniff(t *testing.T) {
	for in, want := range map[string]codec.Format{
		openAI:                               codec.OpenAI,
		`{"choices":[{"message":{}}]}`:       codec.OpenAI,
		`{"role":"assistant","content":"x"}`: codec.OpenAI,
		`[{"id":"a","type":"function","function":{"name":"x"}}]`:                          codec.OpenAI,
		`[{"function":{"name":"x"},"tool":"y"}]`:                                          codec.OpenAI,
		`[{"type":"tool_use","id":"a","name":"x","input":{}}]`:                            codec.Anthropic,
		`{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use"}]}`: codec.Anthropic,
		`{"stop_reason":"end_turn","content":[]}`:                                         codec.Anthropic,
		`[{"tool":"x"}]`: codec.Neutral,
		`{"calls":[]}`:   codec.Neutral,
		`[]`:             codec.OpenAI,
		`no JSON`:        codec.OpenAI,
		`[1,"x",null]`:   codec.OpenAI,
	} {
		if got := Sniff(json.RawMessage(in)); got != want {
			t.Errorf("%s looks like %s, want %s", in, got, want)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"trace":"tr","turn":"tu","principal":"agent","message":` + openAI + `,"wait_ms":5}`))
	f.Add([]byte(`{"calls":[{"tool":"echo","args":"{\"v\":\"\ud800\"}"}],"limits":{"call_bytes":1}}`))
	f.Add([]byte(`{"principal":{"id":"a","parents":["b"]},"tool_calls":[{"function":{"name":"x","arguments":null}}]}`))
	f.Add([]byte("{\"calls\":[{\"tool\":\"\xff\"}]}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := ParseEnvelope(body)
		if err != nil {
			var p *Problem
			if !errors.As(err, &p) || p.Status != http.StatusBadRequest && p.Status != http.StatusRequestEntityTooLarge || p.Next == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		s := whole(o.Turn)
		for _, c := range s.Calls {
			if !utf8.ValidString(c.Args.Text) || !utf8.ValidString(c.Tool) || wholeJSON(c.Args.Text) != c.Args.Text {
				t.Fatalf("not whole: %q", c.Args.Text)
			}
		}
		if s.Principal.ID == "" {
			t.Fatal("nobody acts")
		}
	})
}

func ExampleSniff() {
	fmt.Println(Sniff(json.RawMessage(`{"role":"assistant","tool_calls":[{"function":{"name":"Read"}}]}`)))
	fmt.Println(Sniff(json.RawMessage(`{"role":"assistant","content":[{"type":"tool_use","name":"Read"}]}`)))
	fmt.Println(Sniff(json.RawMessage(`[{"tool":"Read","args":{"path":"a.go"}}]`)))
	// Output:
	// openai
	// anthropic
	// json
}
