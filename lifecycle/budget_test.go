package lifecycle

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"pgregory.net/rapid"
)

// alphabets make texts that grow differently once serialised.
var alphabets = [][]string{
	{"a", "b", " ", "\n"},
	{"\"", "\\"},
	{"\x00", "\x1b", "\r", "\u2028"},
	{"界", "😀", "é", "x"},
	{"\xff", "\xc3", "ok"},
	{"<", "&", ">"},
}

func drawText(t *rapid.T, name string, most int) string {
	n := rapid.IntRange(0, most).Draw(t, name+" bytes")
	words := rapid.SampledFrom(alphabets).Draw(t, name+" of")
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(words[i*i%len(words)])
	}
	return b.String()
}

func drawResult(t *rapid.T, name string) events.Result {
	most := rapid.SampledFrom([]int{0, 40, 3_000, 40_000, 120_000}).Draw(t, name+" size")
	r := events.Result{Status: rapid.SampledFrom([]events.Status{events.Success, events.Partial, events.Failure}).Draw(t, name)}
	heavy := rapid.SampledFrom([]string{"text", "data", "error", "all"}).Draw(t, name+" heavy")
	if heavy == "text" || heavy == "all" {
		r.Text.Text = drawText(t, name+" text", most)
	}
	if heavy == "data" || heavy == "all" {
		r.Data = marshal(map[string]string{"v": drawText(t, name+" data", most)})
	}
	if r.Status == events.Failure || heavy == "error" {
		r.Error = &events.Error{Code: events.ExecutionError, Message: "x"}
		if heavy == "error" || heavy == "all" {
			r.Error.Message = drawText(t, name+" message", most)
			r.Error.Path = "/" + drawText(t, name+" path", min(most, 1000))
		}
	}
	return r
}

func drawAnswer(t *rapid.T, i int) events.Answer {
	call := events.RawCall{
		ProviderID: rapid.SampledFrom([]string{"", "call_0", "toolu_01A09q90qw90lq917835lq9", strings.Repeat(`"`, 128), strings.Repeat("i", 5_000)}).Draw(t, "id"),
		Tool:       rapid.SampledFrom([]string{"echo", "mcp:old_name", strings.Repeat("t", 300)}).Draw(t, "tool"),
	}
	var terminal events.Event
	o := events.Outcome{Effects: events.EffectsNone}
	switch rapid.SampledFrom([]string{"open", "denied", "unknown", "dedup", "completed", "failed"}).Draw(t, "end") {
	case "denied":
		terminal = &events.Denied{Code: events.InvalidParam, Reason: drawText(t, "reason", 80_000), Path: "/v"}
	case "unknown":
		o.Effects, o.Result = events.EffectsPossible, drawResult(t, "result")
		terminal = &events.TimedOut{Outcome: o}
	case "dedup":
		o.Result = drawResult(t, "result")
		terminal = &events.Deduplicated{Of: "trace/turn/3", Outcome: o, As: events.KindFailed}
	case "completed":
		o.Result = drawResult(t, "result")
		terminal = &events.Completed{Outcome: o}
	case "failed":
		o.Result = drawResult(t, "result")
		terminal = &events.Failed{Outcome: o}
	}
	return AnswerOf(i, call, terminal)
}

// said is how much of an answer a limit can take away.
func said(a events.Answer) int {
	n := len(valid(a.Result.Text.Text))
	var compact bytes.Buffer
	if json.Compact(&compact, shownData(a.Result.Data)) == nil {
		n += compact.Len()
	}
	if shownError(a) {
		n += len(valid(a.Result.Error.Message)) + len(valid(a.Result.Error.Path))
	}
	return n + len(a.Of)
}

// shown is what is left of it, without what the cut added.
func shown(a events.Answer) int {
	n := said(a)
	if a.Result.Cut == nil {
		return n
	}
	if first, last, cut := splitMark(a.Result.Text.Text); cut > 0 {
		n -= len(a.Result.Text.Text) - len(first) - len(last)
	}
	if shownError(a) && strings.HasSuffix(a.Result.Error.Message, "…") {
		n -= len("…")
	}
	return n
}

