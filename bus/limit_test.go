package bus

import (
	"strings"
	"testing"
)

// TestLimitCells: names are read as they were written, and no two buckets share a cell.
func TestLimitCells(t *testing.T) {
	seen := map[string]bool{}
	for _, principal := range []string{"", "a", "a.b", "_", "=", "=41", "A", "é", strings.Repeat("x", 100), strings.Repeat("x", 101), strings.Repeat("y", 300)} {
		for _, prefix := range []string{SlotCells, RateCells} {
			key := LimitCell(prefix, "r-1_x", principal)
			if seen[key] || len(key) > 200 {
				t.Errorf("%q: %s", principal, key)
			}
			seen[key] = true
			p, rule, who, ok := ParseLimitCell(key)
			whole := who == principal || len(principal) > 100 && strings.HasPrefix(who, "sha256:")
			if !ok || p != prefix || rule != "r-1_x" || !whole {
				t.Errorf("%s: %s %s %q %t", key, p, rule, who, ok)
			}
		}
	}
	for _, key := range []string{"", "abc", "limit.", "limit.other.x", "limit.slot.x.=4"} {
		if _, _, _, ok := ParseLimitCell(key); ok {
			t.Errorf("%q is a limit's", key)
		}
	}
}
