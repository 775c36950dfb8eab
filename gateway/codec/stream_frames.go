package codec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

// Framing is how a stream's events are told apart.
type Framing string

// The framings.
const (
	FramingSSE    Framing = "sse"    // text/event-stream
	FramingNDJSON Framing = "ndjson" // application/x-ndjson: JSON objects, one a line or with blanks between
	FramingArray  Framing = "array"  // application/json: a JSON array of events, as Gemini sends without alt=sse
)

// event is one event of a stream.
type event struct {
	name string // of the event field; "" where it has none
	data []byte
}

// done says whether it is the [DONE] that ends streams of OpenAI and of many routers.
func (e event) done() bool { return bytes.EqualFold(bytes.TrimSpace(e.data), []byte("[DONE]")) }

var bom = []byte("\xEF\xBB\xBF")

// frames cuts bytes into events. A line may end with LF, CR LF or CR, and bytes may be
// cut anywhere.
type frames struct {
	framing Framing
	begun   bool   // past a byte order mark
	cr      bool   // the line before ended with CR: an LF belongs to it
	line    []byte // of which the end has not come
	name    []byte
	data    []byte
	some    bool   // the event has data
	stray   []byte // the beginning of the first line that is none of server-sent events
	json    elements
}

// size is how many bytes are held.
func (f *frames) size() int { return len(f.line) + len(f.data) + len(f.name) + len(f.json.value) }

// drop forgets what is held.
func (f *frames) drop() { f.line, f.data, f.name, f.json.value = nil, nil, nil, nil }

// add takes bytes and gives the events that they complete. The data of an event is good
// until give returns.
func (f *frames) add(p []byte, give func(event) error) error {
	if !f.begun {
		rest, ok := f.begin(p)
		if !ok {
			return nil
		}
		p = rest
	}
	if f.framing != FramingSSE {
		return f.json.add(p, give)
	}
	for len(p) > 0 {
		if f.cr {
			f.cr = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			return f.keep(p)
		}
		if err := f.keep(p[:i]); err != nil {
			return err
		}
		f.cr = p[i] == '\r'
		p = p[i+1:]
		if err := f.endLine(give); err != nil {
			return err
		}
	}
	return nil
}

// begin skips a byte order mark and looks at the first byte that is no blank, which tells
// more than what was said. false: it has not come.
func (f *frames) begin(p []byte) ([]byte, bool) {
	f.line = append(f.line, p...)
	if len(f.line) < len(bom) && bytes.HasPrefix(bom, f.line) {
		return nil, false
	}
	all := bytes.TrimPrefix(f.line, bom)
	switch first(all[:min(len(all), maxBlank)]) {
	case 0:
		if len(all) < maxBlank {
			return nil, false
		}
		f.framing = cmp.Or(f.framing, FramingSSE)
	case '{': // no line of server-sent events begins so: a provider's error does
		f.framing = FramingNDJSON
	case '[':
		f.framing = FramingArray
	default: // nor does any JSON
		f.framing = FramingSSE
	}
	f.json.row = f.framing == FramingNDJSON
	f.begun, f.line = true, nil
	return all, true
}

// maxBlank is how many blanks may stand before what tells the framing.
const maxBlank = 1024

// keep adds to a line whose end has not come.
func (f *frames) keep(p []byte) error {
	if len(f.line)+len(p)+len(f.data) > MaxBody {
		return tooLarge("an event of more than %d bytes", MaxBody)
	}
	f.line = append(f.line, p...)
	return nil
}

// endLine takes a line that is whole.
func (f *frames) endLine(give func(event) error) error {
	line := f.line
	f.line = f.line[:0]
	if len(line) == 0 {
		return f.endEvent(give)
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if f.some {
			f.data = append(f.data, '\n')
		}
		f.data, f.some = append(f.data, value...), true
	case "event":
		if len(value) > MaxName {
			value = value[:MaxName]
		}
		f.name = append(f.name[:0], value...)
	case "", "id", "retry": // a comment, and what says nothing here
	default: // a field that nobody knows yet, or no event stream at all
		if f.stray == nil {
			f.stray = bytes.Clone(line[:min(len(line), maxStray)])
		}
	}
	return nil
}

// maxStray is how much is shown of a text that is no stream, in bytes.
const maxStray = 128

