package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// mcpListen is the method of a request whose answer is a stream for as long as its sender
// likes.
const mcpListen = "subscriptions/listen"

// listens says whether a body is such a request.
func listens(body []byte) bool {
	var m map[string]json.RawMessage // names of members are told apart as the protocol does
	var method string
	return json.Unmarshal(body, &m) == nil && json.Unmarshal(m["method"], &method) == nil && method == mcpListen
}

// mcpStream answers a request by a stream that has no end of its own. It counts as an event
// stream; it is pinged, so that a reader who has gone is noticed, and ends where its
// reader is not let in any more.
func (a *API) mcpStream(w http.ResponseWriter, r *http.Request) error {
	leave, err := a.place(r)
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := a.untilClosing(r)
	within, end := context.WithCancelCause(ctx)
	out := &pinged{ResponseWriter: w, control: http.NewResponseController(w)}
	var wg sync.WaitGroup
	wg.Go(func() { a.pingMCP(within, end, out, func() bool { return a.still(r) }) })
	a.mcp.ServeHTTP(out, r.WithContext(within))
	stop()
	end(nil)
	wg.Wait()
	return nil
}

// pingMCP pings a stream until ctx ends, and ends it where nobody reads it, or nobody may.
func (a *API) pingMCP(ctx context.Context, end context.CancelCauseFunc, out *pinged, still func() bool) {
	tick := time.NewTicker(a.ping)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !still() {
			end(errNotStill)
			return
		}
		if err := out.ping(); err != nil {
			end(err)
			return
		}
	}
}

// pinged writes events, each in one piece, and pings between them.
type pinged struct {
	http.ResponseWriter
	control *http.ResponseController
	mu      sync.Mutex
	begun   bool
}

// WriteHeader is http.ResponseWriter's.
func (p *pinged) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header(status)
}

// header begins the answer. p.mu is held.
func (p *pinged) header(status int) {
	p.begun = true
	p.ResponseWriter.WriteHeader(status)
}

// Write is http.ResponseWriter's.
func (p *pinged) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.header(http.StatusOK)
	}
	return p.ResponseWriter.Write(b)
}

// FlushError is http.ResponseController's.
func (p *pinged) FlushError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.control.Flush()
}

// Unwrap lets http.ResponseController find the writer beneath.
func (p *pinged) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// ping says that the stream lives, where it is one and has begun.
func (p *pinged) ping() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun || p.Header().Get("Content-Type") != "text/event-stream" {
		return nil
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has one
	if _, err := p.ResponseWriter.Write([]byte(": ping\n\n")); err != nil {
		return err
	}
	return p.control.Flush()
}
