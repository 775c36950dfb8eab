package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/test/leaks"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/tooltest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func fetchTool(t testing.TB, c Config) tools.Tool {
	t.Helper()
	tool, err := Fetch(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&tools.Registry{}).Add(tool); err != nil {
		t.Fatal(err)
	}
	return tool
}

func run(t testing.TB, tool tools.Tool, ctx context.Context, args any) (events.Result, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	if vs := tools.Validate(tool, raw); vs != nil {
		t.Fatal(vs)
	}
	return tool.Run(ctx, tools.Invocation{Args: raw, Network: true})
}

type m = map[string]any

func failed(t testing.TB, err error, code events.Code, class events.Class, word string) *tools.Error {
	t.Helper()
	e, ok := errors.AsType[*tools.Error](err)
	if !ok || e.Code != code || e.Class != class || e.Effects != events.EffectsNone || !strings.Contains(e.Message, word) {
		t.Errorf("got %v (%+v), want %s, %s, saying %q", err, e, code, class, word)
		return &tools.Error{}
	}
	return e
}

// No form of an address, and no name, leads to what is not public.
func TestPrivateAddressesAreRefused(t *testing.T) {
	tool := fetchTool(t, Config{})
	for _, url := range []string{
		"http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/", "http://127.1/",
		"http://localhost./", "http://metadata.google.internal/", "http://100.64.0.1/", "http://127.0.0.1#@ok/", "http://127.0.0.1/", "http://0/",
		"http://0.0.0.0/", "http://[::1]/", "http://[::]/", "http://[fe80::1]/", "http://[fd00::1]/", "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.1.1/",
		"http://169.254.169.254/latest/meta-data/", "http://224.0.0.1/", "http://255.255.255.255/", "http://198.18.0.1/", "http://LOCALHOST/", "http://a.localhost/",
		"http://printer.local/", "http://0x7f000001/", "http://017700000001/", "http://127.0.0.1./", "http://[::ffff:7f00:1]/", "http://[2002:7f00:1::]/",
		"http://127.0x0.1/", "http://１２７.0.0.1/", "https://①②⑦.0.0.1/",
	} {
		_, err := run(t, tool, t.Context(), m{"url": url})
		e, ok := errors.AsType[*tools.Error](err)
		if !ok || e.Code != events.AccessDenied && e.Code != events.NotFound || e.Path != "/url" {
			t.Errorf("%s: got %v", url, err)
		}
	}
	for _, url := range []string{
		"http://ok@127.0.0.1/", "http://a:b@example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "example.com", "//example.com/", "http:", "http:///x",
		"http:example.com", "javascript:alert(1)", "http://exa mple.com/", "http://example.com\\@127.0.0.1/", "http://example.com/\r\nHost: x", "http://[::1", "http://[fe80::1%25lo]/",
		"http://example.com:99999/", "http://example.com:0/", "http://./", "", "http://\x00/", "http://example.com/\x7f", "http://" + strings.Repeat("a", 9000),
	} {
		_, err := run(t, tool, t.Context(), m{"url": url})
		failed(t, err, events.InvalidParam, events.ClassInvalid, "")
	}
}

// The dialer looks at the address that a name leads to, not at the name.
func TestAddressesAreLookedAtWhenDialled(t *testing.T) {
	hit := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	defer srv.Close()
	f := newFetcher(Config{})
	for _, at := range []string{srv.URL, strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)} {
		res, err := f.client(tools.Invocation{}).Get(at) // past the look at the name, as a resolver that changes its mind would be
		if err == nil {
			res.Body.Close()
			t.Errorf("%s was dialled", at)
		}
		req, err2 := http.NewRequest(http.MethodGet, at, nil)
		if err2 != nil {
			t.Fatal(err2)
		}
		failed(t, f.failure(t.Context(), req.URL, err), events.AccessDenied, events.ClassTool, "prohibited")
	}
	_, err := run(t, fetchTool(t, Config{Ports: []uint16{8080}, Loopback: false}), t.Context(), m{"url": "https://1.1.1.1/"})
	failed(t, err, events.AccessDenied, events.ClassTool, "prohibited port")
	t.Setenv("HTTP_PROXY", srv.URL)
	t.Setenv("http_proxy", srv.URL)
	if _, err := run(t, fetchTool(t, Config{Timeout: time.Second}), t.Context(), m{"url": "http://a.invalid/"}); err == nil {
		t.Error("a host that cannot exist was read")
	}
	if hit {
		t.Error("the private server was asked")
	}
}

