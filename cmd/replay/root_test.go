package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/cmd/internal/exit"
)

// full is an output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAnOutputThatIsLostIsNoSuccess(t *testing.T) {
	var errs strings.Builder
	if code := run(t.Context(), []string{"version"}, strings.NewReader(""), full{}, &errs); code != exit.Failed {
		t.Errorf("exit code %d", code)
	}
	if want := "sluice-replay: error: write the output: no space left on device\n"; errs.String() != want {
		t.Errorf("%q", errs.String())
	}
}

func TestTellSaysOnceWhatIsNew(t *testing.T) {
	var errs strings.Builder
	a := &app{err: &errs}
	a.tell(errors.Join(errSaid, errors.Join(nil, exit.Misused(errors.New("a\x1b[2K"), "do b")), errors.New("c")))
	if want := "sluice-replay: error: a\\u001b[2K\nsluice-replay: hint: do b\nsluice-replay: error: c\n"; errs.String() != want {
		t.Errorf("%q", errs.String())
	}
}
