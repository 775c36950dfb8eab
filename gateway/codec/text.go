package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// toUnicode is JSON in which everything is text. What is none becomes U+FFFD here, once,
// and never again.
func toUnicode(b []byte) []byte { return events.WholeJSON(b) }

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
	var typed *json.UnmarshalTypeError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &typed):
		return ", not: " + typed.Value // the decoder's own words name types of Go
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
