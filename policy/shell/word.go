package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is an argument as the command will see it, as far as that is known.
type word struct {
	text   string // after quote removal; of an opaque word its source
	opaque bool   // an expansion decides what it becomes, and perhaps how many words
	glob   bool   // file names may take its place
	free   bool   // a glob that begins with what file names decide: it may become a flag
	name   string // text as the name that it may be: with * for what an expansion decides
	shown  string // for Analysis.Commands
}

// flag says whether the word may be taken for a flag.
func (w word) flag() bool { return len(w.text) > 1 && w.text[0] == '-' }

// is reports whether the word is surely this text.
func (w word) is(text string) bool { return !w.opaque && !w.glob && w.text == text }

// plain reports whether the word is surely its text.
func (w word) plain() bool { return !w.opaque && !w.glob }

// words evaluates the words of a command. Behind its name, plain braces are the words
// that they stand for.
func (c *classifier) words(in []*syntax.Word) []word {
	out := make([]word, 0, len(in))
	for i, w := range in {
		each := alternatives(w)
		if i == 0 || each == nil {
			out = append(out, c.word(w))
			continue
		}
		for _, text := range each {
			b := builder{}
			b.bare(text)
			out = append(out, word{text: text, name: text, glob: b.glob, free: b.free, shown: text})
		}
	}
	return out
}

// maxAlternatives is how many words one with braces may become.
const maxAlternatives = 32

// alternatives are the words that one becomes with a single pair of braces in plain text,
// as --include=*.{ts,tsx}: nothing quoted, escaped or left out, no sequence, no braces
// inside others. They are nil for every other word.
func alternatives(w *syntax.Word) []string {
	if len(w.Parts) != 1 {
		return nil
	}
	lit, ok := w.Parts[0].(*syntax.Lit)
	if !ok || strings.IndexFunc(lit.Value, func(r rune) bool { return special(r) && !strings.ContainsRune("{}*", r) }) >= 0 {
		return nil
	}
	before, rest, _ := strings.Cut(lit.Value, "{")
	inside, behind, _ := strings.Cut(rest, "}")
	each := strings.Split(inside, ",")
	if len(each) < 2 || len(each) > maxAlternatives || strings.ContainsAny(before+inside+behind, "{}") || len(lit.Value) != len(before)+len(inside)+len(behind)+2 ||
		strings.Contains(inside, "..") {
		return nil
	}
	for i, text := range each {
		if text == "" {
			return nil
		}
		each[i] = before + text + behind
	}
	return each
}

// source is the part of the line behind a node.
func (c *classifier) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(c.line) {
		return ""
	}
	return c.line[from:to]
}

func (c *classifier) word(w *syntax.Word) word {
	b := builder{}
	for _, p := range w.Parts {
		b.part(p)
	}
	out := word{text: b.text.String(), opaque: b.opaque, glob: b.glob, free: b.free}
	out.name = out.text
	if out.text == "[" {
		out.glob, out.free = false, false // the command: a pattern needs its other bracket
	}
	switch {
	case out.opaque:
		out.text = c.source(w)
		out.shown = out.text
	case out.glob:
		out.shown = c.source(w)
	default:
		out.shown = show(out.text)
	}
	return out
}

// builder puts a word together from its parts.
type builder struct {
	text         strings.Builder
	opaque       bool
	glob, free   bool
	brace, comma bool // a brace was opened, and behind it stood what tells alternatives apart
}

func (b *builder) part(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.bare(p.Value)
	case *syntax.SglQuoted:
		// A shell without $'…' would end the string elsewhere.
		b.opaque = b.opaque || p.Dollar
		if known, _, escaped := strings.Cut(p.Value, `\`); p.Dollar && escaped {
			b.text.WriteString(known + "*")
			return
		}
		b.text.WriteString(p.Value)
	case *syntax.DblQuoted:
		b.opaque = b.opaque || p.Dollar
		for _, q := range p.Parts {
			if l, ok := q.(*syntax.Lit); ok {
				b.quoted(l.Value)
				continue
			}
			b.expansion(q)
		}
	default:
		b.expansion(p)
	}
}

// expansion takes a part that the shell will replace. Only the exit status of
// the last command is harmless everywhere.
func (b *builder) expansion(p syntax.WordPart) {
	e, ok := p.(*syntax.ParamExp)
	if ok && e.Short && e.Param != nil && e.Param.Value == "?" && e.Index == nil && e.Exp == nil {
		b.text.WriteByte('0')
		return
	}
	b.opaque = true
	b.text.WriteByte('*')
}

// bare takes text outside quotes.
func (b *builder) bare(s string) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				b.opaque = true // shells disagree on a backslash at the end
				return
			}
			b.text.WriteByte(s[i])
			continue
		case '*', '?', '[':
			b.free = b.free || b.text.Len() == 0
			b.glob = true
		case '~':
			before := b.text.String()
			if before == "" || strings.HasSuffix(before, "=") || strings.HasSuffix(before, ":") {
				b.opaque = true
			}
		case '{':
			b.brace = true
		case ',':
			b.comma = b.brace
		case '.':
			b.comma = b.comma || b.brace && i > 0 && s[i-1] == '.'
		case '}':
			b.opaque = b.opaque || b.comma // one word may become several
		}
		b.text.WriteByte(s[i])
	}
}

// quoted takes text inside double quotes.
func (b *builder) quoted(s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\", s[i+1]) >= 0 {
			i++
		}
		b.text.WriteByte(s[i])
	}
}

// show quotes a text so that a shell reads it back as one word.
func show(s string) string {
	if s != "" && strings.IndexFunc(s, special) < 0 && s[0] != '~' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func special(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,^", r) || r >= 0x80)
}

// unsafe returns the first word that is not known before the line runs.
func unsafe(args []word) (word, bool) {
	for _, w := range args {
		if w.opaque {
			return w, true
		}
	}
	return word{}, false
}
