package cedar

import (
	"strings"
	"unicode/utf8"
)

// token is a piece of a policy's text, for bounds and for places in messages. It is
// not parsed from: the library has its own scanner.
type token struct {
	text      string
	offset    int
	line, col int
}

// scan cuts a text into tokens, without comments. It stops at what is not understood:
// the parser says what is wrong with it.
func scan(text string) []token {
	var out []token
	l := lexer{text: text, line: 1, col: 1}
	for {
		l.skip()
		if l.at >= len(text) {
			return out
		}
		t := token{offset: l.at, line: l.line, col: l.col}
		l.advance(l.length())
		t.text = text[t.offset:l.at]
		out = append(out, t)
	}
}

type lexer struct {
	text      string
	at        int
	line, col int
}

func (l *lexer) rest() string { return l.text[l.at:] }

// advance moves on by n bytes.
func (l *lexer) advance(n int) {
	for _, c := range l.text[l.at : l.at+n] {
		l.col++
		if c == '\n' {
			l.line, l.col = l.line+1, 1
		}
	}
	l.at += n
}

// skip moves past blanks and comments.
func (l *lexer) skip() {
	for l.at < len(l.text) {
		rest := l.rest()
		switch {
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			l.advance(1)
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.advance(n)
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				n = len(rest) - 4
			}
			l.advance(n + 4)
		default:
			return
		}
	}
}

// length is that of the token here, in bytes.
func (l *lexer) length() int {
	rest := l.rest()
	switch c, size := utf8.DecodeRuneInString(rest); {
	case c == '"':
		return quoted(rest)
	case word(c):
		n := strings.IndexFunc(rest, func(c rune) bool { return !word(c) })
		if n < 0 {
			n = len(rest)
		}
		return n
	default:
		if len(rest) > 1 {
			switch rest[:2] {
			case "::", "==", "!=", "<=", ">=", "&&", "||":
				return 2
			}
		}
		return size
	}
}

// quoted is the length of the string that begins here. One that does not end on its
// line ends with it.
func quoted(rest string) int {
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '\n':
			return i
		case '"':
			return i + 1
		}
	}
	return len(rest)
}

func word(c rune) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
