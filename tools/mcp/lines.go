package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lines is a connection over pipes, one JSON message a line: mcp.Transport and
// mcp.Connection in one. Unlike the SDK's it passes over lines that are no messages,
// which servers print there though they must not, it can give up a message that does not
// get into a full pipe, and it knows what was sent.
type lines struct {
	tap *tap
	log *slog.Logger
	in  *bufio.Reader
	src io.Closer // of in
	out io.WriteCloser

	queue []jsonrpc.Message // rest of a batch; Read's own

	garbage int // lines that were no messages; Read's own
	writes  chan *outgoing
	closed  chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

// Bounds of what is passed over.
const (
	maxGarbage  = 10_000 // lines of one connection
	toldGarbage = 5      // of which so many are logged
	maxBatch    = 1000   // messages in one line
	headOfLine  = 4 << 10
	tailOfLine  = 256
)

// Codes of errors of ours in the place of an answer: none of those that JSON-RPC leaves to
// servers.
const (
	codeTooLarge   = -9_032_098 // an answer that was over the bound
	codeNoResponse = -9_032_097 // there will be no answer
	codeStatus     = -9_032_096 // a status of HTTP, and no message
	codeUnreadable = -9_032_095 // there was an answer, and it cannot be decoded
)

func newLines(in io.ReadCloser, out io.WriteCloser, t *tap, log *slog.Logger) *lines {
	l := &lines{
		tap: t, log: log, in: bufio.NewReaderSize(in, 64<<10), src: in, out: out,
		writes: make(chan *outgoing), closed: make(chan struct{}),
	}
	l.wg.Go(l.send)
	return l
}

// Connect is mcp.Transport's: the pipes are there already.
func (l *lines) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SessionID is mcp.Connection's: pipes have none.
func (l *lines) SessionID() string { return "" }

// Close is mcp.Connection's. It ends Read and Write, and waits for neither.
func (l *lines) Close() error {
	l.once.Do(func() {
		close(l.closed)
		_ = l.out.Close()
		_ = l.src.Close()
	})
	return nil
}

// wait returns once nothing of the connection runs any more: AFTER Close.
func (l *lines) wait() { l.wg.Wait() }

// outgoing is a message on its way into the pipe.
type outgoing struct {
	line  []byte
	f     *flight
	state atomic.Int32 // queued, begun or given up
	done  chan error   // one, unless given up
}

const (
	queued = iota
	begun
	givenUp
)

// errNotSent says that a message did not begin to leave.
var errNotSent = errors.New("the server does not read its input, and the request was not sent")

// Write is mcp.Connection's. It returns once the message is in the pipe, or ctx ends.
func (l *lines) Write(ctx context.Context, msg jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	o := &outgoing{line: append(line, '\n'), done: make(chan error, 1)}
	switch m := msg.(type) {
	case *jsonrpc.Response:
		_ = l.tap.asks(-1)
	case *jsonrpc.Request:
		if f := flightOf(ctx); f != nil && m.IsCall() {
			o.f = f
			l.tap.departs(m.ID, f)
		}
	}
	select {
	case l.writes <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closed:
		return io.ErrClosedPipe
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if o.state.CompareAndSwap(queued, givenUp) {
			return errNotSent
		}
		return ctx.Err()
	case <-l.closed:
		return io.ErrClosedPipe
	}
}

// send writes one message after the other, on its own goroutine: a full pipe blocks it,
// and not who wants to write.
func (l *lines) send() {
	for {
		select {
		case <-l.closed:
			return
		case o := <-l.writes:
			if !o.state.CompareAndSwap(queued, begun) {
				continue
			}
			if o.f != nil {
				o.f.leaves()
			}
			_, err := l.out.Write(o.line)
			o.done <- err
		}
	}
}

// Read is mcp.Connection's: the next message. It ends with the pipe, or by Close.
func (l *lines) Read(context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := l.next()
		if err != nil {
			return nil, err
		}
		if msg, err = l.tap.incoming(msg, nil); err != nil || msg != nil {
			return msg, err
		}
	}
}

// next is the next message, whatever it is.
func (l *lines) next() (jsonrpc.Message, error) {
	for {
		if len(l.queue) > 0 {
			msg := l.queue[0]
			l.queue = l.queue[1:]
			return msg, nil
		}
		line, dropped, err := l.line()
		switch {
		case dropped > 0:
			if msg := tooLong(line, dropped); msg != nil {
				return msg, nil
			}
			line = line[:min(len(line), headOfLine)]
		case err != nil && len(bytes.TrimSpace(line)) == 0:
			return nil, err
		case len(bytes.TrimSpace(line)) == 0:
			continue
		default:
			var ok bool
			if l.queue, ok = messages(line); ok {
				continue
			}
			if err != nil { // what has begun as the pipe ends is no message
				l.queue = nil
				return nil, err
			}
		}
		if err := l.noMessage(line); err != nil {
			return nil, err
		}
	}
}

// line reads one line without its end. Of one over the bound it returns the beginning and
// the end, and how many bytes it had.
func (l *lines) line() (line []byte, dropped int, err error) {
	total := 0
	for {
		part, err := l.in.ReadSlice('\n')
		total += len(part)
		line = append(line, part...)
		if total > maxLine && len(line) > headOfLine+tailOfLine {
			line = append(line[:headOfLine:headOfLine], line[len(line)-tailOfLine:]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if total <= maxLine {
				total = 0
			}
			return bytes.TrimRight(line, "\r\n"), total, err
		}
	}
}

// messages are those of a line. ok says that all of it was read; what was not has errors
// in its place, for the requests that it answers.
func messages(line []byte) (out []jsonrpc.Message, ok bool) {
	line = bytes.TrimSpace(line)
	var parts []json.RawMessage // none of which is line, or it would be decoded into itself
	if line[0] != '[' {
		parts = append(parts, line)
	} else if json.Unmarshal(line, &parts) != nil || len(parts) > maxBatch {
		return unreadable(line), false
	}
	ok = len(parts) > 0
	for _, p := range parts {
		msg, err := decode(p)
		if err != nil {
			out, ok = append(out, unreadable(p)...), false
			continue
		}
		out = append(out, msg)
	}
	return out, ok
}

var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,`)
	idLast  = regexp.MustCompile(`,\s*"id"\s*:\s*(\d{1,18})\s*\}\s*$`)
)

// tooLong is what stands for a message over the bound: an error for the request that it
// answers, where that can be told from its ends.
func tooLong(ends []byte, size int) jsonrpc.Message {
	m := idFirst.FindSubmatch(ends)
	if m == nil {
		m = idLast.FindSubmatch(ends)
	}
	if m == nil {
		return nil
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return nil
	}
	return failing(n, codeTooLarge, fmt.Sprintf("the server's answer has %d bytes, and at most %d are taken", size, maxLine))
}

// failing is an answer of ours in the server's place.
func failing(id int64, code int64, why string) *jsonrpc.Response {
	return &jsonrpc.Response{ID: idOf(id), Error: &jsonrpc.Error{Code: code, Message: why}}
}

// noMessage passes over a line that is no message, up to a bound.
func (l *lines) noMessage(line []byte) error {
	l.garbage++
	if l.garbage <= toldGarbage {
		l.log.Warn("an MCP server wrote to its standard output what is no message", "line", shown(string(line)), "bytes", len(line))
	}
	if l.garbage > maxGarbage {
		return l.tap.fails(fmt.Errorf("it wrote %d lines that are no messages to its standard output", l.garbage))
	}
	return nil
}
