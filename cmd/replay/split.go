package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-run/sluice/gateway/codec"
)

// document is one JSON document of a file, or what is wrong with it.
type document struct {
	line int    // where it begins, from 1
	text []byte // of a broken one: its first line
	err  error
}

// splitter cuts a file into JSON documents: a line each, or one that is laid out
// over many lines. A bad one does not hide the next: after a line that is no
// JSON the next line is tried, and of a document over many lines the rest is
// passed over, up to a line that begins with a bracket.
type splitter struct {
	src   *bufio.Reader
	limit int    // bytes of a document
	line  int    // of the last line that was taken from src
	held  []byte // lines that are to be read again
	again int    // of the first of them; 0 where there is none
	rest  bool   // what comes is the rest of a broken document
}

func newSplitter(r io.Reader) *splitter {
	return &splitter{src: bufio.NewReaderSize(r, 64<<10), limit: codec.MaxTranscript}
}

// next is the next document, or io.EOF, or the error of the file itself. What is
// wrong with a document is in the document.
func (s *splitter) next() (document, error) {
	for {
		text, line, err := s.take()
		switch {
		case errors.Is(err, errLong):
			return document{line: line, err: err}, nil
		case err != nil:
			return document{}, err
		case len(bytes.TrimSpace(text)) == 0:
			continue
		case s.rest && !bytes.HasPrefix(text, []byte("{")) && !bytes.HasPrefix(text, []byte("[")):
			continue
		}
		s.rest = false
		if json.Valid(text) {
			return document{line: line, text: text}, nil
		}
		return s.long(text, line)
	}
}

// errLong says that a line or a document is over the limit.
var errLong = fmt.Errorf("it has more than %d MiB", codec.MaxTranscript>>20)

// take is the next line with its number. A line over the limit is passed over.
func (s *splitter) take() ([]byte, int, error) {
	if s.again > 0 {
		text, more, ok := bytes.Cut(s.held, []byte("\n"))
		line := s.again
		s.held, s.again = more, s.again+1
		if !ok || len(more) == 0 {
			s.held, s.again = nil, 0
		}
		return text, line, nil
	}
	s.line++
	var text []byte
	for {
		part, err := s.src.ReadSlice('\n')
		if len(text)+len(part) > s.limit {
			return nil, s.line, errors.Join(errLong, s.skip(err))
		}
		text = append(text, part...)
		switch {
		case err == nil:
			return s.plain(bytes.TrimSuffix(text, []byte("\n"))), s.line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(text) > 0:
			return s.plain(text), s.line, nil
		default:
			return nil, s.line, err
		}
	}
}

// plain is a line without the mark that some editors put before the first one.
func (s *splitter) plain(text []byte) []byte {
	if s.line == 1 {
		return bytes.TrimPrefix(text, []byte("\ufeff"))
	}
	return text
}

// skip reads to the end of the line.
func (s *splitter) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = s.src.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) {
		return nil // the next read says so again
	}
	return err
}

// long reads a document that is not complete at the end of its first line.
func (s *splitter) long(text []byte, line int) (document, error) {
	tape := &tape{src: s, all: append(bytes.Clone(text), '\n')}
	dec := json.NewDecoder(tape)
	depth := 0
	for {
		t, err := dec.Token()
		if err != nil {
			return s.broken(tape, line, err)
		}
		if d, ok := t.(json.Delim); ok && (d == '{' || d == '[') {
			depth++
		} else if ok {
			depth--
		}
		if depth == 0 {
			break
		}
	}
	end := int(dec.InputOffset())
	tail, more, _ := bytes.Cut(tape.all[end:], []byte("\n"))
	if len(bytes.TrimSpace(tail)) > 0 {
		return s.broken(tape, line, fmt.Errorf("something stands behind its end: %q", clip(tail)))
	}
	s.giveBack(more, line+1+bytes.Count(tape.all[:end], []byte("\n")))
	return document{line: line, text: tape.all[:end]}, nil
}

// broken tells what is wrong, and has what follows the first line read again.
func (s *splitter) broken(t *tape, line int, err error) (document, error) {
	var syntax *json.SyntaxError
	switch {
	case t.failed != nil && !errors.Is(t.failed, errLong):
		return document{}, t.failed
	case t.failed != nil:
		err = errLong
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it is cut off: the JSON does not end")
	case errors.As(err, &syntax):
		at := line + bytes.Count(t.all[:min(int(syntax.Offset), len(t.all))], []byte("\n"))
		if at > line && syntax.Offset > 0 && t.all[syntax.Offset-1] == '\n' {
			at-- // the line break itself
		}
		err = fmt.Errorf("line %d is not JSON: %w", at, err)
	}
	_, more, _ := bytes.Cut(t.all, []byte("\n"))
	s.rest = len(more) > 0
	s.giveBack(more, line+1)
	first, _, _ := bytes.Cut(t.all, []byte("\n"))
	return document{line: line, text: first, err: err}, nil
}

// giveBack has lines read again, the first of which has that number.
func (s *splitter) giveBack(text []byte, line int) {
	text = bytes.TrimSuffix(text, []byte("\n"))
	if len(text) == 0 {
		return
	}
	if s.again > 0 {
		text = append(append(bytes.Clone(text), '\n'), s.held...)
	}
	s.held, s.again = text, line
}

func clip(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > 24 {
		return string(b[:24]) + "…"
	}
	return string(b)
}

// tape gives a decoder line after line, and keeps them.
type tape struct {
	src    *splitter
	all    []byte
	given  int
	failed error // why there are no more lines, other than that the file ends
}

// Read is io.Reader's.
func (t *tape) Read(p []byte) (int, error) {
	if t.given == len(t.all) {
		text, _, err := t.src.take()
		if err == nil && len(t.all)+len(text) > t.src.limit {
			err = errLong
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.failed = err
			}
			return 0, io.EOF
		}
		t.all = append(append(t.all, text...), '\n')
	}
	n := copy(p, t.all[t.given:])
	t.given += n
	return n, nil
}
