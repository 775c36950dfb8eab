package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// eventStream is a body of server-sent events on its way to the SDK. Events that hold no
// message are left out, where the SDK would give up the session; a stream that ends
// before its answer gives an error in its place, unless it can be taken up again.
type eventStream struct {
	body  io.ReadCloser
	wire  *wire
	asked asked

	in      *bufio.Reader
	out     bytes.Buffer // what the SDK has not read yet
	err     error        // what it is told then
	from    string       // id of the event behind which it was taken up again; "" where it was not
	ids     bool         // a newer event has an id: the stream can be taken up again from there
	settled bool         // the answer has passed
}

// Close is io.Closer's.
func (s *eventStream) Close() error { return s.body.Close() }

// Read is io.Reader's.
func (s *eventStream) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	return s.out.Read(p)
}

// event is one event, as it came.
type event struct {
	name, id, retry string
	data            []byte
	size            int
}

// next handles one event, or the end.
func (s *eventStream) next() {
	e, err := s.read()
	if e.size > 0 && !errors.Is(err, errTooLong) {
		s.pass(e)
	}
	switch {
	case err == nil:
	case errors.Is(err, errTooLong):
		s.fails(codeTooLarge, "the server's answer is over the bound of what is taken")
		s.err = io.EOF
	default:
		if !s.ids && (s.from == "" || s.asked.f.barren.Add(1) >= barren) {
			s.fails(codeNoResponse, broke)
		}
		if s.asked.method == "subscriptions/listen" {
			s.wire.deaf.Store(true)
		}
		s.err = io.EOF
	}
}

var errTooLong = errors.New("an event is too long")

// read reads one event. What has begun as the stream ends is none.
func (s *eventStream) read() (e event, err error) {
	if s.in == nil {
		s.in = bufio.NewReader(s.body)
	}
	var data [][]byte
	for {
		line, err := s.line(maxLine - e.size)
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			e.data = bytes.Join(data, []byte("\n"))
			return e, nil
		}
		e.size += len(line) + 1
		field, value, _ := bytes.Cut(bytes.TrimPrefix(line, byteOrder), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			data = append(data, bytes.Clone(value))
		case "id":
			if !bytes.ContainsRune(value, 0) {
				e.id = string(value)
			}
		case "event":
			e.name = string(value)
		case "retry":
			e.retry = string(value)
		}
	}
}

// line reads one line of at most room bytes, without its end.
func (s *eventStream) line(room int) ([]byte, error) {
	var line []byte
	for {
		part, err := s.in.ReadSlice('\n')
		if line = append(line, part...); len(line) > room+2 {
			return nil, errTooLong
		}
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// pass gives the SDK what it is to see of an event.
func (s *eventStream) pass(e event) {
	s.ids = s.ids || e.id != "" && e.id != s.from
	var msg jsonrpc.Message
	if len(e.data) > 0 && (e.name == "" || e.name == "message") {
		msg = s.message(e.data)
	}
	if msg == nil && e.id == "" && e.retry == "" {
		return
	}
	for _, field := range [][2]string{{"id", e.id}, {"retry", e.retry}} {
		if field[1] != "" {
			s.out.WriteString(field[0] + ": " + strings.TrimSpace(field[1]) + "\n")
		}
	}
	s.put(msg)
}

func (s *eventStream) put(msg jsonrpc.Message) {
	if msg != nil {
		if data, err := jsonrpc.EncodeMessage(msg); err == nil {
			s.out.WriteString("data: ")
			s.out.Write(data)
			s.out.WriteByte('\n')
		}
	}
	s.out.WriteByte('\n')
}

// decode is one message: of the request's own stream, its answer or what comes before.
func (s *eventStream) decode(data []byte) (jsonrpc.Message, error) {
	if s.asked.id == nil {
		return decode(data)
	}
	return decodeFor(*s.asked.id, data)
}

// message is what the SDK is to see of a message; nil: nothing.
func (s *eventStream) message(data []byte) jsonrpc.Message {
	msg, err := s.decode(data)
	if err != nil {
		s.wire.log.Warn("an MCP server sent an event that is no message for this request", "bytes", len(data), "err", err)
		return nil
	}
	var f *flight
	if r, ok := msg.(*jsonrpc.Response); ok {
		switch {
		case s.asked.id != nil || s.asked.wanted && s.asked.f.answeredBy(r):
			f, s.settled = s.asked.f, true
		case s.asked.wanted: // taken up again, and this answers another request
			s.wire.log.Warn("an MCP server sent an answer where another one is waited for")
			return nil
		}
	}
	seen, err := s.wire.tap.incoming(msg, f)
	if err != nil {
		s.wire.log.Warn("an MCP server is not heard any more", "err", err)
		s.err = err
		return nil
	}
	return seen
}

// fails tells the SDK and who looks on that there will be no answer.
func (s *eventStream) fails(code int64, why string) {
	id := s.asked.id
	if id == nil && s.asked.wanted { // taken up again
		id = s.asked.f.number()
	}
	if s.settled || id == nil {
		return
	}
	r := failing(*id, code, why)
	s.settled = true
	s.asked.f.lands(r)
	s.put(r)
}
