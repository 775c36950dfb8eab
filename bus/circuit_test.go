package bus_test

import (
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus"
)

// TestCircuitCells: every circuit has a key of its own, which fits a cell and tells the
// circuit again.
func TestCircuitCells(t *testing.T) {
	tools := []string{"Fetch", "_x", "mcp:down", "server__tool", strings.Repeat("t", 64), "_" + strings.Repeat("t", 63)}
	names := []string{
		"", "https://example.com", "http://[2001:db8::1]:8080", "a", "_", ".", "..", "=2E", "a.b", "~", strings.Repeat("a", bus.MaxCircuit),
		strings.Repeat("/", bus.MaxCircuit/3),
	}
	seen := map[string]bool{}
	for _, tool := range tools {
		for _, of := range names {
			if of != "" && !bus.ValidCircuit(of) {
				t.Errorf("%q is no name", of)
			}
			key := bus.CircuitCell(tool, of)
			if seen[key] || len(key) > 200 || strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-=.") != "" {
				t.Errorf("%s of %s has the key %q", of, tool, key)
			}
			seen[key] = true
			if gotTool, gotOf, err := bus.ParseCircuitCell(key); err != nil || gotTool != tool || gotOf != of {
				t.Errorf("%q is %q of %q, %v", key, gotOf, gotTool, err)
			}
		}
	}
	for _, bad := range []string{
		"", " ", "a b", "a\n", "\x1b[2J", "\u202ea", "é", "a\x7f", "\xff", strings.Repeat("a", bus.MaxCircuit+1), strings.Repeat("/", bus.MaxCircuit/3+1),
	} {
		if bus.ValidCircuit(bad) {
			t.Errorf("%q is a name", bad)
		}
	}
}
