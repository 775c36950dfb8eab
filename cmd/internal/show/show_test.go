package show

import (
	"encoding/json"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func TestVisibleJSONMeansTheSame(t *testing.T) {
	for _, s := range []string{"plain", "\u202eevil", "\u009b31m", "emoji 😀", "\U000e0041tag", "zero\u200bwidth", "界"} {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		shown := JSON(string(raw))
		var back string
		if err := json.Unmarshal([]byte(shown), &back); err != nil || back != s {
			t.Errorf("%q is shown as %s, which is %q (%v)", s, shown, back, err)
		}
		for _, r := range shown {
			if r == 0x202e || r == 0x9b || r == 0x200b || r == 0xe0041 {
				t.Errorf("%q is shown as %s", s, shown)
			}
		}
	}
}

func TestShortIsShort(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"界界界", 3, "界界界"}, // nine bytes, three runes
		{"界界界界", 3, "界界界…"},
		{"a\nb", 3, `a\u000ab`},
		{"ab\x1b[2K", 3, `ab\u001b…`},
	} {
		if got := Short(c.in, c.n); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestLinesKeepTheirBreaks(t *testing.T) {
	if got := Lines("a\r\n\tb\n"); got != "a\\u000d\n\\u0009b\n" {
		t.Errorf("%q", got)
	}
}

func TestCountsAreInTheOrderOfTheTable(t *testing.T) {
	m := map[events.Kind]int{events.KindUnknown: 1, events.KindDenied: 2, events.KindCompleted: 3, events.KindFailed: 0}
	if got := Counts(m); got != "2 denied, 3 completed, 1 unknown" {
		t.Errorf("%q", got)
	}
}
