package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Retry says how often a request is tried whose answer was not heard, or was that the
// node cannot answer now (429, 502, 503, 504). Pauses double, are shortened by chance so
// that many callers do not come at once, and are at least what the node asks for.
type Retry struct {
	Attempts int           // tries in all; 0 means 8, which takes some 15 s; 1 or below: one
	First    time.Duration // the longest first pause; 0 means 100 ms
	Most     time.Duration // the longest pause; 0 means 5 s
}

func (r Retry) filled() Retry {
	if r.Attempts == 0 {
		r.Attempts = 8
	}
	r.Attempts = max(r.Attempts, 1)
	if r.First <= 0 {
		r.First = 100 * time.Millisecond
	}
	if r.Most <= 0 {
		r.Most = 5 * time.Second
	}
	return r
}

// pause is how long to wait before another try, after so many that have failed.
func (r Retry) pause(failed int, err error) time.Duration {
	longest := r.Most
	if n := failed - 1; n < 16 {
		longest = min(longest, r.First<<n)
	}
	wait := longest/2 + time.Duration(rand.Int64N(int64(longest/2)+1))
	var p *Problem
	if errors.As(err, &p) {
		wait = max(wait, p.RetryAfter)
	}
	return wait
}

// sleep waits, or returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patience keeps a loop of requests that wait from becoming one that does not: what stands
// between may answer at once, and so does a node for which too many wait already. Its zero
// value begins now.
type patience struct {
	asked time.Time // when the last request was sent; zero: none was
	early int       // requests in a row that were answered long before their time
}

// rest comes behind a request that has waited in vain: it waits where that was answered
// early. It returns ctx's error.
func (p *patience) rest(ctx context.Context, c *Client, asked time.Duration) error {
	now := time.Now()
	if p.asked.IsZero() || now.Sub(p.asked) < asked/2 {
		p.early++
	} else {
		p.early = 0
	}
	var err error
	if p.early > 1 {
		err = sleep(ctx, c.o.Retry.pause(p.early-1, nil))
	}
	p.asked = time.Now()
	return err
}

// request is one thing that is asked of the node.
type request struct {
	method string
	path   string // escaped, below the base
	query  url.Values
	header http.Header
	body   any           // of POST, as JSON; nil means none
	wait   time.Duration // that the node is asked to wait
	into   any           // what the answer is read into; nil: it is not looked at; *[]byte: as it is
}

// answer is what came of it beside what was read.
type answer struct {
	status int
	header http.Header
}

// get is a GET into a value.
func (c *Client) get(ctx context.Context, path string, q url.Values, into any) error {
	_, err := c.do(ctx, request{method: http.MethodGet, path: path, query: q, into: into})
	return err
}

// post is a POST of a value into another one.
func (c *Client) post(ctx context.Context, path string, body, into any) error {
	_, err := c.do(ctx, request{method: http.MethodPost, path: path, body: body, into: into})
	return err
}

// do asks, and asks again as the policy says. What it returns is the last try's error.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	var body []byte
	if r.method == http.MethodPost {
		if r.body == nil {
			r.body = struct{}{}
		}
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return answer{}, fmt.Errorf("what is sent has no JSON form: %w", err)
		}
	}
	for failed := 1; ; failed++ {
		a, err := c.try(ctx, r, body)
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return a, fmt.Errorf("%s %s: %w", r.method, r.path, errors.Join(ctx.Err(), err))
		case !passing(err):
			return a, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		case failed >= c.o.Retry.Attempts:
			return a, fmt.Errorf("%s %s: after %d tries: %w", r.method, r.path, failed, err)
		}
		if sleep(ctx, c.o.Retry.pause(failed, err)) != nil {
			return a, fmt.Errorf("%s %s: %w", r.method, r.path, errors.Join(ctx.Err(), err))
		}
	}
}

// passing says whether the same again may succeed, and is safe. Everything that this
// package sends is: turns have ids, and acts that are done already change nothing.
func passing(err error) bool {
	var p *Problem
	var bad *tls.CertificateVerificationError
	var alert *net.OpError
	switch {
	case errors.As(err, &p):
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	case errors.Is(err, errLong), errors.Is(err, errMedia), errors.As(err, &bad), errors.Is(err, http.ErrSchemeMismatch):
		return false
	case errors.As(err, &alert) && alert.Op == "remote error": // of TLS: the other side wants another certificate, or version
		return false
	}
	return true // it was not heard
}

// These are an ErrAnswer that is no better the next time.
var (
	errLong  = fmt.Errorf("%w: it is larger than Options.MaxAnswer", ErrAnswer)
	errMedia = fmt.Errorf("%w: it is no JSON", ErrAnswer)
)

// open sends one try, and returns the answer's head. cancel ends it, and must be called
// once the body has been read. Its errors are problems, or what the connection says.
func (c *Client) open(ctx context.Context, r request, body io.Reader) (*http.Response, error) {
	at := c.base.String() + r.path
	if len(r.query) > 0 {
		at += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, at, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", c.o.Agent)
	if c.o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Token)
	}
	if r.method == http.MethodPost && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotModified {
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
		if err != nil && len(text) == 0 {
			return nil, err
		}
		return nil, problemOf(resp.StatusCode, resp.Header, text)
	}
	return resp, nil
}

// try asks once.
func (c *Client) try(ctx context.Context, r request, body []byte) (answer, error) {
	ctx, stop := context.WithTimeout(ctx, r.wait+c.o.Timeout)
	defer stop()
	resp, err := c.open(ctx, r, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{resp.StatusCode, resp.Header}
	text, err := io.ReadAll(io.LimitReader(resp.Body, c.o.MaxAnswer+1))
	switch {
	case err != nil:
		return a, fmt.Errorf("%w: it ended early: %w", ErrAnswer, err)
	case int64(len(text)) > c.o.MaxAnswer:
		return a, errLong
	case r.into == nil || resp.StatusCode == http.StatusNotModified:
		return a, nil
	}
	if raw, ok := r.into.(*[]byte); ok {
		*raw = text
		return a, nil
	}
	return a, decode(resp.Header, text, r.into)
}

// decode reads an answer's JSON. Members that are not known are of a newer release.
func decode(h http.Header, text []byte, into any) error {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	if media != "application/json" {
		return fmt.Errorf("%w but %q: does a node answer at that address? %s", errMedia, media, excerpt(text))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}

// path is an address below the base of parts that are escaped one by one.
func path(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/" + strings.Join(parts, "/")
}
