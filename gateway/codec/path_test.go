package codec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/codec"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// asking writes a message with one call of the tool t in each provider's own way; args is
// what stands where the arguments do, "" for nothing at all.
var asking = map[codec.Format]func(args string) string{
	codec.OpenAI: func(args string) string {
		return `[{"id":"a","type":"function","function":{"name":"t"` + named("arguments", args) + `}}]`
	},
	codec.Responses: func(args string) string {
		return `[{"type":"function_call","call_id":"a","name":"t"` + named("arguments", args) + `}]`
	},
	codec.Anthropic: func(args string) string {
		return `[{"type":"tool_use","id":"a","name":"t"` + named("input", args) + `}]`
	},
	codec.Gemini: func(args string) string {
		return `[{"functionCall":{"id":"a","name":"t"` + named("args", args) + `}}]`
	},
	codec.AISDK: func(args string) string {
		return `[{"type":"tool-call","toolCallId":"a","toolName":"t"` + named("input", args) + `}]`
	},
	codec.Neutral: func(args string) string { return `[{"id":"a","tool":"t"` + named("args", args) + `}]` },
}

func named(name, value string) string {
	if value == "" {
		return ""
	}
	return `,"` + name + `":` + value
}

// outcome is what a call of t came to: what the tool was given ("" where it was never run),
// and what the model is told in each format.
type outcome struct {
	given string
	denial
	told map[codec.Format]string
	back map[codec.Format]string // the model's message, as it may be sent back
}

type denial struct{ path, reason string }

// passes takes a message through everything on a call's way: the codec, the parser, the
// schema, the tool, the normaliser, the bounds, and the codec again.
func passes(t *testing.T, f codec.Format, body, schema string, run func(ctx context.Context, in tools.Invocation) (events.Result, error)) outcome {
	t.Helper()
	m, err := codec.Decode(f, []byte(body))
	if err != nil || len(m.Calls) != 1 {
		t.Fatalf("%s: %s: %+v, %v", f, body, m, err)
	}
	out := outcome{told: map[codec.Format]string{}, back: map[codec.Format]string{}}
	end := decided(t, &out, m.Calls[0], schema, run)
	answer := lifecycle.AnswerOf(0, m.Calls[0], end)
	for _, as := range codec.Formats() {
		asked, err := codec.Asked(as, m.Calls, codec.Options{})
		told, err2 := codec.Render(as, []events.Answer{answer}, codec.Options{})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if err := codec.Validate(as, append(asked, told...)); err != nil {
			t.Errorf("%s as %s: %v", f, as, err)
		}
		out.told[as], out.back[as] = string(told[0]), string(asked[0])
		if len(told[0]) > lifecycle.CallBytes+64 || !utf8.Valid(told[0]) || !json.Valid(told[0]) {
			t.Errorf("%s as %s: %d bytes: %.200q", f, as, len(told[0]), told[0])
		}
	}
	return out
}

// decided is the call's terminal.
func decided(t *testing.T, out *outcome, call events.RawCall, schema string, run func(ctx context.Context, in tools.Invocation) (events.Result, error)) events.Event {
	t.Helper()
	args, err := lifecycle.Parse(call.Args.Text)
	if err != nil {
		out.reason = err.Error()
		return &events.Denied{Gate: string(lifecycle.GateValidate), Code: events.InvalidParam, Reason: out.reason}
	}
	tool := tools.Tool{Spec: tools.Spec{Name: "t", Schema: json.RawMessage(schema), Tier: events.Readonly}, Run: func(ctx context.Context, in tools.Invocation) (events.Result, error) {
		out.given = string(in.Args)
		return run(ctx, in)
	}}
	if bad := tools.Validate(tool, []byte(call.Args.Text)); len(bad) > 0 {
		out.denial = denial{bad[0].Path, bad[0].Message}
		return &events.Denied{Gate: string(lifecycle.GateValidate), Code: events.InvalidParam, Reason: out.reason, Path: out.path}
	}
	r := tools.Execute(t.Context(), tool, tools.Invocation{Call: events.CallKey{Trace: "t", Turn: "u"}, Attempt: 1, Tool: "t", Args: args.JSON}, tools.Options{})
	fitted, _ := lifecycle.FitCall(r.Result, 0)
	o := events.Outcome{Attempt: 1, Class: r.Class, Effects: r.Effects, Result: fitted}
	if r.Class == events.ClassOK {
		return &events.Completed{Outcome: o}
	}
	return &events.Failed{Outcome: o}
}

