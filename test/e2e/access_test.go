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

// guardedDoor is a node that everybody has to say who they are to, by TLS.
type guardedDoor struct {
	*node
	t      *testing.T
	dir    string // of its certificate
	access string // the file of who may come in
	roots  *x509.CertPool
	tr     *http.Transport
}

// newGuardedDoor starts one that knows these entries.
func newGuardedDoor(t *testing.T, entries ...string) *guardedDoor {
	t.Helper()
	d := &guardedDoor{t: t, dir: t.TempDir(), roots: x509.NewCertPool()}
	certFile, keyFile, cert := certificates(t, d.dir)
	d.roots.AddCert(cert)
	d.tr = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: d.roots}, DisableKeepAlives: true}
	d.access = filepath.Join(d.dir, "access.yaml")
	d.write(entries...)
	d.node = newPlace(t).serve("--http-auth", d.access, "--http-cert", certFile, "--http-key", keyFile)
	return d
}

// write writes the file of who may come in.
func (d *guardedDoor) write(entries ...string) {
	d.t.Helper()
	if err := os.WriteFile(d.access, []byte("principals:\n"+strings.Join(entries, "")), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// as sends a request with a token; "" is without.
func (d *guardedDoor) as(token, method, path, body string) (int, string, error) {
	ctx, stop := context.WithTimeout(d.t.Context(), patience)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, method, d.HTTP+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := d.tr.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(out), err
}

// want sends a request, and checks the status and a part of the answer.
func (d *guardedDoor) want(status int, part, token, method, path, body string) {
	d.t.Helper()
	got, out, err := d.as(token, method, path, body)
	if err != nil || got != status || !strings.Contains(out, part) {
		d.t.Errorf("%s %s: %d %s, %v; want %d %s", method, path, got, out, err, status, part)
	}
}

// reached waits until the programs of the node's own user come in, by what it has told.
func (d *guardedDoor) reached() {
	d.t.Helper()
	poll(d.t, "the programs of the node's own user come in", func() bool {
		out, err := exec.CommandContext(d.t.Context(), filepath.Join(bin, "sluice-node"), "tools", "--data", d.place.data, "--json").CombinedOutput()
		return err == nil && strings.Contains(string(out), `"echo"`)
	})
}

// TestDoorWithTokensAndTLS: who submits, who approves, and who may neither.
func TestDoorWithTokensAndTLS(t *testing.T) {
	sub, subEntry := newToken(t, "planner", "--role", "submitter")
	ann, annEntry := newToken(t, "ann", "--kind", "person", "--role", "approver,observer", "--expires", "1d")
	d := newGuardedDoor(t, subEntry, annEntry)
	const approve = "/v1/turns/tr/t1/calls/0/approve"
	d.want(401, "unauthenticated", "", "POST", "/v1/turns", `{"calls":[{"tool":"echo"}]}`)
	d.want(403, "other-name", sub, "POST", "/v1/turns", `{"principal":"ann","calls":[{"tool":"echo"}]}`)
	d.want(202, "", sub, "POST", "/v1/turns", `{"trace":"tr","turn":"t1","can_ask":true,"calls":[{"tool":"approve_me","args":{"v":1}}]}`)
	state := func(want string) func() bool {
		return func() bool {
			_, out, err := d.as(sub, "GET", "/v1/turns/tr/t1", "")
			return err == nil && strings.Contains(out, `"state":"`+want+`"`)
		}
	}
	poll(t, "the call asks", state("asking"))
	d.want(403, `"roles":["approver","admin"]`, sub, "POST", approve, "{}")
	d.want(403, "other-name", ann, "POST", approve, `{"principal":"bob"}`)
	d.want(200, "approved", ann, "POST", approve, "{}")
	poll(t, "the turn ends", state("completed"))
	d.want(200, `"by":{"id":"ann","kind":"person","via":"token"}`, ann, "GET", "/v1/turns/tr/t1/events", "")
	d.reached()
	if status, err := inTheClear(t, d.HTTP); err != nil || status != http.StatusBadRequest {
		t.Errorf("in the clear: %d, %v", status, err)
	}
	run, err := os.Stat(filepath.Join(d.place.data, "sluice.run"))
	if err != nil || run.Mode().Perm() != 0o600 {
		t.Errorf("the file with this user's token: %v, %v", run, err)
	}
	for name, secret := range map[string]string{"planner": sub, "ann": ann} {
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("the token of %s is in the node's log", name)
		}
	}
}

// TestDoorIsReadAnew: a file with a mistake changes nothing; a right one counts at once, for
// every next request, and so does another certificate.
func TestDoorIsReadAnew(t *testing.T) {
	sub, subEntry := newToken(t, "planner", "--role", "submitter")
	bob, bobEntry := newToken(t, "bob", "--kind", "person", "--role", "operator")
	d := newGuardedDoor(t, subEntry)
	d.want(200, "planner", sub, "GET", "/v1/whoami", "")
	d.want(401, "nobody is known", bob, "GET", "/v1/whoami", "")
	d.write("  - {id: planner, roles: [admin]}\n")
	d.signal(syscall.SIGHUP)
	poll(t, "the node has refused the file", func() bool { return strings.Contains(d.log.String(), "was not read anew") })
	d.want(200, "planner", sub, "GET", "/v1/whoami", "")
	d.write(bobEntry)
	_, _, other := certificates(t, d.dir)
	d.signal(syscall.SIGHUP)
	poll(t, "the other certificate is shown", func() bool {
		_, _, err := d.as("", "GET", "/healthz", "")
		return err != nil
	})
	d.roots.AddCert(other)
	d.want(401, "nobody is known", sub, "GET", "/v1/whoami", "")
	d.want(200, `"id":"bob"`, bob, "GET", "/v1/whoami", "")
	d.reached()
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
