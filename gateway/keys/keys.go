// Package keys knows by what somebody proves to the HTTP door who they are: bearer
// tokens, of which only digests are kept, and client certificates. It decides nothing:
// what an identity may do is package policy/access's.
package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/sluice-run/sluice/policy/access"
)

// Prefix begins every token that New makes, so that one that lies about can be found.
const Prefix = "sluice_"

// maxToken is the length in bytes of the longest token that is looked at.
const maxToken = 512

// Why a proof counts for nobody.
var (
	ErrUnknown = errors.New("nobody is known by that")
	ErrExpired = errors.New("it has expired")
)

// New makes a token: 256 random bits, for a header. It is a secret; what is kept of it
// is its Digest.
func New() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return Prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Digest is what a file keeps of a token: its SHA-256 in hex. A token has 256 random
// bits, so that nobody gets from one to the other.
func Digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Found is somebody who has proved who they are.
type Found struct {
	Identity access.Identity
	Expires  time.Time // of what proved it; zero: never
}

// held is one proof that counts.
type held struct {
	digest [sha256.Size]byte // of a token
	found  Found
}

// Ring holds everybody that a file knows. It never changes, and may be used from many
// goroutines at once.
type Ring struct {
	seed     maphash.Seed
	tokens   map[uint64][]held // by a hash that nobody outside can foresee
	subjects map[string]Found  // of certificates
	uris     map[string]Found
	known    map[string]bool // ids
}

// Known says whether the file names a principal of that id.
func (r *Ring) Known(id string) bool { return r.known[id] }

// Len is how many principals the file names.
func (r *Ring) Len() int { return len(r.known) }

// Token is who a bearer token belongs to: ErrUnknown, or ErrExpired. How long it takes
// says nothing of the tokens that there are: they are found by a hash under a seed of
// this process, and compared as a whole.
func (r *Ring) Token(token string, now time.Time) (Found, error) {
	if token == "" || len(token) > maxToken {
		return Found{}, ErrUnknown
	}
	sum := sha256.Sum256([]byte(token))
	out, hit := Found{}, 0
	for _, h := range r.tokens[maphash.Bytes(r.seed, sum[:])] {
		if subtle.ConstantTimeCompare(h.digest[:], sum[:]) == 1 {
			out, hit = h.found, 1
		}
	}
	if hit == 0 {
		return Found{}, ErrUnknown
	}
	return out.at(now)
}

// Certificate is who a verified client certificate belongs to: by a URI among its names,
// else by its whole subject. Two URIs that belong to different principals are ErrUnknown.
func (r *Ring) Certificate(leaf *x509.Certificate, now time.Time) (Found, error) {
	var out *Found
	for _, u := range leaf.URIs {
		f, ok := r.uris[u.String()]
		switch {
		case !ok:
		case out != nil && out.Identity.Principal.ID != f.Identity.Principal.ID:
			return Found{}, ErrUnknown
		default:
			out = &f
		}
	}
	if out == nil {
		if f, ok := r.subjects[Subject(leaf)]; ok {
			out = &f
		}
	}
	if out == nil {
		return Found{}, ErrUnknown
	}
	out.Expires = leaf.NotAfter
	return out.at(now)
}

func (f Found) at(now time.Time) (Found, error) {
	if !f.Expires.IsZero() && !now.Before(f.Expires) {
		return Found{}, ErrExpired
	}
	return f, nil
}

// Subject is a certificate's whole subject as a file writes it (RFC 2253, the most
// special part first); "" where it has none, or none that can be read.
func Subject(c *x509.Certificate) string {
	var seq pkix.RDNSequence
	if rest, err := asn1.Unmarshal(c.RawSubject, &seq); err != nil || len(rest) > 0 {
		return ""
	}
	return seq.String()
}

// parseDigest reads a digest as Digest writes it.
func parseDigest(s string) ([sha256.Size]byte, error) {
	var out [sha256.Size]byte
	b, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	if err != nil || len(b) != sha256.Size {
		return out, fmt.Errorf("a token's sha256 wants 64 hex digits, as sluice-node token new prints them, not %d bytes", len(s))
	}
	return [sha256.Size]byte(b), nil
}
