package keys

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

// Bounds of a file.
const (
	maxFile       = 8 << 20 // bytes
	maxPrincipals = 10_000
	maxProofs     = 64 // tokens, and certificates, of one principal
)

// HTTPRoles are the roles that mean something for HTTP.
func HTTPRoles() []access.Role {
	return slices.DeleteFunc(access.Roles(), func(r access.Role) bool { return r == access.Node || r == access.Worker })
}

// File is how a file of principals is written.
type File struct {
	Principals []Principal `yaml:"principals" json:"principals"`
}

// Principal is one entry of a File.
type Principal struct {
	ID           string        `yaml:"id" json:"id"`
	Kind         string        `yaml:"kind,omitempty" json:"kind,omitempty"` // agent (the meaning of ""), person or service
	Parents      []string      `yaml:"parents,omitempty,flow" json:"parents,omitempty"`
	Roles        []access.Role `yaml:"roles,flow" json:"roles"`
	Workspaces   []string      `yaml:"workspaces,omitempty" json:"workspaces,omitempty"` // where its turns may run; none: the node's own workspace; *: anywhere
	Tokens       []Token       `yaml:"tokens,omitempty" json:"tokens,omitempty"`
	Certificates []Certificate `yaml:"certificates,omitempty" json:"certificates,omitempty"`
}

// Token is one token of a principal: several of them count at the same time, so that a
// new one can be given out before the old one is taken away.
type Token struct {
	SHA256  string `yaml:"sha256" json:"sha256"`                       // see Digest
	Name    string `yaml:"name,omitempty" json:"name,omitempty"`       // for whoever keeps the file
	Expires string `yaml:"expires,omitempty" json:"expires,omitempty"` // RFC 3339, or a day in UTC that it does not see; "" means never
}

// Certificate says which client certificates are a principal's: by exactly one of both.
type Certificate struct {
	Subject string `yaml:"subject,omitempty" json:"subject,omitempty"` // see Subject
	URI     string `yaml:"uri,omitempty" json:"uri,omitempty"`         // among the certificate's names, for example a SPIFFE id
}

