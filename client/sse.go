package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// maxMessage is the size in bytes of the largest server-sent event.
const maxMessage = 8 << 20

// message is one server-sent event.
type message struct {
	kind string // its type
	data []byte
}

// errMessage says that a server-sent event is too large to be one of a node.
var errMessage = fmt.Errorf("%w: a server-sent event of more than %d bytes", errLong, maxMessage)

// messages yields the server-sent events of a body, until it ends; the last pair has the
// error, unless it is a plain end. One that is cut is not told. alive hears of every line.
func messages(body io.Reader, alive func()) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		lines := bufio.NewReaderSize(body, 64<<10)
		var m message
		size := 0
		for {
			line, err := readLine(lines, maxMessage-size)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(message{}, err)
				}
				return
			}
			alive()
			if size += len(line) + 1; len(line) > 0 {
				m.add(line)
				continue
			}
			if m.data != nil && !yield(m, nil) {
				return
			}
			m, size = message{}, 0
		}
	}
}

// readLine reads a line without its end, of at most so many bytes.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, errMessage
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// add takes a line of the message. Comments, ids and fields that are not known are left out:
// an event's own position counts.
func (m *message) add(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		m.kind = string(value)
	case "data":
		if m.data != nil {
			m.data = append(m.data, '\n')
		}
		m.data = append(m.data, value...)
		if m.data == nil {
			m.data = []byte{}
		}
	}
}

// event is the event that a message of the log's stream tells of, or the error.
func (m message) event() (Event, error) {
	switch n := Notice(m.kind); n {
	case "error":
		p := new(Problem)
		if json.Unmarshal(m.data, p) != nil || p.Title == "" {
			return Event{}, fmt.Errorf("%w: an error that says %s", ErrAnswer, excerpt(m.data))
		}
		return Event{}, p
	case NoticeGap, NoticeRewound, NoticeUnreadable:
		var ce cloudEvent
		if err := json.Unmarshal(m.data, &ce); err != nil {
			return Event{}, fmt.Errorf("%w: a notice: %w", ErrAnswer, err)
		}
		ce.Notice = n
		return ce.notice()
	}
	return parseEvent(m.data)
}
