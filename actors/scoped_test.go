package actors

import (
	"testing"

	"github.com/sluice-run/sluice/events"
)

// TestScopedKeys: a key belongs to one principal, whatever the names are made of.
func TestScopedKeys(t *testing.T) {
	seen := make(map[string]events.Principal)
	for _, p := range []events.Principal{
		{ID: "a"},
		{ID: "a b"},
		{ID: "a", Parents: []string{"x"}},
		{ID: "a", Parents: []string{"y"}},
		{ID: "a", Parents: []string{"x", "y"}},
		{ID: "a", Parents: []string{`x""y`}},
		{ID: `"a"`},
		{ID: `"a""x"`},
		{ID: "a charge k"},
	} {
		got := scopedKey(&Asked{Turn: &events.TurnSubmitted{Principal: p}}, "charge", "k")
		if other, taken := seen[got]; taken {
			t.Errorf("%v and %v have one key: %s", p, other, got)
		}
		seen[got] = p
	}
	one := scopedKey(&Asked{Turn: &events.TurnSubmitted{Principal: events.Principal{ID: "a b"}}}, "c", "d")
	two := scopedKey(&Asked{Turn: &events.TurnSubmitted{Principal: events.Principal{ID: "a"}}}, "b", "c d")
	if one == two {
		t.Errorf("the same key twice: %s", one)
	}
	if got := scopedKey(&Asked{Turn: &events.TurnSubmitted{Principal: events.Principal{ID: "a"}}}, "charge", "k"); got != "a charge k" {
		t.Errorf("a plain key is %q: the keys of running clusters would be forgotten", got)
	}
}
