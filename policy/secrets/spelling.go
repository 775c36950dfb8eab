package secrets

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// form is one way to write a value. Each of its characters may be written as JSON, a
// program, a shell, a URL or HTML write it, however often one in the other.
type form struct {
	text   string
	as     coding
	fold   bool // in any case
	pieces bool // with line ends, colours of a terminal and NULs between its characters
	second set  // what may stand behind its first byte; see follows
}

// coding is what stands for a byte of a value.
type coding uint8

const (
	characters  coding = iota // the character, escaped or not
	hexadecimal               // two digits in any case; what separates them is alike
	decimal                   // a number between 0 and 255, in a list
)

// begins says whether the form may begin with a byte.
func (f form) begins(c byte) bool {
	switch b := f.text[0]; f.as {
	case hexadecimal:
		return lower(c) == hexDigits[b>>4]
	case decimal:
		return c == strconv.Itoa(int(b))[0]
	default:
		return c == b || f.fold && lower(c) == lower(b) || opens[c] || c == '+' && b == ' '
	}
}

// follows says whether a byte may stand behind the first one, where that is no escape.
func (f form) follows(c byte) bool {
	switch b := f.text[0]; f.as {
	case hexadecimal:
		return lower(c) == hexDigits[b&15]
	case decimal:
		number := strconv.Itoa(int(b))
		return len(number) == 1 && apart(string([]byte{c})) > 0 || len(number) > 1 && c == number[1]
	default:
		b = f.text[1]
		return c == b || f.fold && lower(c) == lower(b) || opens[c] || c == '+' && b == ' ' || f.pieces && parts[c]
	}
}

// What an escape begins with, and what parts a value.
var (
	opens = setOf("\\\\%%&&")
	parts = setOf("\x00\x00\n\n\r\r\x1b\x1b")
)

const hexDigits = "0123456789abcdef"

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// speller looks for forms in a text.
type speller struct {
	text  string
	steps int // that may still be taken; below 0 nothing is found any more
}

// at is how many bytes of the text from i on write the form; 0 if they do not.
func (t *speller) at(i int, f *form) int {
	switch f.as {
	case hexadecimal:
		return t.inHex(i, f.text)
	case decimal:
		return t.inDecimal(i, f.text)
	}
	if n := t.written(i, f, plainly); n > 0 {
		return n
	}
	if strings.IndexByte(f.text, '%') >= 0 || strings.IndexByte(f.text, '&') >= 0 { // %25 is three characters, or one
		return t.written(i, f, escaped)
	}
	return 0
}

// What is tried first of a character that may begin an escape.
const (
	plainly = false
	escaped = true
)

// written is how many bytes of the text from i on are the characters of the form.
func (t *speller) written(i int, f *form, first bool) int {
	j := i
	if opens[t.text[i]] {
		t.steps -= maxEscapes / 4 // which may be looked at in vain
	}
	for k := 0; k < len(f.text); {
		if t.steps--; t.steps < 0 {
			return 0
		}
		if k > 0 && f.pieces {
			j += between(t.text[j:], f.text[k])
		}
		n, of := f.character(t.text[j:], f.text[k:], first)
		if n == 0 {
			return 0
		}
		j, k = j+n, k+of
	}
	return j - i
}

// character is how many bytes of text write how many bytes of what is looked for.
func (f *form) character(text, want string, first bool) (n, of int) {
	if text == "" {
		return 0, 0
	}
	same := text[0] == want[0] || f.fold && lower(text[0]) == lower(want[0])
	if same && text[0] == '\\' { // however many of them each writing has made of one
		return backslashes(text), backslashes(want)
	}
	if same && !first {
		return 1, 1
	}
	if is, n := unescape(text); n > 0 {
		if strings.HasPrefix(want, is) || f.fold && len(is) <= len(want) && strings.EqualFold(is, want[:len(is)]) || is == "+" && want[0] == ' ' {
			return n, len(is)
		}
	}
	if same || text[0] == '+' && want[0] == ' ' {
		return 1, 1
	}
	return 0, 0
}

// backslashes is how many of them a text begins with, as far as is looked.
func backslashes(s string) int {
	n := 0
	for n < len(s) && n < maxEscapes && s[n] == '\\' {
		n++
	}
	return n
}

