package readstore

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// Bounds of what is searched.
const (
	maxPiece = 32 << 10 // bytes of one text that are searched; what is behind is not
	maxWords = 96 << 10 // bytes of the words of one call
	maxWord  = 64       // bytes of a word: longer ones are alike if they begin alike
)

// breakWord stands between two texts, so that no phrase reaches from one into the
// other. It is no letter, and so in no query.
const breakWord = "¶"

// appendWords appends the words of a text to dst, each with a blank before it: runs
// of letters, digits and marks, in small letters. Of scripts that are written
// without blanks each letter is a word. SQL splits the result at its blanks and
// nowhere else, so whoever compares words here finds what SQL finds.
func appendWords(dst []byte, text string) []byte {
	if len(text) > maxPiece {
		text = text[:maxPiece]
	}
	start := -1 // of the word in dst
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch {
		case r == utf8.RuneError && size <= 1, !unicode.In(r, unicode.L, unicode.N, unicode.M):
			start = -1
			continue
		case alone(r):
			dst = append(dst, ' ')
			dst = utf8.AppendRune(dst, r)
			start = -1
			continue
		case start < 0:
			dst = append(dst, ' ')
			start = len(dst)
		}
		if len(dst)-start+utf8.UTFMax <= maxWord {
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
	}
	return dst
}

// alone says whether a letter is a word by itself.
func alone(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// addText appends the words of one more text of a call.
func addText(words []byte, text string) []byte {
	if text == "" || len(words) >= maxWords {
		return words
	}
	if len(words) > 0 {
		words = append(append(words, ' '), breakWord...)
	}
	return appendWords(words, text)
}

// term is one part of what is searched for: words that stand next to each other.
type term struct {
	words  string // with blanks between
	prefix bool   // the last one is only the beginning of a word
}

// termsOf reads what is searched for: words, and phrases in double quotes; a star
// behind one says that it is only a beginning. Nothing that is written is an error.
func termsOf(text string) []term {
	var out []term
	add := func(part string) {
		words := strings.TrimPrefix(string(appendWords(nil, part)), " ")
		if words != "" {
			out = append(out, term{words, strings.HasSuffix(part, "*")})
		}
	}
	for {
		before, rest, quoted := strings.Cut(text, `"`)
		for part := range strings.FieldsSeq(before) {
			add(part)
		}
		if !quoted {
			return out
		}
		phrase, behind, _ := strings.Cut(rest, `"`)
		if after, ok := strings.CutPrefix(behind, "*"); ok {
			phrase, behind = phrase+"*", after
		}
		add(phrase)
		text = behind
	}
}

// match is the terms as FTS5 takes them. Every word is quoted, and holds no quote,
// so that nothing in it has a meaning.
func match(terms []term) string {
	parts := make([]string, len(terms))
	for i, t := range terms {
		if parts[i] = `"` + t.words + `"`; t.prefix {
			parts[i] += " *"
		}
	}
	return strings.Join(parts, " AND ")
}

// holds says whether words, as appendWords makes them, hold a term.
func (t term) holds(words string) bool {
	needle := " " + t.words
	if t.prefix {
		return strings.Contains(words, needle)
	}
	return strings.Contains(words+" ", needle+" ")
}

// holdAll says whether words hold every term.
func holdAll(terms []term, words []byte) bool {
	text := string(words)
	for _, t := range terms {
		if !t.holds(text) {
			return false
		}
	}
	return true
}

// textsOf calls add with each text of an event that is searched.
func textsOf(e events.Event, add func(string)) {
	if o := events.OutcomeOf(e); o != nil {
		resultTexts(o.Result, add)
	}
	switch v := e.(type) {
	case *events.Denied:
		add(string(v.Code))
		add(v.Reason)
	case *events.Deduplicated:
		resultTexts(v.Outcome.Result, add)
	case *events.ApprovalRequested:
		add(v.Asks)
		add(v.Why)
	case *events.Approved:
		add(v.Note)
		if v.Args != nil {
			add(v.Args.Text)
		}
	case *events.InputRequested:
		for _, r := range v.Requests {
			add(r.Message)
			add(r.URL)
			add(string(r.Schema))
		}
	case *events.InputGiven:
		add(v.Note)
		for _, a := range v.Answers {
			add(string(a.Content))
		}
	case *events.CancelRequested:
		add(v.Reason)
	case *events.Retrying:
		errorTexts(v.Error, add)
	case *events.Recovered:
		add(v.Reason)
	case *events.Cancelled:
		add(v.Reason)
	case *events.Unknown:
		add(v.Why)
	case *events.Resolved:
		add(v.Note)
		if v.Result != nil {
			resultTexts(*v.Result, add)
		}
	case *events.Compensated:
		resultTexts(v.Result, add)
	case *events.TurnCancelRequested:
		add(v.Reason)
	case *events.TurnAbandoned:
		add(v.Reason)
	}
}

func resultTexts(r events.Result, add func(string)) {
	add(r.Text.Text)
	add(string(r.Data))
	errorTexts(r.Error, add)
}

func errorTexts(e *events.Error, add func(string)) {
	if e != nil {
		add(string(e.Code))
		add(e.Message)
	}
}
