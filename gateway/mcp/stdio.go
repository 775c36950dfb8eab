package mcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy/access"
)

// Streams is a client at the other end of two streams: whoever has started this process.
// It is believed, as everybody is who could have the log itself.
type Streams struct {
	In        io.ReadCloser
	Out       io.WriteCloser
	Principal events.Principal // in whose name calls are made; an empty id means gateway.DefaultPrincipal
	Trace     string           // of the calls; "" makes one
	Workspace string           // absolute, where calls run; "" means the node's own
}

// Speak answers the client at the streams until it closes them, ctx ends, or the door is
// closed. Calls that then run are cancelled, since nobody waits for them. It returns nil
// where the client has gone in order.
func (d *Door) Speak(ctx context.Context, s Streams) error {
	if s.Trace == "" {
		s.Trace = traceID("streams", d.cfg.NewID())
	}
	own, over := context.WithCancel(ctx)
	defer over()
	defer context.AfterFunc(d.life, over)()
	out := newLinesOut(s.Out, d.ids, own.Done())
	in := &linesIn{from: s.In, read: bufio.NewReaderSize(s.In, 64<<10), ids: d.ids, back: out}
	t := &streams{door: d, said: s, inner: &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxBody}}
	ss, err := d.kept.Connect(ctx, t, nil)
	if err != nil {
		return err
	}
	unlife := context.AfterFunc(d.life, func() { _ = s.In.Close() })
	unctx := context.AfterFunc(ctx, func() { _ = s.In.Close() })
	err = ss.Wait()
	unlife()
	unctx()
	if errors.Is(err, io.EOF) || ctx.Err() != nil || d.life.Err() != nil {
		err = nil
	}
	return err
}

// streams is the transport of one client at two streams.
type streams struct {
	door  *Door
	said  Streams
	inner sdk.Transport
}

// Connect is sdk.Transport's.
func (t *streams) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &streamsConn{Connection: c, t: t, visits: make(map[jsonrpc.ID]*visit)}, nil
}

// streamsConn notes of each request that comes in who sends it, and of each answer that
// goes out whether it was taken.
type streamsConn struct {
	sdk.Connection
	t *streams

	mu     sync.Mutex
	visits map[jsonrpc.ID]*visit
}

// Read is sdk.Connection's.
func (c *streamsConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if errors.Is(err, io.EOF) {
		c.lastAnswers(ctx)
	}
	r, ok := m.(*jsonrpc.Request)
	if err != nil || !ok {
		return m, err
	}
	v := c.t.door.enter(&visit{
		who: access.Identity{Trusted: true, Via: "streams"}, said: c.t.said.Principal, session: c.t.said.Trace, workspace: c.t.said.Workspace,
	})
	r.Extra = &sdk.RequestExtra{Header: http.Header{visitHeader: {v.id}}}
	if !r.IsCall() {
		c.t.door.leave(v, false)
		return m, nil
	}
	c.mu.Lock()
	before := c.visits[r.ID]
	c.visits[r.ID] = v
	c.mu.Unlock()
	if before != nil { // an id that is in use: the SDK refuses it
		c.t.door.leave(before, false)
	}
	return m, nil
}

// How long a client that has closed its end is still given answers, and how often it is
// looked whether any are left.
const (
	lastWords = time.Second
	lastLook  = 5 * time.Millisecond
)

// lastAnswers waits a moment for the answers to what was asked before the end: a program
// may write its questions, close its end, and read.
func (c *streamsConn) lastAnswers(ctx context.Context) {
	late, look := time.NewTimer(lastWords), time.NewTicker(lastLook)
	defer late.Stop()
	defer look.Stop()
	for {
		c.mu.Lock()
		open := len(c.visits)
		c.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-look.C:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		case <-c.t.door.life.Done():
			return
		}
	}
}

// Write is sdk.Connection's.
func (c *streamsConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	r, ok := m.(*jsonrpc.Response)
	if !ok {
		return err
	}
	c.mu.Lock()
	v := c.visits[r.ID]
	delete(c.visits, r.ID)
	c.mu.Unlock()
	if v != nil {
		c.t.door.leave(v, err == nil)
	}
	return err
}

// Close is sdk.Connection's.
func (c *streamsConn) Close() error {
	c.mu.Lock()
	rest := c.visits
	c.visits = make(map[jsonrpc.ID]*visit)
	c.mu.Unlock()
	for _, v := range rest {
		c.t.door.leave(v, false)
	}
	return c.Connection.Close()
}
