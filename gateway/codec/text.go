package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// toUnicode is JSON without bytes that are no UTF-8, and without escapes that are
// half of a surrogate pair: they become U+FFFD here, once, and never again.
func toUnicode(b []byte) []byte {
	b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	if !bytes.Contains(b, []byte(`\u`)) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		n, lone := escape(b[i:])
		if lone {
			out = append(out, `\ufffd`...)
		} else {
			out = append(out, b[i:i+n]...)
		}
		i += n
	}
	return out
}

// escape is the length of the first character of b, or of the escape it begins
// with; lone says that the escape is half of a pair. A pair is one of 12 bytes.
func escape(b []byte) (n int, lone bool) {
	if b[0] != '\\' || len(b) < 2 {
		return 1, false
	}
	r, ok := unit(b)
	switch {
	case !ok:
		return 2, false // \\ and \" must not be read as the beginning of another
	case !utf16.IsSurrogate(r):
		return 6, false
	}
	if low, ok := unit(b[6:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
		return 12, false
	}
	return 6, true
}

// unit is the value of the \uXXXX that b begins with.
func unit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}

// checkDepth counts brackets outside strings, BEFORE anything recursive reads b.
func checkDepth(b []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return &Error{Reason: fmt.Sprintf("deeper than %d at byte %d", MaxDepth, i), Err: ErrTooDeep}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// marshal is JSON without the escapes meant for HTML. v holds strings and JSON
// that was checked, so it cannot fail.
func marshal(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("codec: " + err.Error())
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// shorten is s in at most n bytes and an ellipsis, cut between runes.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return prefix(s, n) + "…"
}

// prefix is the longest beginning of s of at most n bytes that ends between two runes.
func prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// fields are the members of the object raw, by exact name.
func fields(raw json.RawMessage, path string) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, malformed(path, "want an object%s", because(err))
	}
	return m, nil
}

// list are the elements of the array raw.
func list(raw json.RawMessage, path string) ([]json.RawMessage, error) {
	var l []json.RawMessage
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, malformed(path, "want an array%s", because(err))
	}
	return l, nil
}

// text is the string raw; nothing and null are "".
func text(raw json.RawMessage, path string) (string, error) {
	var s string
	if len(raw) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", malformed(path, "want a string%s", because(err))
	}
	return s, nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// first is the first byte of raw that is no blank, 0 if there is none.
func first(raw []byte) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// absent says that raw is missing or null.
func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// count is a number of tokens; what is none counts as 0.
func count(raw json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
