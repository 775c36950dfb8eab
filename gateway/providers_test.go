package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
)

// thinking is a response of each provider that carries what it wants back, and what that is.
var thinking = map[codec.Format]struct{ response, wants string }{
	codec.OpenAI: {
		`{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","reasoning_content":"hm %s","tool_calls":[{"id":"a","type":"function","function":{"name":"echo","arguments":"{\"v\":1}"}}]}}]}`,
		`"reasoning_content":"hm %s"`,
	},
	codec.Responses: {
		`{"object":"response","status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm %s"}],"encrypted_content":"eA=="},{"type":"function_call","id":"fc_1","call_id":"a","name":"echo","arguments":"{\"v\":1}","status":"completed"}]}`,
		`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm %s"}],"encrypted_content":"eA=="}`,
	},
	codec.Anthropic: {
		`{"role":"assistant","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"hm %s","signature":"eA=="},{"type":"tool_use","id":"a","name":"echo","input":{"v":1}}]}`,
		`{"type":"thinking","thinking":"hm %s","signature":"eA=="}`,
	},
	codec.Gemini: {
		`{"candidates":[{"finishReason":"STOP","content":{"role":"model","parts":[{"functionCall":{"id":"a","name":"echo","args":{"v":1}},"thoughtSignature":"%s"}]}}]}`,
		`"thoughtSignature":"%s"`,
	},
}

// assistant is the model's message of a turn, as a door gives it.
func assistant(t *testing.T, d *Desk, key events.TurnKey, f codec.Format) string {
	t.Helper()
	v, err := d.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.Messages(t.Context(), v, f)
	if err != nil {
		t.Fatal(err)
	}
	return string(m.Asked)
}

// The model's message that a door gives is one that its provider takes: what it wants back
// with its calls is there, whatever its size, and not where another provider is spoken to.
func TestWhatProvidersWantBackIsKept(t *testing.T) {
	for f, c := range thinking {
		for _, size := range []int{4, 100_000} {
			d, _ := sealingDesk(t)
			filler := strings.Repeat("x", size)
			body := fmt.Sprintf(`{"trace":"t","turn":"u","message":`+c.response+`}`, filler)
			ticket, err := submitText(t, d, body)
			if err != nil {
				t.Fatal(err)
			}
			v, err := d.Get(t.Context(), ticket.Key)
			if err != nil {
				t.Fatal(err)
			}
			if v.Turn.Submitted.Format != string(f) || (v.Turn.Submitted.Calls[0].Extra.Ref != nil) != (size > 60_000) {
				t.Errorf("%s: %+v", f, v.Turn.Submitted)
			}
			want := fmt.Sprintf(c.wants, filler)
			for _, as := range codec.Formats() {
				got := assistant(t, d, ticket.Key, as)
				if strings.Contains(got, want) != (as == f) {
					t.Errorf("%s as %s, %d bytes: %.300s", f, as, size, got)
				}
			}
			if again, err := submitText(t, d, body); err != nil || !again.Attached {
				t.Errorf("%s: the same again: %+v, %v", f, again, err)
			}
			without := `{"trace":"t","turn":"u","calls":[{"id":"a","tool":"echo","args":{"v":1}}]}`
			if again, err := submitText(t, d, without); err != nil || !again.Attached {
				t.Errorf("%s: without what only the provider reads: %+v, %v", f, again, err)
			}
		}
	}
}

// What a model thought may say in clear what its calls' secrets are: then it is not kept.
func TestThoughtsWithSecretsAreForgotten(t *testing.T) {
	for f, c := range thinking {
		d, b := sealingDesk(t)
		said := "say " + keyToSeal
		ticket, err := submitText(t, d, fmt.Sprintf(`{"trace":"t","turn":"u","message":`+c.response+`}`, said))
		if err != nil {
			t.Fatal(err)
		}
		if all := storedText(t, b); strings.Contains(all, keyToSeal) {
			t.Errorf("%s: a secret is stored", f)
		}
		if got := assistant(t, d, ticket.Key, f); strings.Contains(got, "say") || !strings.Contains(got, `"a"`) {
			t.Errorf("%s: %s", f, got)
		}
		plain := fmt.Sprintf(strings.NewReplacer(`{"v":1}`, `{"pin":"swordfish"}`, `{\"v\":1}`, `{\"pin\":\"swordfish\"}`).Replace(c.response), "it is swordfish")
		if _, err := submitText(t, d, `{"trace":"t","turn":"v","secrets":["/pin"],"message":`+plain+`}`); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(storedText(t, b), "swordfish") {
			t.Errorf("%s: a declared secret is stored", f)
		}
	}
}

func TestExtraIsBounded(t *testing.T) {
	d, _ := sealingDesk(t)
	s := echo(`{}`)
	s.Calls[0].Extra.Text = strings.Repeat("x", lifecycle.MaxExtra+1)
	if _, err := d.Submit(t.Context(), key1, s); !errors.Is(err, lifecycle.ErrSubmission) {
		t.Errorf("more than may be kept: %v", err)
	}
	s = echo(make([]string, 40)...)
	for i := range s.Calls {
		s.Calls[i].Extra.Text = strings.Repeat("x", lifecycle.MaxExtra)
	}
	if _, err := d.Submit(t.Context(), key1, s); !errors.Is(err, lifecycle.ErrSubmission) {
		t.Errorf("more than a submission: %v", err)
	}
}

