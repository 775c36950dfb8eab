package exit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/events"
)

func TestCode(t *testing.T) {
	plain := errors.New("plain")
	for _, c := range []struct {
		err   error
		typed bool
		want  int
	}{
		{plain, false, Failed},
		{plain, true, Usage},
		{fmt.Errorf("ids: %w", events.ErrID), false, Usage},
		{fmt.Errorf("read: %w", bus.ErrUnavailable), false, Unavailable},
		{fmt.Errorf("append: %w", bus.ErrUncertain), false, Unavailable},
		{fmt.Errorf("open: %w", Unusable(plain, "")), true, Unavailable}, // the error knows better
		{Misused(bus.ErrUnavailable, ""), false, Usage},
		{&Failure{Err: bus.ErrUnavailable}, false, Unavailable}, // it leaves that to what is inside
		{&Failure{Err: plain, Code: 5}, true, 5},
	} {
		if got := Code(c.err, c.typed); got != c.want {
			t.Errorf("%v, typed %t: %d, want %d", c.err, c.typed, got, c.want)
		}
	}
}

func TestComplainHidesNothing(t *testing.T) {
	var out strings.Builder
	err := fmt.Errorf("open: %w", Misused(errors.New("a\x1b[2K\nb"), "do c"))
	Complain(&out, "sluice", err, Hint(err))
	Complain(&out, "sluice", bus.ErrTooLarge, Hint(bus.ErrTooLarge))
	want := "sluice: error: open: a\\u001b[2K\nb\nsluice: hint: do c\nsluice: error: commit too large\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
