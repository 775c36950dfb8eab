package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// Stream is a model's answer as its provider streams it.
type Stream struct {
	Body io.Reader // the provider's response body, as it comes
	// Media is the body's Content-Type; "" means text/event-stream. application/x-ndjson is
	// one chunk a line.
	Media string
	// Unmarked says that OpenAI's [DONE] may be missing, which some servers leave out.
	Unmarked bool
	// Preview is called for each piece of a call as it comes, for interfaces alone: nothing
	// runs before the stream has ended well, and a call that was shown may never be one. nil:
	// nothing is shown. It must not block: it holds the stream up.
	Preview func(Preview)
}

// Preview is a piece of a call that a model is still making.
type Preview struct {
	Call   int    `json:"call"`   // its place in the message
	ID     string `json:"id"`     // the provider's, once it is known
	Tool   string `json:"tool"`   // once it is known
	Delta  string `json:"delta"`  // the next piece of the arguments' text
	Closed bool   `json:"closed"` // the call is whole
}

// maxStream is how much of a stream is kept so that it can be sent again, in bytes: as
// much as a node takes.
const maxStream = 8 << 20

// SubmitStream submits what a model streams, while it streams it. The node runs the calls
// of a stream that has ended well by its provider's own rules; one that was cut, broken or
// ambiguous submits nothing, and the error's code says why. s says the rest: it has ids made
// as for Submit, and neither Message nor calls. A connection that breaks is opened again,
// and what the stream has said is said again: nothing is read from it twice. If reading
// it fails, the request is broken off, and that error is returned. Where SubmitStream returns
// before the stream has ended, a read of it may still be going on: close what it comes from.
//
// Where the stream asks for no call the state is nothing, and there is no turn.
func (c *Client) SubmitStream(ctx context.Context, s Submission, in Stream) (Submitted, error) {
	s, err := s.named()
	out := Submitted{Trace: s.Trace, Turn: s.Turn}
	if err != nil {
		return out, err
	}
	if s.Message != nil || s.ToolCalls != nil || s.Calls != nil {
		return out, errors.New("a stream is submitted without Message, ToolCalls and Calls: it has the calls itself")
	}
	r, err := streamRequest(s, in)
	if err != nil {
		return out, err
	}
	src := &source{from: in.Body}
	told := 0 // previews that were shown already
	for failed := 1; ; failed++ {
		got, err := c.sendStream(ctx, r, src, in.Preview, &told)
		switch {
		case err == nil:
			return got, nil
		case src.failed() != nil:
			return out, fmt.Errorf("the stream cannot be read: %w", src.failed())
		case ctx.Err() != nil:
			return out, errors.Join(ctx.Err(), err)
		case !passing(err), failed >= c.o.Retry.Attempts:
			return out, fmt.Errorf("POST %s: %w", r.path, err)
		}
		if err := sleep(ctx, c.o.Retry.pause(failed, err)); err != nil {
			return out, err
		}
	}
}

// streamRequest is what is sent beside the stream.
func streamRequest(s Submission, in Stream) (request, error) {
	envelope, err := json.Marshal(struct {
		Submission
		WaitMS int64 `json:"wait_ms,omitempty"`
	}{s, s.Wait.Milliseconds()})
	if err != nil {
		return request{}, err
	}
	r := request{
		method: http.MethodPost, path: "/v1/turns:stream", wait: s.Wait,
		header: http.Header{"Sluice-Envelope": {ascii(string(envelope))}, "Content-Type": {"text/event-stream"}, "Accept": {"application/json"}},
	}
	if in.Media != "" {
		r.header.Set("Content-Type", in.Media)
	}
	if in.Preview != nil {
		r.header.Set("Accept", "text/event-stream")
	}
	if in.Unmarked {
		r.query = url.Values{"done": {"optional"}}
	}
	return r, nil
}

// ascii is JSON that a header can hold: everything else is escaped.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// errLate says that a node has not answered in time behind the end of what was sent.
var errLate = errors.New("the node does not answer")