func checkEnvelope(t *rapid.T, a events.Answer) {
	t.Helper()
	b := Envelope(a)
	var e envelope
	if !utf8.Valid(b) || json.Unmarshal(b, &e) != nil || e.Status == "" {
		t.Fatalf("call %d: envelope is broken: %.300q", a.Call, b)
	}
	if !bytes.Equal(b, Envelope(a)) {
		t.Fatalf("call %d: two envelopes of one answer", a.Call)
	}
	if got, bound := len(marshal(string(b))), quoted(b); got != bound {
		t.Fatalf("call %d: takes %d bytes as a string, counted %d: %.300q", a.Call, got, bound, b)
	}
}

func TestFitTurnHoldsWhateverIsLarge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 5, 10, 40, 256}).Draw(t, "calls")
		answers := make([]events.Answer, n)
		pool := make([]events.Answer, min(n, 6))
		for i := range pool {
			pool[i] = drawAnswer(t, i)
		}
		for i := range answers {
			answers[i] = pool[i%len(pool)]
			answers[i].Call = i
		}
		if small(answers, 9_000, 30_000) { // what it promises without writing
			exact := together
			for i, a := range answers {
				exact += Size(a)
				if Size(a) > 9_000 {
					t.Fatalf("call %d is not small: %d bytes", i, Size(a))
				}
			}
			if exact > 30_000 {
				t.Fatalf("not small: %d bytes", exact)
			}
		}
		fitted, wholes := FitTurn(answers, 0, 0)
		total, cuts := together, make(map[int]Whole)
		sized, _, _ := withShownIDs(fitted)
		for _, w := range wholes {
			cuts[w.Call] = w.Whole
		}
		for i, a := range fitted {
			checkEnvelope(t, a)
			if s := Size(sized[i]); s > CallBytes {
				t.Fatalf("call %d takes %d bytes", i, s)
			} else {
				total += s
			}
			if a.Call != i || a.Standing != answers[i].Standing || a.ProviderID != answers[i].ProviderID {
				t.Fatalf("call %d became %+v", i, a)
			}
			checkCut(t, answers[i], a, cuts)
		}
		if total > TurnBytes {
			t.Fatalf("%d calls take %d bytes", n, total)
		}
		again, _ := FitTurn(answers, 0, 0)
		if !slices.EqualFunc(fitted, again, func(a, b events.Answer) bool { return bytes.Equal(Envelope(a), Envelope(b)) }) {
			t.Fatal("the same answers were cut in two ways")
		}
	})
}

func checkCut(t *rapid.T, from, to events.Answer, cuts map[int]Whole) {
	t.Helper()
	w, cut := cuts[to.Call]
	if !cut {
		if !bytes.Equal(Envelope(from), Envelope(to)) {
			t.Fatalf("call %d was changed, and no cut says so", to.Call)
		}
		return
	}
	c := to.Result.Cut
	if c == nil || c.Whole.Digest != w.Ref.Digest || Digest(w.Bytes) != w.Ref.Digest || int64(len(w.Bytes)) != w.Ref.Size {
		t.Fatalf("call %d: cut %+v does not name its whole %+v", to.Call, c, w.Ref)
	}
	if got, want := int64(shown(to))+c.Bytes, int64(said(from)); got != want {
		t.Fatalf("call %d: %d bytes shown and %d cut, of %d", to.Call, shown(to), c.Bytes, want)
	}
	if !bytes.Contains(Envelope(to), []byte(c.Whole.Digest)) {
		t.Fatalf("call %d: the model is not told where the whole is", to.Call)
	}
}

func TestFitCallThenTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawResult(t, "result")
		limit := rapid.SampledFrom([]int{0, 2_000, 9_000, 50_000}).Draw(t, "limit")
		fitted, wholes := FitCall(r, limit)
		a := AnswerOf(0, events.RawCall{ProviderID: "call_0", Tool: "echo"}, &events.TimedOut{
			Outcome: events.Outcome{Effects: events.EffectsPossible, Result: fitted},
		})
		if limit == 0 {
			limit = CallBytes
		}
		if s := Size(a); r.Status == events.Failure && s > limit {
			t.Fatalf("an unknown end takes %d bytes of %d", s, limit)
		}
		if (fitted.Cut != nil) != (len(wholes) == 1) {
			t.Fatalf("cut %+v, wholes %d", fitted.Cut, len(wholes))
		}
		again, more := FitCall(fitted, limit)
		if len(more) != 0 || !bytes.Equal(marshal(again), marshal(fitted)) {
			t.Fatal("what fits was cut again")
		}
	})
}

