package codec

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// fuzzStream fuzzes the assembler of one format: no bytes make it panic; how they are cut
// changes nothing; what it accepts is within the bounds of messages; and without its
// terminal event it gives no call that may start.
func fuzzStream(f *testing.F, format Format, terminal ...string) {
	for _, c := range streamCases(f) {
		if !strings.Contains(c.file, string(format)) && !strings.Contains(c.file, "any") {
			continue
		}
		f.Add(c.bytes(), uint8(3), c.has("nodone"))
	}
	f.Fuzz(func(t *testing.T, all []byte, step uint8, noDone bool) {
		_, m, err := DecodeStream(format, all, StreamOptions{NoDone: noDone})
		want := told(format, m, err)
		s, _ := NewStream(format, StreamOptions{NoDone: noDone, Previews: true})
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1+int(step))
			if _, err := s.Write(rest[:n]); err != nil {
				break
			}
			if s.Size() > 2*MaxBody+len(all) {
				t.Fatalf("%d bytes held", s.Size())
			}
			s.Previews()
			rest = rest[n:]
		}
		again, err2 := s.End()
		if got := told(format, again, err2); got != want {
			t.Fatalf("in pieces of %d:\n%swant\n%s", int(step)+1, got, want)
		}
		if err != nil {
			if _, ok := errors.AsType[*StreamError](err); !ok {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		checkDecoded(t, format, m)
		if bytes.Contains(all, []byte(`\u`)) {
			return // the terminal event may be written otherwise
		}
		ended := false
		for _, word := range terminal {
			ended = ended || bytes.Contains(all, []byte(word))
		}
		for _, c := range m.Calls {
			if c.Refused == nil && !ended {
				t.Fatalf("%q may start, and nothing of %q has come", c.Tool, terminal)
			}
		}
	})
}

func FuzzStreamOpenAI(f *testing.F)    { fuzzStream(f, OpenAI, "[DONE]", "finish_reason", `"done"`) }
func FuzzStreamAnthropic(f *testing.F) { fuzzStream(f, Anthropic, "message_stop") }
func FuzzStreamResponses(f *testing.F) { fuzzStream(f, Responses, "response.completed") }
func FuzzStreamGemini(f *testing.F)    { fuzzStream(f, Gemini, "finishReason", "finish_reason") }
