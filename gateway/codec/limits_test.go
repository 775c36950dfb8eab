package codec

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"pgregory.net/rapid"
)

func drawLarge(t *rapid.T, name string, most int) string {
	n := rapid.IntRange(0, most).Draw(t, name)
	word := rapid.SampledFrom([]string{"x", "\"", "\\", "\x00", "界😀", "\xff", "<&>", "\u2028", "line\n"}).Draw(t, name+" of")
	return strings.Repeat(word, n/len(word))
}

func drawAnswer(t *rapid.T) events.Answer {
	most := rapid.SampledFrom([]int{100, 900, 5_000, 60_000}).Draw(t, "size")
	o := events.Outcome{Effects: rapid.SampledFrom([]events.Effects{events.EffectsNone, events.EffectsPossible}).Draw(t, "effects")}
	switch rapid.SampledFrom([]string{"text", "data", "error"}).Draw(t, "heavy") {
	case "text":
		o.Result.Text.Text = drawLarge(t, "text", most)
	case "data":
		o.Result.Data = marshal([]string{drawLarge(t, "data", most)})
	case "error":
		o.Result.Error = &events.Error{Code: events.ExecutionError, Message: drawLarge(t, "message", most), Path: drawLarge(t, "path", 500)}
	}
	call := rawCall(
		rapid.SampledFrom([]string{"", "call_0", strings.Repeat("\"", 128), strings.Repeat("\x00", 999), strings.Repeat("i", MaxID)}).Draw(t, "id"),
		rapid.SampledFrom([]string{"echo", strings.Repeat("n", 64), strings.Repeat("<", 900)}).Draw(t, "tool"), "")
	ends := []events.Event{
		&events.Completed{Outcome: o}, &events.Failed{Outcome: o}, &events.Deduplicated{Of: strings.Repeat("t", 64) + "/1/255", Outcome: o, As: events.KindFailed},
		&events.Denied{Code: events.InvalidParam, Reason: drawLarge(t, "reason", most), Path: "/v"}, nil,
	}
	a := lifecycle.AnswerOf(0, call, rapid.SampledFrom(ends).Draw(t, "end"))
	a.Changed = rapid.SampledFrom([]*events.Body{
		nil,
		{Text: `{"command":"touch b"}`},
		{Ref: &events.BlobRef{Size: 70_000, Digest: lifecycle.Digest(nil)}},
		{Text: string(marshal(map[string]string{"v": drawLarge(t, "changed", lifecycle.ShownArgs+500)}))},
	}).Draw(t, "changed by a person")
	return a
}

// perCall are the serialised parts of messages that belong to one answer each.
func perCall(t rapid.TB, f Format, messages []json.RawMessage) []json.RawMessage {
	if f != Anthropic && f != Gemini && f != AISDK {
		return messages
	}
	var m struct{ Content, Parts []json.RawMessage }
	if err := json.Unmarshal(messages[0], &m); err != nil || len(messages) != 1 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	return append(m.Content, m.Parts...)
}

// S6: the bounds hold for what a provider gets, whatever was large in it.
func TestBoundsHoldForSerialisedMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := make([]events.Answer, rapid.IntRange(1, 4).Draw(t, "kinds"))
		for i := range pool {
			pool[i] = drawAnswer(t)
		}
		answers := spread(pool, rapid.SampledFrom([]int{1, 3, 9, 30}).Draw(t, "calls"))
		checkBounds(t, rapid.SampledFrom(Formats()).Draw(t, "format"), answers)
	})
}

// And for the most calls that a message may have, where what stands around each of them
// is most of it.
func TestBoundsHoldForTheMostCalls(t *testing.T) {
	id := strings.Repeat("\"", 128)
	pool := []events.Answer{
		lifecycle.AnswerOf(0, rawCall(id, strings.Repeat("n", 64), ""), completed(strings.Repeat("\x00", 900))),
		lifecycle.AnswerOf(0, custom(rawCall(id, strings.Repeat("<", 900), "")), &events.Denied{Code: events.InvalidParam, Reason: strings.Repeat("界", 700)}),
		lifecycle.AnswerOf(0, rawCall("", "", ""), nil),
		lifecycle.AnswerOf(0, rawCall(strings.Repeat("i", MaxID), "echo", ""), completed("done")),
	}
	for _, f := range Formats() {
		checkBounds(t, f, spread(pool, MaxCalls))
		checkBounds(t, f, spread(pool[:3], MaxCalls)) // whose ids are all shown
	}
}

// spread is n answers, of those of the pool in turn.
func spread(pool []events.Answer, n int) []events.Answer {
	answers := make([]events.Answer, n)
	for i := range answers {
		answers[i] = pool[i%len(pool)]
		answers[i].Call = i
	}
	return answers
}

