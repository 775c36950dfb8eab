package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Literals are values that are known, to be taken out wherever they stand: as they
// are, as JSON, a URL or base64 writes them, and cut off at an end of a text. The
// zero Literals know none.
type Literals struct {
	forms []form
	cut   []string // long values, for what is left of one at the ends of a text
}

// form is one way to write a value.
type form string

// Bounds in bytes of how short values and parts of one are looked for.
const (
	leastAnywhere = 4 // a shorter one is not looked for: it stands in too many others
	leastCoded    = 6 // of a value whose codings are looked for
	leastPart     = 8 // of what is left of a value at a cut
)

// NewLiterals makes Literals of values. Empty ones are passed over.
func NewLiterals(values ...string) *Literals {
	l := &Literals{}
	for _, v := range values {
		if strings.TrimSpace(v) == "" {
			continue
		}
		l.add(v)
		for _, part := range strings.Split(v, "\n") { // a tool may show a key line by line
			if part = strings.TrimSpace(part); part != v && len(part) >= 2*leastPart && !strings.HasPrefix(part, pemLine) {
				l.add(part)
			}
		}
		if len(v) > leastPart {
			l.cut = append(l.cut, v)
		}
	}
	slices.SortStableFunc(l.forms, func(a, b form) int { return len(b) - len(a) })
	return l
}

func (l *Literals) add(v string) {
	l.put(v)
	if len(v) < leastCoded {
		return
	}
	inside := func(literal string) string { return literal[1 : len(literal)-1] }
	forms := []string{inside(quote(v))}
	if b, err := json.Marshal(v); err == nil { // with its escapes for HTML
		forms = append(forms, inside(string(b)))
	}
	for _, f := range forms {
		l.put(f)
		l.put(inside(quote(f))) // JSON in a string of JSON
	}
	if len(v) >= leastPart { // of a shorter one the other case is another word
		l.put(strings.ToUpper(v))
		l.put(strings.ToLower(v))
	}
	l.put(url.QueryEscape(v))
	l.put(url.PathEscape(v))
	l.put(hex.EncodeToString([]byte(v)))
	for shift := range 3 {
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			l.put(shifted(e, v, shift))
		}
	}
}

// shifted is the part of the base64 of a longer text that v alone decides, where v
// begins shift bytes behind a group of three.
func shifted(e *base64.Encoding, v string, shift int) string {
	coded := e.EncodeToString([]byte(strings.Repeat("\x00", shift) + v))
	coded = strings.TrimRight(coded, "=")
	from := []int{0, 2, 3}[shift]
	if (shift+len(v))%3 != 0 { // its last digit has bits of what follows
		coded = coded[:len(coded)-1]
	}
	if len(coded)-from < leastCoded {
		return ""
	}
	return coded[from:]
}

func (l *Literals) put(text string) {
	if len(text) >= leastAnywhere && !slices.Contains(l.forms, form(text)) {
		l.forms = append(l.forms, form(text))
	}
}

// Empty says whether there is nothing to look for.
func (l *Literals) Empty() bool { return l == nil || len(l.forms) == 0 }

// Redact returns the text with a mark for each of the values.
func (l *Literals) Redact(text string) string {
	if l.Empty() {
		return text
	}
	for _, f := range l.forms {
		text = f.replace(text, Mark(Secret))
	}
	return l.ends(text)
}

// Mask returns bytes that are no text with each of the values overwritten, at the
// same length.
func (l *Literals) Mask(data []byte) []byte {
	if l.Empty() {
		return data
	}
	text := string(data)
	for _, f := range l.forms {
		text = f.replace(text, strings.Repeat("*", len(f)))
	}
	return []byte(text)
}

// replace replaces what is written so. What a mark says is left alone.
func (f form) replace(text, by string) string {
	if !strings.Contains(text, string(f)) {
		return text
	}
	var b strings.Builder
	done := 0
	for at := 0; at < len(text); {
		i := strings.Index(text[at:], string(f))
		if i < 0 {
			break
		}
		i += at
		if m := strings.LastIndex(text[max(done, i-len(markOpen)-maxName):i], markOpen); m >= 0 {
			m += max(done, i-len(markOpen)-maxName)
			if n := markAt(text[m:]); m+n > i {
				at = m + n
				continue
			}
		}
		end := i + len(f)
		b.WriteString(text[done:i])
		b.WriteString(by)
		done, at = end, end
	}
	return b.String() + text[done:]
}

// ends takes out what is left of a value where the text was cut: at its ends, and
// beside the line that says how much is missing.
func (l *Literals) ends(text string) string {
	for _, v := range l.cut {
		text = headless(text, v)
		text = tailless(text, v)
		for at := 0; ; {
			i := strings.Index(text[at:], " bytes not kept]")
			if i < 0 {
				break
			}
			i += at
			open := strings.LastIndexByte(text[:i], '[')
			if open < 0 {
				break
			}
			rest := text[i:]
			close := strings.IndexByte(rest, ']') + 1
			before := strings.TrimSuffix(text[:open], "\n")
			gap := text[len(before):open]
			after := strings.TrimPrefix(rest[close:], "\n")
			gapAfter := rest[close : len(rest)-len(after)]
			head := tailless(before, v) + gap + text[open:i] + rest[:close] + gapAfter
			text = head + headless(after, v)
			at = len(head)
		}
	}
	return text
}

// tailless is a text without the beginning of v that it ends with.
func tailless(text, v string) string {
	for n := min(len(v)-1, len(text)); n >= leastPart; n-- {
		if text[len(text)-n:] == v[:n] {
			return text[:len(text)-n] + Mark(Secret)
		}
	}
	return text
}

// headless is a text without the end of v that it begins with.
func headless(text, v string) string {
	for n := min(len(v)-1, len(text)); n >= leastPart; n-- {
		if text[:n] == v[len(v)-n:] {
			return Mark(Secret) + text[n:]
		}
	}
	return text
}
