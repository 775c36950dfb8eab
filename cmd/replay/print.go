package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// print writes what is safe to show. What the writer says is asked once, at the end.
func (a *app) print(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// note writes a line for the person at the terminal.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, visibleLines(fmt.Sprintf(format, args...)))
}

// printJSON writes one line of JSON.
func (a *app) printJSON(v any) error {
	b, err := plainJSON(v)
	if err != nil {
		return err
	}
	a.print("%s\n", b)
	return nil
}

// plainJSON is JSON without the escapes meant for HTML.
func plainJSON(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// visibleJSON escapes, as JSON does, every character that a terminal would not
// show as itself. The JSON means the same. Line breaks between values stay.
func visibleJSON(s string) string {
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

// visibleLines is tools.Visible for text of several lines.
func visibleLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = tools.Visible(l)
	}
	return strings.Join(lines, "\n")
}

// short is a text in at most n runes, safe to show on one line.
func short(s string, n int) string {
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

// maxShown is how many runes of a body are shown.
const maxShown = 240

// body is a text on one line: what is long is cut, and named by its digest.
func body(b events.Body) string {
	switch {
	case b.Ref != nil:
		return fmt.Sprintf("(%d bytes by reference, %s)", b.Ref.Size, short(b.Ref.Digest, 80))
	case utf8.RuneCountInString(b.Text) > maxShown:
		return fmt.Sprintf("%s (%d bytes, %s)", short(b.Text, maxShown), len(b.Text), lifecycle.Digest([]byte(b.Text)))
	}
	return tools.Visible(b.Text)
}

// stamp is a time as it is shown everywhere: UTC, so that what several machines
// wrote can be compared.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// took is a duration for a person.
func took(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// count is for example "1 turn" or "3 turns".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
