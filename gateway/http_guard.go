package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// guard stands before every request: who may speak to this node, and how its
// answers must be taken. There is no authentication yet, so it refuses what a
// browser could be made to send: a name that is not this machine's (DNS
// rebinding), and requests of other origins.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if p := a.refused(r); p != nil {
			a.writeProblem(w, r, p)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refused is why a request is not heard at all, or nil.
func (a *API) refused(r *http.Request) *Problem {
	if !a.mayHost(r.Host) {
		return problem(http.StatusForbidden, "other-host", "This node does not answer to that name",
			"Host "+r.Host, "use a loopback address, or start the node with that name among its hosts")
	}
	other := problem(http.StatusForbidden, "cross-origin", "Other origins may not speak to this node",
		"Origin "+r.Header.Get("Origin"), "send the request from a program, not from another site's page")
	if o := r.Header.Get("Origin"); o != "" {
		if u, err := url.Parse(o); err != nil || u.Host != r.Host {
			return other
		}
	}
	if s := r.Header.Get("Sec-Fetch-Site"); s != "" && s != "same-origin" && s != "none" {
		return other
	}
	return nil
}

// mayHost says whether a Host header names this machine.
func (a *API) mayHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(strings.TrimSuffix(name, "."), "[]"))
	if name == "localhost" || slices.Contains(a.hosts, name) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}
