package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
	t := &streams{door: d, said: s, out: out, inner: &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxBody}}
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
	out   *linesOut
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

	mu      sync.Mutex
	visits  map[jsonrpc.ID]*visit // of requests without an answer
	writing int                   // answers that are being written
	listed  int64                 // which list of tools the client has; 0: none
}

// Read is sdk.Connection's.
func (c *streamsConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if errors.Is(err, io.EOF) {
			c.lastAnswers(ctx)
		}
		r, ok := m.(*jsonrpc.Request)
		if err != nil || !ok || c.visited(r) {
			return m, err
		}
		c.t.out.answer(nil, unanswerable("a request has the id of another one that has no answer yet: give each its own"))
	}
}

// visited notes who sends a request. It says no of one that has another's id: the answer to
// either could be taken for the other's.
func (c *streamsConn) visited(r *jsonrpc.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.IsCall() && c.visits[r.ID] != nil {
		return false
	}
	if r.Method == cancelled {
		c.unwanted(r.Params)
	}
	v := c.t.door.enter(&visit{
		who: access.Identity{Trusted: true, Via: "streams"}, said: c.t.said.Principal, session: c.t.said.Trace, workspace: c.t.said.Workspace,
	})
	r.Extra = &sdk.RequestExtra{Header: http.Header{visitHeader: {v.id}}}
	if r.IsCall() {
		c.visits[r.ID] = v
	} else {
		c.t.door.leave(v, false)
	}
	return true
}

// unwanted notes that a request's end is asked for. c.mu is held.
func (c *streamsConn) unwanted(params json.RawMessage) {
	var p struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	id, err := jsonrpc.MakeID(p.ID)
	if v := c.visits[id]; err == nil && v != nil {
		v.unwanted = true
	}
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
		open := len(c.visits) + c.writing
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

// Write is sdk.Connection's. A client that has a list of tools is told that there is
// another one, and one that has asked for the end of a request is not told of that.
func (c *streamsConn) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Request:
		if m.Method == listChanged && !bytes.Contains(m.Params, []byte(metaMember)) && !c.outdated() {
			return nil
		}
	case *jsonrpc.Response:
		return c.answer(ctx, m)
	}
	return c.Connection.Write(ctx, m)
}

// listChanged tells that there is another list. One that was subscribed to says so in its
// _meta.
const listChanged = notifications + "tools/list_changed"

// outdated says whether the client has a list of tools, and that is not the one of now.
func (c *streamsConn) outdated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listed != 0 && c.listed != c.t.door.edition.Load()
}

// answer writes an answer. Its id is free BEFORE the client has it, and may use it again.
func (c *streamsConn) answer(ctx context.Context, r *jsonrpc.Response) error {
	c.mu.Lock()
	v := c.visits[r.ID]
	delete(c.visits, r.ID)
	c.writing++
	c.mu.Unlock()
	r.Error = coded(r.Error)
	var err error
	silent := v != nil && v.unwanted && r.Error != nil
	if !silent {
		err = c.Connection.Write(ctx, r)
	}
	if v != nil {
		c.t.door.leave(v, err == nil && !silent)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing--
	if v != nil && err == nil && v.listed.Load() != 0 {
		c.listed = v.listed.Load()
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
