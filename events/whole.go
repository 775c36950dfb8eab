package events

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// WholeJSON is JSON in which everything is text: half of a surrogate pair, written as an
// escape, and bytes that are no UTF-8 become U+FFFD, in values and in names of members
// alike. Readers of JSON do not agree on either, and some refuse all of it. Digits,
// blanks and the order of members stay as they are. b need not be valid JSON, and is not
// made so; where nothing is to be replaced it is returned as it is. It is pure, and twice
// is once.
func WholeJSON(b []byte) []byte {
	b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	if !bytes.Contains(b, []byte(`\u`)) {
		return b
	}
	var out []byte
	done := 0
	for i := 0; i+1 < len(b); {
		next := bytes.IndexByte(b[i:], '\\')
		if next < 0 {
			break
		}
		i += next
		n, lone := escapeAt(b[i:])
		if lone {
			out = append(append(out, b[done:i]...), `\ufffd`...)
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return b
	}
	return append(out, b[done:]...)
}

// escapeAt is the length of the escape that b begins with, a whole pair being one; lone
// says that it is half of a pair.
func escapeAt(b []byte) (n int, lone bool) {
	r, ok := codeUnit(b)
	switch {
	case !ok || !utf16.IsSurrogate(r):
		return 2, false // an escaped backslash must not hide one that follows
	case len(b) >= 12:
		if low, ok := codeUnit(b[6:]); ok && utf16.DecodeRune(r, low) != '\uFFFD' {
			return 12, false
		}
	}
	return 6, true
}

// codeUnit reads the escape \uXXXX that b begins with.
func codeUnit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
