package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/net/http/httpguts"
)

// checkEndpoint refuses an address that cannot be a server's. The operator named it, so
// it may be private; nothing that a server answers leads anywhere else.
func checkEndpoint(at string, headers map[string]string) error {
	u, err := url.Parse(at)
	switch {
	case err != nil:
		return errors.New("its url cannot be read")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.Fragment != "":
		return errors.New("its url is not one of HTTP: write https://host/path")
	case u.User != nil:
		return errors.New("its url has a name or password in it: put them into headers, from the environment")
	}
	for name, v := range headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
			return fmt.Errorf("headers: %s cannot be a header", shown(name))
		}
		switch http.CanonicalHeaderKey(name) {
		case "Content-Type", "Accept", "Content-Length", "Host", "Transfer-Encoding", "Connection", "Last-Event-Id":
			return fmt.Errorf("headers: %s is the protocol's own", name)
		}
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "Mcp-") {
			return fmt.Errorf("headers: %s is the protocol's own", name)
		}
	}
	return nil
}

// Waits of connections over HTTP.
const (
	dialWait      = 5 * time.Second
	handshakeWait = 10 * time.Second
	headerWait    = 20 * time.Second // for an answer's header, but to a call, which has its own deadline
	maxHeader     = 64 << 10
	maxErrorBody  = 64 << 10
)

// wire is what is between the SDK's HTTP client and the server: it adds the operator's
// headers, sees all messages pass, and turns whatever a single request may meet into an
// answer to that request, where the SDK would give up the session and all calls in it.
type wire struct {
	base    *http.Transport
	headers map[string]string
	tap     *tap
	log     *slog.Logger
	deaf    atomic.Bool // the stream of notifications has ended
	streams atomic.Int64
}

func newWire(s Server, t *tap, log *slog.Logger) *wire {
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialWait}).DialContext, TLSHandshakeTimeout: handshakeWait,
		MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 16,
	}
	return &wire{base: base, headers: s.Headers, tap: t, log: log}
}

// client is the HTTP client of one connection. It follows no redirects: the operator's
// headers are for the server that the operator named, and so are the calls.
func (w *wire) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// asked is what a request is.
type asked struct {
	id     *int64 // nil: it wants no answer
	method string
	f      *flight // never nil
	wanted bool    // somebody looks at f

	answers bool // it is our answer to a request of the server's
}

// reads says what a request is.
func reads(req *http.Request) (a asked) {
	f := flightOf(req.Context())
	a.f, a.wanted = f, f != nil
	if f == nil {
		a.f = &flight{}
	}
	if req.Method != http.MethodPost || req.GetBody == nil {
		return a
	}
	body, err := req.GetBody()
	if err != nil {
		return a
	}
	defer body.Close()
	var head struct {
		ID     *int64 `json:"id"`
		Method string `json:"method"`
	}
	if json.NewDecoder(body).Decode(&head) == nil && head.Method != "" {
		a.id, a.method = head.ID, head.Method
	}
	a.answers = req.Method == http.MethodPost && a.method == ""
	if a.id != nil && f != nil {
		f.asks(*a.id)
	}
	if a.id == nil { // a notification, sent with the context of the request that it is about
		a.f, a.wanted = &flight{}, false
	}
	return a
}

// RoundTrip is http.RoundTripper's.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	a := reads(req)
	if a.answers {
		_ = w.tap.asks(-1)
	}
	outer := req.Context()
	ctx, stop := context.WithCancelCause(outer)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: a.f.leaves})
	req = req.Clone(ctx)
	for name, v := range w.headers {
		req.Header.Set(name, v)
	}
	if a.f.trace != "" {
		req.Header.Set("Traceparent", a.f.trace)
	}
	if strings.HasPrefix(req.Header.Get("Last-Event-Id"), ownEvent) {
		req.Header.Del("Last-Event-Id")
	}
	if !a.wanted || a.f.list {
		timer := time.AfterFunc(headerWait, func() { stop(errors.New("the server does not begin to answer")) })
		defer timer.Stop()
	}
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && req.Context().Err() != nil {
			err = cause
		}
		stop(nil)
		if req.Method == http.MethodGet && outer.Err() == nil {
			return w.untaken(outer, req, a, nil, err)
		}
		return nil, err
	}
	resp.Body = &released{ReadCloser: resp.Body, release: func() { stop(nil) }}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case req.Method == http.MethodGet && (resp.StatusCode != http.StatusOK || media != "text/event-stream"):
		return w.untaken(outer, req, a, resp, nil)
	case req.Method == http.MethodGet && !a.wanted:
		w.deaf.Store(false)
	}
	return w.answered(req, resp, media, a), nil
}

// released is a body that frees what its request holds once it is closed.
type released struct {
	io.ReadCloser
	release func()
}

func (r *released) Close() error {
	err := r.ReadCloser.Close()
	r.release()
	return err
}

// answered is what the SDK is to see of an answer.
func (w *wire) answered(req *http.Request, resp *http.Response, media string, a asked) *http.Response {
	if req.Header.Get("Mcp-Session-Id") != "" {
		resp.Header.Del("Mcp-Session-Id") // it was given at the beginning: another one would end the session
	}
	switch {
	case w.gone(req, resp, a):
		a.f.returns()
		return resp // the session is over, and the SDK ends it
	case media == "text/event-stream" && resp.StatusCode == http.StatusOK:
		resp.Body = w.stream(req, resp.Body, a)
		return resp
	case a.id != nil:
		return w.whole(req, resp, a, media)
	case req.Method == http.MethodPost && resp.StatusCode >= 300:
		w.log.Debug("an MCP server refuses a notification", "status", resp.StatusCode, "method", a.method)
		_ = resp.Body.Close()
		return plain(req, http.StatusAccepted, "")
	}
	return resp
}