// The second cut of a text counts from the first, and names the same whole.
func TestCutTwice(t *testing.T) {
	text := strings.Repeat("0123456789\n", 40_000)
	first, wholes := FitCall(events.Result{Status: events.Success, Text: events.Body{Text: text}}, 0)
	if len(wholes) != 1 || string(wholes[0].Bytes) != text {
		t.Fatalf("wholes: %d", len(wholes))
	}
	answers := make([]events.Answer, 8)
	for i := range answers {
		answers[i] = AnswerOf(i, events.RawCall{}, &events.Completed{Outcome: events.Outcome{Result: first}})
	}
	fitted, cut := FitTurn(answers, 0, 0)
	if len(cut) != 4 {
		t.Fatalf("%d answers were cut; the first four are enough", len(cut))
	}
	for i, w := range cut {
		a := fitted[i]
		if w.Call != i || w.Whole.Bytes != nil || a.Result.Cut.Whole != wholes[0].Ref {
			t.Errorf("call %d: whole %+v, want the one that is stored", w.Call, w.Whole.Ref)
		}
		if got := int64(shown(a)) + a.Result.Cut.Bytes; got != int64(len(text)) {
			t.Errorf("call %d: shown and cut are %d of %d", i, got, len(text))
		}
		if n := len(a.Result.Text.Text); n > PreviewBytes || n < PreviewBytes/2 {
			t.Errorf("call %d: preview of %d bytes", i, n)
		}
		if lines := int64(strings.Count(text, "\n")); a.Result.Cut.Lines != lines-int64(strings.Count(a.Result.Text.Text, "\n"))+2 {
			t.Errorf("call %d: %d lines cut of %d, text %q", i, a.Result.Cut.Lines, lines, a.Result.Text.Text)
		}
	}
}

// What a tool has cut of its text stays under its own digest, until more than text is
// missing: then the whole is all that the result said, and that names the text's.
func TestCutOfACut(t *testing.T) {
	tool := events.Cut{Bytes: 1_000, Lines: 10, Whole: events.BlobRef{Digest: Digest([]byte("whole")), Size: 5}}
	r := events.Result{Status: events.Failure, Text: events.Body{Text: "head\n(more)"}, Cut: &tool}
	r.Error = &events.Error{Code: events.ExecutionError, Message: strings.Repeat("m", 90_000)}
	got, wholes := FitCall(r, 0)
	if len(wholes) != 1 || got.Cut.Whole != wholes[0].Ref || !bytes.Contains(wholes[0].Bytes, []byte(tool.Whole.Digest)) {
		t.Errorf("cut %+v, %d wholes", got.Cut, len(wholes))
	}
	if cut := int64(len(r.Error.Message) - len(got.Error.Message) + len("…")); got.Cut.Bytes != 1_000+cut || got.Cut.Lines != 10 {
		t.Errorf("cut %+v, want %d bytes more", got.Cut, cut)
	}
	r.Error = nil
	r.Text.Text = strings.Repeat("line\n", 20_000)
	got, wholes = FitCall(r, 0)
	if len(wholes) != 0 || got.Cut.Whole != tool.Whole || got.Cut.Bytes <= 1_000 || got.Cut.Lines <= 10 {
		t.Errorf("cut %+v, %d wholes", got.Cut, len(wholes))
	}
}

