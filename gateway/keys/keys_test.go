package keys_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/gateway/keys"
	"github.com/sluice-run/sluice/policy/access"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// ring reads a file's text.
func ring(t *testing.T, text string) (*keys.Ring, error) {
	t.Helper()
	f, err := keys.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	return f.Ring()
}

func TestTokens(t *testing.T) {
	one, two := keys.New(), keys.New()
	if one == two || !strings.HasPrefix(one, keys.Prefix) || len(one) != len(keys.Prefix)+43 {
		t.Fatalf("%q, %q", one, two)
	}
	r, err := ring(t, fmt.Sprintf(`
principals:
  - id: ann
    kind: person
    roles: [approver, observer]
    tokens:
      - {sha256: %s, name: laptop}
      - {sha256: "sha256:%s", expires: 2026-12-01}
  - id: planner
    parents: [lead]
    roles: [submitter]
    tokens:
      - sha256: %s
        expires: "2026-11-30T12:00:00Z"
`, keys.Digest(one), keys.Digest(two), keys.Digest("x")))
	if err != nil {
		t.Fatal(err)
	}
	found, err := r.Token(one, noon)
	if id := found.Identity; err != nil || id.Principal.ID != "ann" || id.Principal.Kind != "person" || id.Via != "token" || !found.Expires.IsZero() || id.Reach(access.Approve) != access.All {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := r.Token(two, noon); err != nil || found.Identity.Principal.ID != "ann" || !found.Expires.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := r.Token("x", noon.Add(-time.Second)); err != nil || found.Identity.Principal.Parents[0] != "lead" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := r.Token("x", noon); !errors.Is(err, keys.ErrExpired) {
		t.Errorf("%v", err)
	}
	for _, wrong := range []string{"", "y", one[:len(one)-1], one + "=", " " + one, strings.ToUpper(one), keys.Digest(one), strings.Repeat("x", 1<<20)} {
		if found, err := r.Token(wrong, noon); !errors.Is(err, keys.ErrUnknown) || found.Identity.Principal.ID != "" {
			t.Errorf("%.40q: %+v, %v", wrong, found, err)
		}
	}
	if !r.Known("ann") || !r.Known("planner") || r.Known("lead") || r.Len() != 2 {
		t.Error("who is known")
	}
}

// TestFilesThatAreRefused: whole, and with the place.
func TestFilesThatAreRefused(t *testing.T) {
	digest := keys.Digest("x")
	entry := func(id, more string) string { return "\n  - {id: " + id + ", roles: [submitter], " + more + "}" }
	good := entry("a", "tokens: [{sha256: "+digest+"}]")
	for name, c := range map[string]struct{ text, want string }{
		"empty":               {"", "nobody could come in"},
		"nobody":              {"principals: []", "nobody could come in"},
		"nobody with a token": {"principals:" + entry("a", "tokens: []"), "nobody could come in"},
		"no YAML":             {"principals: [", "no file of principals"},
		"unknown field":       {"principals:" + entry("a", "admin: true"), "admin"},
		"unknown at the top":  {"principals: []\nusers: []", "users"},
		"a plain token":       {"principals:" + entry("a", "tokens: [{token: secret}]"), "token"},
		"two documents":       {"principals:" + good + "\n---\nprincipals: []", "second document"},
		"twice":               {"principals:" + good + entry("a", ""), "principal 2: a stands twice"},
		"one token for two":   {"principals:" + good + entry("b", "tokens: [{sha256: "+digest+"}]"), "its token is a's, too"},
		"one token twice":     {"principals:" + entry("a", "tokens: [{sha256: "+digest+"}, {sha256: "+strings.ToUpper(digest)+"}]"), "twice"},
		"a short digest":      {"principals:" + entry("a", "tokens: [{sha256: abcd}]"), "64 hex digits"},
		"a word for a digest": {"principals:" + entry("a", "tokens: [{sha256: "+strings.Repeat("z", 64)+"}]"), "64 hex digits"},
		"a bad day":           {"principals:" + entry("a", "tokens: [{sha256: "+digest+", expires: tomorrow}]"), `expires "tomorrow"`},
		"a bad role":          {"principals:\n  - {id: a, roles: [root]}", `role "root"`},
		"no roles":            {"principals:\n  - {id: a}", "no role"},
		"node":                {"principals:\n  - {id: a, kind: service, roles: [node]}", "for NATS"},
		"a deciding agent":    {"principals:\n  - {id: a, roles: [approver]}", "agent"},
		"a bad id":            {"principals:\n  - {id: 'a*', roles: [observer]}", "byte 1"},
		"no certificate":      {"principals:" + entry("a", "certificates: [{}]"), "one of them"},
		"both":                {"principals:" + entry("a", "certificates: [{subject: CN=a, uri: 'spiffe://a/b'}]"), "one of them"},
		"a bad uri":           {"principals:" + entry("a", "certificates: [{uri: 'a b'}]"), "uri"},
		"one for two":         {"principals:" + entry("a", "certificates: [{subject: CN=a}]") + entry("b", "certificates: [{subject: CN=a}]"), "is a's, too"},
		"many at once":        {"principals:" + strings.Repeat("\n  - {id: ''}", 100), "principal 20"},
	} {
		if _, err := ring(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCertificates(t *testing.T) {
	r, err := ring(t, `
principals:
  - {id: ann, kind: person, roles: [observer], certificates: [{subject: "CN=ann,O=Example"}]}
  - {id: job, kind: service, roles: [submitter], certificates: [{uri: "spiffe://example.org/job"}, {uri: "spiffe://example.org/old"}]}
  - {id: other, kind: service, roles: [submitter], certificates: [{uri: "spiffe://example.org/other"}]}
`)
	if err != nil {
		t.Fatal(err)
	}
	subject := func(parts ...pkix.RelativeDistinguishedNameSET) []byte {
		der, err := asn1.Marshal(pkix.RDNSequence(parts))
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	part := func(oid int, v string) pkix.RelativeDistinguishedNameSET {
		return pkix.RelativeDistinguishedNameSET{{Type: asn1.ObjectIdentifier{2, 5, 4, oid}, Value: v}}
	}
	org, cn := part(10, "Example"), part(3, "ann")
	uris := func(list ...string) (out []*url.URL) {
		for _, s := range list {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, u)
		}
		return out
	}
	later := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		cert x509.Certificate
		want string // an id; "" is nobody
	}{
		"subject":             {x509.Certificate{RawSubject: subject(org, cn)}, "ann"},
		"another order":       {x509.Certificate{RawSubject: subject(cn, org)}, ""},
		"more":                {x509.Certificate{RawSubject: subject(org, part(11, "x"), cn)}, ""},
		"only a part":         {x509.Certificate{RawSubject: subject(cn)}, ""},
		"written into a name": {x509.Certificate{RawSubject: subject(part(3, "ann,O=Example"))}, ""},
		"one set":             {x509.Certificate{RawSubject: subject(append(append(pkix.RelativeDistinguishedNameSET{}, org...), cn...))}, ""},
		"no subject":          {x509.Certificate{}, ""},
		"uri":                 {x509.Certificate{URIs: uris("spiffe://example.org/job")}, "job"},
		"uri and subject":     {x509.Certificate{RawSubject: subject(org, cn), URIs: uris("spiffe://example.org/job")}, "job"},
		"two of one":          {x509.Certificate{URIs: uris("spiffe://example.org/job", "spiffe://example.org/old")}, "job"},
		"two of two":          {x509.Certificate{URIs: uris("spiffe://example.org/job", "spiffe://example.org/other")}, ""},
		"unknown uri":         {x509.Certificate{URIs: uris("spiffe://example.org/job/x")}, ""},
		"a name is no uri":    {x509.Certificate{DNSNames: []string{"spiffe://example.org/job"}, EmailAddresses: []string{"ann"}}, ""},
	} {
		c.cert.NotAfter = later
		found, err := r.Certificate(&c.cert, noon)
		if found.Identity.Principal.ID != c.want || (c.want == "") != errors.Is(err, keys.ErrUnknown) {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if c.want != "" && (!found.Expires.Equal(later) || found.Identity.Via != "certificate") {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if _, err := r.Certificate(&x509.Certificate{RawSubject: subject(org, cn), NotAfter: noon}, noon); !errors.Is(err, keys.ErrExpired) {
		t.Errorf("%v", err)
	}
}

// TestFilesOfOthers: a file that somebody else could change says nothing.
func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.yaml")
	text := "principals: [{id: a, roles: [submitter], tokens: [{sha256: " + keys.Digest("x") + "}]}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o640: "", 0o400: "", 0o644: "everybody read it", 0o660: "others write it", 0o602: "others write it", 0o620: "others write it"} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := keys.Read(path)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%04o: %v, want %q", mode, err, want)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(open, 0o777), os.Chmod(open, 0o777), os.Rename(path, filepath.Join(open, "access.yaml")), os.Symlink(filepath.Join(open, "access.yaml"), path)); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Read(path); err == nil || !strings.Contains(err.Error(), "put another file in its place") {
		t.Errorf("in a folder that everybody can write: %v", err)
	}
	if _, err := keys.Read(dir); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a directory: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if exec.Command("mkfifo", pipe).Run() == nil { // nobody ever writes to it
		if _, err := keys.Read(pipe); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a pipe: %v", err)
		}
	}
	if _, err := keys.Read(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if err := errors.Join(os.Chmod(open, 0o755), os.Truncate(filepath.Join(open, "access.yaml"), 9<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Read(path); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a huge file: %v", err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add("principals:\n  - {id: a, roles: [submitter], parents: [b], tokens: [{sha256: "+keys.Digest("x")+", expires: 2027-01-01}]}\n", "x")
	f.Add("principals: [{id: a, kind: person, roles: [admin], certificates: [{subject: CN=a}, {uri: 'spiffe://a/b'}]}]", "")
	f.Add("a: &a [*a, *a]", "y")
	f.Fuzz(func(t *testing.T, text, token string) {
		file, err := keys.Parse([]byte(text))
		if err != nil {
			return
		}
		r, err := file.Ring()
		if err != nil {
			return
		}
		found, err := r.Token(token, noon)
		if err == nil && (found.Identity.Check() != nil || !strings.Contains(text, keys.Digest(token)[:1])) {
			t.Errorf("%+v by %q", found, token)
		}
	})
}

// BenchmarkToken is what it takes to know somebody, among a thousand.
func BenchmarkToken(b *testing.B) {
	var f keys.File
	for i := range 1000 {
		f.Principals = append(f.Principals, keys.Principal{
			ID: fmt.Sprint("p", i), Roles: []access.Role{access.Submitter}, Tokens: []keys.Token{{SHA256: keys.Digest(fmt.Sprint("token", i))}},
		})
	}
	r, err := f.Ring()
	if err != nil {
		b.Fatal(err)
	}
	for name, token := range map[string]string{"known": "token500", "unknown": "token5000"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = r.Token(token, noon)
			}
		})
	}
}
