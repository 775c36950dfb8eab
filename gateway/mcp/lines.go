package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
)

// linesIn reads a client's messages, a line each. A line that is none is answered as such,
// and the next one is read: what was asked for before goes on. It is read by one goroutine
// at a time.
type linesIn struct {
	from io.Closer
	read *bufio.Reader
	ids  ids
	back *linesOut // where a line is answered that is no message
	rest []byte    // of the line that is being given on
	err  error     // behind it
}

// Read is io.Reader's.
func (l *linesIn) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		var line []byte
		line, l.err = l.line()
		l.rest = l.message(line)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// message is a line as it is given on, or nothing. Of several messages in one each is given
// on by itself, and answered by itself: most revisions know no batches.
func (l *linesIn) message(line []byte) []byte {
	switch line = bytes.TrimSpace(line); {
	case len(line) == 0:
		return nil
	case !json.Valid(line):
		l.back.answer(nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is no JSON: a message is one line"})
		return nil
	case line[0] != '[':
		return l.one(line)
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		l.back.answer(nil, unanswerable("an empty batch"))
		return nil
	}
	var out []byte
	for _, m := range batch {
		out = append(out, l.one(m)...)
	}
	return out
}

// one is a message as it is given on, or nothing.
func (l *linesIn) one(line []byte) []byte {
	kept, _, err := l.ids.in(line)
	if err != nil {
		l.back.answer(nil, err)
		return nil
	}
	if _, err := jsonrpc.DecodeMessage(kept); err != nil {
		l.back.answer(idOf(line), unanswerable("no message of JSON-RPC 2.0: %s", events.Visible(err.Error())))
		return nil
	}
	return append(bytes.Clone(kept), '\n')
}

// line is the next line. One that is too long is passed over, and answered.
func (l *linesIn) line() ([]byte, error) {
	var out []byte
	size := 0
	for {
		part, err := l.read.ReadSlice('\n')
		out = append(out, part...)
		if size += len(part); size > gateway.MaxBody && len(out) > 2*endOfLine {
			out = append(out[:endOfLine:endOfLine], out[len(out)-endOfLine:]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if size > gateway.MaxBody {
			l.back.answer(idOfEnds(out), unanswerable("a message of %d bytes: at most %d are read", size, gateway.MaxBody))
			out = nil
		}
		return out, err
	}
}

// endOfLine is how many bytes of either end of a line are kept that is too long.
const endOfLine = 4 << 10

// idAtEnd is where libraries write an id that do not begin with it.
var idAtEnd = regexp.MustCompile(`,\s*"id"\s*:\s*("[^"\\]*"|-?[0-9.eE+-]+)\s*\}\s*$`)

// idOfEnds is the id of a message of which only both ends are there; nil where neither has it.
func idOfEnds(ends []byte) json.RawMessage {
	if id := idOf(ends); id != nil { // as far as it can be read
		return id
	}
	if m := idAtEnd.FindSubmatch(ends); m != nil && json.Valid(m[1]) && len(m[1]) <= maxID {
		return bytes.Clone(m[1])
	}
	return nil
}

// Close is io.Closer's.
func (l *linesIn) Close() error { return l.from.Close() }

// linesOut writes messages to a client, a line each, from any goroutine. A client that does
// not read holds nobody once gone is closed, but for a moment.
type linesOut struct {
	to   io.WriteCloser
	ids  ids
	turn chan struct{} // holds one while a line is written
	gone <-chan struct{}
	lost atomic.Bool // a line was given up: its rest would stand before the next one
}

func newLinesOut(to io.WriteCloser, k ids, gone <-chan struct{}) *linesOut {
	return &linesOut{to: to, ids: k, turn: make(chan struct{}, 1), gone: gone}
}

// Write is io.Writer's, of one line.
func (l *linesOut) Write(b []byte) (int, error) {
	if l.lost.Load() || !l.waits() {
		return 0, errClosed
	}
	said, done, ended := bytes.Clone(l.ids.out(b)), make(chan struct{}, 1), error(nil)
	go func() { // it ends when the client reads or its end is closed, which may be with the process
		_, ended = l.to.Write(said)
		<-l.turn
		done <- struct{}{}
	}()
	select {
	case <-done:
	case <-l.gone:
		late := time.NewTimer(lastWords)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
			l.lost.Store(true)
			return 0, errClosed
		}
	}
	if ended != nil {
		return 0, ended
	}
	return len(b), nil
}

// waits takes the turn to write, and says whether it came in time.
func (l *linesOut) waits() bool {
	select {
	case l.turn <- struct{}{}:
		return true
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return true
	case <-l.gone:
	}
	late := time.NewTimer(lastWords)
	defer late.Stop()
	select {
	case l.turn <- struct{}{}:
		return true
	case <-late.C:
		l.lost.Store(true)
		return false
	}
}

// Close is io.Closer's.
func (l *linesOut) Close() error { return l.to.Close() }

// answer answers what was no message. id is nil where it has none that can be given back.
func (l *linesOut) answer(id json.RawMessage, err error) {
	_, _ = l.Write(append(refusal(id, err), '\n')) // who does not read will not be told
}

// codeCancelled is that of a request whose end was asked for: none of those that JSON-RPC
// has for itself.
const codeCancelled = -32800

// wordsEarly are in what the SDK says of a request that comes before its session has begun.
const wordsEarly = "is invalid during session initialization"

// coded is an error as an error of JSON-RPC, each of which has a code. nil stays nil.
func coded(err error) error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil, ok && e.Code != 0:
		return err
	case errors.Is(err, context.Canceled):
		return &jsonrpc.Error{Code: codeCancelled, Message: "the request was cancelled"}
	case strings.Contains(err.Error(), wordsEarly):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error() + ": send initialize and notifications/initialized first"}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}

// refusal is the error of what was no message. Without an id it has the one that stands for none.
func refusal(id json.RawMessage, err error) []byte {
	e, _ := errors.AsType[*jsonrpc.Error](coded(err))
	b, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	if err != nil {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"invalid"}}`, e.Code)
	}
	return b
}
