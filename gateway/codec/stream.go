package codec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/sluice-run/sluice/events"
)

// MaxStream bounds the bytes of a model's stream: its events repeat much around each
// piece of what the model says.
const MaxStream = 64 << 20

// Fault says in a word why a stream submits nothing. It is for programs: it stays.
type Fault string

// The faults of a stream.
const (
	FaultCut       Fault = "stream-cut"       // it ended before its own terminal event
	FaultError     Fault = "stream-error"     // the provider says in it that it failed
	FaultAmbiguous Fault = "stream-ambiguous" // a piece could belong to more than one call
	FaultConflict  Fault = "stream-conflict"  // two of its events contradict each other
	FaultOrder     Fault = "stream-order"     // an event stands where it cannot
	FaultAfterEnd  Fault = "stream-after-end" // something follows its terminal event
	FaultChoices   Fault = "stream-choices"   // it has several answers of the model
	FaultMalformed Fault = "stream-malformed" // an event is none of the format
	FaultFormat    Fault = "stream-format"    // it looks like no format, or another one than was said
	FaultTooLarge  Fault = "too-large"        // something in it is over its bound
)

// StreamError is why a stream submits nothing: no call of it may start.
type StreamError struct {
	Fault  Fault
	Event  int    // which of the stream's events, from 1; 0: the stream as a whole
	Reason string // what is wrong, for who sent it
	Err    error  // ErrMalformed, ErrTooLarge, ErrTooManyCalls, ErrTooDeep or ErrFormat
}

func (e *StreamError) Error() string {
	if e.Event == 0 {
		return string(e.Fault) + ": " + e.Reason
	}
	return fmt.Sprintf("%s: event %d: %s", e.Fault, e.Event, e.Reason)
}

// Unwrap makes errors.Is with the Err values hold.
func (e *StreamError) Unwrap() error { return e.Err }

// Status is the HTTP status that says the same: 413, 400, or 422 for a stream that was
// read and cannot be taken.
func (e *StreamError) Status() int {
	switch e.Fault {
	case FaultTooLarge:
		return http.StatusRequestEntityTooLarge
	case FaultMalformed, FaultFormat:
		return http.StatusBadRequest
	}
	return http.StatusUnprocessableEntity
}

// Code is the word of results that says the same: TOO_LARGE or INVALID_PARAM.
func (e *StreamError) Code() events.Code {
	if e.Fault == FaultTooLarge {
		return events.TooLarge
	}
	return events.InvalidParam
}

// fault is a StreamError about a stream that is no good one of its format.
func fault(f Fault, format string, args ...any) error {
	return &StreamError{Fault: f, Reason: fmt.Sprintf(format, args...), Err: ErrMalformed}
}

func tooLarge(format string, args ...any) error {
	return &StreamError{Fault: FaultTooLarge, Reason: fmt.Sprintf(format, args...), Err: ErrTooLarge}
}

// Preview is a piece of a call as it goes by, for interfaces. Nothing may be run from it:
// the rest may never come, and the stream may turn out to be none.
type Preview struct {
	Call   int    `json:"call"`           // which call, in the order in which they began, from 0
	ID     string `json:"id,omitempty"`   // the provider's, as far as it is known
	Tool   string `json:"tool,omitempty"` // its name, as far as it is known
	Delta  string `json:"delta"`          // what came of its arguments: a piece of JSON text, or "" where it begins or closes
	Closed bool   `json:"closed,omitempty"`
}

// StreamOptions say how a stream is read. The zero value reads any.
type StreamOptions struct {
	Framing Framing // "" means: as its first bytes look
	// NoDone takes a Chat Completions stream of server-sent events that ends with its
	// finish_reason, for servers that never send [DONE]. Other framings have no [DONE].
	NoDone bool
	// Previews keeps pieces of calls for Stream.Previews, which must be asked after each
	// Write then.
	Previews bool
}

// Stream puts a model's message together from the provider's stream of events. Bytes are
// written to it as they come; once they have ended, End gives the message. It is not for
// several goroutines at once.
type Stream struct {
	options  StreamOptions
	format   Format // "" until an event tells
	frames   *frames
	asm      assembler
	kit      *kit
	early    []event // those that came before one told the format
	read     int     // bytes
	events   int
	failed   error
	finished bool
}

// assembler is one provider's way to put a message together: to add one, write its file
// and its row.
type assembler interface {
	// take adds an event; top are its members, nil for [DONE].
	take(e event, top map[string]json.RawMessage) error
	// over says that the terminal event has come.
	over() bool
	// body is the message as the provider would have sent it without streaming.
	body() (json.RawMessage, error)
}

