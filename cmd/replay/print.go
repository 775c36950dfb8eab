package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// print writes what is safe to show. What the writer says is asked once, at the end.
func (a *app) print(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// note writes a line for the person at the terminal.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, show.Lines(fmt.Sprintf(format, args...)))
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

// say prints v as JSON where that is asked for, else the text.
func (a *app) say(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	a.print(format, args...)
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

// maxShown is how many runes of a body are shown.
const maxShown = 240

// body is a text on one line: what is long is cut, and named by its digest.
func body(b events.Body) string {
	switch {
	case b.Ref != nil:
		return fmt.Sprintf("(%d bytes by reference, %s)", b.Ref.Size, show.Short(b.Ref.Digest, 80))
	case utf8.RuneCountInString(b.Text) > maxShown:
		return fmt.Sprintf("%s (%d bytes, %s)", show.Short(b.Text, maxShown), len(b.Text), lifecycle.Digest([]byte(b.Text)))
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
