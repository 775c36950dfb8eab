package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// Names lead where they lead: whatever a resolver answers, only public addresses are
// dialled, and none where one of several is not.
func TestWhatNamesLeadTo(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string
		dials   string // "" none
		code    events.Code
	}{
		"public":                         {[]string{publicAddress}, publicAddress + ":80", ""},
		"public IPv6":                    {[]string{"2606:4700::1111"}, "[2606:4700::1111]:80", ""},
		"public, mapped into IPv6":       {[]string{"::ffff:93.184.215.14"}, publicAddress + ":80", ""},
		"loopback":                       {[]string{"127.0.0.1"}, "", events.AccessDenied},
		"loopback, mapped into IPv6":     {[]string{"::ffff:127.0.0.1"}, "", events.AccessDenied},
		"loopback IPv6":                  {[]string{"::1"}, "", events.AccessDenied},
		"loopback of old IPv6":           {[]string{"::127.0.0.1"}, "", events.AccessDenied},
		"metadata":                       {[]string{"169.254.169.254"}, "", events.AccessDenied},
		"metadata over IPv6":             {[]string{"fd00:ec2::254"}, "", events.AccessDenied},
		"metadata through NAT64":         {[]string{"64:ff9b::a9fe:a9fe"}, "", events.AccessDenied},
		"metadata of Azure":              {[]string{"168.63.129.16"}, "", events.AccessDenied},
		"metadata of Alibaba":            {[]string{"100.100.100.200"}, "", events.AccessDenied},
		"private":                        {[]string{"10.0.0.1"}, "", events.AccessDenied},
		"shared":                         {[]string{"100.64.0.1"}, "", events.AccessDenied},
		"this network":                   {[]string{"0.0.0.0"}, "", events.AccessDenied},
		"unspecified IPv6":               {[]string{"::"}, "", events.AccessDenied},
		"broadcast":                      {[]string{"255.255.255.255"}, "", events.AccessDenied},
		"multicast":                      {[]string{"ff02::1"}, "", events.AccessDenied},
		"link local with a zone":         {[]string{"fe80::1%eth0"}, "", events.AccessDenied},
		"ISATAP":                         {[]string{"2606:4700::5efe:7f00:1"}, "", events.AccessDenied},
		"6to4":                           {[]string{"2002:7f00:1::"}, "", events.AccessDenied},
		"Teredo":                         {[]string{"2001:0:4136:e378:8000:63bf:80ff:fffe"}, "", events.AccessDenied},
		"one private of several, last":   {[]string{publicAddress + " 1.1.1.1 192.168.0.1"}, "", events.AccessDenied},
		"one private of several, first":  {[]string{"127.0.0.1 " + publicAddress}, "", events.AccessDenied},
		"none":                           {[]string{""}, "", events.NotFound},
		"public, then private (rebinds)": {[]string{publicAddress, "127.0.0.1"}, publicAddress + ":80", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.names["example.com"] = c.answers
			_, err := w.fetch(t.Context(), "http://example.com/", nil)
			if got := strings.Join(w.took(), " "); got != c.dials {
				t.Errorf("dialled %q, want %q", got, c.dials)
			}
			if c.code == "" && err != nil {
				t.Error(err)
			}
			if c.code != "" {
				failed(t, err, c.code, events.ClassTool, "")
			}
		})
	}
}

// A resolver that changes its mind between two fetches, or between a fetch and a
// redirect back to the same name, is looked at each time.
func TestARebindingNameIsLookedAtEachTime(t *testing.T) {
	w := newWorld(t)
	w.names["example.com"] = []string{publicAddress, "127.0.0.1"}
	w.leads["example.com/"] = "/again"
	_, err := w.fetch(t.Context(), "http://example.com/", nil)
	failed(t, err, events.AccessDenied, events.ClassTool, "prohibited")
	if got := w.took(); len(got) != 1 {
		t.Errorf("dialled %v", got)
	}
}

