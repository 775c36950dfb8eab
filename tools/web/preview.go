package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// preview says what would be reached over the network, and how. It resolves no name:
// asking a name server would already tell somebody.
func preview(_ context.Context, in tools.Invocation) (events.Preview, error) {
	var args fetchIn
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return events.Preview{}, err
	}
	p := events.Preview{Kind: events.PreviewTarget}
	u, bad := parseURL(args.URL)
	if bad != nil {
		p.Text.Text = "the address cannot be used, and the call would fail: " + tools.Visible(bad.Message)
		return p, nil
	}
	p.Text.Text = target("GET", u)
	return p, nil
}

// target is where a request would go, a part a line.
func target(method string, u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"http": "80 (the scheme's)", "https": "443 (the scheme's)"}[u.Scheme])
	host := tools.Visible(u.Hostname())
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		host += " (an address, no name)"
		if ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			host += ", and not a public one"
		}
	} else if strings.Contains(u.Hostname(), "xn--") {
		host += " (letters that are not ASCII, in their ASCII form)"
	}
	lines := []string{"method  " + method, "scheme  " + tools.Visible(u.Scheme), "host    " + host, "port    " + port}
	lines = append(lines, "path    "+tools.Visible(cmp.Or(u.EscapedPath(), "/")))
	if u.RawQuery != "" {
		lines = append(lines, fmt.Sprintf("query   %s (%d bytes, which that host would get)", tools.Visible(u.RawQuery), len(u.RawQuery)))
	}
	if u.Scheme == "http" {
		lines = append(lines, "it is not encrypted: anybody on the way can read and change it")
	}
	return strings.Join(lines, "\n")
}