func checkBounds(t rapid.TB, f Format, answers []events.Answer) {
	t.Helper()
	messages, err := Render(f, answers, Options{})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, m := range messages {
		total += len(m)
		if !utf8.Valid(m) || !json.Valid(m) {
			t.Fatalf("%s: %.300s", f, m)
		}
	}
	parts := perCall(t, f, messages)
	for i, p := range parts {
		if len(p) > lifecycle.CallBytes {
			t.Fatalf("%s: call %d takes %d bytes", f, i, len(p))
		}
	}
	if len(parts) != len(answers) || total > lifecycle.TurnBytes {
		t.Fatalf("%s: %d answers to %d calls take %d bytes", f, len(parts), len(answers), total)
	}
	again, err := Render(f, answers, Options{})
	if err != nil || !bytes.Equal(bytes.Join(rawAll(messages), nil), bytes.Join(rawAll(again), nil)) {
		t.Fatalf("%s: rendered otherwise the second time: %v", f, err)
	}
}

// content is the envelope of one OpenAI message.
func content(t *testing.T, m json.RawMessage) (text string, cut struct {
	Bytes int
	Whole string
},
) {
	t.Helper()
	var message struct{ Content string }
	var e struct {
		Text  string
		Error struct{ Message string }
		Cut   struct {
			Bytes int
			Whole string
		}
	}
	if err := json.Unmarshal(m, &message); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(message.Content), &e); err != nil {
		t.Fatal(err)
	}
	return e.Text + e.Error.Message, e.Cut
}

// 62: no rune is cut, and what is cut is counted and named, at every limit.
func TestCutSaysHowMuchAndWhere(t *testing.T) {
	for _, whole := range []string{strings.Repeat("a", 49_999) + "😀", strings.Repeat("界", 30_000), strings.Repeat("\"", 30_000)} {
		for limit := lifecycle.CallBytes - 3; limit <= lifecycle.CallBytes+3; limit++ {
			a := lifecycle.AnswerOf(0, rawCall("a", "blob", ""), completed(whole))
			m, err := Render(OpenAI, []events.Answer{a}, Options{CallBytes: limit})
			if err != nil {
				t.Fatal(err)
			}
			text, cut := content(t, m[0])
			i := strings.Index(text, "\n[... ")
			if len(m[0]) > limit || len(m[0]) < limit-300 || i < 0 || strings.ContainsRune(text, utf8.RuneError) {
				t.Fatalf("limit %d: %d bytes, %.40q", limit, len(m[0]), text)
			}
			mark := text[i : i+strings.Index(text[i+1:], "\n")+2]
			if len(text)-len(mark)+cut.Bytes != len(whole) || cut.Whole != lifecycle.Digest([]byte(whole)) {
				t.Errorf("limit %d: %d bytes shown with %q, %d cut, of %d; whole %s", limit, len(text), mark, cut.Bytes, len(whole), cut.Whole)
			}
		}
	}
}

// S6: one large error, and ten calls that are each within their own bound.
func TestOneLargeErrorAndTenLargeAnswers(t *testing.T) {
	large := lifecycle.AnswerOf(0, rawCall("a", "t", ""), &events.Denied{Code: events.InvalidParam, Reason: strings.Repeat("bad ", 50_000)})
	if got := render(t, Anthropic, []events.Answer{large}, Options{}); len(got) > lifecycle.CallBytes+50 || !strings.Contains(got, `\"cut\":{\"bytes\":`) {
		t.Errorf("a large error takes %d bytes: %.200s", len(got), got)
	}
	answers := make([]events.Answer, 10)
	for i := range answers {
		answers[i] = lifecycle.AnswerOf(i, rawCall("a", "t", ""), completed(strings.Repeat("x", 45_000+i)))
	}
	messages, err := Render(OpenAI, answers, Options{})
	if err != nil {
		t.Fatal(err)
	}
	total, previews := 0, 0
	for i, m := range messages {
		total += len(m)
		text, cut := content(t, m)
		if cut.Bytes == 0 {
			continue
		}
		previews++
		if i < 4 || len(text) > lifecycle.PreviewBytes { // the largest are the last
			t.Errorf("call %d: %d bytes shown", i, len(text))
		}
	}
	if previews != 6 || total > lifecycle.TurnBytes {
		t.Errorf("%d previews, %d bytes", previews, total)
	}
}

// 66: a text by reference that is not at hand is named, and the message stands.
func TestMissingBlobIsNamed(t *testing.T) {
	a := lifecycle.AnswerOf(0, rawCall("a", "t", ""), completed(""))
	a.Result.Text = events.Body{Ref: &events.BlobRef{Digest: lifecycle.Digest([]byte("x")), Size: 5 << 20}}
	got := render(t, OpenAI, []events.Answer{a}, Options{})
	if !strings.Contains(got, "5242880 bytes") || !strings.Contains(got, a.Result.Text.Ref.Digest) {
		t.Error(got)
	}
}
