package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var rewriteStreams = flag.Bool("rewrite-streams", false, "write what the streams of testdata become into their files")

// streamCase is one case of testdata/streams.
type streamCase struct {
	file, name string
	options    string // the whole line, as it stands in the file
	lines      []string
	want       string
}

func (c streamCase) has(option string) bool {
	return strings.Contains(" "+c.options+" ", " "+option+" ")
}

func (c streamCase) format() Format {
	for _, o := range strings.Fields(c.options) {
		if f, ok := strings.CutPrefix(o, "format="); ok {
			return Format(f)
		}
	}
	return ""
}

// bytes is the case as it comes from a model.
func (c streamCase) bytes() []byte {
	var b bytes.Buffer
	if c.has("bom") {
		b.Write(bom)
	}
	for _, l := range c.lines {
		switch {
		case c.has("raw"), c.has("ndjson"):
			b.WriteString(l + "\n")
		default:
			var e struct{ Type string }
			if json.Unmarshal([]byte(l), &e) == nil && e.Type != "" {
				fmt.Fprintf(&b, "event: %s\n", e.Type)
			}
			fmt.Fprintf(&b, "data: %s\n\n", l)
		}
	}
	switch {
	case c.has("crlf"):
		return bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\r\n"))
	case c.has("cr"):
		return bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\r"))
	}
	return b.Bytes()
}

// said are the options of its stream.
func (c streamCase) said() StreamOptions {
	o := StreamOptions{NoDone: c.has("nodone")}
	for _, f := range []Framing{FramingSSE, FramingNDJSON} {
		if c.has("framing=" + string(f)) {
			o.Framing = f
		}
	}
	return o
}

