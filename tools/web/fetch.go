package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// fetcher is Fetch at work. Connections are not kept: each one is dialled, and
// looked at, for one request.
type fetcher struct {
	cfg       Config
	dialer    *dialer
	transport *http.Transport
}

func newFetcher(c Config) *fetcher {
	d := newDialer(c)
	return &fetcher{cfg: c, dialer: d, transport: d.transport()}
}

// client follows redirects for one call.
func (f *fetcher) client(in tools.Invocation) *http.Client {
	return &http.Client{
		Transport: f.transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			req.Header.Del("Referer") // what was asked for is nobody else's business
			return f.redirect(in, req.URL, via)
		},
	}
}

// redirect judges where a redirect leads before anybody is asked. One that leads to
// another host is followed only where the policy, asked again, allows that host; one
// from https to http never is.
func (f *fetcher) redirect(in tools.Invocation, to *url.URL, via []*http.Request) error {
	if len(via) > maxRedirects {
		return denied("more than %d redirects: ask for the last address itself", maxRedirects)
	}
	u, bad := f.check(to.String())
	if bad != nil {
		bad.Message = "a redirect was not followed: " + bad.Message
		return bad
	}
	from := via[len(via)-1].URL
	switch {
	case from.Scheme == "https" && to.Scheme == "http":
		return http.ErrUseLastResponse
	case sameHost(via[0].URL, to) && sameHost(from, to):
		return nil
	case in.May == nil || in.May(events.Operation{Class: events.OpNetwork, Hosts: []string{hostPort(u)}}) != nil:
		return http.ErrUseLastResponse
	}
	return nil
}

func (f *fetcher) check(raw string) (*url.URL, *tools.Error) {
	u, bad := parseURL(raw)
	if bad == nil {
		bad = f.checkHost(u, raw)
	}
	return u, bad
}

func (f *fetcher) fetch(ctx context.Context, in tools.Invocation, args fetchIn) (events.Result, error) {
	if !in.Network {
		return events.Result{}, denied("the operator has not allowed the network: go on with what is in the workspace")
	}
	u, bad := f.check(args.URL)
	if bad != nil {
		return events.Result{}, bad
	}
	within, stop := context.WithTimeout(ctx, f.cfg.timeout())
	defer stop()
	req, err := http.NewRequestWithContext(within, http.MethodGet, u.String(), nil)
	if err != nil {
		return events.Result{}, invalid("this address cannot be asked for: %v", err)
	}
	req.Header.Set("User-Agent", cmp.Or(f.cfg.Agent, "sluice"))
	req.Header.Set("Accept", "text/html, text/plain, application/json, */*;q=0.5")
	res, err := f.client(in).Do(req)
	if err != nil {
		if res != nil {
			_ = res.Body.Close() // a redirect that was refused
		}
		return events.Result{}, f.failure(ctx, u, err)
	}
	defer res.Body.Close()
	body, cut, err := f.read(res.Body)
	if err != nil {
		return events.Result{}, f.failure(ctx, u, err)
	}
	return f.answer(res, page{body: body, cut: cut}, args)
}

// read reads a body up to the bound, and says whether there was more.
func (f *fetcher) read(r io.Reader) (body []byte, cut bool, err error) {
	body, err = io.ReadAll(io.LimitReader(r, f.cfg.body()+1))
	if int64(len(body)) > f.cfg.body() {
		return body[:f.cfg.body()], true, nil
	}
	return body, false, err
}

// answer makes a result of what the server said.
func (f *fetcher) answer(res *http.Response, p page, in fetchIn) (events.Result, error) {
	p.media, p.url = short(res.Header.Get("Content-Type"), maxMedia), res.Request.URL
	if coded := res.Header.Get("Content-Encoding"); !strings.EqualFold(coded, "identity") { // gzip, which is asked for, is unpacked and gone
		p.coded = short(coded, maxMedia)
	}
	switch code := res.StatusCode; {
	case code >= 300 && code < 400 && res.Header.Get("Location") != "":
		return f.elsewhere(res)
	case code >= 200 && code < 300:
	default:
		return events.Result{}, refused(res, p)
	}
	text, bad := p.text(in.Raw)
	if bad != nil {
		return events.Result{}, bad
	}
	if in.Offset > len(text) {
		e := invalid("the text has %d bytes: offset %d is past its end", len(text), in.Offset)
		e.Path = "/offset"
		return events.Result{}, e
	}
	head := fmt.Sprintf("%s, %s, %d bytes, %s\n\n", status(res), cmp.Or(p.media, "no media type"), len(p.body), p.url)
	shown, left := window(text, in.Offset, maxText-len(head)-300)
	r := events.Result{Status: events.Success, Stats: events.Stats{Bytes: int64(len(p.body))}, Data: describe(res, p)}
	r.Text.Text = head + cmp.Or(shown, "[empty]")
	if left > 0 {
		r.Status = events.Partial
		r.Text.Text += fmt.Sprintf("\n[%d bytes are left; read on with offset %d]", left, len(text)-left)
	}
	if p.cut {
		r.Status = events.Partial
		r.Text.Text += fmt.Sprintf("\n[only the first %d bytes of the answer were read]", len(p.body))
	}
	return r, nil
}

