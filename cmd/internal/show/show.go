// Package show makes texts safe to show: what came out of a log was written by
// strangers, and a terminal obeys what it is shown.
package show

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// JSON escapes, as JSON does, every character that a terminal would not show as
// itself. The JSON means the same. Line breaks between values stay.
func JSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r < utf8.RuneSelf && r >= ' ' && r != 0x7f, r >= utf8.RuneSelf && tools.Visible(string(r)) == string(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Lines is tools.Visible for text of several lines.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = tools.Visible(l)
	}
	return strings.Join(lines, "\n")
}

// Short is a text in at most n runes, safe to show on one line. What is cut ends
// in an ellipsis.
func Short(s string, n int) string {
	if len(s) <= n {
		return tools.Visible(s)
	}
	for i := range s {
		if n--; n < 0 {
			return tools.Visible(s[:i]) + "…"
		}
	}
	return tools.Visible(s)
}

// Endings are the terminals of calls, in the order of the table of kinds.
var Endings = func() []events.Kind {
	var out []events.Kind
	for _, row := range events.Kinds {
		if row.Terminal && !row.Turn {
			out = append(out, row.Kind)
		}
	}
	return out
}()

// Counts are ends of calls by kind, in the order of Endings: 2 completed, 1 denied.
func Counts(m map[events.Kind]int) string {
	var parts []string
	for _, kind := range Endings {
		if n := m[kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	return strings.Join(parts, ", ")
}
