package web

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// notPublic are ranges that lead nowhere public, written down here once more so that the
// test does not ask what it tests.
var notPublic = func() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3", "168.63.129.16/32",
		"::/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2", "8000::/1",
	} {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}()

func public(a netip.Addr) bool {
	if a.Zone() != "" || a.Is4In6() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// canned is a connection whose other side reads one request and gives one answer.
type canned struct {
	mu     sync.Mutex
	sent   bytes.Buffer
	answer io.Reader
	asked  func(*http.Request)
	ready  chan struct{} // closed once there is something to read
	once   sync.Once
}

func (c *canned) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent.Write(p)
	if req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(c.sent.Bytes()))); err == nil {
		c.asked(req)
		c.once.Do(func() { close(c.ready) })
	} else if p[0] == 0x16 { // TLS, which nobody answers
		c.once.Do(func() { close(c.ready) })
	}
	return len(p), nil
}

func (c *canned) Read(p []byte) (int, error) {
	<-c.ready
	return c.answer.Read(p)
}

func (c *canned) Close() error {
	c.once.Do(func() { close(c.ready) })
	return nil
}

func (c *canned) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *canned) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

// FuzzFetch: whatever a URL, a redirect and a resolver say, what is dialled is public; what
// the policy refuses is not dialled at all; and what it allows is asked for by the
// host that the policy has read, whatever net/url and net/http make of it.
func FuzzFetch(f *testing.F) {
	table, err := os.ReadFile("../../policy/testdata/urls.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.SplitSeq(string(table), "\n") {
		if parts := strings.SplitN(line, " | ", 3); len(parts) == 3 {
			at := parts[2]
			if u, err := strconv.Unquote(at); err == nil && at[0] == '"' {
				at = u
			}
			f.Add(at, "", []byte{93, 184, 215, 14})
			f.Add("http://example.com/", at, []byte{127, 0, 0, 1})
		}
	}
	f.Add("https://example.com/", "http://example.com/", []byte("\x26\x06\x47\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x11\x11"))
	f.Fuzz(func(t *testing.T, raw, location string, address []byte) {
		dialled, hosts := 0, []string{}
		var mu sync.Mutex
		fetch := newFetcher(Config{Timeout: time.Minute})
		fetch.dialer.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
			a, ok := netip.AddrFromSlice(address)
			if !ok {
				a = netip.MustParseAddr(publicAddress)
			}
			return []netip.Addr{a, netip.MustParseAddr("1.1.1.1")}, nil
		}
		fetch.dialer.connect = func(_ context.Context, network, at string) (net.Conn, error) {
			a := netip.MustParseAddrPort(at)
			if dialled++; !public(a.Addr()) || a.Port() != 80 && a.Port() != 443 || network != "tcp4" && network != "tcp6" {
				t.Errorf("%q, then %q: %s is dialled over %s", raw, location, at, network)
			}
			head := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"
			if location != "" && dialled == 1 && !strings.ContainsAny(location, "\r\n") {
				head = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + "\r\n\r\n"
			}
			return &canned{answer: strings.NewReader(head), ready: make(chan struct{}), asked: func(r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				hosts = append(hosts, r.Host)
				if r.Header.Get("Authorization")+r.Header.Get("Cookie")+r.Header.Get("Referer") != "" {
					t.Errorf("%q, then %q: sent %v", raw, location, r.Header)
				}
			}}, nil
		}
		host, refused := policy.CheckURL(raw)
		_, err := fetch.fetch(t.Context(), tools.Invocation{Network: true, May: anyHost}, fetchIn{URL: raw})
		if refused != nil && (dialled > 0 || err == nil) {
			t.Errorf("%q is refused (%v), and was fetched: %v", raw, refused, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, h := range hosts {
			got, err := policy.CheckURL("http://" + strings.TrimSuffix(strings.TrimSuffix(h, ":443"), ":80"))
			if err != nil || i == 0 && got != host {
				t.Errorf("%q was asked for as %q; the policy read %q, and says %v", raw, h, host, err)
			}
		}
		if refused == nil && host == "example.com" && strings.HasPrefix(raw, "http:") && dialled > 0 && len(hosts) == 0 {
			t.Errorf("%q was dialled, and never asked for: this test sees nothing", raw)
		}
		if op := operation([]byte(`{"url":` + strconv.Quote(raw) + `}`)); op.Class != events.OpNetwork {
			t.Errorf("%q: %+v", raw, op)
		}
	})
}