func (c streamCase) stream(t testing.TB) *Stream {
	o := c.said()
	o.Previews = true
	s, err := NewStream(c.format(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// streamCases reads the cases of all files.
func streamCases(t testing.TB) []streamCase {
	files, err := filepath.Glob("testdata/streams/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	var out []streamCase
	for _, f := range files {
		all, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(all), "=== ")[1:] {
			name, rest, _ := strings.Cut(part, "\n")
			body, want, ok := strings.Cut("\n"+rest, "\n----\n")
			if !ok {
				t.Fatalf("%s: %s has no ----", f, name)
			}
			c := streamCase{file: f, name: name, want: want}
			body = strings.TrimPrefix(body, "\n")
			if o, ok := strings.CutPrefix(body, "options: "); ok {
				c.options, body, _ = strings.Cut(o, "\n")
			}
			if body != "" {
				c.lines = strings.Split(body, "\n")
			}
			out = append(out, c)
		}
	}
	return out
}

// told is what became of a stream, in lines.
func told(f Format, m Message, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f, m.Reason)
	if m.Model != "" {
		fmt.Fprintf(&b, " model=%s", m.Model)
	}
	if m.Input+m.Output > 0 {
		fmt.Fprintf(&b, " tokens=%d/%d", m.Input, m.Output)
	}
	b.WriteByte('\n')
	for _, c := range m.Calls {
		fmt.Fprintf(&b, "call %q %s %s", c.ProviderID, c.Tool, c.Args.Text)
		if c.Refused != nil {
			fmt.Fprintf(&b, " refused %s", c.Refused.Code)
		}
		if c.Extra.Text != "" {
			fmt.Fprintf(&b, " with %s", c.Extra.Text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestStreams(t *testing.T) {
	cases := streamCases(t)
	if *rewriteStreams {
		rewrite(t, cases)
		return
	}
	for _, c := range cases {
		t.Run(filepath.Base(c.file)+"/"+c.name, func(t *testing.T) {
			if got := c.outcome(t); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// outcome is what a case becomes, written at once.
func (c streamCase) outcome(t testing.TB) string {
	f, m, err := DecodeStream(c.format(), c.bytes(), c.said())
	return told(f, m, err)
}

func rewrite(t *testing.T, cases []streamCase) {
	out := make(map[string]*strings.Builder)
	for _, c := range cases {
		b := out[c.file]
		if b == nil {
			b = new(strings.Builder)
			all, _ := os.ReadFile(c.file)
			head, _, _ := strings.Cut(string(all), "=== ")
			b.WriteString(head)
			out[c.file] = b
		}
		fmt.Fprintf(b, "=== %s\n", c.name)
		if c.options != "" {
			fmt.Fprintf(b, "options: %s\n", c.options)
		}
		for _, l := range c.lines {
			b.WriteString(l + "\n")
		}
		b.WriteString("----\n" + c.outcome(t))
	}
	for f, b := range out {
		if err := os.WriteFile(f, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStreamsCutAnywhere: how the bytes come changes nothing; and of a stream that ends
// too early no call comes, wherever it is cut.
func TestStreamsCutAnywhere(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, c := range streamCases(t) {
		if c.format() == Neutral {
			continue
		}
		all := c.bytes()
		want := c.outcome(t)
		for _, step := range []int{1, 2, 7, 0} {
			s := c.stream(t)
			for rest := all; len(rest) > 0; {
				n := step
				if n == 0 {
					n = 1 + rng.IntN(64)
				}
				n = min(n, len(rest))
				if _, err := s.Write(rest[:n]); err != nil {
					break
				}
				rest = rest[n:]
			}
			m, err := s.End()
			if got := told(s.Format(), m, err); got != want {
				t.Errorf("seed %d: %s in pieces of %d:\n%swant\n%s", seed, c.name, step, got, want)
			}
		}
		if _, _, err := DecodeStream(c.format(), all, c.said()); err != nil {
			continue // it did not end well, and may have before what is wrong
		}
		whole := len(bytes.TrimRight(all, " \r\n"))
		for n := 0; n < whole; n += 1 + whole/500 {
			f, m, err := DecodeStream(c.format(), all[:n], c.said())
			if err != nil || len(m.Calls) == 0 || told(f, m, err) == want {
				continue
			}
			if missing := string(all[n:whole]); !harmless(missing) {
				t.Errorf("%s cut at byte %d of %d gives %d calls; missing is %q", c.name, n, whole, len(m.Calls), missing)
			}
		}
	}
}

// harmless says whether what is missing of a stream says nothing about its calls: usage
// behind the end, a ping, a second [DONE].
func harmless(rest string) bool {
	return !strings.Contains(rest, "tool") && !strings.Contains(rest, "unctionCall") && !strings.Contains(rest, "function_call")
}

// TestStreamPreviews: previews come as the stream does, say which call they are about, and
// together are its arguments.
func TestStreamPreviews(t *testing.T) {
	seen := 0
	for _, c := range streamCases(t) {
		if c.format() == Neutral {
			continue
		}
		s := c.stream(t)
		var texts []string
		for _, b := range c.bytes() {
			_, err := s.Write([]byte{b})
			for _, p := range s.Previews() {
				if !utf8.ValidString(p.Delta + p.ID + p.Tool) {
					t.Errorf("%s: %q %q %q", c.name, p.ID, p.Tool, p.Delta)
				}
				if p.Call == len(texts) {
					texts = append(texts, "")
				}
				texts[p.Call] += p.Delta
			}
			if err != nil {
				break
			}
		}
		m, err := s.End()
		if err != nil || s.Format() == Gemini || len(texts) == 0 { // Gemini shows pieces with their places
			continue
		}
		seen++
		for i, call := range m.Calls {
			none := call.Args.Text == "" && slices.Contains(texts, "{}")
			shown := slices.ContainsFunc(texts, func(s string) bool {
				return s == call.Args.Text || s != "" && bytes.Equal(compactArgs([]byte(s)), compactArgs([]byte(call.Args.Text)))
			})
			if !call.Custom && !none && !shown && !strings.Contains(strings.Join(texts, ""), "\uFFFD") {
				t.Errorf("%s: call %d: previews %q, arguments %q", c.name, i, texts, call.Args.Text)
			}
		}
	}
	if seen < 20 {
		t.Errorf("previews in %d cases", seen)
	}
}

// TestStreamErrorsStay: after an error nothing more is taken, and nothing is held.
func TestStreamErrorsStay(t *testing.T) {
	s, err := NewStream(Anthropic, StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, first := s.Write([]byte("data: {\"type\":\"message_stop\"}\n\n"))
	var se *StreamError
	if !errors.As(first, &se) || se.Fault != FaultOrder || se.Event != 1 || !errors.Is(first, ErrMalformed) || se.Status() != 422 {
		t.Fatalf("%v", first)
	}
	good := "data: {\"type\":\"message_start\",\"message\":{}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"
	if _, err := s.Write([]byte(good)); !errors.Is(err, first) {
		t.Errorf("%v", err)
	}
	if _, err := s.End(); !errors.Is(err, first) || s.Size() != 0 || s.Over() {
		t.Errorf("%v, %d bytes", err, s.Size())
	}
}

// TestStreamAfterItsEnd: an input that has ended does not go on.
func TestStreamAfterItsEnd(t *testing.T) {
	s, err := NewStream("", StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Whole(); err == nil {
		t.Error("a whole response of nothing")
	}
	const good = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"now"}}]},"finishReason":"STOP"}]}`
	if _, err := s.Write([]byte(good)); err != nil || !s.Over() {
		t.Fatal(err)
	}
	m, err := s.End()
	whole, err2 := s.Whole()
	if err != nil || err2 != nil || len(m.Calls) != 1 {
		t.Fatalf("%+v %v %v", m, err, err2)
	}
	again, err := Decode(s.Format(), whole)
	if got, want := told(Gemini, again, err), told(Gemini, m, nil); got != want {
		t.Errorf("%s is not %s", got, want)
	}
	if _, err := s.Write([]byte("\n" + good)); err == nil {
		t.Error("it goes on")
	}
	if _, err := s.End(); err == nil {
		t.Error("it is good again")
	}
}

// TestStreamBounds: what is too large is refused while it comes.
func TestStreamBounds(t *testing.T) {
	chunk := func(index int, args string) string {
		return fmt.Sprintf("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"i%d\",\"function\":{\"name\":\"t\",\"arguments\":%s}}]}}]}\n", index, index, marshal(args))
	}
	for _, c := range []struct {
		name   string
		stream func(s *Stream) error
	}{
		{"arguments of one call", func(s *Stream) error { return pour(s, chunk(0, strings.Repeat("x", 1<<14)), 1+MaxArgs>>14) }},
		{"all arguments", func(s *Stream) error {
			s.kit.held = MaxBody - 100 // of others, which would take long to read here
			return pour(s, chunk(0, strings.Repeat("x", 100)), 1)
		}},
		{"calls", func(s *Stream) error {
			for i := range MaxCalls + 1 {
				if err := pour(s, chunk(i, ""), 1); err != nil {
					return err
				}
			}
			return nil
		}},
		{"a line", func(s *Stream) error { return pour(s, strings.Repeat("{", 1<<16), 1+MaxBody>>16) }},
		{"the stream", func(s *Stream) error {
			s.read = MaxStream - 1
			return pour(s, "\n", 2)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := NewStream(OpenAI, StreamOptions{Framing: FramingNDJSON})
			err := c.stream(s)
			var se *StreamError
			if !errors.As(err, &se) || se.Fault != FaultTooLarge || se.Status() != 413 || s.Size() > 2*MaxBody {
				t.Errorf("%v, %d bytes held", err, s.Size())
			}
		})
	}
	s, _ := NewStream(OpenAI, StreamOptions{})
	if err := pour(s, "data: "+strings.Repeat("[", MaxDepth+1)+"\n\n", 1); !errors.Is(err, ErrTooDeep) {
		t.Errorf("%v", err)
	}
}

func pour(s *Stream, text string, times int) error {
	for range times {
		if _, err := s.Write([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}
