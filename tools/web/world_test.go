package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// world is a small internet: names with the addresses that they have the first, second
// … time they are asked for, and one server behind every public address, over
// HTTP on port 80 and HTTPS on port 443. What would be dialled is written down.
type world struct {
	f      *fetcher
	plain  *httptest.Server
	secure *httptest.Server

	mu     sync.Mutex
	names  map[string][]string // each a list of addresses with blanks between
	leads  map[string]string   // redirects: host and path to an address
	status int                 // of redirects; 0 means 302
	asked  []*http.Request
	dialed []string
}

const publicAddress = "93.184.215.14"

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{names: map[string][]string{}, leads: map[string]string{}}
	w.plain = httptest.NewServer(http.HandlerFunc(w.serve))
	w.secure = httptest.NewTLSServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.plain.Close)
	t.Cleanup(w.secure.Close)
	w.f = newFetcher(Config{})
	w.f.dialer.lookup = w.lookup
	w.f.dialer.connect = w.connect
	roots := x509.NewCertPool()
	roots.AddCert(w.secure.Certificate()) // its name is example.com
	w.f.transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return w
}

func (w *world) lookup(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	list := w.names[host]
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(list) > 1 {
		w.names[host] = list[1:]
	}
	var out []netip.Addr
	for a := range strings.FieldsSeq(list[0]) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

// connect leads every public address to the servers. It does what the system's dialer
// does: the dialer's last word is asked BEFORE anything is sent.
func (w *world) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if err := w.f.dialer.permits(network, address); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	w.mu.Unlock()
	to := w.plain
	if strings.HasSuffix(address, ":443") {
		to = w.secure
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", to.Listener.Addr().String())
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, r)
	to, moved := w.leads[r.Host+r.URL.Path]
	status := w.status
	w.mu.Unlock()
	if moved {
		rw.Header().Set("Location", to)
		rw.Header().Add("Set-Cookie", "session=1; Domain="+r.Host)
		rw.WriteHeader(max(status, http.StatusFound))
		return
	}
	rw.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(rw, "%s says hello", (&url.URL{Host: strings.ToLower(r.Host)}).Hostname())
}

// fetch reads a URL. may is nil where nobody can be asked about another host.
func (w *world) fetch(ctx context.Context, at string, may func(events.Operation) error) (events.Result, error) {
	return w.f.fetch(ctx, tools.Invocation{Network: true, May: may}, fetchIn{URL: at})
}

// took is what has been dialled since it was last asked.
func (w *world) took() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dialed
	w.dialed, w.asked = nil, nil
	return d
}

func anyHost(events.Operation) error { return nil }

// What the policy's table of URLs allows is dialled at a public address and asked for by
// its own name, and for what the table denies nothing is dialled.
func TestTheToolDoesWhatTheTableSays(t *testing.T) {
	raw, err := os.ReadFile("../../policy/testdata/urls.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed, denied := 0, 0
	w := newWorld(t)
	w.f.transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the rows have many names, the server's certificate one
	for line := range strings.SplitSeq(string(raw), "\n") {
		parts := strings.SplitN(line, " | ", 3)
		if len(parts) != 3 || strings.HasPrefix(line, "#") {
			continue
		}
		at := parts[2]
		if u, err := strconv.Unquote(at); err == nil && at[0] == '"' {
			at = u
		}
		w.names[parts[1]] = []string{publicAddress}
		r, err := w.fetch(t.Context(), at, nil)
		dialled := w.took()
		if parts[0] == "deny" {
			denied++
			e, ok := errors.AsType[*tools.Error](err)
			if !ok || len(dialled) > 0 || e.Code != events.AccessDenied && e.Code != events.InvalidParam || e.Effects != events.EffectsNone {
				t.Errorf("%q: dialled %v, %v", at, dialled, err)
			}
			continue
		}
		allowed++
		if err != nil || len(dialled) != 1 || !strings.HasSuffix(r.Text.Text, parts[1]+" says hello") {
			t.Errorf("%q: dialled %v, %q, %v", at, dialled, r.Text.Text, err)
			continue
		}
		if a := netip.MustParseAddrPort(dialled[0]).Addr(); a.String() != publicAddress && a.String() != parts[1] {
			t.Errorf("%q: dialled %v", at, dialled)
		}
	}
	if allowed < 15 || denied < 100 {
		t.Errorf("%d rows allow and %d deny", allowed, denied)
	}
}
