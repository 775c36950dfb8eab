package secrets

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Cleaner takes secrets out of what comes back from a tool: the values that it was
// given, and, where Detect says so, whatever else looks like a secret. The zero
// Cleaner takes out nothing.
type Cleaner struct {
	Known  *Literals
	Detect bool
}

// Idle says that there is nothing to do.
func (c Cleaner) Idle() bool { return c.Known.Empty() && !c.Detect }

// Text is a text with marks for its secrets. One that is JSON stays JSON.
func (c Cleaner) Text(s string) string {
	if begin := strings.TrimLeft(s, " \t\r\n"); begin != "" && (begin[0] == '{' || begin[0] == '[') && json.Valid([]byte(s)) {
		return c.JSON(s)
	}
	return c.plain(s)
}

// plain is Text for what is no JSON.
func (c Cleaner) plain(s string) string {
	s = c.Known.Redact(s)
	if c.Detect {
		s = Redact(s)
	}
	return s
}

// JSON is a JSON text with marks for its secrets, and still JSON. Members that are
// named as secrets count where what they hold looks like one. What is no JSON is
// treated as a text.
func (c Cleaner) JSON(text string) string {
	if c.Idle() {
		return text
	}
	if !json.Valid([]byte(text)) {
		return c.plain(text)
	}
	return redactTree(text, func(l leaf) (string, bool) {
		if c.Detect && l.kind == '"' && l.named != "" && PlaceOf(l.name) == Free {
			f := finder{}
			if f.between(assignment{kind: l.named, name: l.name, quoted: true, colon: true}, l.text) {
				return Mark(l.named), true
			}
		}
		if whole := l.behindFlag(false); c.Detect && whole != nil {
			return Mark(whole[0].Kind), true
		}
		if l.kind == '0' {
			clean := c.Known.Redact(l.text)
			return clean, clean != l.text
		}
		clean := c.plain(l.text)
		return clean, clean != l.text
	})
}

// Bytes are bytes that are no text with their secrets overwritten, at the same length.
func (c Cleaner) Bytes(data []byte) []byte {
	data = c.Known.Mask(data)
	if !c.Detect {
		return data
	}
	spans := Find(string(data))
	if len(spans) == 0 {
		return data
	}
	out := append([]byte(nil), data...)
	for _, s := range spans {
		for i := s.Start; i < s.End; i++ {
			out[i] = '*'
		}
	}
	return out
}

// Result is a result with marks for its secrets, in whatever a reader or a later call
// may see of it. Digests stay what they are.
func (c Cleaner) Result(r events.Result) events.Result {
	if c.Idle() {
		return r
	}
	r.Text.Text = c.Text(r.Text.Text)
	r.Data, r.Undo = c.raw(r.Data), c.raw(r.Undo)
	if r.Error != nil {
		r.Error = &events.Error{Code: r.Error.Code, Message: c.Text(r.Error.Message), Path: c.Text(r.Error.Path)}
	}
	r.Context = slices.Clone(r.Context)
	for i, m := range r.Context {
		r.Context[i] = events.Modifier{Name: c.Text(m.Name), Value: c.raw(m.Value)}
	}
	r.Seen = slices.Clone(r.Seen)
	for i := range r.Seen {
		r.Seen[i].Path = c.Text(r.Seen[i].Path)
	}
	if len(r.Stats.More) > 0 {
		more := make(map[string]int64, len(r.Stats.More))
		for name, n := range r.Stats.More {
			more[c.Text(name)] += n
		}
		r.Stats.More = more
	}
	return r
}

func (c Cleaner) raw(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return b
	}
	return json.RawMessage(c.JSON(string(b)))
}
