package actors

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
)

// What a map holds is sent on in one order: the order of a map is chance that no
// seed decides.

func compareTurns(a, b events.TurnKey) int {
	return cmp.Or(strings.Compare(a.Trace, b.Trace), strings.Compare(a.Turn, b.Turn))
}

func compareAttempts(a, b attemptKey) int {
	return cmp.Or(
		compareTurns(a.call.TurnKey(), b.call.TurnKey()),
		cmp.Compare(a.call.Offset, b.call.Offset), cmp.Compare(a.attempt, b.attempt),
	)
}

func compareEffects(a, b lifecycle.Effect) int {
	return cmp.Or(
		cmp.Compare(a.Call, b.Call), cmp.Compare(a.Do, b.Do), cmp.Compare(a.Attempt, b.Attempt),
		a.At.Compare(b.At),
	)
}

// ordered are a map's keys, in order.
func ordered[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// orderedBy are a map's keys in the order of compare.
func orderedBy[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}
