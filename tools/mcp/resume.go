package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// A stream that ends before its answer, and whose events have ids, is asked for again, and
// so is that of notifications. The SDK ends the session, and all calls in it, where the
// server does not give it again; here that is the one request's fault, or nobody's.

const (
	// barren is how often in a row a stream may be asked for again in vain.
	barren = 2
	// quietFor is how long a stream of notifications that is not to be had is not asked for.
	quietFor = 30 * time.Second

	broke = "the connection broke before the answer came"
)

// untaken is what the SDK is to see where the server gives no stream for a GET: it answers
// with something else, or err. outer is the context that whoever asks has given: that of req
// ends with its answer.
func (w *wire) untaken(outer context.Context, req *http.Request, a asked, resp *http.Response, err error) (*http.Response, error) {
	status := 0
	if resp != nil {
		status = resp.StatusCode
		if w.gone(req, resp, a) {
			return resp, nil
		}
	}
	begun := a.wanted || w.streams.Load() > 0 // else it is of the first messages, or the first stream of notifications
	if !begun && resp != nil {
		return resp, nil
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
	req = req.WithContext(outer)
	switch {
	case !begun:
		return plain(req, http.StatusMethodNotAllowed, ""), nil // no stream of notifications
	case !a.wanted:
		return w.quiet(req, a), nil
	case (err != nil || status >= 500 || status == http.StatusTooManyRequests) && a.f.barren.Add(1) < barren:
		if err == nil {
			err = fmt.Errorf("the server answers %d", status)
		}
		return nil, err // the SDK tries again
	}
	s := &eventStream{body: http.NoBody, wire: w, asked: a, err: io.EOF}
	s.fails(codeNoResponse, broke+", and the server does not give the rest of it")
	return streaming(req, s), nil
}

// quiet is a stream of notifications that says nothing for a while, in the place of the
// server's. What it would have said is asked for meanwhile.
func (w *wire) quiet(req *http.Request, a asked) *http.Response {
	w.deaf.Store(true)
	select {
	case w.tap.changed <- struct{}{}:
	default: // it is known
	}
	ctx, stop := context.WithTimeout(req.Context(), quietFor)
	return streaming(req, w.stream(req, &silence{ctx, stop}, a))
}

// streaming is an answer of ours that is a stream of events.
func streaming(req *http.Request, body io.ReadCloser) *http.Response {
	resp := plain(req, http.StatusOK, "")
	resp.Header.Set("Content-Type", "text/event-stream")
	resp.Body, resp.ContentLength = body, -1
	return resp
}

// silence is a body that ends with its context.
type silence struct {
	ctx  context.Context
	stop context.CancelFunc
}

func (s *silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, io.EOF
}

func (s *silence) Close() error {
	s.stop()
	return nil
}