// site is a server for the tests; other is a second one on another port.
func site(t *testing.T) (base, other string) {
	t.Helper()
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "other") }))
	t.Cleanup(second.Close)
	mux := http.NewServeMux()
	text := func(path, media, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = io.WriteString(w, body)
		})
	}
	text("/text", "text/plain; charset=utf-8", "hello\n")
	text("/json", "application/json", `{"a":9007199254740993}`)
	text("/html", "text/html", "<title>T</title><h1>Head</h1><p>a <b>b</b>, <a href='/x?y#z'>link</a></p><script>no()</script><ul><li>1<li>2</ul>")
	text("/latin", "text/plain; charset=iso-8859-1", "caf\xe9")
	text("/png", "image/png", "\x89PNG\r\n\x1a\n\x00")
	text("/nul", "text/plain", "a\x00b")
	text("/utf16", "text/plain; charset=utf-16le", "c\x00a\x00f\x00\xe9\x00")
	text("/utf16-ascii", "text/plain; charset=UTF-16LE", "h\x00i\x00")
	text("/utf16-mark", "text/plain", "\xfe\xff\x00h\x00i")
	text("/jis", "text/plain; charset=iso-2022-jp", "\x1b$B$\"\x1b(B")
	text("/colours", "text/plain; charset=iso-8859-1", "\x1b[1mcaf\u00e9")
	mux.HandleFunc("/packed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "\x0b\x02\x80hello\x03")
	})
	text("/bad", "text/plain; charset=utf-8", "a\xffb")
	text("/empty", "text/plain", "")
	text("/long", "text/plain", strings.Repeat("界", 40_000))
	text("/huge", "text/plain", strings.Repeat("x", 3000))
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(make([]byte, 8<<20))
		_ = z.Close()
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(b.Bytes())
	})
	mux.HandleFunc("/to/{n}", func(w http.ResponseWriter, r *http.Request) {
		n := 0
		fmt.Sscan(r.PathValue("n"), &n)
		if n == 0 {
			fmt.Fprint(w, "arrived")
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/to/%d", n-1), http.StatusFound)
	})
	mux.HandleFunc("/leads", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/status/{n}", func(w http.ResponseWriter, r *http.Request) {
		n := 0
		fmt.Sscan(r.PathValue("n"), &n)
		w.Header().Set("Retry-After", r.URL.Query().Get("after"))
		w.WriteHeader(n)
		fmt.Fprint(w, "because")
	})
	mux.HandleFunc("/half", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "half")
	})
	mux.HandleFunc("/stall", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL, second.URL
}

