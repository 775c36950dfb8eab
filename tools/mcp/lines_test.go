package mcp

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

type noWriter struct{}

func (noWriter) Write(p []byte) (int, error) { return len(p), nil }
func (noWriter) Close() error                { return nil }

// FuzzLines: whatever comes out of a pipe, reading it ends, and nothing but messages
// comes of it.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", "nonsense\n\n{}\n[]\n[1]\n", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1}}\r\n",
		"[{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]", "{\"jsonrpc\":\"2.0\",\"id\":1,", "\x00\xff\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		l := newLines(io.NopCloser(bytes.NewReader(in)), noWriter{}, newTap(), slog.New(slog.DiscardHandler))
		defer l.wait()
		defer l.Close()
		for range len(in) + 2 {
			msg, err := l.Read(t.Context())
			if err != nil {
				return
			}
			if msg == nil {
				t.Fatal("no message, and no error")
			}
		}
		t.Fatal("it does not end")
	})
}

// FuzzEvents: whatever a stream of events holds, reading it ends, and what the SDK reads
// of it is events with messages; a request has one answer at most, and one if the stream
// cannot be taken up again.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", "id: 1\n\ndata: half", "data: {\ndata: }\n\n", "event: other\ndata: x\n\n",
		": comment\n\nretry: 5\n\n", "data: {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n\n", "\xff\x00\n\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		id := int64(7)
		s := &eventStream{
			body: io.NopCloser(bytes.NewReader(in)), wire: newWire(Server{}, newTap(), slog.New(slog.DiscardHandler)), asked: asked{id: &id, f: &flight{}, wanted: true},
		}
		out, err := io.ReadAll(s)
		if err != nil && !strings.Contains(err.Error(), "asks for more") {
			t.Fatal(err)
		}
		for event := range strings.SplitSeq(string(out), "\n\n") {
			for line := range strings.SplitSeq(event, "\n") {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					if _, err := jsonrpc.DecodeMessage([]byte(data)); err != nil {
						t.Errorf("%q: %v", line, err)
					}
				}
			}
		}
		if r, _ := s.asked.f.abandon(nil); r == nil && !s.ids && err == nil {
			t.Errorf("%q has no answer", in)
		}
	})
}

// What a process leaves of a message as it ends is no message: its answer did not come.
func TestAMessageThatIsCutByTheEnd(t *testing.T) {
	const whole = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
	for cut := range len(whole) + 1 {
		l := newLines(io.NopCloser(strings.NewReader(whole[:cut])), noWriter{}, newTap(), slog.New(slog.DiscardHandler))
		msg, err := l.Read(t.Context())
		if (err == nil) != (cut == len(whole)) || err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%q: %v, %v", whole[:cut], msg, err)
		}
		_ = l.Close()
		l.wait()
	}
}

func TestAMessageThatIsTooLongIsItsRequestsFault(t *testing.T) {
	for ends, is := range map[string]bool{
		`{"jsonrpc":"2.0","id":12,"result":{"content":`: true, `{"id": 12 ,"x`: true, `{"result":{"a":1},"jsonrpc":"2.0","id":12}`: true,
		`{"result":{"id":12}`: false, `{"jsonrpc":"2.0","method":"x"}`: false, `{"id":"12","x`: false, ``: false,
	} {
		msg := tooLong([]byte(ends), 99)
		if (msg != nil) != is {
			t.Errorf("%s: %v", ends, msg)
		}
		if r, ok := msg.(*jsonrpc.Response); is && (!ok || r.ID.Raw() != int64(12)) {
			t.Errorf("%s: %+v", ends, msg)
		}
	}
}

func TestHeadersThatAreNotTheOperators(t *testing.T) {
	for name, is := range map[string]bool{"Authorization": true, "X-Key": true, "content-type": false, "Mcp-Session-Id": false, "Host": false, "a b": false} {
		if err := checkEndpoint("https://e/", map[string]string{name: "v"}); (err == nil) != is {
			t.Errorf("%s: %v", http.CanonicalHeaderKey(name), err)
		}
	}
}
