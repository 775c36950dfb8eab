package web

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
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
	port := ""
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return nil, invalid("there is no port %q", p)
		}
		port = ":" + strconv.FormatUint(n, 10) // 0443 is dialled as 443
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.String() // one address has one name
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	u.Host, u.Fragment, u.RawFragment = host+port, "", ""
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

// checkHost refuses what can be refused without asking anybody, by the rules of the
// policy, whatever the policy in force is. What a name resolves to is looked at when
// it is dialled.
func (f *fetcher) checkHost(u *url.URL, raw string) *tools.Error {
	if f.cfg.Loopback && loopback(u.Hostname()) {
		return nil
	}
	var err error
	if f.cfg.Ports == nil && !f.cfg.Loopback {
		_, err = policy.CheckURL(raw)
	} else {
		err = policy.CheckHost(u.Hostname()) // the dialer looks at the port
	}
	if err != nil {
		return denied("%s", strings.TrimPrefix(err.Error(), policy.ErrHost.Error()+": "))
	}
	return nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