// streamed is the table of the formats that stream.
var streamed = []struct {
	format Format
	looks  func(e event, top map[string]json.RawMessage) bool // an event is one of this format
	make   func(k *kit) assembler
}{
	{OpenAI, looksOpenAI, func(k *kit) assembler { return &openAIStream{kit: k} }},
	{Responses, looksResponses, func(k *kit) assembler { return &responsesStream{kit: k} }},
	{Anthropic, looksAnthropic, func(k *kit) assembler { return &anthropicStream{kit: k} }},
	{Gemini, looksGemini, func(k *kit) assembler { return &geminiStream{kit: k} }},
}

// StreamFormats are the formats that stream, in the order of the table.
func StreamFormats() []Format {
	out := make([]Format, len(streamed))
	for i, s := range streamed {
		out[i] = s.format
	}
	return out
}

// NewStream begins a stream of a format; "" means: as its first events look. It returns a
// *StreamError for a format that does not stream.
func NewStream(f Format, o StreamOptions) (*Stream, error) {
	s := &Stream{options: o, kit: &kit{watched: o.Previews}, frames: &frames{framing: o.Framing}}
	if f == "" {
		return s, nil
	}
	for _, row := range streamed {
		if row.format == f {
			s.choose(f)
			return s, nil
		}
	}
	return nil, &StreamError{
		Fault: FaultFormat, Err: ErrFormat,
		Reason: fmt.Sprintf("format %q does not stream: use one of %v", shorten(string(f), 32), StreamFormats()),
	}
}

// Write adds bytes, cut anywhere. Its error is a *StreamError, and stays: nothing that
// comes later makes it a good stream.
func (s *Stream) Write(p []byte) (int, error) {
	switch {
	case s.failed != nil:
		return 0, s.failed
	case s.finished && len(p) > 0:
		return 0, s.fail(fault(FaultAfterEnd, "bytes follow the end of the input"))
	}
	if s.read += len(p); s.read > MaxStream {
		return 0, s.fail(tooLarge("more than %d bytes", MaxStream))
	}
	if err := s.frames.add(p, s.event); err != nil {
		return 0, s.fail(err)
	}
	return len(p), nil
}

// Previews are the pieces of calls that came since it was last asked.
func (s *Stream) Previews() []Preview {
	out := s.kit.previews
	s.kit.previews = nil
	return out
}

// Size is how many bytes are held: of an event that is not whole, and of the calls.
func (s *Stream) Size() int { return s.frames.size() + s.kit.held }

// Format is the format, "" as long as no event has told it.
func (s *Stream) Format() Format { return s.format }

// Over says that the terminal event has come: only the end of the input is missing.
func (s *Stream) Over() bool { return s.failed == nil && s.asm != nil && s.asm.over() }

// End gives the message, once the input has ended where it was meant to end. Where the
// model was cut off each call is there, and Refused. Its error is a *StreamError: nothing
// of the stream may be submitted.
func (s *Stream) End() (Message, error) {
	if s.failed != nil {
		return Message{}, s.failed
	}
	if !s.finished {
		s.finished = true
		if err := s.frames.end(s.event); err != nil {
			return Message{}, s.fail(err)
		}
	}
	switch {
	case s.events == 0 && s.frames.noStream() != nil:
		return Message{}, s.fail(&StreamError{
			Fault: FaultFormat, Err: ErrFormat,
			Reason: fmt.Sprintf("this is no stream of events: it begins with %s", shorten(string(toUnicode(s.frames.noStream())), maxStray)),
		})
	case s.events == 0:
		return Message{}, s.fail(fault(FaultCut, "there is no event in it"))
	case s.asm == nil:
		return Message{}, s.fail(s.unknownFormat(event{}))
	case !s.asm.over():
		return Message{}, s.fail(s.cut())
	}
	body, err := s.Whole()
	if err != nil {
		return Message{}, s.fail(err)
	}
	m, err := Decode(s.format, body)
	if err != nil {
		return Message{}, s.fail(ofMessage(err))
	}
	m.Reason = shorten(m.Reason, MaxName) // it is shown
	return m, nil
}

// Whole is the response as the provider would have sent it without streaming, without what
// is no call and leads to none: Decode gives the same message for it. It returns a
// *StreamError before the terminal event has come.
func (s *Stream) Whole() (json.RawMessage, error) {
	switch {
	case s.failed != nil:
		return nil, s.failed
	case !s.Over():
		return nil, fault(FaultCut, "it has not ended")
	}
	return s.asm.body()
}

// DecodeStream is Stream for one that is there as a whole. It returns the format that it
// turned out to have. Its error is a *StreamError.
func DecodeStream(f Format, stream []byte, o StreamOptions) (Format, Message, error) {
	s, err := NewStream(f, o)
	if err != nil {
		return f, Message{}, err
	}
	if _, err := s.Write(stream); err != nil {
		return s.format, Message{}, err
	}
	m, err := s.End()
	return s.format, m, err
}

