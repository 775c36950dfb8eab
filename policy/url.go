package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"code.dny.dev/ssrf"
)

// MaxURL is the length in bytes of the longest URL that is judged.
const MaxURL = 8192

// ErrHost says that an address may not be reached.
var ErrHost = errors.New("address refused")

func refuseHost(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrHost}, args...)...)
}

// CheckURL returns the host of a URL that may be fetched: http or https, at the
// scheme's own port, of a host that CheckHost accepts, written so that every
// parser reads the same host. Otherwise it returns an error that wraps ErrHost.
// The name may still resolve to a private address: who dials must look again.
func CheckURL(raw string) (host string, err error) {
	u, err := parseURL(raw)
	if err != nil {
		return "", err
	}
	if err := CheckHost(u.Hostname()); err != nil {
		return "", err
	}
	if port := u.Port(); port != "" && port != defaultPort(u.Scheme) || strings.HasSuffix(u.Host, ":") {
		return "", refuseHost("only the port %s of %s may be reached; leave the port out", defaultPort(u.Scheme), u.Scheme)
	}
	return plainHost(u.Hostname()), nil
}

// plainHost is the one spelling of a host, without brackets: names in lower case and
// without the dot that may end them, addresses as they are written shortest.
func plainHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String()
	}
	return strings.TrimSuffix(host, ".")
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// parseURL refuses what parsers read differently.
func parseURL(raw string) (*url.URL, error) {
	if len(raw) > MaxURL {
		return nil, refuseHost("the URL is longer than %d bytes; use a shorter one", MaxURL)
	}
	for _, r := range raw {
		if r == ' ' || r == '\\' || hidden(r) {
			return nil, refuseHost("the URL holds a blank, a backslash or a control character; write it without")
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, refuseHost("the URL cannot be parsed; write it as https://host/path")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, refuseHost("only http and https may be fetched; write the URL as https://host/path")
	case u.Opaque != "" || u.Host == "":
		return nil, refuseHost("the URL names no host; write it as https://host/path")
	case u.User != nil:
		return nil, refuseHost("the URL holds a user's name before the host; leave it out")
	case ambiguous(raw):
		return nil, refuseHost("the URL holds @ and no / behind its host, so that some read another host; write a / behind the host")
	}
	return u, nil
}

// ambiguous says whether some parsers read what stands behind the host of a URL as the
// host: where nothing but ? or # ends it.
func ambiguous(raw string) bool {
	_, rest, _ := strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && rest[end] != '/' && strings.Contains(rest[end:], "@")
}

// CheckHost returns nil for a host name or an IP address, without a port, that
// is public by what is written, or an error that wraps ErrHost.
func CheckHost(host string) error {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) { // before small letters are made, which are ASCII for some that are not
		return refuseHost(plainLetters)
	}
	if strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return refuseHost("the address cannot be parsed; use a host name")
		}
		return CheckAddr(addr)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(name, ".")
	if err := checkLabels(name, labels); err != nil {
		return err
	}
	if last := labels[len(labels)-1]; numeric(last) {
		addr, err := netip.ParseAddr(name)
		if err != nil {
			return refuseHost("the address is not four decimal numbers; use a host name")
		}
		return CheckAddr(addr)
	}
	return checkName(name, labels)
}

const plainLetters = "the host's name is not plain letters, digits, dashes and dots; write it in its ASCII form"

func checkLabels(name string, labels []string) error {
	if len(name) > 253 {
		return refuseHost("the host's name is longer than 253 bytes; use another one")
	}
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.IndexFunc(l, notHostRune) >= 0 {
			return refuseHost(plainLetters)
		}
	}
	return nil
}

func notHostRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// numeric reports whether some parser may take a name with that last label for an IPv4
// address: no domain of the public network begins with anything but a letter.
func numeric(label string) bool { return !letter(label[0]) }

// local are domains that never lead to the public network, and public ones that
// are known to lead back to private addresses.
var local = []string{
	"localhost", "local", "localdomain", "internal", "intranet", "private", "corp", "home", "mail", "lan", "arpa", "onion", "alt", "invalid", "test",
	"cluster", "svc", "default", "kube-system", "consul", "docker",
	// names that hold the address they lead to, or lead to loopback
	"nip.io", "sslip.io", "xip.io", "xip.name", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com", "traefik.me", "fuf.me", "local.gd", "localho.st",
	"ip6.name", "backname.io", "127-0-0-1.org.uk", "yoogle.com", "lndo.site", "ddev.site",
	// names that answer differently every time
	"rbndr.us", "1u.ms",
	// what clouds tell their machines
	"metadata.goog", "metadata.azure.com", "metadata.tencentyun.com", "metadata.packet.net", "metadata.platformequinix.com",
}

func checkName(name string, labels []string) error {
	if len(labels) == 1 {
		return refuseHost("%s is a name of the private network; only public hosts may be reached", shown(name))
	}
	for _, l := range local {
		if name == l || strings.HasSuffix(name, "."+l) {
			return refuseHost("%s does not lead to the public network; only public hosts may be reached", shown(name))
		}
	}
	return nil
}

// platform are addresses that are public by their numbers, and lead to the services
// that a cloud gives its own machines.
var platform = []netip.Addr{netip.MustParseAddr("168.63.129.16")} // Azure

// CheckAddr returns nil for an address of the public network, or an error that wraps
// ErrHost. Those inside others are not public: mapped, translated and tunnelled
// ones are outside the public range. Who dials asks it of every address, whatever
// name led there.
func CheckAddr(a netip.Addr) error {
	denied := ssrf.IPv4DeniedPrefixes
	if a.Is6() {
		denied = ssrf.IPv6DeniedPrefixes
	}
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	switch {
	case !a.IsValid(), a.Zone() != "", a.Is6() && !ssrf.IPv6GlobalUnicast.Contains(a), slices.ContainsFunc(denied, within),
		slices.Contains(platform, a), tunnel(a):
		return refuseHost("%s is not a public address; only public hosts may be reached", shown(a.WithZone("").String()))
	}
	return nil
}

// tunnel reports whether an IPv6 address carries an IPv4 one for a local router
// (ISATAP).
func tunnel(a netip.Addr) bool {
	if !a.Is6() {
		return false
	}
	b := a.As16()
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// checkAny judges what a shell line or an operation names: a URL, a host, or
// host:port.
func checkAny(h string) error {
	if strings.Contains(h, "://") {
		_, err := CheckURL(h)
		return err
	}
	h, _, _ = strings.Cut(h, "/")
	host, port := splitPort(h)
	if err := CheckHost(host); err != nil {
		return err
	}
	if port != "" && port != "80" && port != "443" {
		return refuseHost("only the ports 80 and 443 may be reached; leave the port out")
	}
	return nil
}

// splitPort cuts a port off a host. An IPv6 address needs brackets for one.
func splitPort(h string) (host, port string) {
	i := strings.LastIndexByte(h, ':')
	if i < 0 || strings.Count(h, ":") > 1 && !strings.HasSuffix(h[:i], "]") {
		return h, ""
	}
	return h[:i], h[i+1:]
}
