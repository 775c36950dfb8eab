package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/cmd/internal/show"
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
	w    io.Writer
	turn sync.Mutex // held while it is written: for as long as nobody reads
	mu   sync.Mutex // guards err
	err  error
}

func (s *sink) write(text string) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.failed() != nil {
		return
	}
	_, err := io.WriteString(s.w, text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Write is io.Writer's, for what lays out columns.
func (s *sink) Write(b []byte) (int, error) {
	s.write(string(b))
	return len(b), s.failed()
}

// failed is the first error, nil if there was none.
func (s *sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// print writes what is safe to show.
func (a *app) print(format string, args ...any) { a.out.write(fmt.Sprintf(format, args...)) }

// say prints v as JSON where that is asked for, else the text.
func (a *app) say(v any, format string, args ...any) error {
	if a.json {
		return a.printJSON(v)
	}
	a.print(format, args...)
	return nil
}

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
		s = show.JSON(s)
	}
	a.out.write(s + "\n")
}