// elsewhere tells of a redirect that was not followed.
func (f *fetcher) elsewhere(res *http.Response) (events.Result, error) {
	to, err := res.Location()
	if err != nil {
		return events.Result{}, refusal(events.ExecutionError, events.ClassTool, "the server answered %s with an address that cannot be read", status(res))
	}
	where := "another host"
	if res.Request.URL.Scheme == "https" && to.Scheme == "http" {
		where = "an address that is not encrypted"
	}
	return events.Result{
		Status: events.Partial,
		Text: events.Body{Text: fmt.Sprintf("%s: this address leads to %s, %s\nIt was not followed. To read it, call %s with that address.",
			status(res), where, short(to.String(), maxURL), FetchName)},
		Data: describe(res, page{url: res.Request.URL}),
	}, nil
}

// refused is what a status of 4xx or 5xx means.
func refused(res *http.Response, p page) *tools.Error {
	code, class, advice := events.ExecutionError, events.ClassTool, "check the address"
	switch s := res.StatusCode; {
	case s == http.StatusNotFound || s == http.StatusGone:
		code = events.NotFound
	case s == http.StatusUnauthorized || s == http.StatusForbidden || s == http.StatusUnavailableForLegalReasons:
		code, advice = events.AccessDenied, "it is not open to everybody"
	case s == http.StatusTooManyRequests || s == http.StatusRequestTimeout || s >= 500:
		class, advice = events.ClassUnavailable, "try again later"
	}
	e := refusal(code, class, "the server answered %s: %s", status(res), advice)
	if class == events.ClassUnavailable {
		e.After = retryAfter(res.Header.Get("Retry-After"), time.Now())
	}
	if text, bad := p.text(false); bad == nil && text != "" {
		shown, _ := window(text, 0, 2000)
		e.Result = &events.Result{Status: events.Failure, Text: events.Body{Text: shown}, Data: describe(res, p)}
	}
	return e
}

// retryAfter reads a Retry-After header: seconds, or a date. 0 means none.
func retryAfter(header string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(strings.TrimSpace(header), 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(n, uint64(maxWait/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxWait)
	}
	return 0
}

// failure is what it means that no answer came.
func (f *fetcher) failure(ctx context.Context, u *url.URL, err error) error {
	if own, ok := errors.AsType[*tools.Error](err); ok {
		return own
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	host := hostPort(u)
	for _, e := range []error{ssrf.ErrProhibitedIP, ssrf.ErrProhibitedPort, ssrf.ErrProhibitedNetwork, ssrf.ErrInvalidHostPort} {
		if errors.Is(err, e) {
			return denied("%s, or a redirect from it, leads to a %v: only public hosts are fetched, on their usual ports", host, e)
		}
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return refusal(events.NotFound, events.ClassTool, "there is no host %s: check the address", host)
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return refusal(events.Timeout, events.ClassUnavailable, "%s did not answer within %s: try again later", host, f.cfg.timeout())
	}
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err // the address is said already, and may hold what should not be told again
	}
	class := events.ClassUnavailable
	if strings.HasPrefix(err.Error(), "tls: failed to verify") || strings.HasPrefix(err.Error(), "x509:") {
		class = events.ClassTool // another try meets the same certificate
	}
	return refusal(events.ExecutionError, class, "%s could not be read: %s", host, short(err.Error(), 300))
}

// status is the answer's code in our words: a server may write anything behind it.
func status(res *http.Response) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode)))
}

// maxMedia is how much of a Content-Type is told, in bytes.
const maxMedia = 200

// short is what a server said, made harmless to show, and cut to n bytes or a little more.
func short(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return tools.Visible(s)
}

// describe is the machine-readable half of a result.
func describe(res *http.Response, p page) json.RawMessage {
	data, err := json.Marshal(struct {
		URL    string `json:"url"`
		Status int    `json:"status"`
		Media  string `json:"media_type,omitempty"`
		Bytes  int    `json:"bytes"`
		Moved  string `json:"location,omitempty"`
	}{p.url.String(), res.StatusCode, p.media, len(p.body), short(res.Header.Get("Location"), maxURL)})
	if err != nil {
		panic(err) // strings and integers alone
	}
	return data
}
