package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// doorSettings say who may come in by HTTP, and how.
type doorSettings struct {
	auth, cert, key, clientCA string
	proxy                     bool
	open                      []string
	rate                      int
}

// doorAccessFlags are those of doorSettings.
func (s *settings) doorAccessFlags(f *pflag.FlagSet) {
	f.StringVar(&s.entry.auth, "http-auth", "", "YAML `file` of who may come in by HTTP, with what tokens and certificates, in which roles; SIGHUP reads it anew.\n"+
		"Left out: whoever reaches the door is believed, and it must be loopback's")
	f.StringVar(&s.entry.cert, "http-cert", "", "PEM `file` with the certificate of HTTP; SIGHUP reads it anew. Left out: no TLS")
	f.StringVar(&s.entry.key, "http-key", "", "PEM `file` with the key of --http-cert")
	f.StringVar(&s.entry.clientCA, "http-client-ca", "", "PEM `file` with the authorities whose client certificates may say who comes")
	f.BoolVar(&s.entry.proxy, "http-behind-proxy", false, "a proxy of yours stands before HTTP and speaks TLS to everybody: plain HTTP may be open to the network, for the proxy")
	f.StringSliceVar(&s.entry.open, "http-open", nil, "`paths` for which nobody has to say who they are: /metrics, /readyz")
	f.IntVar(&s.entry.rate, "http-rate", 0, "requests a second that each principal of --http-auth may send, over time; 0: any number")
}

// everywhere says whether an address to listen at is not this machine's alone.
func everywhere(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return false // where it leads is looked at once it listens
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.IsLoopback()
}

// checkDoor refuses a door that strangers could come in by, and settings that do not fit
// each other.
func (s *settings) checkDoor() error {
	host, _, err := net.SplitHostPort(s.http)
	if err != nil {
		return exit.Misused(fmt.Errorf("--http %q: want host:port", s.http), "for example 127.0.0.1:8383, or none")
	}
	e := s.entry
	for _, path := range e.open {
		if !slices.Contains([]string{"/metrics", "/readyz"}, path) {
			return exit.Misused(fmt.Errorf("--http-open %q", path), "only /metrics and /readyz can be open; /healthz always is")
		}
	}
	switch {
	case (e.cert == "") != (e.key == ""):
		return exit.Misused(errors.New("--http-cert and --http-key go together"), "name both files, or none")
	case e.clientCA != "" && e.cert == "":
		return exit.Misused(errors.New("--http-client-ca without --http-cert: client certificates need TLS"), "name a certificate with --http-cert and --http-key")
	case e.auth == "" && e.clientCA != "":
		return exit.Misused(errors.New("--http-client-ca without --http-auth: nothing says what a certificate may do"), "name the file of principals with --http-auth")
	case e.auth == "" && (e.proxy || len(e.open) > 0 || e.rate > 0):
		return exit.Misused(errors.New("--http-behind-proxy, --http-open and --http-rate mean nothing without --http-auth"), "name the file of principals with --http-auth; sluice-node token new begins one")
	}
	return s.checkReach(everywhere(host))
}

// checkReach refuses a door that is open to the network and lets everybody in, or takes
// tokens in the clear.
func (s *settings) checkReach(far bool) error {
	switch {
	case !far:
		return nil
	case s.entry.auth == "":
		return exit.Misused(fmt.Errorf("--http %s is open to the network, and there is no authentication", s.http),
			"listen on 127.0.0.1; or name who may come in with --http-auth FILE (sluice-node token new begins one), and a certificate with --http-cert and --http-key")
	case s.entry.cert == "" && !s.entry.proxy:
		return exit.Misused(fmt.Errorf("--http %s is open to the network without TLS: whoever listens there would read the tokens", s.http),
			"name a certificate with --http-cert and --http-key; or, where a proxy of yours speaks TLS and only it can reach this address, say --http-behind-proxy")
	}
	return nil
}
