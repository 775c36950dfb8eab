package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

// accessFile writes a file of principals with one token of an observer.
func accessFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.yaml")
	text := "principals: [{id: ann, kind: person, roles: [observer], tokens: [{sha256: " + keys.Digest(token) + "}]}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDoorsThatDoNotOpen: whoever could come in as anybody, or read tokens on their way,
// never gets a door to do it at.
func TestDoorsThatDoNotOpen(t *testing.T) {
	auth := "--http-auth=" + accessFile(t, "x")
	open := accessFile(t, "x")
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	bad := accessFile(t, "x")
	if err := os.WriteFile(bad, []byte("principals: [{id: local:me, kind: person, roles: [observer], tokens: [{sha256: "+keys.Digest("y")+"}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		want, hint string // parts; want "" is a door that opens
		args       []string
	}{
		"loopback":                       {"", "", []string{"--http=127.0.0.1:0"}},
		"its name":                       {"", "", []string{"--http=localhost:0"}},
		"its name in capitals":           {"", "", []string{"--http=LOCALHOST:0"}},
		"loopback with authentication":   {"", "", []string{"--http=127.0.0.1:0", auth}},
		"none":                           {"", "", []string{"--http=none"}},
		"everywhere":                     {"there is no authentication", "--http-auth FILE", []string{"--http=0.0.0.0:0"}},
		"everywhere, in short":           {"there is no authentication", "--http-auth FILE", []string{"--http=:0"}},
		"everywhere, IPv6":               {"there is no authentication", "--http-auth FILE", []string{"--http=[::]:0"}},
		"everywhere, mapped":             {"there is no authentication", "--http-auth FILE", []string{"--http=[::ffff:0.0.0.0]:0"}},
		"another name":                   {"there is no authentication", "--http-auth FILE", []string{"--http=node.example:0"}},
		"everywhere with hosts":          {"there is no authentication", "--http-auth FILE", []string{"--http=0.0.0.0:0", "--http-hosts=node.example"}},
		"everywhere in the clear":        {"would read the tokens", "--http-behind-proxy", []string{"--http=0.0.0.0:0", auth}},
		"everywhere behind a proxy":      {"", "", []string{"--http=0.0.0.0:0", auth, "--http-behind-proxy"}},
		"a proxy, nobody asked":          {"mean nothing without --http-auth", "--http-auth", []string{"--http=127.0.0.1:0", "--http-behind-proxy"}},
		"everywhere, a proxy, no asking": {"mean nothing without --http-auth", "--http-auth", []string{"--http=0.0.0.0:0", "--http-behind-proxy"}},
		"a certificate without its key":  {"go together", "both files", []string{"--http-cert=x"}},
		"a key without its certificate":  {"go together", "both files", []string{"--http-key=x"}},
		"clients without TLS":            {"need TLS", "--http-cert", []string{"--http-client-ca=x", auth}},
		"certificates that mean nothing": {"nothing says what", "--http-auth", []string{"--http-client-ca=x", "--http-cert=x", "--http-key=x"}},
		"a key that everybody can read":  {"--http-key: " + open + ": its mode", "that is named, or its mode", []string{"--http=127.0.0.1:0", "--http-cert=" + open, "--http-key=" + open}},
		"a certificate that is none":     {"--http-cert: ", "openssl", []string{"--http=127.0.0.1:0", "--http-cert=" + bad, "--http-key=" + bad}},
		"no such certificate":            {"no such file", "", []string{"--http=127.0.0.1:0", "--http-cert=/none", "--http-key=/none"}},
		"no such file":                   {"no such file", "token check", []string{"--http=127.0.0.1:0", "--http-auth=/none"}},
		"a file for everybody":           {"chmod 600", "", []string{"--http=127.0.0.1:0", "--http-auth=" + open}},
		"a file with a local name":       {"this machine's own programs", "", []string{"--http=127.0.0.1:0", "--http-auth=" + bad}},
		"an open path that is none":      {`--http-open "/v1/turns"`, "/metrics", []string{"--http-open=/v1/turns", auth}},
		"open paths, nobody asked":       {"mean nothing without", "", []string{"--http-open=/metrics"}},
		"no port":                        {"want host:port", "", []string{"--http=127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := newSettings(), pflag.NewFlagSet("x", pflag.ContinueOnError)
			s.doorFlags(f)
			if err := f.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			d, err := s.door()
			if d != nil {
				defer d.Close()
			}
			if (c.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(exit.Hint(err), c.hint)) {
				t.Errorf("%v (%s), want %q (%s)", err, exit.Hint(err), c.want, c.hint)
			}
			if err != nil && d != nil {
				t.Error("it listens all the same")
			}
		})
	}
}

// TestDoorIsShownByItsName: people are shown a name that the certificate may have, and
// programs of this machine the address that they reach.
func TestDoorIsShownByItsName(t *testing.T) {
	for name, c := range map[string]struct {
		listen string
		hosts  []string
		tls    bool
		want   string // before the port
	}{
		"everywhere, with names":    {"0.0.0.0:0", []string{"node.example", "other.example"}, true, "https://node.example:"},
		"everywhere, without names": {"0.0.0.0:0", nil, true, "https://"},
		"at one address":            {"127.0.0.1:0", []string{"node.example"}, true, "https://127.0.0.1:"},
		"in the clear":              {"127.0.0.1:0", []string{"node.example"}, false, "http://127.0.0.1:"},
	} {
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			t.Fatal(err)
		}
		s := newSettings()
		s.hosts = c.hosts
		d := &doorway{set: s, Listener: l}
		if c.tls {
			d.certs = new(keys.Certs)
		}
		if got := d.shown(); !strings.HasPrefix(got, c.want) || strings.HasPrefix(d.address(), "https://node") {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDoorIsReadAnewAsAWhole: what is wrong with the file changes nothing.
func TestDoorIsReadAnewAsAWhole(t *testing.T) {
	path := accessFile(t, "one")
	s := newSettings()
	s.http, s.entry.auth = "127.0.0.1:0", path
	d, err := s.door()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	knows := func(token string) bool {
		_, err := d.ring.Load().Token(token, time.Now())
		return err == nil
	}
	if !knows("one") || !knows(d.local) || knows("two") {
		t.Error("who is known at first")
	}
	found, err := d.ring.Load().Token(d.local, time.Now())
	if err != nil || !strings.HasPrefix(found.Identity.Principal.ID, localName) || access.May(found.Identity, access.Approve) == nil {
		t.Errorf("this user's own programs are %+v, %v", found, err)
	}
	write := func(text string) error {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return d.read()
	}
	for _, text := range []string{"", "principals: [", "principals: [{id: 'local:ann', roles: [submitter], tokens: [{sha256: " + keys.Digest("two") + "}]}]", "principals: [{id: ann, roles: [admin], tokens: [{sha256: " + keys.Digest("two") + "}]}]"} {
		if err := write(text); err == nil || !knows("one") || knows("two") || !knows(d.local) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := write("principals: [{id: ann, roles: [submitter], tokens: [{sha256: " + keys.Digest("two") + "}]}]"); err != nil || knows("one") || !knows("two") || !knows(d.local) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := d.read(); !errors.Is(err, os.ErrNotExist) || !knows("two") {
		t.Errorf("%v", err)
	}
}

// TestTokenVerbs: what new prints, check takes, and a door knows.
func TestTokenVerbs(t *testing.T) {
	out := start(t, "token", "new", "ann", "--json", "--kind", "person", "--role", "approver,observer", "--parent", "staff", "--expires", "90d", "--name", "laptop").until("token")
	var made struct {
		Token string         `json:"token"`
		Entry keys.Principal `json:"entry"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	if made.Entry.Tokens[0].SHA256 != keys.Digest(made.Token) || strings.Contains(strings.Replace(out, made.Token, "", 1), made.Token) {
		t.Errorf("%s", out)
	}
	r, err := keys.File{Principals: []keys.Principal{made.Entry}}.Ring()
	if err != nil {
		t.Fatal(err)
	}
	found, err := r.Token(made.Token, time.Now())
	if err != nil || found.Identity.Principal.ID != "ann" || found.Identity.Principal.Parents[0] != "staff" || found.Expires.Before(time.Now().Add(89*24*time.Hour)) {
		t.Errorf("%+v, %v", found, err)
	}
	path := accessFile(t, "x")
	if line := start(t, "token", "check", path).until("ann"); line != "ann  person  observer  1 tokens, 0 expired, 0 certificates" {
		t.Errorf("%q", line)
	}
	for _, args := range [][]string{
		{"token", "new", "ann", "--role", "approver"},
		{"token", "new", "ann"},
		{"token", "new", "a b", "--role", "submitter"},
		{"token", "new", "ann", "--role", "node"},
		{"token", "new", "ann", "--role", "submitter", "--expires", "yesterday"},
		{"token", "new", "ann", "--role", "submitter", "--expires", "2020-01-01"},
		{"token", "new", "ann", "--role", "submitter", "--expires", "-1d"},
		{"token", "new", "local:me", "--role", "submitter"},
		{"token", "check"},
		{"token", "check", "/none"},
	} {
		if code := start(t, args...).end(); code != exit.Usage {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}
