package mcp

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/gateway/keys"
)

// opened is a stream that a principal holds open: its lines come through the channel, which
// is closed at its end.
func (p *poster) opened(method, body string) (int, <-chan string) {
	t := p.w.t
	t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(within(t), method, "http://"+p.w.at+"/mcp", in)
	must(t, err)
	r.Header = p.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	if body != "" {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Method", "subscriptions/listen")
		r.Header.Del("Mcp-Name")
	}
	resp, err := p.client.Do(r)
	must(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := make(chan string, 4096)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return resp.StatusCode, lines
}

// listen is a request whose answer is a stream, with an id that needs care.
func (p *poster) listen() (int, <-chan string) {
	return p.opened(http.MethodPost, `{"jsonrpc":"2.0","id":9007199254740993,"method":"subscriptions\/listen","params":{"_meta":{`+strings.TrimSuffix(p.meta, ",")+`},"notifications":{"toolsListChanged":true}}}`)
}

// awaits reads lines until one that holds a text, or the stream's end.
func awaits(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	for {
		select {
		case l, open := <-lines:
			if !open && want != "" {
				t.Fatalf("the stream has ended before %q", want)
			}
			if !open || want != "" && strings.Contains(l, want) {
				return
			}
		case <-within(t).Done():
			t.Fatalf("%q does not come", want)
		}
	}
}

// TestStreamsEndWithTheRight: streams of a session and of a subscription are pinged, and end
// once their reader is let in no more.
func TestStreamsEndWithTheRight(t *testing.T) {
	var ring2 atomic.Pointer[keys.Ring]
	w := newWorld(t, making{api: func(c *gateway.APIConfig) {
		ring(t, "ann", "bob")(c)
		ring2.Store(c.Keys())
		c.Keys, c.Ping = ring2.Load, 20*time.Millisecond
	}})
	var mine, others []<-chan string
	for _, who := range []string{"bob", "ann"} {
		lines := &mine
		if who == "ann" {
			lines = &others
		}
		for _, revision := range revisions {
			p := w.posterOf(revision, bearer(who))
			var status int
			var l <-chan string
			if revision < sinceStateless {
				status, l = p.opened(http.MethodGet, "")
			} else {
				status, l = p.listen()
				awaits(t, l, `"io.modelcontextprotocol/subscriptionId":9007199254740993`)
			}
			if status != http.StatusOK {
				t.Fatalf("%s of %s: %d", revision, who, status)
			}
			awaits(t, l, ": ping")
			*lines = append(*lines, l)
		}
	}
	c := gateway.APIConfig{}
	ring(t, "ann")(&c)
	ring2.Store(c.Keys())
	for _, l := range mine {
		awaits(t, l, "")
	}
	for _, l := range others {
		awaits(t, l, ": ping")
		awaits(t, l, ": ping")
	}
}

// TestStreamsCount: a subscription counts as an event stream.
func TestStreamsCount(t *testing.T) {
	w := newWorld(t, making{api: func(c *gateway.APIConfig) {
		ring(t, "bob")(c)
		c.Limits.EachStreams = 2
	}})
	p := w.posterOf("2026-07-28", bearer("bob"))
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if status, _ := p.listen(); status != want {
			t.Errorf("stream %d: %d, want %d", i, status, want)
		}
	}
}
