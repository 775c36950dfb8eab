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
	cfg    Config
	guard  *ssrf.Guardian
	client *http.Client
}

func newFetcher(c Config) *fetcher {
	f := &fetcher{cfg: c, guard: c.guard()}
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: f.guard.Safe}
	f.client = &http.Client{
		CheckRedirect: f.redirect,
		Transport: &http.Transport{
			Proxy:       nil, // an environment variable must not choose who is asked
			DialContext: dialer.DialContext, DisableKeepAlives: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 20 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return f
}

// redirect judges where a redirect leads before anybody is asked.
func (f *fetcher) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return denied("more than %d redirects: ask for the last address itself", maxRedirects)
	}
	if _, bad := f.check(req.URL.String()); bad != nil {
		bad.Message = "a redirect was not followed: " + bad.Message
		return bad
	}
	if !f.cfg.AnyHost && !sameHost(via[0].URL, req.URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

func (f *fetcher) check(raw string) (*url.URL, *tools.Error) {
	u, bad := parseURL(raw)
	if bad == nil {
		bad = checkHost(f.guard, u, f.cfg.Loopback)
	}
	return u, bad
}

func (f *fetcher) fetch(ctx context.Context, in fetchIn) (events.Result, error) {
	u, bad := f.check(in.URL)
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
	res, err := f.client.Do(req)
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
	return f.answer(res, page{body: body, cut: cut}, in)
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
	p.media, p.url = res.Header.Get("Content-Type"), res.Request.URL
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
	head := fmt.Sprintf("%s, %s, %d bytes, %s\n\n", res.Status, p.media, len(p.body), p.url)
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
		return events.Result{}, refusal(events.ExecutionError, events.ClassTool, "the server answered %s with an address that cannot be read", res.Status)
	}
	return events.Result{
		Status: events.Partial,
		Text: events.Body{Text: fmt.Sprintf("%s: this address leads to another host, %s\nIt was not followed. To read it, call %s with that address.",
			res.Status, to, FetchName)},
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
	e := refusal(code, class, "the server answered %s: %s", res.Status, advice)
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
	if n, err := strconv.ParseUint(strings.TrimSpace(header), 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxWait)
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
			return denied("%s, or a redirect from it, leads to an %v: only public hosts are fetched, on their usual ports", host, e)
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
	return refusal(events.ExecutionError, class, "%s could not be read: %v", host, err)
}

// describe is the machine-readable half of a result.
func describe(res *http.Response, p page) json.RawMessage {
	data, err := json.Marshal(struct {
		URL    string `json:"url"`
		Status int    `json:"status"`
		Media  string `json:"media_type,omitempty"`
		Bytes  int    `json:"bytes"`
		Moved  string `json:"location,omitempty"`
	}{p.url.String(), res.StatusCode, p.media, len(p.body), res.Header.Get("Location")})
	if err != nil {
		panic(err) // strings and integers alone
	}
	return data
}
