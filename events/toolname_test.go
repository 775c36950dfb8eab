package events

import (
	"strings"
	"testing"
)

func TestBothSpellingsAreOneTool(t *testing.T) {
	long := strings.Repeat("x", 31)
	for spelled, want := range map[string]string{
		"files:read": "files__read", "files.read": "files__read", "files__read": "files__read", "Read": "Read",
		"a_b:c-d": "a_b__c-d", "a__b:c": "a__b__c", // whatever has such a name
		"a:b:c": "a:b:c", "a.b:c": "a.b:c", ":a": ":a", "a:": "a:", ":": ":", "": "",
		"a b:c": "a b:c", "é:c": "é:c", "a:b\x00": "a:b\x00",
		long + ":" + long:        long + "__" + long,
		long + "x:" + long + "x": long + "x:" + long + "x", // 66 with "__"
	} {
		got := ToolName(spelled)
		if got != want {
			t.Errorf("%q: got %q, want %q", spelled, got, want)
		}
		if again := ToolName(got); again != got {
			t.Errorf("%q became %q and then %q", spelled, got, again)
		}
	}
	for name, want := range map[string]bool{"": false, "a": true, "a:b": false, "a.b": false, "A-_9": true, "a\n": false, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false} {
		if ValidToolName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