// A tool keeps both ends of a long text, and a mark between them: where a second cut takes the
// mark away, its own says what is missing in all.
func TestCutThroughAToolsMark(t *testing.T) {
	for _, mark := range []string{"\n[38829 bytes, 7 lines cut]\n", "\n[38829 bytes, 7 lines cut; whole text: sha256:00]\n", "\n[... 38829 bytes cut ...]\n"} {
		head, tail := strings.Repeat("h", 25_000), strings.Repeat("t", 25_000)
		r := events.Result{Status: events.Success, Text: events.Body{Text: head + mark + tail}, Cut: &events.Cut{Bytes: 38_829, Lines: 7}}
		for _, limit := range []int{0, 5_000} {
			got, _ := FitCall(r, limit)
			first, last, cut := splitMark(got.Text.Text)
			if cut != got.Cut.Bytes || cut+int64(len(first)+len(last)) != 50_000+38_829 || strings.Contains(got.Text.Text, "38829") {
				t.Errorf("limit %d: %d bytes cut, the mark says %d, %d shown", limit, got.Cut.Bytes, cut, len(first)+len(last))
			}
		}
	}
	r := events.Result{Status: events.Success, Text: events.Body{Text: strings.Repeat("h", 50_000) + "\n[38829 bytes, 7 lines cut]\n"}, Cut: &events.Cut{Bytes: 38_829, Lines: 7}}
	if got, _ := FitCall(r, 0); !strings.HasSuffix(got.Text.Text, "hh\n[38829 bytes, 7 lines cut]\n") {
		t.Errorf("the tool's mark at the end is gone: %.60q", got.Text.Text[len(got.Text.Text)-60:])
	}
}

func TestCutNeverSplitsARune(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", 49_999) + "😀", strings.Repeat("界", 30_000), strings.Repeat("a", 30_000) + strings.Repeat("é", 30_000)} {
		for limit := 1_997; limit <= 2_003; limit++ {
			r, _ := FitCall(events.Result{Status: events.Success, Text: events.Body{Text: text}}, limit)
			got := r.Text.Text
			if !utf8.ValidString(got) || strings.ContainsRune(got, utf8.RuneError) || r.Cut == nil {
				t.Errorf("limit %d: %q", limit, got)
			}
			first, last, cut := splitMark(got)
			if !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) || cut != r.Cut.Bytes {
				t.Errorf("limit %d: cut %d of %d: %q", limit, cut, r.Cut.Bytes, got)
			}
		}
	}
}

func TestLargestFirstThenTheFirst(t *testing.T) {
	answer := func(i, n int) events.Answer {
		return AnswerOf(i, events.RawCall{}, &events.Completed{Outcome: events.Outcome{
			Result: events.Result{Text: events.Body{Text: strings.Repeat("x", n)}},
		}})
	}
	for _, c := range []struct {
		name  string
		sizes []int
		cut   []int
	}{
		{"it holds", []int{40_000, 40_000, 40_000, 40_000}, nil},
		{"the largest", []int{40_000, 41_000, 49_000, 42_000, 43_000}, []int{2}},
		{"of equals the first", []int{45_000, 45_000, 45_000, 45_000, 45_000, 45_000}, []int{0, 1}},
	} {
		answers := make([]events.Answer, len(c.sizes))
		for i, n := range c.sizes {
			answers[i] = answer(i, n)
		}
		_, wholes := FitTurn(answers, 0, 0)
		var cut []int
		for _, w := range wholes {
			cut = append(cut, w.Call)
		}
		if !slices.Equal(cut, c.cut) {
			t.Errorf("%s: cut %v, want %v", c.name, cut, c.cut)
		}
	}
}

// TestALongIDLeavesRoom: an id that takes more than the limit takes none of what its answer
// says, nor of what the model is told of the rest.
func TestALongIDLeavesRoom(t *testing.T) {
	long := events.RawCall{ProviderID: strings.Repeat("i", 5_000), Tool: "echo"}
	o := events.Outcome{Effects: events.EffectsNone, Result: events.Result{Text: events.Body{Text: strings.Repeat("x", 9_000)}}}
	for _, limit := range []int{1_000, 2_000, 5_000, 6_000} {
		fitted, wholes := FitTurn([]events.Answer{AnswerOf(0, long, &events.Completed{Outcome: o})}, limit, 0)
		a := fitted[0]
		if a.ProviderID != long.ProviderID || a.Result.Cut == nil || len(wholes) != 1 || Size(a) > 5_000+limit || len(a.Result.Text.Text) < min(limit, spare)/8 {
			t.Errorf("limit %d: %d bytes, %q, cut %+v", limit, Size(a), a.Result.Text.Text, a.Result.Cut)
		}
	}
}
