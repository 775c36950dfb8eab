package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// literal is what a word stands for, if nothing in it is expanded.
func literal(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	var b strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(part.Value, "*?[{") {
				return "", false
			}
			b.WriteString(unescape(part.Value))
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false
			}
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			for _, in := range part.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok || part.Dollar {
					return "", false
				}
				b.WriteString(unquote(lit.Value))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// literals are what words stand for, "" for those that are not literal.
func literals(in []*syntax.Word) []string {
	out := make([]string, len(in))
	for i, w := range in {
		if s, ok := literal(w); ok {
			out[i] = s
		}
	}
	return out
}

// unescape takes the backslashes of unquoted text away.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unquote takes the backslashes of text in double quotes away.
func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
