package codec

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/projections"
)

func recordedData(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "test", "data", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// importAll is the conversation of a recording, imported, written, read and folded.
func importAll(t testing.TB, rec Recording) projections.Conversation {
	t.Helper()
	c := projections.Answers.Init()
	for i, turn := range rec.Turns {
		key := events.TurnKey{Trace: rec.Trace, Turn: turn.Turn}
		if err := key.Check(); err != nil {
			t.Fatal(err)
		}
		s := events.TurnSubmitted{
			Principal: events.Principal{ID: "import"}, Calls: turn.Calls, Format: string(rec.Format), Imported: "test",
		}
		at := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
		records, err := lifecycle.Import(key, s, turn.Results(), at)
		if err != nil {
			t.Fatal(err)
		}
		b, err := events.Encode(events.Commit{ID: "c", Turn: key, At: at, Records: records})
		if err != nil {
			t.Fatal(err)
		}
		commit, err := events.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		for e := range projections.Events(1, uint64(i+1), commit) {
			c = projections.Answers.Apply(c, e)
		}
	}
	return c
}

// rebuilt is the answers of all turns as messages.
func rebuilt(t testing.TB, f Format, c projections.Conversation) [][]json.RawMessage {
	t.Helper()
	var out [][]json.RawMessage
	for _, turn := range c.Turns {
		answers, err := turn.Answers(nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Render(f, answers, Options{})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func value(t testing.TB, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %.200s", err, raw)
	}
	return v
}

func TestRecordedTranscriptsComeBackToTheByte(t *testing.T) {
	for _, c := range []struct {
		file  string
		want  int
		twice int // ids that stand in more than one turn of their conversation
	}{{"airline_gpt4o.jsonl.gz", 577, 36}, {"coding_marshmallow.jsonl.gz", 13, 2}} {
		data := recordedData(t, c.file)
		lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
		traces := make(map[string]bool)
		got, twice, n := 0, 0, 0
		for rec, err := range Transcripts(bytes.NewReader(data)) {
			if err != nil {
				t.Fatal(err)
			}
			if len(rec.Skipped) > 0 || rec.Format != OpenAI || traces[rec.Trace] {
				t.Errorf("%s, line %d: %+v", c.file, n+1, rec.Skipped)
			}
			traces[rec.Trace] = true
			equal, repeated := compareTools(t, lines[n], rebuilt(t, OpenAI, importAll(t, rec)))
			got, twice, n = got+equal, twice+repeated, n+1
		}
		if got != c.want || n != len(lines) || twice != c.twice {
			t.Errorf("%s: %d of %d answers came back, of %d conversations; %d ids stand twice", c.file, got, c.want, n, twice)
		}
	}
}

// compareTools counts the recorded tool messages that came back, in order.
func compareTools(t *testing.T, line []byte, turns [][]json.RawMessage) (equal, twice int) {
	t.Helper()
	var doc struct{ Messages []json.RawMessage }
	if err := json.Unmarshal(line, &doc); err != nil {
		t.Fatal(err)
	}
	var flat []json.RawMessage
	for _, m := range turns {
		flat = append(flat, m...)
	}
	seen := make(map[string]int)
	for _, m := range doc.Messages {
		var head struct {
			Role string
			ID   string `json:"tool_call_id"`
		}
		if err := json.Unmarshal(m, &head); err != nil {
			t.Fatal(err)
		}
		if head.Role != "tool" {
			continue
		}
		if seen[head.ID]++; seen[head.ID] == 2 {
			twice++
		}
		if len(flat) == 0 {
			t.Fatalf("nothing came back for %.100s", m)
		}
		if diff := cmp.Diff(value(t, m), value(t, flat[0])); diff != "" {
			t.Errorf("recorded and rebuilt differ: %s", diff)
		} else {
			equal++
		}
		flat = flat[1:]
	}
	if len(flat) > 0 {
		t.Errorf("%d messages too many", len(flat))
	}
	return equal, twice
}

// The whole of a recorded conversation is valid in every format, whichever it was recorded in.
func TestRecordedTranscriptsAreValidEverywhere(t *testing.T) {
	for _, file := range []string{"airline_gpt4o.jsonl.gz", "coding_marshmallow.jsonl.gz"} {
		n := 0
		for rec, err := range Transcripts(bytes.NewReader(recordedData(t, file))) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > 12 {
				break
			}
			conversation := importAll(t, rec)
			for _, f := range Formats() {
				checkConversation(t, f, conversation.Turns)
			}
		}
	}
}

// checkConversation renders turns and validates what comes out.
func checkConversation(t testing.TB, f Format, turns []*projections.Turn) []json.RawMessage {
	t.Helper()
	in := make([]Turn, len(turns))
	for i, p := range turns {
		calls, err := p.Requests(nil)
		if err != nil {
			t.Fatal(err)
		}
		answers, err := p.Answers(nil)
		if err != nil {
			t.Fatal(err)
		}
		in[i] = Turn{Calls: calls, Answers: answers}
	}
	messages, err := Conversation(f, in, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(f, messages); err != nil {
		t.Fatalf("%s: %v\n%s", f, err, messages)
	}
	return messages
}

const anthropicTranscript = `[
	{"role":"user","content":"go"},
	{"role":"assistant","content":[{"type":"thinking","thinking":"x"},
		{"type":"tool_use","id":"toolu_1","name":"read","input":{"n":9007199254740993}},
		{"type":"tool_use","id":"toolu_2","name":"read","input":{}},
		{"type":"tool_use","id":"toolu_3","name":"shot","input":{}}]},
	{"role":"user","content":[
		{"type":"tool_result","tool_use_id":"toolu_2","content":"no such file","is_error":true},
		{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a\u0000b"},{"type":"image","source":{"data":"=="}}],"cache_control":{"type":"ephemeral"}},
		{"type":"tool_result","tool_use_id":"toolu_3"},
		{"type":"text","text":"and now?"}]},
	{"role":"assistant","content":[{"type":"tool_use","id":"toolu_4","name":"read","input":{}}]}]`

func TestAnthropicTranscript(t *testing.T) {
	rec, err := Transcript([]byte(anthropicTranscript))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Format != Anthropic || len(rec.Turns) != 2 || rec.Turns[1].Turn != "t0002" || rec.Turns[1].Answers[0] != nil {
		t.Fatalf("%+v", rec)
	}
	if got := rec.Turns[0].Calls[0].Args.Text; got != `{"n":9007199254740993}` {
		t.Errorf("arguments %s", got)
	}
	got := rebuilt(t, Anthropic, importAll(t, rec))
	want := `{"role":"user","content":[
		{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a\u0000b"},{"type":"image","source":{"data":"=="}}],"cache_control":{"type":"ephemeral"}},
		{"type":"tool_result","tool_use_id":"toolu_2","content":"no such file","is_error":true},
		{"type":"tool_result","tool_use_id":"toolu_3"}]}`
	if diff := cmp.Diff(value(t, []byte(want)), value(t, got[0][0])); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(string(got[1][0]), "no answer yet") {
		t.Errorf("a call without an answer is told %s", got[1][0])
	}
	checkConversation(t, OpenAI, importAll(t, rec).Turns)
}

func TestTranscriptKeepsEveryContent(t *testing.T) {
	for _, content := range []string{
		`"content":""`, `"content":null`, `"content":[{"type":"text","text":"\ud83d\ude00"}]`, `"content":[]`,
		`"content":"x","name":""`, `"content":"x","name":"n","extra":{"b":1.0,"a":[12345678901234567890]}`, `"name":"n"`,
		`"content":{"odd":true}`, `"content":7`,
	} {
		want := `{"role":"tool","tool_call_id":"a",` + content + `}`
		doc := `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"t","arguments":"{}"}}]},` + want + `]}`
		rec, err := Transcript([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		got := rebuilt(t, OpenAI, importAll(t, rec))
		if diff := cmp.Diff(value(t, []byte(want)), value(t, got[0][0])); diff != "" {
			t.Errorf("%s: %s", content, diff)
		}
	}
}

// What was answered once is answered so again, whatever the call looked like.
func TestTranscriptKeepsAnswersOfBadCalls(t *testing.T) {
	for _, call := range []string{`"name":"t","arguments":"{\"a\":"`, `"name":"","arguments":"[]"`, `"name":"` + strings.Repeat("n", 300) + `"`} {
		want := `{"role":"tool","tool_call_id":"a","content":"Error: no such thing"}`
		rec, err := Transcript([]byte(`[{"role":"assistant","tool_calls":[{"id":"a","function":{` + call + `}}]},` + want + `]`))
		if err != nil {
			t.Fatal(err)
		}
		got := rebuilt(t, OpenAI, importAll(t, rec))
		if diff := cmp.Diff(value(t, []byte(want)), value(t, got[0][0])); diff != "" {
			t.Errorf("%.40s: %s", call, diff)
		}
	}
}

func TestTranscriptMatchesInPlace(t *testing.T) {
	call := func(ids ...string) string {
		var calls []string
		for _, id := range ids {
			calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"t","arguments":""}}`, id))
		}
		return `{"role":"assistant","tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	tool := func(id, content string) string {
		return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, content)
	}
	doc := "[" + strings.Join([]string{
		call("a", "a", "b"), tool("b", "1"), tool("a", "2"), `{"role":"user","content":"wait"}`, tool("a", "3"), tool("a", "4"),
		call("a"), tool("b", "5"), call("a"), tool("a", "6"), `{"role":"assistant","content":"done"}`, tool("a", "7"),
	}, ",") + "]"
	rec, err := Transcript([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, turn := range rec.Turns {
		for i, a := range turn.Answers {
			text := "open"
			if a != nil {
				text = a.Result.Text.Text
			}
			got = append(got, fmt.Sprintf("%s %s %s", turn.Turn, turn.Calls[i].ProviderID, text))
		}
	}
	want := []string{"t0001 a 2", "t0001 a 3", "t0001 b 1", "t0002 a open", "t0003 a 6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	messages := rebuilt(t, OpenAI, importAll(t, rec))
	if open := string(messages[1][0]); !strings.Contains(open, "no answer yet") || !strings.Contains(open, `"tool_call_id":"a"`) {
		t.Errorf("a call without an answer is told %s", open)
	}
	if len(rec.Skipped) != 3 {
		t.Errorf("skipped: %q", rec.Skipped)
	}
}

func TestTranscriptIdsComeFromTheContent(t *testing.T) {
	a, err := Transcript([]byte(anthropicTranscript))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Transcript([]byte(strings.ReplaceAll(anthropicTranscript, "\t", "  ")))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Transcript([]byte(strings.ReplaceAll(anthropicTranscript, "go", "gone")))
	if err != nil {
		t.Fatal(err)
	}
	if a.Trace != b.Trace || a.Trace == c.Trace || events.CheckID("trace", a.Trace) != nil || !strings.HasPrefix(a.Trace, "imp_") {
		t.Errorf("%s, laid out otherwise %s, another %s", a.Trace, b.Trace, c.Trace)
	}
}

// repeated is a reader without an end.
type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestTranscriptRefuses(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{`{"model":"x"}`, "/messages"},
		{`{"messages":7}`, "/messages"},
		{`[7]`, "/0"},
		{`[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"t"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]`, "/1/content/0"},
		{`[{"role":"tool","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t"}]}]`, "/1"},
		{strings.Repeat("[", MaxDepth+1), ""},
	} {
		_, err := Transcript([]byte(c.doc))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Path != c.want {
			t.Errorf("%.60s: %v", c.doc, err)
		}
	}
	n := 0
	for _, err := range Transcripts(strings.NewReader("[]\n[]\n{\"messages\"")) {
		if n++; (err != nil) != (n == 3) {
			t.Errorf("conversation %d: %v", n, err)
		}
	}
	if n != 3 {
		t.Errorf("%d conversations", n)
	}
	for begin, fill := range map[string]repeated{`[] ["`: 'x', `[] `: ' '} {
		n = 0
		for _, err := range transcripts(io.MultiReader(strings.NewReader(begin), fill), 5_000) {
			if n++; n == 2 && !errors.Is(err, ErrTooLarge) || n == 1 && err != nil {
				t.Errorf("conversation %d: %v", n, err)
			}
		}
		if n != 2 {
			t.Errorf("%d conversations of an endless file", n)
		}
	}
}

// The recordings themselves are conversations that their provider took.
func TestRecordedConversationsAreValid(t *testing.T) {
	for _, file := range []string{"airline_gpt4o.jsonl.gz", "coding_marshmallow.jsonl.gz"} {
		for line := range bytes.Lines(recordedData(t, file)) {
			var doc struct{ Messages []json.RawMessage }
			if err := json.Unmarshal(line, &doc); err != nil {
				t.Fatal(err)
			}
			if err := Validate(OpenAI, doc.Messages); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