func echoes(_ context.Context, in tools.Invocation) (events.Result, error) {
	return events.Result{Data: json.RawMessage(in.Args)}, nil
}

func everyFormat(t *testing.T, test func(t *testing.T, f codec.Format)) {
	for _, f := range codec.Formats() {
		t.Run(string(f), func(t *testing.T) { test(t, f) })
	}
}

const anything = `{"type":"object"}`

// 6: nothing, blanks and null are the empty object, which the schema then judges: what is
// missing is a field, and not JSON.
func TestNothingIsTheEmptyObject(t *testing.T) {
	everyFormat(t, func(t *testing.T, f codec.Format) {
		for _, args := range []string{"", `""`, `"   "`, `" \n\t"`, "null", `"null"`, "{}", `"{}"`, `" {} "`} {
			body := asking[f](args)
			if got := passes(t, f, body, anything, echoes); got.given != "{}" {
				t.Errorf("%s: the tool was given %q: %+v", body, got.given, got.denial)
			}
			got := passes(t, f, body, `{"type":"object","properties":{"v":{"type":"integer"}},"required":["v"]}`, echoes)
			if got.given != "" || got.path != "/v" {
				t.Errorf("%s: a field is missing: given %q, %+v", body, got.given, got.denial)
			}
			for as, back := range got.back {
				if strings.Contains(back, "invalid_json") {
					t.Errorf("%s as %s: %s", body, as, back)
				}
			}
		}
	})
}