// gone says that an answer is that of a server which does not know the session.
func (w *wire) gone(req *http.Request, resp *http.Response, a asked) bool {
	known := a.id == nil && req.Method != http.MethodGet // what wants no answer is not told otherwise of anything else
	return resp.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != "" && (known || !w.sessionLives(req))
}

// sessionLives asks, after a request was answered 404, whether it is the session that is
// not there: servers say the same of a tool or a resource, and all other calls live in
// that session. The protocol has a sign of life for it, which says 404 only to the former.
func (w *wire) sessionLives(req *http.Request) bool {
	ctx, stop := context.WithTimeout(req.Context(), handshakeWait)
	defer stop()
	ask := req.Clone(ctx)
	const ping = `{"jsonrpc":"2.0","id":"` + ownEvent + `ping","method":"ping"}`
	ask.Method = http.MethodPost
	ask.Header.Set("Content-Type", "application/json")
	ask.Header.Set("Accept", "application/json, text/event-stream")
	ask.Header.Del("Last-Event-Id")
	ask.Body, ask.GetBody, ask.ContentLength = io.NopCloser(strings.NewReader(ping)), nil, int64(len(ping))
	for name := range ask.Header { // what was said of the request itself
		if strings.HasPrefix(name, "Mcp-") && name != "Mcp-Session-Id" && name != "Mcp-Protocol-Version" {
			ask.Header.Del(name)
		}
	}
	resp, err := w.base.RoundTrip(ask)
	if err != nil {
		return true // nobody knows: the looks at the connection will tell
	}
	_ = resp.Body.Close()
	return resp.StatusCode != http.StatusNotFound
}

// plain is an answer of ours in the server's place.
func plain(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

// whole is an answer that is one body.
func (w *wire) whole(req *http.Request, resp *http.Response, a asked, media string) *http.Response {
	limit := maxLine
	if resp.StatusCode != http.StatusOK {
		limit = maxErrorBody
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	_ = resp.Body.Close()
	var msg jsonrpc.Message
	switch {
	case err != nil:
		msg = failing(*a.id, codeNoResponse, "the connection broke before the answer was whole: "+err.Error())
	case len(body) > limit && resp.StatusCode == http.StatusOK:
		msg = failing(*a.id, codeTooLarge, fmt.Sprintf("the server's answer has more than the %d bytes that are taken", maxLine))
	default:
		msg = w.read(resp, a, media, body)
	}
	seen, err := w.tap.incoming(msg, a.f)
	if err != nil || seen == nil {
		seen = failing(*a.id, codeNoResponse, "the server answers a request with something else")
	}
	out, err := jsonrpc.EncodeMessage(seen)
	if err != nil {
		out, _ = jsonrpc.EncodeMessage(failing(*a.id, codeNoResponse, "the server's answer cannot be read"))
	}
	head := plain(req, http.StatusOK, string(out))
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		head.Header.Set("Mcp-Session-Id", id)
	}
	return head
}

// read is the message in a body, or one that says why there is none.
func (w *wire) read(resp *http.Response, a asked, media string, body []byte) jsonrpc.Message {
	body = bytes.TrimSpace(body)
	if resp.StatusCode != http.StatusOK {
		msg, err := decode(body)
		if resp.StatusCode == http.StatusBadRequest { // its error may bear no id
			msg, err = decodeFor(*a.id, body)
		}
		if r, isAnswer := msg.(*jsonrpc.Response); err == nil && isAnswer && r.Error != nil && r.ID == idOf(*a.id) {
			return r
		}
		return refusal(*a.id, resp)
	}
	msg, err := decodeFor(*a.id, body)
	switch {
	case err == nil:
		return msg
	case errors.Is(err, errOthers):
		return failing(*a.id, codeNoResponse, err.Error())
	}
	return failing(*a.id, codeNoResponse, fmt.Sprintf("the server's answer is no message (%s)", shown(cmp.Or(media, "no type"))))
}

// status is the data of an error with codeStatus.
type status struct {
	Status int   `json:"status"`
	After  int64 `json:"after_s,omitempty"`
}

// refusal is the error for a status of HTTP.
func refusal(id int64, resp *http.Response) *jsonrpc.Response {
	s := status{Status: resp.StatusCode}
	if n, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && n > 0 {
		s.After = n
	}
	out := failing(id, codeStatus, fmt.Sprintf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	data, _ := json.Marshal(s) // two numbers are JSON
	out.Error.(*jsonrpc.Error).Data = data
	return out
}

// stream sees the messages of a stream of events pass.
func (w *wire) stream(req *http.Request, body io.ReadCloser, a asked) io.ReadCloser {
	s := &eventStream{body: body, wire: w, asked: a, from: req.Header.Get("Last-Event-Id")}
	if req.Method == http.MethodGet && !a.wanted {
		// The SDK gives up a session whose stream ends a few times without an event that
		// has an id, as an idle one's does.
		s.out.WriteString("id: " + ownEvent + strconv.FormatInt(w.streams.Add(1), 10) + "\n\n")
	}
	return s
}

// ownEvent begins the ids of events that are ours.
const ownEvent = "sluice-"

// closeIdle frees connections that nobody uses.
func (w *wire) closeIdle() { w.base.CloseIdleConnections() }