func TestFetchShowsText(t *testing.T) {
	base, _ := site(t)
	tool := fetchTool(t, Config{Loopback: true, Body: 1 << 20})
	for path, want := range map[string]string{
		"/text":        "200 OK, text/plain; charset=utf-8, 6 bytes, BASE/text\n\nhello\n",
		"/json":        "200 OK, application/json, 22 bytes, BASE/json\n\n{\"a\":9007199254740993}",
		"/html":        "200 OK, text/html, 113 bytes, BASE/html\n\nT\n\n# Head\n\na b, [link](BASE/x?y#z)\n\n- 1\n- 2",
		"/latin":       "200 OK, text/plain; charset=iso-8859-1, 4 bytes, BASE/latin\n\ncafé",
		"/bad":         "200 OK, text/plain; charset=utf-8, 3 bytes, BASE/bad\n\na\ufffdb",
		"/utf16":       "200 OK, text/plain; charset=utf-16le, 8 bytes, BASE/utf16\n\ncafé",
		"/utf16-ascii": "200 OK, text/plain; charset=UTF-16LE, 4 bytes, BASE/utf16-ascii\n\nhi",
		"/utf16-mark":  "200 OK, text/plain, 6 bytes, BASE/utf16-mark\n\nhi",
		"/jis":         "200 OK, text/plain; charset=iso-2022-jp, 8 bytes, BASE/jis\n\nあ",
		"/colours":     "200 OK, text/plain; charset=iso-8859-1, 9 bytes, BASE/colours\n\n\x1b[1mcafé",
		"/empty":       "200 OK, text/plain, 0 bytes, BASE/empty\n\n[empty]",
		"/to/5":        "200 OK, text/plain; charset=utf-8, 7 bytes, BASE/to/0\n\narrived",
	} {
		r, err := run(t, tool, t.Context(), m{"url": base + path})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if diff := cmp.Diff(strings.ReplaceAll(want, "BASE", base), r.Text.Text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	r, err := run(t, tool, t.Context(), m{"url": base + "/html", "raw": true})
	if err != nil || !strings.Contains(r.Text.Text, "<script>no()") {
		t.Errorf("raw: %q, %v", r.Text.Text, err)
	}
	for _, path := range []string{"/png", "/nul", "/packed"} {
		_, err := run(t, tool, t.Context(), m{"url": base + path})
		failed(t, err, events.BinaryFile, events.ClassTool, "bytes")
	}
}

func TestFetchIsBounded(t *testing.T) {
	base, _ := site(t)
	tool := fetchTool(t, Config{Loopback: true, Body: 2000})
	r, err := run(t, tool, t.Context(), m{"url": base + "/huge"})
	if err != nil || r.Status != events.Partial || !strings.Contains(r.Text.Text, "[only the first 2000 bytes of the answer were read]") {
		t.Errorf("huge: %s, %v", r.Status, err)
	}
	tool = fetchTool(t, Config{Loopback: true, Body: 200_000})
	if _, err := run(t, tool, t.Context(), m{"url": base + "/gzip"}); err == nil {
		t.Error("8 MiB of NUL are no text")
	}
	whole, offset := "", 0
	for {
		r, err := run(t, tool, t.Context(), m{"url": base + "/long", "offset": offset})
		if err != nil || len(r.Text.Text) > maxText || !utf8.ValidString(r.Text.Text) {
			t.Fatalf("long: %d bytes, %v", len(r.Text.Text), err)
		}
		_, body, _ := strings.Cut(r.Text.Text, "\n\n")
		text, note, more := strings.Cut(body, "\n[")
		whole += text
		if !more {
			break
		}
		if _, err := fmt.Sscanf(note[strings.LastIndex(note, "offset"):], "offset %d]", &offset); err != nil {
			t.Fatal(err)
		}
	}
	if whole != strings.Repeat("界", 40_000) {
		t.Errorf("the pages make %d bytes", len(whole))
	}
	_, err = run(t, tool, t.Context(), m{"url": base + "/text", "offset": 7})
	if e := failed(t, err, events.InvalidParam, events.ClassInvalid, "6 bytes"); e.Path != "/offset" {
		t.Errorf("path %s", e.Path)
	}
}

func TestRedirects(t *testing.T) {
	base, other := site(t)
	tool := fetchTool(t, Config{Loopback: true})
	_, err := run(t, tool, t.Context(), m{"url": base + "/to/6"})
	failed(t, err, events.AccessDenied, events.ClassTool, "more than 5 redirects")
	for _, to := range []string{
		"http://169.254.169.254/latest", "http://10.0.0.1/", "http://metadata.google.internal/", "http://0x7f.1/", "http://[64:ff9b::a9fe:a9fe]/",
		"//192.168.0.1/", "https://100.64.0.1/",
	} {
		_, err := run(t, tool, t.Context(), m{"url": base + "/leads?to=" + to})
		failed(t, err, events.AccessDenied, events.ClassTool, "a redirect was not followed")
	}
	for _, to := range []string{"file:///etc/passwd", "ftp://x/", "http://a:b@127.0.0.1/"} {
		_, err := run(t, tool, t.Context(), m{"url": base + "/leads?to=" + to})
		failed(t, err, events.InvalidParam, events.ClassInvalid, "a redirect was not followed")
	}
	r, err := run(t, tool, t.Context(), m{"url": base + "/leads?to=" + other})
	if err != nil || r.Status != events.Partial || !strings.Contains(r.Text.Text, other) || !strings.Contains(r.Text.Text, "not followed") || !strings.Contains(string(r.Data), `"location"`) {
		t.Errorf("another host: %q, %v", r.Text.Text, err)
	}
}

func TestRefusalsOfServers(t *testing.T) {
	base, _ := site(t)
	tool := fetchTool(t, Config{Loopback: true})
	for _, c := range []struct {
		path  string
		code  events.Code
		class events.Class
		after time.Duration
	}{
		{"/status/404", events.NotFound, events.ClassTool, 0},
		{"/status/410", events.NotFound, events.ClassTool, 0},
		{"/status/401", events.AccessDenied, events.ClassTool, 0},
		{"/status/403", events.AccessDenied, events.ClassTool, 0},
		{"/status/418", events.ExecutionError, events.ClassTool, 0},
		{"/status/304", events.ExecutionError, events.ClassTool, 0},
		{"/status/429?after=7", events.ExecutionError, events.ClassUnavailable, 7 * time.Second},
		{"/status/503?after=999999", events.ExecutionError, events.ClassUnavailable, maxWait},
		{"/status/503?after=99999999999999999999", events.ExecutionError, events.ClassUnavailable, maxWait},
		{"/status/503?after=-1", events.ExecutionError, events.ClassUnavailable, 0},
		{"/status/500", events.ExecutionError, events.ClassUnavailable, 0},
		{"/half", events.ExecutionError, events.ClassUnavailable, 0},
	} {
		_, err := run(t, tool, t.Context(), m{"url": base + c.path})
		e := failed(t, err, c.code, c.class, "")
		if e.After != c.after {
			t.Errorf("%s: after %v, want %v", c.path, e.After, c.after)
		}
		if strings.Contains(c.path, "50") && (e.Result == nil || e.Result.Text.Text != "because") {
			t.Errorf("%s: what the server said is lost", c.path)
		}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if d := retryAfter("Thu, 01 Jan 2026 00:01:00 GMT", now); d != time.Minute {
		t.Errorf("a date: %v", d)
	}
	if d := retryAfter("Wed, 31 Dec 2025 00:01:00 GMT", now); d != 0 {
		t.Errorf("a date that has passed: %v", d)
	}
}

func TestWhenNobodyAnswers(t *testing.T) {
	base, _ := site(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	l.Close()
	tool := fetchTool(t, Config{Loopback: true, Timeout: 50 * time.Millisecond})
	_, err = run(t, tool, t.Context(), m{"url": closed})
	failed(t, err, events.ExecutionError, events.ClassUnavailable, "refused")
	_, err = run(t, tool, t.Context(), m{"url": base + "/stall"})
	failed(t, err, events.Timeout, events.ClassUnavailable, "within 50ms")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := run(t, fetchTool(t, Config{Loopback: true}), ctx, m{"url": base + "/stall"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call's own deadline: %v", err)
	}
}

func TestOperationNamesTheHost(t *testing.T) {
	tool := fetchTool(t, Config{})
	for url, want := range map[string]string{
		"https://Example.COM./x?y": "example.com", "https://example.com:443/": "example.com", "http://example.com:8080": "example.com:8080",
		"http://[2001:DB8::1]:80/": "[2001:db8::1]", "https://example.com:80/": "example.com:80", "nonsense": "nonsense", "http://u@h/": "http://u@h/",
	} {
		args, err := json.Marshal(m{"url": url})
		if err != nil {
			t.Fatal(err)
		}
		want := events.Operation{Class: events.OpNetwork, Hosts: []string{want}}
		if diff := cmp.Diff(want, tool.Operation(args)); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
}

// One server has one circuit, however its address is written, and no address has one that
// is another server's.
func TestCircuitNamesTheServer(t *testing.T) {
	tool := fetchTool(t, Config{})
	for want, urls := range map[string][]string{
		"https://example.com":      {"https://example.com", "https://EXAMPLE.com./x?y#z", "https://example.com:443/", "https://example.com:00443/", "HTTPS://example.com"},
		"http://example.com":       {"http://example.com/a", "http://example.com:80/b"},
		"http://example.com:443":   {"http://example.com:443/"},
		"https://example.com:8443": {"https://example.com:8443/", "https://Example.com.:8443/x"},
		"http://[2001:db8::1]":     {"http://[2001:DB8::1]:80/", "http://[2001:0db8:0:0::1]/"},
		"":                         {"nonsense", "http://u@h/", "ftp://example.com/", "http://", "https://a b/", "http://a:0/"},
	} {
		for _, u := range urls {
			args, err := json.Marshal(m{"url": u})
			if err != nil {
				t.Fatal(err)
			}
			if got := tool.Circuit(args); got != want {
				t.Errorf("%s: %q, want %q", u, got, want)
			}
		}
	}
	if got := tool.Circuit(json.RawMessage(`{"url":7}`)); got != "" {
		t.Errorf("no address, and the circuit %q", got)
	}
}

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"a  b\n c":                          "a b c",
		"<p>a<p>b<br>c":                     "a\n\nb\nc",
		"<pre> x\n  y</pre>z":               "x\n  y\n\nz",
		"<table><tr><td>a<td>b<tr><td>c":    "a | b\nc",
		"a<svg><title>no</title></svg>b":    "ab",
		"a &lt;b&gt; &amp; c":               "a <b> & c",
		"<a href=javascript:x>a</a>":        "a",
		"<a href=mailto:x>a</a> <a>b</a>":   "a b",
		"<img alt='a b'>":                   "[a b]",
		"</a></pre></svg>x":                 "x",
		strings.Repeat("<div>", 5000) + "x": "x",
	} {
		if got := plainText(in, nil); got != want {
			t.Errorf("%.40q: got %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { // never panics, and no page grows by much
		in := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"<a href=/x>", "</a>", "<li>", "<pre>", "</pre>", "<svg>", "</svg>", "<h1>", "<td>", "<br>", "\n"}), rapid.String())).Draw(t, "page"), "")
		if got := plainText(in, nil); len(got) > 8*len(in) {
			t.Fatalf("%d bytes of %d", len(got), len(in))
		}
	})
}

func TestFetchPassesTheSuite(t *testing.T) {
	base, _ := site(t)
	example := func(path string, fails events.Code) tooltest.Example {
		return tooltest.Example{Args: fmt.Sprintf(`{"url":%q}`, base+path), Fails: fails, Network: true}
	}
	stall := example("/stall", "")
	stall.Blocks = true
	tooltest.Run(t, fetchTool(t, Config{Loopback: true}), stall,
		example("/html", ""), example("/json", ""), example("/to/3", ""), example("/status/404", events.NotFound), example("/png", events.BinaryFile),
		tooltest.Example{Args: `{"url":"http://10.0.0.1/"}`, Fails: events.AccessDenied, Network: true})
}
