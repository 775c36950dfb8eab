// Package nodehttp asks a node of this machine over HTTP, as the user whose node it is:
// with the token that the node has told in the file which only that user can read.
package nodehttp

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/sluice-run/sluice/bus/jetlog"
)

// What a node tells of its door, beside the address, in jetlog.Running.More.
const (
	Token = "http_token" // by which this user is known; absent where everybody is believed
	Cert  = "http_cert"  // SHA-256, in hex, of the certificate that it shows; absent without TLS
)

// Client asks the node that has told of itself. It follows no redirects, uses no proxy,
// and sends the token to that node alone: one with another certificate is none.
func Client(r jetlog.Running) *http.Client {
	t := &http.Transport{DisableKeepAlives: true, TLSHandshakeTimeout: 10 * time.Second}
	if want := r.More[Cert]; want != "" {
		t.TLSClientConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, // it is this very certificate, whatever names stand in it: see VerifyConnection
			VerifyConnection: func(s tls.ConnectionState) error {
				sum := sha256.Sum256(s.PeerCertificates[0].Raw)
				if hex.EncodeToString(sum[:]) != want {
					return errors.New("what listens there shows another certificate than the node has told of")
				}
				return nil
			},
		}
	}
	return &http.Client{
		Transport:     known{t, r.HTTP, r.More[Token]},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// known adds the token to requests for one node.
type known struct {
	next      http.RoundTripper
	at, token string
}

// RoundTrip is http.RoundTripper's.
func (k known) RoundTrip(r *http.Request) (*http.Response, error) {
	if at, err := url.Parse(k.at); err != nil || k.token == "" || at.Scheme != r.URL.Scheme || at.Host != r.URL.Host {
		return k.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.token)
	return k.next.RoundTrip(r)
}

// Address is where programs of this machine reach a door that listens at an address: one
// that listens everywhere is reached by loopback's.
func Address(scheme string, listens net.Addr) string {
	at := listens.String()
	if ap, err := netip.ParseAddrPort(at); err == nil && ap.Addr().IsUnspecified() {
		local := netip.MustParseAddr("127.0.0.1")
		if ap.Addr().Is6() && !ap.Addr().Is4In6() {
			local = netip.IPv6Loopback() // it may hear IPv6 alone
		}
		at = netip.AddrPortFrom(local, ap.Port()).String()
	}
	return scheme + "://" + at
}