// noStream is what the input begins with where it has no event and is none; nil where it is
// a stream that has none, or was cut within the name of its first field.
func (f *frames) noStream() []byte {
	for _, field := range []string{"data", "event", "id", "retry"} {
		if strings.HasPrefix(field, string(f.stray)) {
			return nil
		}
	}
	return f.stray
}

// endEvent gives the event whose last line has come, if it holds anything.
func (f *frames) endEvent(give func(event) error) error {
	e := event{name: string(f.name), data: f.data}
	some := f.some && len(bytes.TrimSpace(f.data)) > 0
	f.name, f.data, f.some = f.name[:0], f.data[:0], false
	if !some {
		return nil
	}
	return give(e)
}

// end gives what stands at the end of the input without a line's or an event's end. It
// counts where it is whole: an object and [DONE] show their own ends, and what does not
// was cut.
func (f *frames) end(give func(event) error) error {
	if !f.begun {
		f.framing, f.line = FramingSSE, nil
		return nil // blanks at most
	}
	if f.framing != FramingSSE {
		return f.json.end()
	}
	cut := func(e event) error {
		if err := give(e); err != nil {
			if !e.whole() {
				return fault(FaultCut, "it ended in the middle of an event")
			}
			return err
		}
		return nil
	}
	if len(f.line) > 0 {
		if err := f.endLine(cut); err != nil {
			return err
		}
	}
	return f.endEvent(cut)
}

// whole says whether the data of an event shows its own end.
func (e event) whole() bool { return e.done() || checkDepth(e.data) == nil && json.Valid(e.data) }

// elements cuts an array into its elements, which are objects; or a row of objects that
// stand in no array.
type elements struct {
	row     bool   // there is no array, and there may be [DONE]
	value   []byte // of which the end has not come
	depth   int    // of brackets within it
	quoted  bool
	escaped bool
	opened  bool // the array's [ has come
	closed  bool // and its ]
	count   int
	comma   bool // since the last element
}

// add takes bytes and gives the elements that they complete.
func (a *elements) add(p []byte, give func(event) error) error {
	for _, c := range p {
		if a.depth == 0 {
			if err := a.between(c); err != nil {
				return err
			}
			continue
		}
		if len(a.value) == MaxBody {
			return tooLarge("an event of more than %d bytes", MaxBody)
		}
		a.value = append(a.value, c)
		a.inside(c)
		if a.row && a.value[0] == '[' && !strings.HasPrefix("[DONE]", strings.ToUpper(string(a.value))) {
			return fault(FaultMalformed, "%q between the events: want a JSON object each", shorten(string(a.value), 32))
		}
		if a.depth > 0 {
			continue
		}
		a.count, a.comma = a.count+1, false
		if err := give(event{data: a.value}); err != nil {
			return err
		}
		a.value = a.value[:0]
	}
	return nil
}

// inside takes a byte of an element.
func (a *elements) inside(c byte) {
	switch {
	case a.escaped:
		a.escaped = false
	case a.quoted && c == '\\':
		a.escaped = true
	case c == '"':
		a.quoted = !a.quoted
	case a.quoted:
	case c == '{' || c == '[':
		a.depth++
	case c == '}' || c == ']':
		a.depth--
	}
}

// between takes a byte that is in no element.
func (a *elements) between(c byte) error {
	switch {
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
	case a.row && (c == '{' || c == '['):
		a.value, a.depth = append(a.value[:0], c), 1
	case a.row:
		return fault(FaultMalformed, "%q between the events: want a JSON object each", c)
	case a.closed:
		return fault(FaultAfterEnd, "something follows the array")
	case c == '[' && !a.opened:
		a.opened = true
	case c == ',' && a.count > 0 && !a.comma:
		a.comma = true
	case c == ']' && a.opened && !a.comma:
		a.closed = true
	case c == '{' && a.opened && (a.count == 0 || a.comma):
		a.value, a.depth = append(a.value[:0], c), 1
	default:
		return fault(FaultMalformed, "%q between the events of an array: want [{…},{…}]", c)
	}
	return nil
}

// end returns nil where the array was closed, or the last object of a row.
func (a *elements) end() error {
	switch {
	case a.depth > 0:
		return fault(FaultCut, "it ended in the middle of an event")
	case !a.row && !a.closed:
		return fault(FaultCut, "it ended before the array's ]")
	}
	return nil
}