// 8: what is no JSON object never reaches a tool, and never goes back to a provider as an
// object that the model did not write.
func TestWhatIsNoObjectReachesNoTool(t *testing.T) {
	everyFormat(t, func(t *testing.T, f codec.Format) {
		for _, args := range []string{
			`{"path":"a"`, `{"path":"a"}}`, `{"path":"a"} {}`, `{"a":1,"a":2}`, `[1]`, `7`, `true`, `"x"`, `x`, `{'a':1}`, `{"a":NaN}`, "{\"a\":\"\n\"}", `{"a":1,}`, "```json\n{}\n```",
		} {
			body := asking[f](string(quoted(args)))
			got := passes(t, f, body, anything, echoes)
			if got.given != "" || got.reason == "" || got.path != "" {
				t.Errorf("%s: given %q, %+v", body, got.given, got.denial)
			}
			for as, back := range got.back {
				twice := strings.Contains(args, `"a":1,"a"`) // it is an object, and stays what the model wrote
				if !strings.Contains(back, "invalid_json") && as != codec.Neutral && !twice {
					t.Errorf("%s as %s: %s", body, as, back)
				}
			}
		}
	})
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// 14: digits are the model's from its message to the tool and back, and numbers that are
// integers by their value are integers.
func TestDigitsStay(t *testing.T) {
	integer := `{"type":"object","properties":{"id":{"type":"integer"}}}`
	everyFormat(t, func(t *testing.T, f codec.Format) {
		for _, digits := range []string{"9007199254740993", "10000000000000001", "1234567890123456789", "-9007199254740993", "123456789012345678901234567890", "1e3", "1.0", "-0"} {
			for _, args := range []string{`{"id":` + digits + `}`, string(quoted(`{"id":` + digits + `}`))} {
				got := passes(t, f, asking[f](args), integer, echoes)
				want := `{"id":` + digits + `}`
				if got.given == "" || !sameNumber(got.given, want) {
					t.Errorf("%s: the tool was given %q: %+v", args, got.given, got.denial)
				}
				for as, told := range got.told {
					plain := strings.ReplaceAll(told, `\`, "")
					if n := strings.TrimSuffix(strings.TrimPrefix(got.given, `{"id":`), "}"); !strings.Contains(plain, `"id":`+n) {
						t.Errorf("%s as %s: %s", args, as, told)
					}
					if back := strings.ReplaceAll(got.back[as], `\`, ""); !strings.Contains(back, `"id":`+digits+`}`) {
						t.Errorf("%s as %s: sent back as %s", args, as, back)
					}
				}
			}
		}
		for _, digits := range []string{`"1234567890123456789"`, "1.5", "1e-1"} {
			if got := passes(t, f, asking[f](`{"id":`+digits+`}`), integer, echoes); got.path != "/id" || got.given != "" {
				t.Errorf("%s is no integer: given %q, %+v", digits, got.given, got.denial)
			}
		}
		if got := passes(t, f, asking[f](`{"id":"1234567890123456789"}`), anything, echoes); got.given != `{"id":"1234567890123456789"}` {
			t.Errorf("a string became %s", got.given)
		}
	})
}

// sameNumber says whether two objects with one number have the same one, in any spelling.
func sameNumber(a, b string) bool {
	x, err := lifecycle.Parse(a)
	y, err2 := lifecycle.Parse(b)
	return err == nil && err2 == nil && x.Hash == y.Hash
}

// 62: no rune is cut, at any limit, and the model is told how much is missing and where it is.
func TestCutsAreBetweenRunes(t *testing.T) {
	for _, word := range []string{strings.Repeat("a", lifecycle.CallBytes-1) + "😀", strings.Repeat("界", 30_000), strings.Repeat("é\n", 27_000)} {
		for shift := -3; shift <= 3; shift++ {
			text := strings.Repeat("b", 3+shift) + word
			got := passes(t, codec.OpenAI, asking[codec.OpenAI]("{}"), anything, func(context.Context, tools.Invocation) (events.Result, error) {
				return events.Result{Text: events.Body{Text: text}}, nil
			})
			for as, told := range got.told {
				if strings.ContainsRune(told, utf8.RuneError) || !strings.Contains(told, "bytes cut ...]") || !strings.Contains(told, "sha256:") {
					t.Fatalf("%.8q, shifted by %d, as %s: %.100q … %.300q", word, shift, as, told, told[len(told)-300:])
				}
			}
		}
	}
}

// 64: bytes that are no text are described, and what is a text stays one, with its NUL.
func TestBytesThatAreNoText(t *testing.T) {
	all := make([]byte, 1024)
	for i := range all {
		all[i] = byte(i)
	}
	everyFormat(t, func(t *testing.T, f codec.Format) {
		for text, want := range map[string]string{
			string(all): "1024 bytes", "a\x00b": `b`, "caf\xe9 and more words to read": "and more words", "\xff\xfe\x00": "3 bytes", "\x1b[2Jx\x07": "[2J",
		} {
			got := passes(t, f, asking[f]("{}"), anything, func(context.Context, tools.Invocation) (events.Result, error) {
				return events.Result{Text: events.Body{Text: text}}, nil
			})
			for as, told := range got.told {
				if !strings.Contains(told, want) || strings.ContainsAny(told, "\x00\x1b\x07") {
					t.Errorf("%.10q as %s: %q", text, as, told)
				}
			}
		}
	})
}

// 68: an answer that says nothing says so, and is not taken for one that is still to come.
func TestNothingSaidIsSaid(t *testing.T) {
	everyFormat(t, func(t *testing.T, f codec.Format) {
		for name, r := range map[string]events.Result{
			"zero": {}, "blank": {Text: events.Body{Text: " \n"}}, "colours": {Text: events.Body{Text: "\x1b[31m\x1b[0m\n"}}, "null": {Data: json.RawMessage("null")}, "text": {Data: json.RawMessage(`""`)},
			"list": {Data: json.RawMessage("[]")}, "object": {Data: json.RawMessage(`{}`)}, "content": {Data: json.RawMessage(`{"content":[]}`)},
		} {
			got := passes(t, f, asking[f]("{}"), anything, func(context.Context, tools.Invocation) (events.Result, error) { return r, nil })
			for as, told := range got.told {
				if !strings.Contains(told, lifecycle.NoOutput) || strings.Contains(told, "no answer yet") || strings.Contains(told, "rror") {
					t.Errorf("%s as %s: %s", name, as, told)
				}
			}
		}
	})
}

// 18, 19: a tool that breaks gives an answer that says so, like one that fails.
func TestToolsThatBreakAnswer(t *testing.T) {
	everyFormat(t, func(t *testing.T, f codec.Format) {
		for name, run := range map[string]func(context.Context, tools.Invocation) (events.Result, error){
			"panic": func(context.Context, tools.Invocation) (events.Result, error) { panic("broken") },
			"error": func(context.Context, tools.Invocation) (events.Result, error) {
				return events.Result{}, fmt.Errorf("no %s", "luck")
			},
		} {
			got := passes(t, f, asking[f]("{}"), anything, run)
			marks := map[codec.Format]string{codec.Anthropic: `"is_error":true`, codec.Gemini: `"response":{"error":`, codec.AISDK: `"error-text"`, codec.Neutral: `"answer":"failed"`}
			for as, told := range got.told {
				if !strings.Contains(told, "error") || !strings.Contains(told, marks[as]) {
					t.Errorf("%s as %s: %s", name, as, told)
				}
			}
		}
	})
}