// An answer that names other ids than the message which was submitted brings a message with
// those; and who sends that one attaches to the turn.
func TestAnswersWithOtherIDsBringTheirMessage(t *testing.T) {
	for format, c := range map[codec.Format]struct{ calls, ids string }{
		codec.OpenAI:    {`[{"id":"c1","function":{"name":"echo","arguments":"{\"v\":1}"}},{"id":"c1","function":{"name":"echo","arguments":"{\"v\":2}"}},{"function":{"name":"echo","arguments":"{}"}}]`, `c1 c1-2 call_2`},
		codec.Responses: {`[{"type":"function_call","call_id":"c1","name":"echo","arguments":"{\"v\":1}"},{"type":"custom_tool_call","call_id":"c1","name":"echo","input":"x"}]`, `c1 c1-2`},
		codec.Anthropic: {`[{"type":"tool_use","id":"edit:22","name":"echo","input":{"v":1}},{"type":"tool_use","id":"edit_22","name":"echo","input":{"v":2}}]`, `edit_22-2 edit_22`},
		codec.Gemini:    {`[{"functionCall":{"id":"c1","name":"echo","args":{}}},{"functionCall":{"id":"c1","name":"echo","args":{}}},{"functionCall":{"name":"echo","args":{}}}]`, `c1 c1-2 `},
	} {
		d := newDoor(t, nil)
		o := newOwner(t, d.log.View("node"))
		var wg sync.WaitGroup
		wg.Go(func() {
			o.take()
			o.finish("hello")
		})
		out := d.want(200, `"state":"completed"`, "POST", "/v1/turns", `{"trace":"tr","turn":"tu","wait_ms":60000,"tool_calls":`+c.calls+`}`)
		wg.Wait()
		var got struct {
			Format    codec.Format
			Assistant json.RawMessage
			Messages  []json.RawMessage
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Format != format || got.Assistant == nil {
			t.Fatalf("%s: %v: %s", format, err, out)
		}
		m, err := codec.Decode(format, got.Assistant)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, call := range m.Calls {
			ids = append(ids, call.ProviderID)
		}
		if strings.Join(ids, " ") != c.ids {
			t.Errorf("%s: ids %q, want %q", format, ids, c.ids)
		}
		var whole []json.RawMessage
		if format != codec.Responses {
			whole = append(whole, got.Assistant)
		} else if err := json.Unmarshal(got.Assistant, &whole); err != nil {
			t.Fatal(err)
		}
		if err := codec.Validate(format, append(whole, got.Messages...)); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		d.want(200, `"state":"completed","attached":true`, "POST", "/v1/turns", fmt.Sprintf(`{"trace":"tr","turn":"tu","format":%q,"message":%s}`, format, got.Assistant))
		d.want(409, `:turn-exists"`, "POST", "/v1/turns", fmt.Sprintf(`{"trace":"tr","turn":"tu","format":%q,"message":%s}`, format, strings.Replace(string(got.Assistant), m.Calls[0].ProviderID, "other", 1)))
	}
}

// And one whose ids are its own brings none.
func TestAnswersWithTheirOwnIDsBringNoMessage(t *testing.T) {
	for format, calls := range map[codec.Format]string{
		codec.OpenAI:    `[{"id":"c1","function":{"name":"echo","arguments":""}}]`,
		codec.Responses: `[{"type":"function_call","call_id":"c1","name":"echo","arguments":""}]`,
		codec.Anthropic: `[{"type":"tool_use","id":"c1","name":"echo","input":{}}]`,
		codec.Gemini:    `[{"functionCall":{"name":"echo","args":{}}},{"functionCall":{"name":"echo"}}]`,
		codec.Neutral:   `[{"tool":"echo"},{"id":"c1","tool":"echo"},{"id":"c1","tool":"echo"}]`,
	} {
		d := newDoor(t, nil)
		o := newOwner(t, d.log.View("node"))
		var wg sync.WaitGroup
		wg.Go(func() {
			o.take()
			o.finish("hello")
		})
		out := d.want(200, `"state":"completed"`, "POST", "/v1/turns", `{"wait_ms":60000,"tool_calls":`+calls+`}`)
		wg.Wait()
		if strings.Contains(out, `"assistant"`) || !strings.Contains(out, fmt.Sprintf(`"format":%q`, format)) {
			t.Errorf("%s: %s", format, out)
		}
	}
}

// TestAMendedMessageIsBrought: ids that are good, and something else that would be refused.
func TestAMendedMessageIsBrought(t *testing.T) {
	for part, c := range map[string]struct {
		f     codec.Format
		calls string
	}{
		`"arguments":"{\"invalid_json\":`: {codec.OpenAI, `[{"id":"c1","function":{"name":"echo","arguments":"{\"v\":1"}}]`},
		`"input":{"invalid_json":`:        {codec.Anthropic, `[{"type":"tool_use","id":"c1","name":"echo","input":"{\"v\":1"}]`},
		`"name":"functions__echo"`:        {codec.OpenAI, `[{"id":"c1","function":{"name":"functions.echo","arguments":"{}"}}]`},
	} {
		d, _ := newDesk(t)
		m, err := codec.Decode(c.f, []byte(c.calls))
		must(t, err)
		s := echo(`{}`)
		s.Calls, s.Format = m.Calls, string(c.f)
		_, err = d.Submit(within(t), key1, s)
		must(t, err)
		v, err := d.Get(within(t), key1)
		must(t, err)
		got, err := d.Messages(within(t), v, "")
		must(t, err)
		var out submitted
		if out.tell(got); got.Renamed || !strings.Contains(string(out.Asked), part) {
			t.Errorf("%s: %+v", c.calls, out)
		}
	}
}
