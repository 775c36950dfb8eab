package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

// mcpPath is where clients of the Model Context Protocol come in. Package gateway/mcp
// speaks it; this door says who comes, and bounds what they send.
const mcpPath = "/mcp"

// errNoMCP is the problem of a door that does not speak the protocol.
var errNoMCP = problem(http.StatusNotFound, "no-mcp", "This door does not speak MCP", "it was switched off", "start the node without --mcp-door=false")

// CallerOf is who the HTTP door has found the sender of a request to be, from the
// request's context; the zero Identity, which may do nothing, elsewhere.
func CallerOf(ctx context.Context) access.Identity {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		return v.who
	}
	return access.Identity{}
}

// ErrClosing is the cause of the end of a request's context where the door closes, and
// nobody at the other end has gone.
var ErrClosing = errors.New("the door is closing")

// untilClosing is a request's context, which also ends, with ErrClosing, when the door
// closes.
func (a *API) untilClosing(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	go func() { // it ends with the context
		select {
		case <-a.closing:
			cancel(ErrClosing)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// postMCP is POST /mcp: one message of the protocol, and its answer, which to one of them is
// an event stream.
func (a *API) postMCP(w http.ResponseWriter, r *http.Request) error {
	if a.mcp == nil {
		return errNoMCP
	}
	body, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	a.letGo(visitOf(r)) // whoever waits for a call's end holds no body
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	if listens(body) {
		return a.mcpStream(w, r)
	}
	ctx, stop := a.untilClosing(r)
	defer stop()
	a.mcp.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// getMCP is GET /mcp: the stream of what a session is told beside its answers. It counts
// as an event stream.
func (a *API) getMCP(w http.ResponseWriter, r *http.Request) error {
	if a.mcp == nil {
		return errNoMCP
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		return problem(http.StatusMethodNotAllowed, "method", "Not by that method", "HEAD of a stream", "use GET")
	}
	return a.mcpStream(w, r)
}

// deleteMCP is DELETE /mcp: the end of a session.
func (a *API) deleteMCP(w http.ResponseWriter, r *http.Request) error {
	if a.mcp == nil {
		return errNoMCP
	}
	a.mcp.ServeHTTP(w, r)
	return nil
}

// BlobOf returns bytes that a turn refers to, for somebody who may see the turn. It
// returns bus.ErrNotFound's problem where the turn does not refer to them, so that nobody
// reads what is another's by its digest, an access.ErrRole, and the errors of Get and Blob.
func (d *Desk) BlobOf(ctx context.Context, id access.Identity, key events.TurnKey, digest string) ([]byte, error) {
	v, err := d.Get(ctx, key)
	if err == nil {
		err = access.MayOn(id, access.Read, v.Turn.Submitted.Principal)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range v.Commits {
		for _, rec := range s.Commit.Records {
			if refers(reflect.ValueOf(rec.Event), digest, maxNesting) {
				return d.Blob(ctx, events.BlobRef{Digest: digest})
			}
		}
	}
	return nil, problem(http.StatusNotFound, "not-found", "It is not there", "the turn "+key.String()+" does not refer to "+digest, "check the digest, and the turn")
}

// Workspace is where turns run that name none, of the node in this process; "" where none
// is here.
func (d *Desk) Workspace() string { return d.workspace }

// connKey finds the connection of a request in its context.
type connKey struct{}

// withConn keeps a connection where the requests that come by it find it.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// ConnOf is the connection that a request came by, from the request's context; nil where
// its server keeps none. It is for looking at: the server reads and writes it.
func ConnOf(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}

// Inner is the connection that this one bounds.
func (c *boundedConn) Inner() net.Conn { return c.Conn }