// Wherever a server sends its readers, they end at public hosts that the policy allows.
func TestWhereRedirectsLead(t *testing.T) {
	const told = events.Code("")
	for to, c := range map[string]struct {
		code  events.Code // told: the redirect is told, not followed, unless follows
		hosts int         // connections
		may   string      // hosts that the policy allows
		ends  string      // what the answer holds
	}{
		"/there":                                {told, 2, "", "example.com says"},
		"http://example.com:80/there":           {told, 2, "", "example.com says"},
		"https://example.com/there":             {told, 2, "", "example.com says"},
		"http://EXAMPLE.com./there":             {told, 2, "", "example.com. says"},
		"http://other.example/":                 {told, 1, "", "not followed"},
		"http://other.example/ ":                {told, 1, "", "not followed"},
		"//other.example/":                      {told, 1, "third.example", "not followed"},
		"http://other.example/a":                {told, 2, "other.example", "other.example says"},
		"http://back.example/":                  {told, 3, "back.example", "example.com says"},
		"http://169.254.169.254/latest/":        {events.AccessDenied, 1, "169.254.169.254", "redirect"},
		"http://private.example/":               {events.AccessDenied, 1, "private.example", "prohibited"},
		"http://127.1/":                         {events.AccessDenied, 1, "127.1", "redirect"},
		"http://2130706433/":                    {events.AccessDenied, 1, "2130706433", "redirect"},
		"http://[::ffff:7f00:1]/":               {events.AccessDenied, 1, "[::ffff:7f00:1]", "redirect"},
		"http://localhost/":                     {events.AccessDenied, 1, "localhost", "redirect"},
		"http://127.0.0.1.nip.io/":              {events.AccessDenied, 1, "127.0.0.1.nip.io", "redirect"},
		"http://metadata.google.internal/":      {events.AccessDenied, 1, "metadata.google.internal", "redirect"},
		"http://example.com:8080/":              {events.AccessDenied, 1, "example.com:8080", "redirect"},
		"http://example.com:0/":                 {events.InvalidParam, 1, "", "redirect"},
		"http://user:word@example.com/":         {events.InvalidParam, 1, "", "redirect"},
		"http://example.com\\@127.0.0.1/":       {events.ExecutionError, 1, "", "could not be read"},
		"file:///etc/passwd":                    {events.InvalidParam, 1, "", "redirect"},
		"gopher://127.0.0.1:6379/_FLUSHALL":     {events.InvalidParam, 1, "", "redirect"},
		"javascript:alert(1)":                   {events.InvalidParam, 1, "", "redirect"},
		"http://" + strings.Repeat("a", 9000):   {events.InvalidParam, 1, "", "redirect"},
		"http://１２７.0.0.1/":                     {events.AccessDenied, 1, "", "redirect"},
		"http://%31%32%37.0.0.1/":               {events.ExecutionError, 1, "", "could not be read"},
		"http://example.com/%0d%0aHost:%20evil": {told, 2, "", "example.com says"},
	} {
		w := newWorld(t)
		w.names["example.com"] = []string{publicAddress}
		w.names["other.example"] = []string{"1.1.1.1"}
		w.names["back.example"] = []string{"1.0.0.1"}
		w.names["private.example"] = []string{"10.0.0.1"}
		w.leads["example.com/"] = to
		w.leads["back.example/"] = "http://example.com/end"
		may := func(op events.Operation) error {
			if c.may != "" && op.Class == events.OpNetwork && slices.Equal(op.Hosts, []string{c.may}) || slices.Equal(op.Hosts, []string{"example.com"}) {
				return nil
			}
			return errors.New("not this one")
		}
		r, err := w.fetch(t.Context(), "http://example.com/", may)
		for _, req := range w.asked {
			if h := req.Header; h.Get("Cookie")+h.Get("Authorization")+h.Get("Referer") != "" {
				t.Errorf("%.60s: sent %v", to, h)
			}
		}
		if got := w.took(); len(got) != c.hosts {
			t.Errorf("%.60s: dialled %v, want %d", to, got, c.hosts)
		}
		switch e, _ := errors.AsType[*tools.Error](err); {
		case c.code == told && (err != nil || !strings.Contains(r.Text.Text, c.ends)):
			t.Errorf("%.60s: %q, %v", to, r.Text.Text, err)
		case c.code != told && (e == nil || e.Code != c.code || !strings.Contains(e.Message, c.ends)):
			t.Errorf("%.60s: %v, want %s and %q", to, err, c.code, c.ends)
		}
	}
}

// From https nobody is led to http, not even on the same host: it would be read, and
// changed, on its way.
func TestNoRedirectGivesEncryptionUp(t *testing.T) {
	w := newWorld(t)
	w.names["example.com"] = []string{publicAddress}
	w.leads["example.com/"] = "http://example.com/plain"
	r, err := w.fetch(t.Context(), "https://example.com/", anyHost)
	if err != nil || r.Status != events.Partial || !strings.Contains(r.Text.Text, "not encrypted, http://example.com/plain") {
		t.Errorf("%q, %v", r.Text.Text, err)
	}
	if got := w.took(); !slices.Equal(got, []string{publicAddress + ":443"}) {
		t.Errorf("dialled %v", got)
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	w := newWorld(t)
	w.names["example.com"], w.names["other.example"] = []string{publicAddress}, []string{publicAddress}
	if _, err := w.fetch(t.Context(), "https://example.com/", nil); err != nil {
		t.Errorf("its own name: %v", err)
	}
	_, err := w.fetch(t.Context(), "https://other.example/", nil)
	failed(t, err, events.ExecutionError, events.ClassTool, "certificate")
	w.f.transport.TLSClientConfig = nil // the system's roots, as a node has them
	_, err = w.fetch(t.Context(), "https://example.com/", nil)
	failed(t, err, events.ExecutionError, events.ClassTool, "certificate")
	if n := newFetcher(Config{}).transport; n.TLSClientConfig != nil {
		t.Error("Fetch has certificates of its own")
	}
}

// HTTP/1.1 alone is spoken, also to a server that would rather speak HTTP/2: one
// connection is one request to one address that was looked at.
func TestOnlyHTTP1IsSpoken(t *testing.T) {
	w := newWorld(t)
	w.secure.Close()
	w.secure = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.Proto) }))
	w.secure.EnableHTTP2 = true
	w.secure.StartTLS()
	t.Cleanup(w.secure.Close)
	w.f.transport.TLSClientConfig = &tls.Config{RootCAs: w.secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12}
	w.names["example.com"] = []string{publicAddress}
	r, err := w.fetch(t.Context(), "https://example.com/", nil)
	if err != nil || !strings.HasSuffix(r.Text.Text, "HTTP/1.1") {
		t.Errorf("%q, %v", r.Text.Text, err)
	}
}

