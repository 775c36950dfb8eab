package web

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

func refusal(code events.Code, class events.Class, format string, args ...any) *tools.Error {
	return &tools.Error{Code: code, Class: class, Path: "/url", Effects: events.EffectsNone, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *tools.Error {
	return refusal(events.InvalidParam, events.ClassInvalid, format, args...)
}

func denied(format string, args ...any) *tools.Error {
	return refusal(events.AccessDenied, events.ClassTool, format, args...)
}

// parseURL reads an address strictly. Its host is in small letters and without
// the dot that may end it, its fragment is gone.
func parseURL(raw string) (*url.URL, *tools.Error) {
	if len(raw) > maxURL {
		return nil, invalid("the address has %d bytes, and at most %d are taken", len(raw), maxURL)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return nil, invalid("the address has blanks, control characters or backslashes: escape them with %%XX")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, invalid("this is no address: write it as https://host/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid("only http and https are fetched, not %q: write the address as https://host/path", u.Scheme)
	case u.Opaque != "" || u.Hostname() == "":
		return nil, invalid("the address names no host: write it as https://host/path")
	case u.User != nil:
		return nil, invalid("the address holds a user name: leave out what stands before the @")
	case strings.Contains(u.Host, "%"):
		return nil, invalid("the host has a zone or an escape: write it plainly")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, invalid("there is no port %q", p)
		}
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p := u.Port(); p != "" {
		host += ":" + p
	}
	u.Host, u.Fragment, u.RawFragment = host, "", ""
	if u.Hostname() == "" {
		return nil, invalid("the address names no host: write it as https://host/path")
	}
	return u, nil
}

// hostPort is the host as a policy names it: with the port only where it is
// not the scheme's own.
func hostPort(u *url.URL) string {
	if p := u.Port(); p == "" || p == defaultPort(u) {
		return strings.TrimSuffix(u.Host, ":"+p)
	}
	return u.Host
}

func defaultPort(u *url.URL) string {
	if u.Scheme == "http" {
		return "80"
	}
	return "443"
}

// sameHost says whether a redirect stays with one server: the same host, and
// the same port or the change from http to https.
func sameHost(a, b *url.URL) bool { return hostPort(a) == hostPort(b) }

// Names that never mean a public host.
var (
	privateNames    = []string{"localhost", "metadata", "ip6-localhost", "ip6-loopback"}
	privateSuffixes = []string{".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home.arpa", ".onion"}
)

// checkHost refuses what can be refused without asking anybody. What a name
// resolves to is looked at when it is dialled.
func checkHost(g *ssrf.Guardian, u *url.URL, loopback bool) *tools.Error {
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		if g.SafeAddr(ip.Unmap()) != nil {
			return denied("%s is not a public address: only public hosts are fetched", host)
		}
		return nil
	}
	if numeric(host) {
		return denied("%s is an address in an odd form: write it as four numbers, or use a name", host)
	}
	if loopback && host == "localhost" {
		return nil
	}
	for _, n := range privateNames {
		if host == n {
			return denied("%s is not a public host: only public hosts are fetched", host)
		}
	}
	for _, s := range privateSuffixes {
		if strings.HasSuffix(host, s) {
			return denied("%s is not a public host: only public hosts are fetched", host)
		}
	}
	return nil
}

// numeric says whether programs may read the host as an address although it is
// not written as one, as inet_aton does: its last part is a number.
func numeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return true
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(last, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}
