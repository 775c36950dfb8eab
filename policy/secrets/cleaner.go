package secrets

import (
	"encoding/json"
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

// Text is a text with marks for its secrets.
func (c Cleaner) Text(s string) string {
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
		return c.Text(text)
	}
	return redactTree(text, func(l leaf) (string, bool) {
		if c.Detect && l.kind == '"' && l.named != "" && PlaceOf(l.name) == Free {
			f := finder{}
			if f.between(assignment{kind: l.named, name: l.name, quoted: true, colon: true}, l.text) {
				return Mark(l.named), true
			}
		}
		if l.kind == '0' {
			clean := c.Known.Redact(l.text)
			return clean, clean != l.text
		}
		clean := c.Text(l.text)
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
