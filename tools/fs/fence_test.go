package fs

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// TestAFencedAttemptChangesNothing: whoever has lost its lease, or cannot say, leaves
// the file alone.
func TestAFencedAttemptChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		says  error
		code  events.Code
		class events.Class
	}{
		"it has its lease": {},
		"lost":             {fmt.Errorf("lock x: %w", tools.ErrFenced), events.Conflict, events.ClassConflict},
		"nobody can say":   {errors.New("no servers"), events.ExecutionError, events.ClassUnavailable},
	} {
		for tool, args := range map[string]m{
			WriteName: {"path": "f", "text": "mine\n"},
			EditName:  {"path": "f", "old_string": "was", "new_string": "mine"},
		} {
			t.Run(name+" "+tool, func(t *testing.T) {
				b := newBench(t, map[string]string{"f": "was\n"})
				in := b.invocation(tool, args)
				asked := 0
				in.Fence = func(context.Context) error {
					asked++
					if got := b.get("f"); got != "was\n" {
						t.Errorf("asked when the file was %q already", got)
					}
					return c.says
				}
				if tool == EditName {
					seen, err := Look(t.Context(), in.Workspace, "f")
					if err != nil {
						t.Fatal(err)
					}
					in.Expect = []events.Expectation{expectationOf(seen)}
				}
				spec, _ := b.reg.Lookup(tool)
				_, err := spec.Run(t.Context(), in)
				if asked != 1 {
					t.Errorf("asked %d times", asked)
				}
				if c.says == nil {
					if err != nil || b.get("f") != "mine\n" {
						t.Errorf("%v, %q", err, b.get("f"))
					}
					return
				}
				e, ok := errors.AsType[*tools.Error](err)
				if !ok || e.Code != c.code || e.Class != c.class || e.Effects != events.EffectsNone {
					t.Errorf("%v", err)
				}
				if got := b.get("f"); got != "was\n" {
					t.Errorf("the file is %q", got)
				}
				if l := b.leftovers(); l != nil {
					t.Errorf("left over: %v", l)
				}
			})
		}
	}
}
