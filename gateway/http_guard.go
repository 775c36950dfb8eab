package gateway

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of what a request's first line may hold.
const (
	maxPathText  = 2 << 10  // bytes of its path, as sent
	maxQueryText = 16 << 10 // bytes of its query, as sent
	maxQuery     = 256      // values in it
)

// securityHeaders stand on every answer, errors included: nothing here is a page, may be
// framed, kept, sniffed, or read by another origin. What is no request of HTTP at all the
// library refuses by itself, in a line of plain text, and closes the connection.
var securityHeaders = [][2]string{
	{"X-Content-Type-Options", "nosniff"},
	{"X-Frame-Options", "DENY"},
	{"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
	{"Referrer-Policy", "no-referrer"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cache-Control", "no-store"},
}

// guard stands before every request: how its answer must be taken, how it must look to
// be heard at all, and how many there may be at once. It comes BEFORE the door knows who
// sends it, and refuses what a browser could be made to send: a name that is not this
// machine's (DNS rebinding), and requests of other origins.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, s := range securityHeaders {
			h.Set(s[0], s[1])
		}
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Time{}) // of the request before; each answer has its own
		if r.ContentLength != 0 {
			_ = control.SetReadDeadline(time.Now().Add(bodyLimit)) // whoever reads it, or throws it away
		}
		if why, p := a.refused(r); p != nil {
			a.refuse(w, r, why, p)
			return
		}
		select {
		case a.places <- struct{}{}:
			defer func() { <-a.places }()
		default:
			if r.URL.Path != "/healthz" { // busy is no reason to be ended
				a.refuse(w, r, "busy", problem(http.StatusServiceUnavailable, "busy", "The door serves as many requests as it can",
					fmt.Sprintf("%d are open", cap(a.places)), "ask again: it is safe"))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// refused is why a request is not heard at all, or nil.
func (a *API) refused(r *http.Request) (why string, p *Problem) {
	if !a.mayHost(r) {
		return "host", problem(http.StatusForbidden, "other-host", "This node does not answer to that name",
			fmt.Sprintf("Host %.260q", r.Host), "use a loopback address, or start the node with that name among its --http-hosts")
	}
	if foreign(r) {
		return "origin", problem(http.StatusForbidden, "cross-origin", "Other origins may not speak to this node",
			fmt.Sprintf("Origin %.260q", r.Header.Get("Origin")), "send the request from a program, not from another site's page")
	}
	if bad := badPath(r.URL); bad != "" {
		return "path", BadRequest("the path "+bad, "write it as the documentation does")
	}
	if len(r.Method) > 20 {
		return "method", problem(http.StatusMethodNotAllowed, "method", "Not by that method", fmt.Sprintf("%.20q…", r.Method), "use GET or POST")
	}
	if bad := badQuery(r.URL.RawQuery); bad != "" {
		return "query", BadRequest("the query "+bad, "send fewer and plainer parameters")
	}
	if (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength != 0 {
		return "body", BadRequest("a "+r.Method+" has no body here", "send it without one")
	}
	return "", nil
}

// foreign says whether a browser sends the request for a page of another origin.
func foreign(r *http.Request) bool {
	for _, o := range r.Header["Origin"] {
		if u, err := url.Parse(o); err != nil || u.Host != r.Host || len(r.Header["Origin"]) > 1 {
			return true
		}
	}
	for _, s := range r.Header["Sec-Fetch-Site"] {
		if s != "same-origin" && s != "none" {
			return true
		}
	}
	return false
}

// mayHost says whether a Host header names this machine: by loopback's names, by one that
// it was given, or by the very address that the request came to, which no other site's
// page can have for its own.
func (a *API) mayHost(r *http.Request) bool {
	name := r.Host
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(strings.TrimSuffix(name, "."), "[]"))
	if name == "localhost" || slices.Contains(a.hosts, name) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil || ip.Zone() != "" {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == ip.Unmap()
}

// badPath says what is wrong with a path that could be read in two ways, or "".
func badPath(u *url.URL) string {
	sent, p := u.EscapedPath(), u.Path
	switch {
	case !strings.HasPrefix(p, "/"):
		return "does not begin with /"
	case len(sent) > maxPathText:
		return fmt.Sprintf("has %d bytes, at most %d", len(sent), maxPathText)
	case strings.Contains(p, "//"):
		return "holds //"
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "." || part == ".." {
			return "holds " + part
		}
	}
	for i := range len(p) {
		if c := p[i]; c < ' ' || c >= 0x7f || c == '\\' || c == '%' {
			return fmt.Sprintf("holds the byte %#02x", c)
		}
	}
	for i := 0; i+2 < len(sent); i++ {
		if sent[i] != '%' {
			continue
		}
		if c := unhex(sent[i+1])<<4 | unhex(sent[i+2]); c == '/' || plain(c) {
			return "has an encoded " + string(rune(c))
		}
	}
	return ""
}

// unhex is the value of a hex digit of a path that was parsed.
func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

// plain says whether a byte needs no encoding anywhere.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// badQuery says what is wrong with a query that cannot be read in full, or "".
func badQuery(raw string) string {
	if len(raw) > maxQueryText {
		return fmt.Sprintf("has %d bytes, at most %d", len(raw), maxQueryText)
	}
	if n := strings.Count(raw, "&") + 1; n > maxQuery {
		return fmt.Sprintf("has %d values, at most %d", n, maxQuery)
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	for name, values := range q {
		for _, v := range append(values, name) {
			if !utf8.ValidString(v) || strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c == 0x7f }) {
				return "holds what is no text"
			}
		}
	}
	return ""
}

// curlMedia is what curl -d says of every body.
const curlMedia = "application/x-www-form-urlencoded"

// checkMedia returns nil for a body that says it is JSON, and for none. A page of another
// site cannot send JSON without asking first, and nobody answers that question here. A
// program may say nothing, or what curl says of any body where it is not told otherwise; a
// browser, which always marks a request that a page of another site has sent, is refused.
// others are what a body may be besides, none of which such a page can send either.
func checkMedia(r *http.Request, others ...string) error {
	if r.Method != http.MethodPost {
		return nil
	}
	given := r.Header["Content-Type"]
	mixed := func(detail string) error {
		if len(others) > 0 {
			return problem(http.StatusUnsupportedMediaType, "media", "The body is no stream of events", detail, "send Content-Type: "+strings.Join(others, " or "))
		}
		return problem(http.StatusUnsupportedMediaType, "media", "The body is no JSON", detail, "send Content-Type: application/json (curl: --json)")
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return mixed(fmt.Sprintf("Content-Encoding %.60q", coding))
	}
	browser := r.Header.Get("Origin") != "" || r.Header.Get("Referer") != "" || r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Sec-Fetch-Mode") != ""
	switch {
	case len(given) == 0 && r.ContentLength != 0 && browser:
		return mixed("it does not say what it is")
	case len(given) == 0, len(given) == 1 && given[0] == curlMedia && !browser:
		return nil
	}
	media, params, err := mime.ParseMediaType(given[0])
	if err != nil || len(given) > 1 || media != "application/json" && !slices.Contains(others, media) {
		return mixed(fmt.Sprintf("Content-Type %.120q", strings.Join(given, ", ")))
	}
	if set := params["charset"]; set != "" && !strings.EqualFold(set, "utf-8") {
		return mixed(fmt.Sprintf("charset %.60q", set))
	}
	return nil
}