// raw answers every connection with the same bytes, and then with more of them for as
// long as the other side reads.
func raw(t *testing.T, w *world, head string, more []byte) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, err = io.WriteString(c, head)
			for err == nil && len(more) > 0 {
				_, err = c.Write(more)
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	w.f.dialer.connect = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
}

// A server that never ends is heard for so many bytes and no more, whatever it says that
// they are: headers, empty pieces of a compressed body, chunks, trailers.
func TestEndlessAnswersEnd(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	empty := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0} // a gzip member that holds nothing
	for name, c := range map[string]struct {
		head, more, says string
		partial          bool
	}{
		"a header":           {ok, "X-A: " + strings.Repeat("b", 1000) + "\r\n", "could not be read", false},
		"one header line":    {ok + "X-A: ", strings.Repeat("b", 4096), "could not be read", false},
		"a status line":      {"HTTP/1.1 200 ", strings.Repeat("b", 4096), "could not be read", false},
		"answers before it":  {"", "HTTP/1.1 100 Continue\r\n\r\n", "could not be read", false},
		"a body":             {ok + "\r\n", strings.Repeat("b", 4096), "", true},
		"a body in chunks":   {ok + "Transfer-Encoding: chunked\r\n\r\n", "4\r\nabcd\r\n", "", true},
		"blanks in a chunk":  {ok + "Transfer-Encoding: chunked\r\n\r\n4;", strings.Repeat("b", 4096), "could not be read", false},
		"trailers":           {ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X-A: b\r\n", "could not be read", false},
		"nothing, in gzip":   {ok + "Content-Encoding: gzip\r\n\r\n", string(bytes.Repeat(empty, 100)), "could not be read", false},
		"two lengths":        {ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "", "could not be read", false},
		"no HTTP":            {"+OK redis\r\n", "", "could not be read", false},
		"control characters": {"HTTP/1.1 500 \x1b[2K\r\nContent-Type: text/plain\r\n\r\n", "", "500 Internal", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.f.cfg.Body, w.f.cfg.Timeout = 100_000, time.Minute
			w.f.dialer.wire = 400_000
			raw(t, w, c.head, []byte(c.more))
			r, err := w.fetch(t.Context(), "http://1.1.1.1/", nil)
			if c.partial {
				if err != nil || r.Status != events.Partial || r.Stats.Bytes != 100_000 {
					t.Errorf("%s, %d bytes, %v", r.Status, r.Stats.Bytes, err)
				}
				return
			}
			e, ok := errors.AsType[*tools.Error](err)
			if !ok || !strings.Contains(e.Message, c.says) || len(e.Message) > 1000 || strings.ContainsAny(e.Message, "\x1b\r\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// What the node is not allowed, its tool does not do, whoever let the call through.
func TestFetchNeedsTheNetwork(t *testing.T) {
	w := newWorld(t)
	w.names["example.com"] = []string{publicAddress}
	_, err := w.f.fetch(t.Context(), tools.Invocation{}, fetchIn{URL: "http://example.com/"})
	failed(t, err, events.AccessDenied, events.ClassTool, "operator")
	if got := w.took(); got != nil {
		t.Errorf("dialled %v", got)
	}
}

// Names are taken whole: no search list of the machine makes another one of them.
func TestNamesAreAbsolute(t *testing.T) {
	d := newDialer(Config{})
	var got []string
	d.lookup = func(_ context.Context, network, host string) ([]netip.Addr, error) {
		got = append(got, network+" "+host)
		return nil, nil
	}
	for _, host := range []string{"a.example:80", "a.example.:80"} {
		if _, err := d.dial(t.Context(), "tcp", host); err == nil {
			t.Errorf("%s was dialled", host)
		}
	}
	if !slices.Equal(got, []string{"ip a.example.", "ip a.example."}) {
		t.Errorf("asked for %q", got)
	}
}

// The system's dialer has the last word, too: it is asked right before each connection.
func TestTheSystemsDialerIsGuarded(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	defer srv.Close()
	d := newDialer(Config{})
	for _, network := range []string{"tcp", "tcp4"} {
		if c, err := d.connect(t.Context(), network, srv.Listener.Addr().String()); err == nil {
			_ = c.Close()
			t.Errorf("%s is dialled", network)
		}
	}
}