// Read reads a file of principals. It must be one that nobody but its owner can change
// and that not everybody can read: see CheckFile. What its entries say is looked at by
// Ring.
func Read(path string) (File, error) {
	text, err := readFile(path)
	if err != nil {
		return File{}, err
	}
	f, err := Parse(text)
	if err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func readFile(path string) ([]byte, error) {
	if err := CheckFile(path); err != nil { // BEFORE it is opened, which waits for a writer where it is a pipe
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkFile(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", path, maxFile)
	}
	return text, err
}

// CheckFile returns nil for a file that may say who may do what, or hold a key: a regular
// one, of this user or root, which no other user can write, and which not everybody can
// read; in a folder where not everybody can put another one in its place.
func CheckFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return checkFile(path, info)
}

func checkFile(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: it is no regular file", path)
	}
	if m := info.Mode().Perm(); modes && m&0o026 != 0 {
		return fmt.Errorf("%s: its mode %04o lets others write it, or everybody read it: chmod 600 (or 640)", path, m)
	}
	if !mine(info) {
		return fmt.Errorf("%s: it belongs to another user, who could change it: chown it", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	dir, err := os.Stat(filepath.Dir(real))
	if err != nil {
		return err
	}
	if m := dir.Mode(); modes && m.Perm()&0o002 != 0 && m&fs.ModeSticky == 0 {
		return fmt.Errorf("%s: everybody can put another file in its place: move it, or chmod o-w %s", path, filepath.Dir(real))
	}
	return nil
}

// Parse reads the text of a file of principals. Fields that are not a File's are errors.
func Parse(text []byte) (File, error) {
	var f File
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return f, fmt.Errorf("no file of principals: %w", err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return f, errors.New("a second document stands in it: write all principals in one")
	}
	return f, nil
}

// Ring is the file as it is asked. Whatever is wrong with any of it refuses all of it, and
// the error names the entries.
func (f File) Ring() (*Ring, error) {
	if len(f.Principals) > maxPrincipals {
		return nil, fmt.Errorf("%d principals: at most %d", len(f.Principals), maxPrincipals)
	}
	r := newRing()
	var errs []error
	for i, p := range f.Principals {
		if err := r.add(p); err != nil {
			errs = append(errs, fmt.Errorf("principal %d: %w", i+1, err))
		}
		if len(errs) == 20 {
			break // enough to begin with
		}
	}
	if len(errs) == 0 && len(r.tokens)+len(r.subjects)+len(r.uris) == 0 {
		errs = append(errs, errors.New("it knows no token and no certificate, and nobody could come in: sluice-node token new makes one"))
	}
	return r, errors.Join(errs...)
}

func newRing() *Ring {
	return &Ring{
		seed: maphash.MakeSeed(), tokens: make(map[uint64][]held), subjects: make(map[string]Found), uris: make(map[string]Found), known: make(map[string]bool),
	}
}

// Check returns nil for an entry that a File may have, as far as that can be said of one
// alone.
func (p Principal) Check() error { return newRing().add(p) }

func (r *Ring) add(p Principal) error {
	if err := checkRoles(p); err != nil {
		return err
	}
	id := access.Identity{Principal: events.Principal{ID: p.ID, Kind: cmp.Or(p.Kind, access.KindAgent), Parents: p.Parents}, Roles: p.Roles, Workspaces: p.Workspaces}
	if err := id.Check(); err != nil {
		return err
	}
	switch {
	case r.known[p.ID]:
		return fmt.Errorf("%s stands twice: write all its tokens in one entry", p.ID)
	case len(p.Tokens) > maxProofs || len(p.Certificates) > maxProofs:
		return fmt.Errorf("%s has %d tokens and %d certificates: at most %d of each", p.ID, len(p.Tokens), len(p.Certificates), maxProofs)
	}
	r.known[p.ID] = true
	var errs []error
	for _, t := range p.Tokens {
		errs = append(errs, r.addToken(id, t))
	}
	for _, c := range p.Certificates {
		errs = append(errs, r.addCertificate(id, c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", p.ID, err)
	}
	return nil
}

// checkRoles names the roles there are to whoever has written none of them.
func checkRoles(p Principal) error {
	var all []string
	for _, r := range HTTPRoles() {
		all = append(all, string(r))
	}
	want := "want some of " + strings.Join(all, ", ")
	if len(p.Roles) == 0 {
		return fmt.Errorf("%s has no role: %s", p.ID, want)
	}
	for _, r := range p.Roles {
		switch {
		case r == access.Node, r == access.Worker:
			return fmt.Errorf("%s: the role %s is for NATS, no HTTP request needs it: %s", p.ID, r, want)
		case !slices.Contains(all, string(r)):
			return fmt.Errorf("%s has the role %q, which there is not: %s", p.ID, r, want)
		}
	}
	return nil
}

func (r *Ring) addToken(id access.Identity, t Token) error {
	digest, err := parseDigest(t.SHA256)
	if err != nil {
		return err
	}
	expires, err := ParseExpiry(t.Expires)
	if err != nil {
		return err
	}
	id.Via = events.ViaToken
	at := maphash.Bytes(r.seed, digest[:])
	for _, h := range r.tokens[at] {
		switch {
		case h.digest == digest && h.found.Identity.Principal.ID == id.Principal.ID:
			return errors.New("one of its tokens stands twice: leave one of them out")
		case h.digest == digest:
			return fmt.Errorf("its token is %s's, too: make one for each with sluice-node token new", h.found.Identity.Principal.ID)
		}
	}
	r.tokens[at] = append(r.tokens[at], held{digest, Found{id, expires}})
	return nil
}

// ParseExpiry reads the end of a token: a time, or a day in UTC, whose beginning it is.
func ParseExpiry(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return t, fmt.Errorf("expires %q: want a time (2027-01-31T12:00:00Z) or a day (2027-01-31)", s)
	}
	return t, nil
}

func (r *Ring) addCertificate(id access.Identity, c Certificate) error {
	id.Via = events.ViaCertificate
	into, by := r.subjects, c.Subject
	switch {
	case (c.Subject == "") == (c.URI == ""):
		return errors.New("a certificate is named by its subject or by a uri, one of them")
	case c.URI != "":
		u, err := url.Parse(c.URI)
		if err != nil || u.Scheme == "" || u.String() != c.URI {
			return fmt.Errorf("the certificate's uri %q is none, or can be written in another way", c.URI)
		}
		into, by = r.uris, c.URI
	}
	if other, there := into[by]; there {
		return fmt.Errorf("the certificate %q is %s's, too", by, other.Identity.Principal.ID)
	}
	into[by] = Found{Identity: id}
	return nil
}