// sendStream sends the stream once, from its beginning.
func (c *Client) sendStream(ctx context.Context, r request, src *source, show func(Preview), told *int) (Submitted, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	body := src.reader(func() { // the stream has ended: from now on the node is waited for
		timer := time.AfterFunc(r.wait+c.o.Timeout, func() { stop(errLate) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	defer body.Close()
	defer context.AfterFunc(ctx, func() { body.Close() })() // or the transport would wait for the stream
	var out Submitted
	resp, err := c.open(ctx, r, body)
	if err != nil {
		return out, errors.Join(causeOf(ctx), err)
	}
	defer resp.Body.Close()
	if show == nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text, err := io.ReadAll(io.LimitReader(resp.Body, c.o.MaxAnswer+1))
		switch {
		case err != nil:
			return out, errors.Join(causeOf(ctx), fmt.Errorf("%w: it ended early: %w", ErrAnswer, err))
		case int64(len(text)) > c.o.MaxAnswer:
			return out, errLong
		}
		return out, decode(resp.Header, text, &out)
	}
	return c.watchStream(ctx, resp.Body, show, told)
}

// causeOf is why a context was ended here, and not by the caller.
func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errLate) {
		return err
	}
	return nil
}

// watchStream reads previews until the answer comes. Those that an earlier try has shown
// are not shown again.
func (c *Client) watchStream(ctx context.Context, body io.Reader, show func(Preview), told *int) (Submitted, error) {
	var out Submitted
	n := 0
	for m, err := range messages(body, func() {}) {
		if err != nil {
			return out, errors.Join(causeOf(ctx), err)
		}
		switch m.kind {
		case "preview":
			var p Preview
			if err := json.Unmarshal(m.data, &p); err != nil {
				return out, fmt.Errorf("%w: a preview: %w", ErrAnswer, err)
			}
			if n++; n > *told {
				*told = n
				show(p)
			}
		case "answer":
			if err := json.Unmarshal(m.data, &out); err != nil {
				return out, fmt.Errorf("%w: %w", ErrAnswer, err)
			}
			return out, nil
		case "error":
			_, err := m.event()
			return out, err
		}
	}
	return out, fmt.Errorf("%w: it ended without an answer", ErrAnswer)
}

// source is a stream that can be sent more than once: what was read of it is kept. It may be
// used from many goroutines at once: the transport of a try that has failed may read on.
type source struct {
	from io.Reader

	mu    sync.Mutex
	kept  []byte
	end   error         // of from; nil: it goes on
	reads chan struct{} // closed once the piece that is read now is there; nil: none is
}

// errTooLong says that a stream is larger than a node takes.
var errTooLong = fmt.Errorf("it has more than %d bytes", maxStream)

// failed is why the stream could not be read to its end; nil where it could, or still can.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.end, io.EOF) {
		return nil
	}
	return s.end
}

// copy gives what stands at an offset; 0, nil where that is still to be read.
func (s *source) copy(b []byte, at int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < len(s.kept) {
		return copy(b, s.kept[at:]), nil
	}
	return 0, s.end
}

// more waits until there is more than stands before an offset, or the end, or the try is
// over. The reading itself nobody can end but who has brought the stream: it goes on by
// itself, one piece at a time, so that a try can end before it does.
func (s *source) more(at int, shut <-chan struct{}) error {
	s.mu.Lock()
	if at < len(s.kept) || s.end != nil {
		s.mu.Unlock()
		return nil
	}
	if s.reads == nil {
		s.reads = make(chan struct{})
		go s.pull(s.reads)
	}
	reads := s.reads
	s.mu.Unlock()
	select {
	case <-reads:
		return nil
	case <-shut:
		return io.ErrClosedPipe
	}
}

// pull reads a piece, and says so.
func (s *source) pull(done chan struct{}) {
	piece := make([]byte, 32<<10)
	n, err := s.from.Read(piece)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept, s.end = append(s.kept, piece[:n]...), err
	if len(s.kept) > maxStream {
		s.end = errTooLong
	}
	s.reads = nil
	close(done)
}

// reader reads the stream from its beginning. atEnd is called once, at its good end.
func (s *source) reader(atEnd func()) *sourceReader {
	return &sourceReader{s: s, atEnd: sync.OnceFunc(atEnd), shut: make(chan struct{})}
}

// sourceReader is one try's place in a source.
type sourceReader struct {
	s     *source
	at    int
	atEnd func()
	shut  chan struct{} // closed when the try is over
	once  sync.Once
}

// Read is io.Reader's.
func (r *sourceReader) Read(b []byte) (int, error) {
	for len(b) > 0 {
		select {
		case <-r.shut:
			return 0, io.ErrClosedPipe
		default:
		}
		n, err := r.s.copy(b, r.at)
		if r.at += n; n > 0 {
			return n, nil
		}
		if errors.Is(err, io.EOF) {
			r.atEnd()
		}
		if err != nil {
			return 0, err
		}
		if err := r.s.more(r.at, r.shut); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Close is io.Closer's: the try is over.
func (r *sourceReader) Close() error {
	r.once.Do(func() { close(r.shut) })
	return nil
}
