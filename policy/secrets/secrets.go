// Package secrets knows what a secret looks like: in a text, in the arguments of
// a call, in what a tool answers. It takes them out, either for good, behind a
// mark that says what was there, or behind a placeholder that stands for a value
// which is sealed elsewhere. It is pure, and safe for many goroutines.
//
// A detector can be wrong both ways. It is made so that what is written as a
// secret is found (a known prefix, a name such as password beside it, a place
// such as the user part of a URL), and what only looks random is not: digests,
// ids and revisions are what a log is full of.
package secrets

import (
	"slices"
	"strings"
)

// Kind says what sort of secret was found. It is part of the mark that stands in
// its place, so it never changes.
type Kind string

// The kinds, all of them.
const (
	APIKey     Kind = "api-key"     // a provider's key, known by its prefix
	Token      Kind = "token"       // a bearer token, a JWT, what a name calls a token
	Password   Kind = "password"    // of a URL, a data source, a command's flag, what a name calls one
	PrivateKey Kind = "private-key" // a PEM block, a seed
	Cookie     Kind = "cookie"      // a cookie header
	Webhook    Kind = "webhook"     // the secret part of a webhook's URL
	Secret     Kind = "secret"      // what a name calls a secret, or what was declared as one
)

// Kinds are all of them.
var Kinds = []Kind{APIKey, Token, Password, PrivateKey, Cookie, Webhook, Secret}

// Span is where a secret stands in a text, in bytes: text[Start:End].
type Span struct {
	Start, End int
	Kind       Kind
}

// Find returns the secrets in a text, in order, none overlapping another. It
// takes time in proportion to the text, and looks at no more than its bytes:
// whatever the text, it does not panic, and spans begin and end between runes
// where the text is valid UTF-8.
func Find(text string) []Span { return find(text, false) }

// find is Find. bold says that the text is one in which words stand for
// themselves, such as a command: what stands behind --password is then one,
// whatever it looks like.
func find(text string, bold bool) []Span {
	f := finder{text: text, bold: bold}
	f.scan(0, len(text))
	return f.found
}

// Redact returns the text with each secret behind a mark. What it returns holds
// no secret that Find would find, and redacting it again changes nothing.
func Redact(text string) string { return redact(text, false) }

// rounds bounds how often a text is looked at: once is enough unless what is
// left of it looks like a secret only without what stood beside it.
const rounds = 4

func redact(text string, bold bool) string {
	for range rounds {
		spans := find(text, bold)
		if len(spans) == 0 {
			break
		}
		text = replace(text, spans, func(s Span) string { return Mark(s.Kind) })
	}
	return text
}

// replace is the text with each span replaced by what stands for it.
func replace(text string, spans []Span, by func(Span) string) string {
	var b strings.Builder
	b.Grow(len(text))
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.Start])
		b.WriteString(by(s))
		at = s.End
	}
	b.WriteString(text[at:])
	return b.String()
}

// markOpen begins every mark.
const markOpen = "[redacted: "

// Mark stands in a text where a secret was taken out for good.
func Mark(k Kind) string { return markOpen + string(k) + "]" }

// markAt is the length of the mark that a text begins with; 0 if it begins with none.
func markAt(s string) int {
	rest, ok := strings.CutPrefix(s, markOpen)
	if !ok {
		return 0
	}
	for _, k := range Kinds {
		if strings.HasPrefix(rest, string(k)) && strings.HasPrefix(rest[len(k):], "]") {
			return len(markOpen) + len(k) + 1
		}
	}
	return 0
}

// Marked says whether a text holds a mark: whoever wrote it has seen a text that
// secrets were taken out of.
func Marked(text string) bool {
	for {
		i := strings.Index(text, markOpen)
		if i < 0 {
			return false
		}
		if markAt(text[i:]) > 0 {
			return true
		}
		text = text[i+len(markOpen):]
	}
}

// finder is one look at a text.
type finder struct {
	text  string
	bold  bool
	found []Span
	runs  [4]known // the last few runs, so that none is measured from each of its bytes
	next  int      // of runs, to be forgotten first
}

// known is a run of bytes of a set.
type known struct {
	of         *set
	start, end int
}

// run is how many bytes from i on are in the set.
func (f *finder) run(of *set, i int) int {
	for _, k := range f.runs {
		if k.of == of && k.start <= i && i <= k.end {
			return k.end - i
		}
	}
	n := of.run(f.text, i)
	f.runs[f.next] = known{of, i, i + n}
	f.next = (f.next + 1) % len(f.runs)
	return n
}

// add notes a secret, and returns where to go on. Spans come in order, but for one
// that begins inside what was found just before: that is part of it.
func (f *finder) add(start, end int, k Kind) int {
	if n := len(f.found); n > 0 && start < f.found[n-1].End {
		f.found[n-1].End = max(f.found[n-1].End, end)
	} else {
		f.found = append(f.found, Span{start, end, k})
	}
	return end
}

// What a byte may be the beginning of.
const (
	isToken   = 1 << iota // a token with a known prefix
	isAssign              // = or :
	isDash                // a flag, or a PEM block
	isMark                // a mark
	isAt                  // a data source of Go's MySQL driver
	isPercent             // a URL within another one, or what that escapes
	isAngle               // the end of a tag
)

var begins = func() (t [256]uint8) {
	for _, p := range prefixes {
		t[p.prefix[0]] |= isToken
	}
	for _, c := range "bB" {
		t[c] |= isToken // bearer and basic
	}
	t['='], t[':'], t['-'], t['['], t['@'], t['%'], t['>'] = t['=']|isAssign, isAssign, isDash, isMark, isAt, isPercent, isAngle
	return t
}()

// scan looks at text[i:end].
func (f *finder) scan(i, end int) {
	for i < end {
		what := begins[f.text[i]]
		if what == 0 {
			i++
			continue
		}
		next := i
		switch {
		case what&isToken != 0:
			next = f.token(i)
		case what&isAssign != 0:
			next = f.assign(i)
		case what&isDash != 0:
			next = f.dash(i)
		case what&isMark != 0:
			next = i + markAt(f.text[i:])
		case what&isAt != 0:
			next = f.source(i)
		case what&isPercent != 0:
			next = f.escaped(i)
		case what&isAngle != 0:
			next = f.element(i)
		}
		i = max(next, i+1)
	}
}

// Placeholders stand for values that are sealed: see Seal.
const (
	placeholderOpen = "sluice-secret-"
	idLength        = 32 // hexadecimal digits
	// PlaceholderLength is the length of each in bytes.
	PlaceholderLength = len(placeholderOpen) + idLength
)

// Placeholder is what stands in arguments for the sealed value with that id. It is
// a plain word for a shell, a URL, a path, a host name and JSON alike.
func Placeholder(id string) string { return placeholderOpen + id }

// placeholders calls yield with each placeholder of a text, and where it stands,
// until yield says false.
func placeholders(text string, yield func(at int, id string) bool) {
	for at := 0; ; {
		i := strings.Index(text[at:], placeholderOpen)
		if i < 0 {
			return
		}
		at += i
		from := at + len(placeholderOpen)
		if len(text) < from+idLength || !isID(text[from:from+idLength]) {
			at = from
			continue
		}
		if !yield(at, text[from:from+idLength]) {
			return
		}
		at = from + idLength
	}
}

// Placeholders are the ids that placeholders in a text name, in order, each once.
func Placeholders(text string) []string {
	var out []string
	placeholders(text, func(_ int, id string) bool {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
		return true
	})
	return out
}

func isID(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == idLength
}
