package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// certificates writes a self-signed certificate with its key to where a node reads them.
func certificates(t *testing.T, dir string) (certFile, keyFile string, cert *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "node"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile, cert
}

// newToken has the program make a token, and returns it with its line for the file.
func newToken(t *testing.T, name string, flags ...string) (token, entry string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "sluice-node"), append([]string{"token", "new", name}, flags...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	token, rest, _ := strings.Cut(string(out), "\n")
	_, entry, _ = strings.Cut(rest, "principals:\n")
	return token, entry
}

// TestDoorWithTokensAndTLS: a node that everybody has to say who they are to, by TLS. Its
// file and its certificate are exchanged while it serves, and the programs of its own user
// still reach it.
func TestDoorWithTokensAndTLS(t *testing.T) {
	p := newPlace(t)
	dir := t.TempDir()
	certFile, keyFile, cert := certificates(t, dir)
	sub, subEntry := newToken(t, "planner", "--role", "submitter")
	ann, annEntry := newToken(t, "ann", "--kind", "person", "--role", "approver,observer", "--expires", "1d")
	access := filepath.Join(dir, "access.yaml")
	write := func(entries ...string) {
		t.Helper()
		if err := os.WriteFile(access, []byte("principals:\n"+strings.Join(entries, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(subEntry, annEntry)
	n := p.serve("--http-auth", access, "--http-cert", certFile, "--http-key", keyFile)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	ask := func(method, path, token, body string) (int, string, error) {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		r, err := http.NewRequestWithContext(ctx, method, n.HTTP+path, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(out), err
	}
	want := func(status int, part, method, path, token, body string) {
		t.Helper()
		got, out, err := ask(method, path, token, body)
		if err != nil || got != status || !strings.Contains(out, part) {
			t.Errorf("%s %s: %d %s, %v; want %d %s", method, path, got, out, err, status, part)
		}
	}
	const approve = "/v1/turns/tr/t1/calls/0/approve"
	want(401, "unauthenticated", "POST", "/v1/turns", "", `{"calls":[{"tool":"echo"}]}`)
	want(403, "other-name", "POST", "/v1/turns", sub, `{"principal":"ann","calls":[{"tool":"echo"}]}`)
	want(202, "", "POST", "/v1/turns", sub, `{"trace":"tr","turn":"t1","can_ask":true,"calls":[{"tool":"approve_me","args":{"v":1}}]}`)
	poll(t, "the call asks", func() bool {
		_, out, err := ask("GET", "/v1/turns/tr/t1", sub, "")
		return err == nil && strings.Contains(out, `"state":"asking"`)
	})
	want(403, `"roles":["approver","admin"]`, "POST", approve, sub, "{}")
	want(403, "other-name", "POST", approve, ann, `{"principal":"bob"}`)
	want(200, "approved", "POST", approve, ann, "{}")
	poll(t, "the turn ends", func() bool {
		_, out, err := ask("GET", "/v1/turns/tr/t1", sub, "")
		return err == nil && strings.Contains(out, `"state":"completed"`)
	})
	want(200, `"by":{"id":"ann","kind":"person"}`, "GET", "/v1/turns/tr/t1/events", ann, "")

	// The programs of this user come in by the token that the node has told.
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "sluice-node"), "tools", "--data", p.data, "--json").CombinedOutput(); err != nil || !strings.Contains(string(out), `"echo"`) {
		t.Errorf("tools: %v\n%s", err, out)
	}
	if status, err := inTheClear(t, n.HTTP); err != nil || status != http.StatusBadRequest {
		t.Errorf("in the clear: %d, %v", status, err)
	}
	run, err := os.Stat(filepath.Join(p.data, "sluice.run"))
	if err != nil || run.Mode().Perm() != 0o600 {
		t.Errorf("the file with this user's token: %v, %v", run, err)
	}

	// A file with a mistake changes nothing; a right one counts at once, for every next request.
	write("  - {id: planner, roles: [admin]}\n")
	n.signal(syscall.SIGHUP)
	poll(t, "the node has refused the file", func() bool { return strings.Contains(n.log.String(), "was not read anew") })
	want(200, "planner", "GET", "/v1/whoami", sub, "")
	bob, bobEntry := newToken(t, "bob", "--kind", "person", "--role", "operator")
	write(bobEntry)
	_, _, other := certificates(t, dir)
	n.signal(syscall.SIGHUP)
	poll(t, "the other certificate is shown", func() bool {
		_, _, err := ask("GET", "/healthz", "", "")
		return err != nil
	})
	roots.AddCert(other)
	want(401, "nobody is known", "GET", "/v1/whoami", sub, "")
	want(200, `"id":"bob"`, "GET", "/v1/whoami", bob, "")
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "sluice-node"), "tools", "--data", p.data, "--json").CombinedOutput(); err != nil || !strings.Contains(string(out), `"echo"`) {
		t.Errorf("tools, after the certificate was exchanged: %v\n%s", err, out)
	}
	for name, secret := range map[string]string{"planner": sub, "ann": ann, "bob": bob} {
		if strings.Contains(n.log.String(), secret) {
			t.Errorf("the token of %s is in the node's log", name)
		}
	}
}

// inTheClear asks a TLS door in the clear.
func inTheClear(t *testing.T, base string) (int, error) {
	t.Helper()
	resp, err := http.Get(strings.Replace(base, "https://", "http://", 1) + "/healthz")
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// TestNodesThatDoNotListen: open to the network, without saying who may come in, or without
// TLS, there is no node, and it says what to do.
func TestNodesThatDoNotListen(t *testing.T) {
	token, entry := newToken(t, "planner", "--role", "submitter")
	access := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(access, []byte("principals:\n"+entry), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, more := range map[string][]string{
		"name who may come in with --http-auth": {"--http", "0.0.0.0:0"},
		"name a certificate with --http-cert":   {"--http", "0.0.0.0:0", "--http-auth", access},
	} {
		p := newPlace(t)
		n := launch(t, nil, false, filepath.Join(bin, "sluice-node"), p.args(more...)...)
		if code := n.wait(t); code != 2 || !strings.Contains(n.log.String(), want) {
			t.Errorf("exit %d: %s", code, n.log.String())
		}
		if _, err := os.Stat(p.data); err == nil {
			t.Error("it has made its data directory all the same")
		}
	}
	n := newPlace(t).serve("--http", "0.0.0.0:0", "--http-auth", access, "--http-behind-proxy")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.HTTP+"/v1/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var who struct {
		Principal struct{ ID string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&who); err != nil || who.Principal.ID != "planner" {
		t.Errorf("%s: %s, %v", fmt.Sprint(resp.StatusCode), who.Principal.ID, err)
	}
}
