package gateway

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/sluice-run/sluice/events"
)

// wholeText replaces what is no text by U+FFFD: invalid UTF-8.
func wholeText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// wholeJSON is wholeText for JSON: half of a surrogate pair, written as an
// escape, becomes U+FFFD too. It need not be valid JSON, and is not made so.
func wholeJSON(s string) string {
	s = wholeText(s)
	if !strings.Contains(s, `\u`) {
		return s
	}
	var b strings.Builder
	done := 0
	for i := 0; i+1 < len(s); {
		if s[i] != '\\' {
			i++
			continue
		}
		if s[i+1] != 'u' {
			i += 2 // an escaped backslash must not hide one that follows
			continue
		}
		r, ok := escaped(s[i:])
		switch {
		case !ok || !utf16.IsSurrogate(r):
			i += 2
			continue
		case i+12 <= len(s):
			if low, ok := escaped(s[i+6:]); ok && utf16.DecodeRune(r, low) != '\uFFFD' {
				i += 12
				continue
			}
		}
		b.WriteString(s[done:i])
		b.WriteString(`\ufffd`)
		i += 6
		done = i
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// escaped reads the escape \uXXXX that s begins with.
func escaped(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

// whole makes text of everything in a submission, once, at the door. What is
// the same is spelt the same afterwards, so that submitting again attaches.
func whole(s events.TurnSubmitted) events.TurnSubmitted {
	s.Principal.ID, s.Principal.Kind = wholeText(s.Principal.ID), wholeText(s.Principal.Kind)
	s.Principal.Parents = wholeAll(s.Principal.Parents)
	s.Allow = wholeAll(s.Allow)
	s.Workspace, s.Traceparent = wholeText(s.Workspace), wholeText(s.Traceparent)
	s.Imported = wholeText(s.Imported)
	s.Calls = slices.Clone(s.Calls)
	for i := range s.Calls {
		c := &s.Calls[i]
		c.ProviderID, c.Tool, c.Key = wholeText(c.ProviderID), wholeText(c.Tool), wholeText(c.Key)
		c.Args.Text, c.Extra.Text = wholeJSON(c.Args.Text), wholeJSON(c.Extra.Text)
		if len(c.Secrets) == 0 {
			c.Secrets = nil
		}
	}
	return s
}

func wholeAll(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = wholeText(s)
	}
	return out
}
