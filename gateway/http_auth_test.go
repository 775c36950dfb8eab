package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

func TestHTTPUnknownCallers(t *testing.T) {
	var log bytes.Buffer
	d := newGuarded(t, func(c *APIConfig) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for name, c := range map[string]struct {
		part    string
		headers []string
	}{
		"nothing":         {"no Authorization header", nil},
		"another token":   {"nobody is known", []string{"Authorization", "Bearer sluice_guess"}},
		"a cut token":     {"nobody is known", []string{"Authorization", "Bearer " + tokenOf("adm")[:20]}},
		"more":            {"nobody is known", []string{"Authorization", "Bearer " + tokenOf("adm") + "x"}},
		"in capitals":     {"nobody is known", []string{"Authorization", "Bearer " + strings.ToUpper(tokenOf("adm"))}},
		"a digest":        {"nobody is known", []string{"Authorization", "Bearer " + keys.Digest(tokenOf("adm"))}},
		"basic":           {"no bearer token", []string{"Authorization", "Basic YWRtOmFkbQ=="}},
		"without scheme":  {"no bearer token", []string{"Authorization", tokenOf("adm")}},
		"empty":           {"no bearer token", []string{"Authorization", "Bearer "}},
		"two in one":      {"no bearer token", []string{"Authorization", "Bearer " + tokenOf("sub") + ", Bearer " + tokenOf("adm")}},
		"very long":       {"nobody is known", []string{"Authorization", "Bearer " + strings.Repeat("x", 10_000)}},
		"in a cookie":     {"no Authorization header", []string{"Cookie", "token=" + tokenOf("adm")}},
		"another header":  {"no Authorization header", []string{"X-Api-Key", tokenOf("adm")}},
		"by the proxy":    {"no Authorization header", []string{"X-Forwarded-User", "adm", "X-Forwarded-Client-Cert", "Subject=adm", "X-Real-IP", "127.0.0.1"}},
		"upper case name": {"nobody is known", []string{"Authorization", "bearer ADM"}},
	} {
		d := newGuarded(t, func(c *APIConfig) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		for _, path := range []string{"/v1/turns/tr/tu", "/v1/nowhere", "/", "/metrics", "/readyz", "/v1/turns?access_token=" + tokenOf("adm")} {
			t.Run(name+path, func(t *testing.T) {
				d.t = t
				d.want(401, c.part, "GET", path, "", c.headers...)
			})
		}
	}
	d.want(200, `"adm"`, "GET", "/v1/whoami", "", "Authorization", "bearer   "+tokenOf("adm"))
	d.want(200, `{"status":"ok"}`, "GET", "/healthz", "")
	d.want(200, `{"status":"ok"}`, "GET", "/healthz", "", "Authorization", "Bearer nonsense")
	d.want(401, "no Authorization", "POST", "/v1/turns", strings.Repeat("x", 1000)) // nothing of it is read
	for _, secret := range []string{"sluice_", "test-token", "guess", "YWRt"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q: %s", secret, log.String())
		}
	}
	if !strings.Contains(log.String(), "a request from somebody who is not known") {
		t.Errorf("the log says nothing: %s", log.String())
	}
	resp, err := http.Get(d.url + "/v1/tools")
	must(t, err)
	must(t, resp.Body.Close())
	if got := resp.Header.Get("WWW-Authenticate"); got != `Bearer realm="sluice"` {
		t.Errorf("WWW-Authenticate: %s", got)
	}
	if !resp.Close {
		t.Error("the connection of nobody stays open")
	}
	two, err := http.NewRequestWithContext(within(t), "GET", d.url+"/v1/whoami", nil)
	must(t, err)
	two.Header["Authorization"] = []string{"Bearer " + tokenOf("adm"), "Bearer " + tokenOf("sub")}
	resp, err = http.DefaultClient.Do(two)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != 401 {
		t.Errorf("two tokens: %d", resp.StatusCode)
	}
	out := d.want(200, "", "GET", "/metrics", "", as("obs")...)
	for _, want := range []string{`sluice_http_refused_total{why="no_proof"}`, `sluice_http_refused_total{why="unknown"} 1`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestHTTPOpenPaths(t *testing.T) {
	d := newGuarded(t, func(c *APIConfig) { c.Open = []string{"/metrics", "/readyz"} })
	d.want(200, "sluice_info", "GET", "/metrics", "")
	d.want(200, "ready", "GET", "/readyz", "")
	d.want(401, "", "GET", "/v1/tools", "")
	d.want(401, "", "POST", "/metrics", "")
}

func TestHTTPTokensEndAndAreReplaced(t *testing.T) {
	var now atomic.Int64
	at := func(hour int) time.Time { return time.Date(2026, 11, 30, hour, 0, 0, 0, time.UTC) }
	token := func(name, expires string) keys.Token {
		return keys.Token{SHA256: keys.Digest(tokenOf(name)), Expires: expires}
	}
	ann := func(tokens ...keys.Token) *keys.Ring {
		return ringOf(t, keys.Principal{ID: "ann", Kind: "person", Roles: []access.Role{access.Observer}, Tokens: tokens}, someone("bob", "", access.Submitter))
	}
	var ring atomic.Pointer[keys.Ring]
	ring.Store(ann(token("old", "2026-11-30T13:00:00+01:00"), token("new", "2026-12-01"), token("ever", "")))
	d := newGuarded(t, func(c *APIConfig) {
		c.Keys = ring.Load
		c.Now = func() time.Time { return at(int(now.Load())) }
	})
	tried := func(hour int64, name string, status int, part string) {
		t.Helper()
		now.Store(hour)
		d.want(status, part, "GET", "/v1/whoami", "", as(name)...)
	}
	tried(11, "old", 200, `"expires":"2026-11-30T13:00:00+01:00"`)
	tried(11, "new", 200, "ann")
	tried(12, "old", 401, "it has expired")
	tried(12, "new", 200, "ann")
	tried(24, "new", 401, "it has expired")
	tried(24, "ever", 200, "ann")
	ring.Store(ann(token("new", "")))
	tried(24, "new", 200, "ann")
	tried(12, "ever", 401, "nobody is known")
	tried(12, "old", 401, "nobody is known")
}

// TestHTTPStreamsEndWithTheirReader: who is let in no more is told nothing more.
func TestHTTPStreamsEndWithTheirReader(t *testing.T) {
	var ring atomic.Pointer[keys.Ring]
	ring.Store(ringOf(t, everyone()...))
	d := newGuarded(t, func(c *APIConfig) { c.Keys = ring.Load })
	next, stop := d.listen("/v1/events", as("obs")...)
	defer stop()
	own, stopOwn := d.listen("/v1/events?kind=completed", as("adm")...)
	defer stopOwn()
	ring.Store(ringOf(t, someone("sub", "", access.Submitter), someone("adm", "person", access.Submitter)))
	for name, read := range map[string]func() sse{"gone": next, "with another role": own} {
		if e := read(); e.kind != "error" || !strings.Contains(e.data, "unauthenticated") {
			t.Errorf("%s: %+v", name, e)
		}
		if e := read(); e != (sse{}) {
			t.Errorf("%s: then %+v", name, e)
		}
	}
}

func TestHTTPFailuresAreLimitedByAddress(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ring := ringOf(t, everyone()...)
	desk, _ := newDesk(t)
	for _, proxy := range []bool{false, true} {
		a := NewAPI(APIConfig{Desk: desk, Keys: func() *keys.Ring { return ring }, Now: func() time.Time { return now }, Proxy: proxy, Hosts: []string{"n"}})
		h := a.Handler()
		ask := func(addr, token string) *http.Response {
			r := request(t, "GET", "http://n/v1/whoami", nil)
			r.RemoteAddr = addr
			r.Header.Set("Authorization", "Bearer "+token)
			return served(h, r)
		}
		status := func(want int, addr, token string) {
			t.Helper()
			if got := ask(addr, token); got.StatusCode != want {
				t.Errorf("proxy %v: %s: %d, want %d", proxy, addr, got.StatusCode, want)
			}
		}
		for range failBurst {
			status(401, "[2001:db8::1]:1", "x")
		}
		resp := ask("[2001:db8::2]:2", "x") // the same customer's
		if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Retry-After") == "0" {
			t.Errorf("proxy %v: %d, Retry-After %q", proxy, resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		right := 429 // behind no proxy nothing more is heard from it, not even the right token
		if proxy {
			right = 200
		}
		status(right, "[2001:db8::1]:3", tokenOf("obs"))
		status(200, "[2001:db8:0:1::1]:1", tokenOf("obs"))
		status(401, "192.0.2.1:1", "x")
		now = now.Add(3 * time.Second)
		status(401, "[2001:db8::1]:1", "x") // one more may be tried
		status(429, "[2001:db8::1]:1", "x")
		now = now.Add(time.Hour)
		status(200, "[2001:db8::1]:3", tokenOf("obs"))
		for i := range maxAddresses + 100 {
			status(401, fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), "x")
		}
		if n := len(a.failures.of); n > maxAddresses {
			t.Errorf("%d addresses are remembered", n)
		}
		for range 3 * failBurst { // programs of this machine do not shut each other out
			ask("127.0.0.1:1", "x")
		}
		status(429, "127.0.0.1:1", "x")
		status(200, "127.0.0.1:1", tokenOf("obs"))
	}
}

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	a.n++
	c.SerialNumber, c.NotBefore = big.NewInt(a.n), time.Now().Add(-time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	must(a.t, err)
	out, err := x509.ParseCertificate(der)
	must(a.t, err)
	return out, key
}

// client is a certificate of a client.
func (a *authority) client(name string, uri ...string) tls.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: []string{"Example"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, s := range uri {
		u, err := url.Parse(s)
		must(a.t, err)
		c.URIs = append(c.URIs, u)
	}
	cert, key := a.sign(c)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// files writes a server's certificate and key, and the authority.
func (a *authority) files(dir string) (cert, key, ca string) {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	must(a.t, err)
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", c.Raw), write("key.pem", "PRIVATE KEY", der), write("ca.pem", "CERTIFICATE", a.cert.Raw)
}

// asker asks a TLS door who it is, with a certificate or without.
type asker struct {
	t     *testing.T
	base  string
	roots *x509.CertPool
}

func (a *asker) ask(c *tls.Certificate, edit func(*tls.Config), headers ...string) (int, string, error) {
	conf := &tls.Config{RootCAs: a.roots}
	if c != nil { // whatever the server asks for
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
	}
	if edit != nil {
		edit(conf)
	}
	tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	r := request(a.t, "GET", a.base+"/v1/whoami", nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if resp.ProtoMajor != 2 || resp.Header.Get("Strict-Transport-Security") == "" {
		a.t.Errorf("%s, %v", resp.Proto, resp.Header)
	}
	return resp.StatusCode, string(out), err
}

// certified is a TLS door of an authority's, for ann by her subject, a job by its URI, and
// sub by a token.
func certified(t *testing.T, ca *authority, dir string) (a *asker, certs *keys.Certs, stop func()) {
	t.Helper()
	certs, err := keys.LoadCerts(ca.files(dir))
	must(t, err)
	entry := func(id, kind string, role access.Role, c keys.Certificate) keys.Principal {
		return keys.Principal{ID: id, Kind: kind, Roles: []access.Role{role}, Certificates: []keys.Certificate{c}}
	}
	ring := ringOf(t, entry("ann", "person", access.Approver, keys.Certificate{Subject: "CN=ann,O=Example"}),
		entry("job", "service", access.Submitter, keys.Certificate{URI: "spiffe://example.org/job"}), someone("sub", "", access.Submitter))
	base, stop := serving(t, APIConfig{Keys: func() *keys.Ring { return ring }, TLS: certs.Config()})
	a = &asker{t, base, x509.NewCertPool()}
	a.roots.AddCert(ca.cert)
	return a, certs, stop
}

func TestHTTPClientCertificates(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	a, _, stop := certified(t, ca, t.TempDir())
	defer stop()
	ann, job, both := ca.client("ann"), ca.client("x", "spiffe://example.org/job"), ca.client("ann", "spiffe://example.org/job")
	nobody, forged := ca.client("eve"), other.client("ann")
	for name, c := range map[string]struct {
		cert    *tls.Certificate
		headers []string
		status  int
		part    string
	}{
		"by its subject":              {&ann, nil, 200, `"id":"ann","kind":"person"},"roles":["approver"],"via":"certificate"`},
		"by its URI":                  {&job, nil, 200, `"id":"job"`},
		"the URI goes first":          {&both, nil, 200, `"id":"job"`},
		"a token goes first":          {&ann, as("sub"), 200, `"via":"token"`},
		"a wrong token does not fall": {&ann, as("nobody"), 401, "nobody is known"},
		"nobody's":                    {&nobody, nil, 401, "nobody is known"},
		"none":                        {nil, nil, 401, "no client certificate"},
		"none, and a token":           {nil, as("sub"), 200, `"id":"sub"`},
	} {
		status, body, err := a.ask(c.cert, nil, c.headers...)
		if err != nil || status != c.status || !strings.Contains(body, c.part) {
			t.Errorf("%s: %d %s, %v", name, status, body, err)
		}
	}
	if status, body, err := a.ask(&forged, nil); err == nil {
		t.Errorf("a certificate of another authority: %d %s", status, body)
	}
	if status, _, err := a.ask(nil, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }); err == nil {
		t.Errorf("TLS 1.1: %d", status)
	}
	expired, key := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "ann", Organization: []string{"Example"}}, NotAfter: time.Now().Add(-time.Minute)})
	if status, body, err := a.ask(&tls.Certificate{Certificate: [][]byte{expired.Raw}, PrivateKey: key}, nil); err == nil {
		t.Errorf("an expired certificate: %d %s", status, body)
	}
	server, key := ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "ann", Organization: []string{"Example"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if status, body, err := a.ask(&tls.Certificate{Certificate: [][]byte{server.Raw}, PrivateKey: key}, nil); err == nil {
		t.Errorf("a server's certificate: %d %s", status, body)
	}
}

// TestHTTPCertificatesAreExchanged: while the door serves, and as a whole.
func TestHTTPCertificatesAreExchanged(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	a, certs, stop := certified(t, ca, dir)
	defer stop()
	ann, theirs, before := ca.client("ann"), other.client("ann"), certs.Digest()
	must(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("nothing"), 0o600))
	if err := certs.Reload(); err == nil || certs.Digest() != before {
		t.Errorf("no authority: %v", err)
	}
	if status, _, err := a.ask(&ann, nil); err != nil || status != 200 {
		t.Errorf("after files that were refused: %d, %v", status, err)
	}
	other.files(dir)
	must(t, os.Chmod(filepath.Join(dir, "key.pem"), 0o644))
	if err := certs.Reload(); err == nil || certs.Digest() != before {
		t.Errorf("a key that everybody can read: %v", err)
	}
	must(t, os.Chmod(filepath.Join(dir, "key.pem"), 0o600))
	must(t, certs.Reload())
	if _, _, err := a.ask(&ann, nil); err == nil {
		t.Error("the authority was replaced, and the certificate of the one before is taken for the door's")
	}
	a.roots.AddCert(other.cert)
	if status, body, err := a.ask(&ann, nil); err == nil {
		t.Errorf("a client of the authority before: %d %s", status, body)
	}
	if status, body, err := a.ask(&theirs, nil); err != nil || status != 200 || !strings.Contains(body, `"id":"ann"`) {
		t.Errorf("a client of the authority now: %d %s, %v", status, body, err)
	}
}