// between is how many bytes stand between two characters of a value that was parted:
// line ends with what indents the next line, colours, NULs. next is what follows.
func between(text string, next byte) int {
	n := 0
	for n < len(text) && n < maxApart && text[n] != next {
		switch rest := text[n:]; {
		case rest[0] == '\n' || rest[0] == '\r':
			n += 1 + blanksAt(rest[1:])
			if next == ' ' && text[n-1] == ' ' {
				n-- // which is the value's own
			}
		case rest[0] == 0:
			n++
		case rest[0] == '\\' && lineEscape(rest) > 0:
			n += lineEscape(rest)
		case strings.HasPrefix(rest, "\x1b["):
			end := strings.IndexFunc(rest[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
			if end < 0 || end > maxColour {
				return n
			}
			n += 2 + end + 1
		default:
			return n
		}
	}
	return n
}

const (
	maxColour  = 16 // bytes of a terminal's sequence
	maxIndent  = 64 // bytes before what a line says
	maxApart   = 256
	maxEscapes = 16 // backslashes, or percents, that one writing in another has made of one
)

func blanksAt(s string) int {
	n := 0
	for n < len(s) && n < maxIndent && (s[n] == ' ' || s[n] == '\t') {
		n++
	}
	return n
}

// lineEscape is the length of a line's end as a program writes it.
func lineEscape(s string) int {
	n := backslashes(s)
	if n > 0 && n < len(s) && (s[n] == 'n' || s[n] == 'r') {
		return n + 1
	}
	return 0
}

// unescape is what an escape at the beginning of a text stands for, and its length; 0
// if there is none.
func unescape(s string) (is string, n int) {
	switch s[0] {
	case '\\':
		return unbackslash(s)
	case '%':
		for n = 1; strings.HasPrefix(s[n:], "25") && n < maxEscapes; {
			n += 2
		}
		if c, ok := twoDigits(s[n:]); ok {
			return string([]byte{c}), n + 2
		}
		return "%", n // as often as it was escaped
	case '&':
		for n = 1; strings.HasPrefix(s[n:], "amp;") && n < maxEscapes; {
			n += len("amp;")
		}
		if end := strings.IndexByte(s[n:min(len(s), n+10)], ';'); end > 0 {
			if is := html.UnescapeString("&" + s[n:n+end+1]); !strings.HasSuffix(is, ";") {
				return is, n + end + 1
			}
		}
		return "&", n
	}
	return "", 0
}

// unbackslash is what an escape of JSON, a program or a shell stands for.
func unbackslash(s string) (is string, n int) {
	n = backslashes(s)
	if n == len(s) {
		return "", 0
	}
	switch c := s[n]; {
	case c == 'u':
		r, ok := digitsAt(s, n+1, 4)
		if low, again := digitsAt(s, 2*n+1+4+1, 4); ok && again && utf16.IsSurrogate(r) && s[n+5:2*n+5] == s[:n] && s[2*n+5] == 'u' {
			return string(utf16.DecodeRune(r, low)), 2 * (n + 5)
		}
		if ok {
			return string(r), n + 5
		}
	case c == 'U':
		if r, ok := digitsAt(s, n+1, 8); ok {
			return string(r), n + 9
		}
	case c == 'x':
		if b, ok := twoDigits(s[n+1:]); ok {
			return string([]byte{b}), n + 3
		}
	case c >= '0' && c <= '3' && n+3 <= len(s):
		if b, err := strconv.ParseUint(s[n:n+3], 8, 8); err == nil {
			return string([]byte{byte(b)}), n + 3
		}
	}
	if i := strings.IndexByte("nrtbf", s[n]); i >= 0 {
		return "\n\r\t\b\f"[i : i+1], n + 1
	}
	_, size := utf8.DecodeRuneInString(s[n:])
	return s[n : n+size], n + size
}

func digitsAt(s string, i, n int) (rune, bool) {
	if i+n > len(s) {
		return 0, false
	}
	r, err := strconv.ParseUint(s[i:i+n], 16, 32)
	return rune(r), err == nil
}

func twoDigits(s string) (byte, bool) {
	if len(s) < 2 || !hexDigit(s[0]) || !hexDigit(s[1]) {
		return 0, false
	}
	b, _ := strconv.ParseUint(s[:2], 16, 8)
	return byte(b), true
}

// inHex is how many bytes of the text from i on are a value in hexadecimal.
func (t *speller) inHex(i int, value string) int {
	j := i
	for k := range len(value) {
		t.steps--
		if k > 0 {
			j += apart(t.text[j:])
			if strings.HasPrefix(t.text[j:], "0x") {
				j += len("0x")
			}
		}
		if c, ok := twoDigits(t.text[j:]); !ok || c != value[k] || t.steps < 0 {
			return 0
		}
		j += 2
	}
	return j - i
}

// inDecimal is how many bytes of the text from i on are a value as a list of numbers.
func (t *speller) inDecimal(i int, value string) int {
	j := i
	if i > 0 && digits[t.text[i-1]] {
		return 0
	}
	for k := range len(value) {
		t.steps--
		if k > 0 {
			n := apart(t.text[j:])
			if n == 0 {
				return 0
			}
			j += n
		}
		number := strconv.Itoa(int(value[k]))
		if !strings.HasPrefix(t.text[j:], number) || t.steps < 0 {
			return 0
		}
		j += len(number)
	}
	if j < len(t.text) && digits[t.text[j]] {
		return 0
	}
	return j - i
}

// apart is the length of what stands between two numbers of a list.
func apart(s string) int {
	n := 0
	for n < len(s) && n < maxIndent && strings.IndexByte(" \t\r\n:,-", s[n]) >= 0 {
		n++
	}
	return n
}
