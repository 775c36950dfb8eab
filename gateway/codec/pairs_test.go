package codec

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sluice-run/sluice/events"
	"pgregory.net/rapid"
)

// drawArgs is arguments as a model writes them: one object, in few bytes.
func drawArgs(t *rapid.T) string {
	value := rapid.OneOf(
		rapid.SampledFrom([]string{
			`9007199254740993`, `10000000000000001`, `1234567890123456789`, `"1234567890123456789"`, `1e3`, `1.0`, `-0`, `1e400`, `null`, `[]`, `{}`, `[[1]]`,
			`"\u0000"`, `"\ud83d\ude00"`, `"😀"`, `"<&>"`, `"\\ud83d"`, `"\ufffd"`, `"\u2028"`,
		}),
		rapid.Map(rapid.StringN(0, 12, -1), func(s string) string { return string(toUnicode(marshal(s))) }),
	)
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"v", "path", "", "é", "a/b", "input", "invalid_json"}), 0, 3, rapid.ID[string]).Draw(t, "names")
	var o members
	for _, n := range names {
		o = append(o, member{n, json.RawMessage(value.Draw(t, "value"))})
	}
	return string(o.marshal())
}

// idsOf are ids as each provider makes them.
var idsOf = map[Format][]string{
	OpenAI:    {"call_1", "call_abcdefghijklmnopqrstuvwx", "edit:22", "functions.echo:0", "chatcmpl-tool-1", "0", "é", "call_0"},
	Responses: {"call_1", "call_abcdefghijklmnopqrstuvwx", strings.Repeat("c", maxCallID), "é", "edit:22"},
	Anthropic: {"toolu_01", "toolu_02", "srvtoolu-3", "call_1", "a"},
	Gemini:    {"", "", "", "function-call-1", "f2", "é"},
	AISDK:     {"call_1", "toolu_01", "aitxt-0Xk", "edit:22", "a"},
	Neutral:   {"call_1", "call_1", "x", "edit:22"},
}

// drawAsked is the calls of a message of a provider, as Decode would give them.
func drawAsked(t *rapid.T, f Format) []events.RawCall {
	ids := rapid.SliceOfN(rapid.SampledFrom(idsOf[f]), 1, 5).Draw(t, "ids")
	if f != Neutral {
		seen := map[string]bool{}
		ids = slices.DeleteFunc(ids, func(id string) bool { was := id != "" && seen[id]; seen[id] = true; return was })
	}
	calls := make([]events.RawCall, len(ids))
	for i, id := range ids {
		calls[i] = rawCall(id, rapid.SampledFrom([]string{"echo", "office__say", "Read", strings.Repeat("n", 64)}).Draw(t, "tool"), drawArgs(t))
		if (f == OpenAI || f == Responses) && rapid.Bool().Draw(t, "custom") {
			calls[i].Custom = true
			calls[i].Args.Text = string(ofText(marshal(rapid.StringN(0, 20, -1).Draw(t, "input"))))
		}
		if text := drawExtra(t, f, i, calls[i].Custom); text != "" && f != Neutral {
			calls[i].Extra.Text = text
		}
	}
	return calls
}

func drawExtra(t *rapid.T, f Format, i int, custom bool) string {
	if !rapid.Bool().Draw(t, "extra") {
		if f == Gemini && i == 0 {
			return `{"format":"gemini"}`
		}
		return ""
	}
	switch f {
	case OpenAI:
		if i == 0 {
			return `{"format":"openai","with":{"extra_content":{"google":{"thought_signature":"c2ln"}}},"message":{"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text"}]}}`
		}
		return `{"format":"openai","with":{"extra_content":{"x":1.0}}}`
	case Responses:
		status := `,"status":"completed"`
		if custom {
			status = ""
		}
		return fmt.Sprintf(`{"format":"responses","before":[{"type":"reasoning","id":"rs_%d","summary":[],"encrypted_content":"eA=="},{"type":"message","id":"msg_%d","role":"assistant","content":[]}],"with":{"id":"fc_%d"%s}}`, i, i, i, status)
	case Anthropic:
		return `{"format":"anthropic","before":[{"type":"thinking","thinking":"<hm>","signature":"c2ln"},{"type":"redacted_thinking","data":"x"}],"with":{"caller":{"type":"direct"}}}`
	case AISDK:
		return `{"format":"aisdk","before":[{"type":"reasoning","text":"hm","providerOptions":{"anthropic":{"signature":"c2ln"}}}],"with":{"providerOptions":{"google":{"thoughtSignature":"c2ln"}}}}`
	case Gemini:
		return `{"format":"gemini","with":{"thoughtSignature":"c2ln+/=="}}`
	}
	return ""
}

