package secrets

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"
)

// Literals are values that are known, to be taken out wherever they stand: however
// their characters are written, in hexadecimal or base64, and cut off at an end of a
// text. The zero Literals know none.
type Literals struct {
	forms []form
	first [256][]int // of forms: those that may begin with a byte
	cut   []string   // long values, for what is left of one at the ends of a text
}

// Bounds in bytes of how short values and parts of one are looked for.
const (
	leastAnywhere = 4 // a shorter one is not looked for: it stands in too many others
	leastCoded    = 6 // of a value whose codings are looked for
	leastPart     = 8 // of what is left of a value at a cut, and of one that is looked for in pieces
)

// NewLiterals makes Literals of values. Empty ones are passed over.
func NewLiterals(values ...string) *Literals { return newLiterals(true, values) }

// newLiterals is NewLiterals. fold says that long values are known in any case.
func newLiterals(fold bool, values []string) *Literals {
	l := &Literals{}
	for _, v := range values {
		if strings.TrimSpace(v) == "" {
			continue
		}
		l.add(v, fold)
		for _, part := range strings.Split(v, "\n") { // a tool may show a key line by line
			if part = strings.TrimSpace(part); part != v && len(part) >= 2*leastPart && !strings.HasPrefix(part, pemLine) {
				l.add(part, fold)
			}
		}
		if len(v) > leastPart {
			l.cut = append(l.cut, v)
		}
	}
	for i := range l.forms {
		f := &l.forms[i]
		for c := range 256 {
			if f.begins(byte(c)) {
				l.first[c] = append(l.first[c], i)
			}
			f.second[c] = f.follows(byte(c))
		}
	}
	return l
}

func (l *Literals) add(v string, fold bool) {
	long := len(v) >= leastPart
	fold = fold && long // of a shorter one the other case is another word
	l.put(form{text: v, fold: fold, pieces: long})
	if fold && strings.ContainsFunc(v, func(r rune) bool { return r >= utf8.RuneSelf }) {
		l.put(form{text: strings.ToUpper(v), pieces: true})
		l.put(form{text: strings.ToLower(v), pieces: true})
	}
	if len(v) < leastCoded {
		return
	}
	l.put(form{text: v, as: hexadecimal})
	l.put(form{text: v, as: decimal})
	for shift := range 3 {
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			l.put(form{text: shifted(e, v, shift), pieces: true})
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

func (l *Literals) put(f form) {
	if len(f.text) >= leastAnywhere && !slices.Contains(l.forms, f) {
		l.forms = append(l.forms, f)
	}
}

// Empty says whether there is nothing to look for.
func (l *Literals) Empty() bool { return l == nil || len(l.forms) == 0 }

// spans are where the values stand in a text, in order, none touching another's inside.
// What a mark says is left alone. It takes time in proportion to the text: where much of
// the text is nearly a value, that is looked for as it is and no other way.
func (l *Literals) spans(text string) []Span {
	if l.Empty() {
		return nil
	}
	var out []Span
	t := speller{text: text, steps: 1<<20 + 8*len(text)}
	for i := 0; i < len(text); i++ {
		if text[i] == '[' {
			if n := markAt(text[i:]); n > 0 {
				i += n - 1
				continue
			}
		}
		most := 0
		for _, k := range l.first[text[i]] {
			if f := &l.forms[k]; i+1 < len(text) && (f.second[text[i+1]] || opens[text[i]]) {
				most = max(most, t.at(i, f))
			}
		}
		if t.steps < 0 {
			return l.plainly(text, out)
		}
		if most > 0 {
			out = append(out, Span{i, i + most, Secret})
		}
	}
	return merged(out)
}

// plainly is what is found of a text, and where else the values stand in it as they are.
func (l *Literals) plainly(text string, found []Span) []Span {
	for _, f := range l.forms {
		for at := 0; f.as == characters; {
			i := strings.Index(text[at:], f.text)
			if i < 0 {
				break
			}
			found = append(found, Span{at + i, at + i + len(f.text), Secret})
			at += i + len(f.text)
		}
	}
	slices.SortStableFunc(found, func(a, b Span) int { return a.Start - b.Start })
	return merged(found)
}

// merged are spans in order with those that overlap made one.
func merged(spans []Span) []Span {
	out := spans[:0]
	for _, s := range spans {
		if last := len(out) - 1; last >= 0 && s.Start < out[last].End {
			out[last].End = max(out[last].End, s.End)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// Redact returns the text with a mark for each of the values.
func (l *Literals) Redact(text string) string {
	if l.Empty() {
		return text
	}
	if spans := l.spans(text); len(spans) > 0 {
		text = replace(text, spans, func(Span) string { return Mark(Secret) })
	}
	return l.ends(text)
}

// Mask returns bytes that are no text with each of the values overwritten, at the
// same length.
func (l *Literals) Mask(data []byte) []byte {
	spans := l.spans(string(data))
	if len(spans) == 0 {
		return data
	}
	return []byte(replace(string(data), spans, func(s Span) string { return strings.Repeat("*", s.End-s.Start) }))
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
