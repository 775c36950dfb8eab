package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/tools"
)

// isTerminal says whether a person looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// sink is where a command's output goes. After the first error nothing more is
// written: whoever reads has seen enough, or the disk is full.
type sink struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (s *sink) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_, s.err = io.WriteString(s.w, text)
	}
}

// failed is the first error, nil if there was none.
func (s *sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// print writes what is safe to show.
func (a *app) print(format string, args ...any) { a.out.write(fmt.Sprintf(format, args...)) }

// note writes a line for the person at the terminal.
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }

// printJSON writes one line of JSON.
func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.printRaw(b)
	return nil
}

// printRaw writes one line of JSON that is there already. On a terminal, what
// it would not show as itself is escaped; the JSON means the same.
func (a *app) printRaw(raw json.RawMessage) {
	s := string(raw)
	if isTerminal(a.out.w) {
		s = visibleJSON(s)
	}
	a.out.write(s + "\n")
}

// visibleJSON escapes, as JSON does, every character that a terminal would not
// show as itself.
func visibleJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf && r >= ' ' && r != 0x7f, tools.Visible(string(r)) == string(r):
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
	if r := []rune(s); len(r) > n {
		return tools.Visible(string(r[:n])) + "…"
	}
	return tools.Visible(s)
}