// What a provider's message asks for comes back the same from what is rendered of it: ids,
// names, arguments, and everything that the provider wants back.
func TestRenderedCallsDecodeToThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(Formats()).Draw(t, "format")
		calls := drawAsked(t, f)
		raw, err := RenderCalls(f, calls, Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(f, raw)
		if diff := cmp.Diff(calls, m.Calls); diff != "" || err != nil {
			t.Fatalf("%s: %v\n%s\n%s", f, err, raw, diff)
		}
		again, err := RenderCalls(f, m.Calls, Options{})
		if diff := cmp.Diff(string(raw), string(again)); diff != "" || err != nil {
			t.Fatalf("%s: %v %s", f, err, diff)
		}
		if Sniff(raw) != f {
			t.Fatalf("%s looks like %s: %s", f, Sniff(raw), raw)
		}
	})
}

// A conversation that was recorded with one provider goes on with another, and back: the same
// calls in the same places, with ids that the other takes and that lead back to their own; ids
// that both take stay what they are.
func TestEveryPairOfProviders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := rapid.SampledFrom(Formats()).Draw(t, "from"), rapid.SampledFrom(Formats()).Draw(t, "to")
		turns := make([]Turn, rapid.IntRange(1, 3).Draw(t, "turns"))
		for i := range turns {
			calls := drawAsked(t, from)
			turns[i] = Turn{Calls: calls, Answers: answersTo(calls)}
		}
		there, err := Conversation(to, turns, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := Validate(to, there); err != nil {
			t.Fatalf("%s as %s: %v\n%s", from, to, err, there)
		}
		var seen []string
		for _, turn := range turns {
			ids := checkThere(t, from, to, turn.Calls, seen)
			seen = append(seen, ids...)
		}
	})
}

// checkThere renders calls for another provider, reads them back, and leads its ids back to
// those of the calls.
func checkThere(t *rapid.T, from, to Format, calls []events.RawCall, seen []string) []string {
	o := Options{Seen: seen}
	ids, err := IDs(to, calls, o)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := RenderCalls(to, calls, o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Decode(to, raw)
	if err != nil || len(m.Calls) != len(calls) {
		t.Fatalf("%s as %s: %v\n%s", from, to, err, raw)
	}
	back := slices.Clone(m.Calls)
	for i := range back {
		if back[i].ProviderID != ids[i] {
			t.Fatalf("%s as %s: call %d has the id %q, want %q", from, to, i, back[i].ProviderID, ids[i])
		}
		if to != Neutral && to != Gemini && slices.Index(ids, ids[i]) != i {
			t.Fatalf("%s as %s: ids %q", from, to, ids)
		}
		back[i].ProviderID = calls[i].ProviderID // the place tells
	}
	if diff := cmp.Diff(calls, back, cmpopts.IgnoreFields(events.RawCall{}, "Extra", "Custom", "Secrets")); diff != "" {
		t.Fatalf("%s as %s: %s\n%s", from, to, raw, diff)
	}
	for i, c := range calls {
		if taken := slices.Contains(idsOf[to], c.ProviderID) && !slices.Contains(seen, c.ProviderID) && c.ProviderID != "" && from != Neutral; taken && ids[i] != c.ProviderID {
			t.Fatalf("%s as %s: %q became %q", from, to, c.ProviderID, ids[i])
		}
	}
	want, err := RenderCalls(from, bare(calls), Options{})
	if err != nil {
		t.Fatal(err)
	}
	home, err := RenderCalls(from, bare(back), Options{})
	if diff := cmp.Diff(string(want), string(home)); diff != "" || err != nil {
		t.Fatalf("%s as %s and back: %v %s", from, to, err, diff)
	}
	return ids
}

// bare are calls without what only their provider knows of them.
func bare(calls []events.RawCall) []events.RawCall {
	out := slices.Clone(calls)
	for i := range out {
		out[i].Extra, out[i].Custom = events.Body{}, false
	}
	return out
}
