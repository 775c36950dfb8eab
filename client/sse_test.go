package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluice-run/sluice/events"
)

// read is all messages of a stream, and its error.
func read(r io.Reader) (out []message, err error) {
	for m, e := range messages(r, func() {}) {
		if e != nil {
			return out, e
		}
		out = append(out, m)
	}
	return out, nil
}

// TestServerSentEvents: lines in all forms that the format has, and what is cut.
func TestServerSentEvents(t *testing.T) {
	for in, want := range map[string]string{
		"": "", ": ping\n\n": "", "event: a\ndata: 1\n\n": "a=1|", "data:1\n\ndata: 2\n\n": "=1|=2|", "event: a\r\ndata: 1\r\n\r\n": "a=1|",
		"data: 1\ndata: 2\n\n": "=1\n2|", "data\n\n": "=|", "event: a\n\ndata: 1\n\n": "=1|", "id: 7\nretry: 9\ndata: 1\n\n": "=1|",
		"data: 1\n": "", "data: 1": "", "event: x\ndata: 1\n: comment\nunknown: y\n\n": "x=1|", "data:  1\n\n": "= 1|",
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
			list, err := read(r)
			got := ""
			for _, m := range list {
				got += m.kind + "=" + string(m.data) + "|"
			}
			if err != nil || got != want {
				t.Errorf("%q: %q, %v, want %q", in, got, err, want)
			}
		}
	}
	long := "data: " + strings.Repeat("x", maxMessage) + "\n\n"
	if _, err := read(strings.NewReader(long)); !errors.Is(err, ErrAnswer) || passing(err) {
		t.Errorf("an endless line: %v", err)
	}
	many := strings.Repeat("data: x\n", maxMessage/8+1)
	if _, err := read(strings.NewReader(many)); !errors.Is(err, ErrAnswer) {
		t.Errorf("an endless event: %v", err)
	}
	broken := errors.New("broken")
	if list, err := read(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2\n"), iotest.ErrReader(broken))); !errors.Is(err, broken) || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

// FuzzMessages: a stream read in other pieces is the same stream, and nothing that is read
// of it panics, or is an event without a place.
func FuzzMessages(f *testing.F) {
	f.Add("event: completed\ndata: {\"type\":\"run.sluice.completed.v1\",\"subject\":\"a/b/0\",\"position\":\"1.2.3\",\"number\":\"4\",\"epoch\":\"1\"}\n\n")
	f.Add("event: gap\ndata: {\"from\":\"1.2.0\",\"to\":\"1.9.0\"}\n\n")
	f.Add("event: error\ndata: {\"title\":\"x\",\"status\":503}\n\n")
	f.Add("data: {\"notice\":\"too_large\",\"position\":\"1.2.0\",\"bytes\":7}\n\n")
	f.Add("data: 1\r\n\r\ndata: 2\n\n: x\n")
	f.Fuzz(func(t *testing.T, in string) {
		whole, err := read(strings.NewReader(in))
		bits, bitsErr := read(iotest.OneByteReader(strings.NewReader(in)))
		if len(whole) != len(bits) || (err == nil) != (bitsErr == nil) {
			t.Fatalf("%d and %d, %v and %v", len(whole), len(bits), err, bitsErr)
		}
		for i, m := range whole {
			if m.kind != bits[i].kind || string(m.data) != string(bits[i].data) {
				t.Fatalf("%q and %q", m, bits[i])
			}
			e, err := m.event()
			if err == nil && e.Position == (events.Position{}) && e.Notice == "" && !strings.Contains(string(m.data), "0.0") {
				t.Fatalf("%q is %+v", m.data, e)
			}
			if err == nil && e.Kind != "" {
				_, _ = e.Decode() // an error, or an event
			}
		}
	})
}

// TestSilentStreams: a stream that says nothing is opened again, and one that ends at once
// does not make a loop that never rests.
func TestSilentStreams(t *testing.T) {
	opened, ended := make(chan string, 100), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened <- r.URL.Query().Get("from")
		w.Header().Set("Content-Type", "text/event-stream")
		if len(opened) == 1 {
			_, _ = io.WriteString(w, "event: gap\ndata: {\"from\":\"1.2.0\",\"to\":\"1.9.0\"}\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	defer s.Close()
	defer close(ended)
	c, err := New(s.URL, Options{Silence: 20_000_000, Retry: Retry{Attempts: 3, First: 1_000_000, Most: 2_000_000}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got []Event
	for e, err := range c.Events(t.Context(), Query{Follow: true}) {
		if err != nil {
			if !errors.Is(err, errCut) || errors.Is(err, context.Canceled) && !errors.Is(err, errCut) {
				t.Errorf("%v", err)
			}
			break
		}
		got = append(got, e)
	}
	if len(got) != 1 || got[0].Notice != NoticeGap || got[0].Next() != (events.Position{Generation: 1, Seq: 9}) {
		t.Errorf("%+v", got)
	}
	if first, second := <-opened, <-opened; first != "start" || second != "1.9.0" {
		t.Errorf("opened from %s, then from %s", first, second)
	}
}