func (s *Stream) choose(f Format) {
	s.format = f
	for _, row := range streamed {
		if row.format == f {
			s.asm = row.make(s.kit)
		}
	}
}

// keepAlive are names of events that gateways of all formats send so that a connection
// lives, some with data that are no JSON.
var keepAlive = []string{"ping", "keepalive", "keep-alive", "heartbeat"}

// event takes one event of the stream.
func (s *Stream) event(e event) error {
	s.events++
	if len(e.data) > MaxBody {
		return tooLarge("an event of %d bytes, at most %d", len(e.data), MaxBody)
	}
	if slices.Contains(keepAlive, e.name) { // whatever its data are
		return nil
	}
	var top map[string]json.RawMessage
	if !e.done() {
		if err := checkDepth(e.data); err != nil {
			return ofMessage(err)
		}
		if err := json.Unmarshal(e.data, &top); err != nil || top == nil {
			return fault(FaultMalformed, "want a JSON object%s", because(err))
		}
		if err := failure(e, top); err != nil {
			return err
		}
	}
	if s.asm == nil && kindOf(e, top) == "ping" { // gateways of all formats send it
		return nil
	}
	if s.asm == nil {
		return s.tell(e, top)
	}
	if s.events == 1 && top != nil {
		if f := looksLike(e, top); f != "" && f != s.format {
			return &StreamError{Fault: FaultFormat, Reason: fmt.Sprintf("this is a stream of %s, and %s was said", f, s.format), Err: ErrFormat}
		}
	}
	return s.pass(e, top)
}

// pass hands an event to the assembler.
func (s *Stream) pass(e event, top map[string]json.RawMessage) error {
	if a, ok := s.asm.(*openAIStream); ok {
		a.noDone = s.options.NoDone || s.frames.framing != FramingSSE // its end depends on how it came
	} else if e.done() {
		if !s.asm.over() {
			return s.cut()
		}
		return nil // routers add it to every stream
	}
	return s.asm.take(e, top)
}

// maxEarly is how many events may come before one tells the format.
const maxEarly = 8

// tell finds out the format by an event, and passes on those that came before it.
func (s *Stream) tell(e event, top map[string]json.RawMessage) error {
	f := looksLike(e, top)
	if f == "" {
		if len(s.early) == maxEarly || e.done() {
			return s.unknownFormat(e)
		}
		e.data = append([]byte(nil), e.data...)
		s.early = append(s.early, e)
		s.kit.held += len(e.data)
		return nil
	}
	s.choose(f)
	for _, old := range s.early {
		var top map[string]json.RawMessage
		_ = json.Unmarshal(old.data, &top) // it was read when it came
		s.kit.held -= len(old.data)
		if err := s.pass(old, top); err != nil {
			return err
		}
	}
	s.early = nil
	return s.pass(e, top)
}

func looksLike(e event, top map[string]json.RawMessage) Format {
	for _, row := range streamed {
		if row.looks(e, top) {
			return row.format
		}
	}
	return ""
}

// unknownFormat is the fault of a stream whose events tell no format, up to e. It shows the
// first of them, which may be how a gateway says what is wrong.
func (s *Stream) unknownFormat(e event) error {
	begins := e.data
	if len(s.early) > 0 {
		begins = s.early[0].data
	}
	return &StreamError{
		Fault: FaultFormat, Err: ErrFormat,
		Reason: fmt.Sprintf("its events look like none of %v (the first is %s): say which format it has",
			StreamFormats(), shorten(string(toUnicode(begins)), 128)),
	}
}

// cut is the fault of a stream that ended too early.
func (s *Stream) cut() error {
	missing := "its terminal event"
	if a, ok := s.asm.(interface{ missing() string }); ok {
		missing = a.missing()
	}
	return fault(FaultCut, "it ended without %s, so nothing says that the model said all that it meant to", missing)
}

// fail keeps the first error, with the event that it is about.
func (s *Stream) fail(err error) error {
	var se *StreamError
	if !errors.As(err, &se) {
		se = &StreamError{Fault: FaultMalformed, Reason: err.Error(), Err: ErrMalformed}
	}
	out := *se
	if !s.finished {
		out.Event = cmp.Or(out.Event, s.events)
	}
	s.failed = &out
	s.asm, s.early, s.kit.held = nil, nil, 0 // nothing of it is needed any more
	s.frames.drop()
	return s.failed
}

// ofMessage makes a stream's error of one about its message.
func ofMessage(err error) error {
	out := &StreamError{Fault: FaultMalformed, Reason: err.Error(), Err: ErrMalformed}
	var e *Error
	if errors.As(err, &e) {
		out.Err, out.Reason = e.Err, e.Reason
		if e.Path != "" {
			out.Reason = e.Path + ": " + e.Reason
		}
	}
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrTooManyCalls) {
		out.Fault = FaultTooLarge
	}
	return out
}
