package near_test

import (
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events/near"
)

func TestWord(t *testing.T) {
	known := []string{"can_ask", "calls", "deadline_ms", "call_deadline_ms", "principal", "args", "id", "tool", "wait_ms"}
	for word, want := range map[string]string{
		"canAsk": "can_ask", "can-ask": "can_ask", "CAN_ASK": "can_ask", "cal": "calls", "call": "calls", "deadline": "deadline_ms",
		"principle": "principal", "arguments": "", "argz": "args", "Id": "id", "ix": "id", "tools": "tool", "wait": "wait_ms",
		"": "", "colour": "", strings.Repeat("can_ask", 1<<20): "", "\x00": "", "ÿ": "", "timeout_ms": "",
	} {
		if got := near.Word(word, known); got != want {
			t.Errorf("%.40q: got %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"abc", "ABC", 0}, {"kitten", "sitting", 3}, {"ab", "ba", 2}, {strings.Repeat("a", 100), strings.Repeat("a", 64), 0}} {
		if got := near.Distance(c.a, c.b); got != c.want {
			t.Errorf("%.20q and %.20q: got %d, want %d", c.a, c.b, got, c.want)
		}
		if got := near.Distance(c.b, c.a); got != c.want {
			t.Errorf("%.20q and %.20q, turned round: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
