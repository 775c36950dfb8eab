// Package exit holds how a command ends: its exit codes, and errors that know
// theirs and say what to do next.
package exit

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
)

// Exit codes of every command. A command may have more, from 4 on.
const (
	OK          = 0
	Failed      = 1 // what was asked for could not be done
	Usage       = 2 // the command line, the configuration or the input is wrong
	Unavailable = 3 // the log cannot be reached, or the data directory cannot be used
)

// Failure is an error that knows its exit code and what to do about it.
type Failure struct {
	Err  error
	Hint string // "" says that the error's text is enough
	Code int    // 0 leaves it to what is inside
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap is the error itself.
func (f *Failure) Unwrap() error { return f.Err }

// Misused is an error of whoever typed the command.
func Misused(err error, hint string) error { return &Failure{err, hint, Usage} }

// Unusable is an error with the log's keeper.
func Unusable(err error, hint string) error { return &Failure{err, hint, Unavailable} }

// Code is the exit code of an error that is not nil. typed says that the command
// knows it for an error of whoever typed it, unless the error knows better.
func Code(err error, typed bool) int {
	var f *Failure
	switch {
	case errors.As(err, &f) && f.Code != 0:
		return f.Code
	case typed, errors.Is(err, events.ErrID):
		return Usage
	case errors.Is(err, bus.ErrUnavailable), errors.Is(err, bus.ErrUncertain):
		return Unavailable
	}
	return Failed
}

// Hint is what the error itself says is to be done about it, "" if nothing.
func Hint(err error) string {
	var f *Failure
	if errors.As(err, &f) {
		return f.Hint
	}
	return ""
}

// UnknownVerb says whether an error is cobra's, of a verb that the command has not.
func UnknownVerb(err error) bool { return strings.HasPrefix(err.Error(), "unknown command") }

// Complain tells of an error of the named command, and what to do about it; hint
// may be "".
func Complain(w io.Writer, name string, err error, hint string) {
	fmt.Fprintf(w, "%s: error: %s\n", name, show.Lines(err.Error()))
	if hint != "" {
		fmt.Fprintf(w, "%s: hint: %s\n", name, show.Lines(hint))
	}
}
