package tools_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/tools"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"ls -la 'a b' | grep é > 世界.txt 😀": "ls -la 'a b' | grep é > 世界.txt 😀",
		"rm -rf ~ #\x1b[2K\x1b[1Gls -la":   `rm -rf ~ #\u001b[2K\u001b[1Gls -la`,
		"a\u202eb":                         `a\u202eb`,
		"\x1b]52;c;aGk=\x07":               `\u001b]52;c;aGk=\u0007`,
		"ok\rrm x\ny\tz\x00\x7f\u0085":     `ok\u000drm x\u000ay\u0009z\u0000\u007f\u0085`,
		"a\u200bb\u2066c\u00add\ufeff":     `a\u200bb\u2066c\u00add\ufeff`,
		"a\u00a0b\u2028c\u3000d":           `a\u00a0b\u2028c\u3000d`,
		"tag \U000e0041, \u3164, \ufe0f":   `tag \U000e0041, \u3164, \ufe0f`,
		"bad \xff\xfe":                     `bad \xff\xfe`,
		`printf "a\n\t"`:                   `printf "a\n\t"`,
		`\u001b and \x1b`:                  `\\u001b and \\x1b`,
		"\\\x1b":                           `\\\u001b`,
		`a\\b`:                             `a\\b`,
		"\ufffd":                           "\ufffd",
		"e\u0301 हिन्दी ภาษาไทย שָׁלוֹם": "e\u0301 हिन्दी ภาษาไทย שָׁלוֹם",
		"\u0301rm":                         `\u0301rm`,
		"a \u0301| \u0338\x1b\u0301":       `a \u0301| \u0338\u001b\u0301`,
		"a\u0301\u0302\u0303\u0304\u0305b": "a\u0301\u0302\u0303\u0304" + `\u0305b`,
		"\\\u0301":                         `\\\u0301`,
	} {
		if got := tools.Visible(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// TestVisibleHidesNothing: nothing invisible is left, and no two texts look alike.
func TestVisibleHidesNothing(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{`\`, `\`, "u", "U", "x", "001b", "\x1b", "\u202e", "\xff", "\n", "a", "\U000e0041", "e0041"}),
		rapid.StringN(1, 1, 4),
	)
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "") })
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		in := text.Draw(t, "text")
		got := tools.Visible(in)
		for _, r := range got {
			if !unicode.IsPrint(r) || !utf8.ValidString(got) {
				t.Fatalf("%q is shown as %q", in, got)
			}
		}
		if was, ok := seen[got]; ok && was != in {
			t.Fatalf("%q and %q both look like %q", was, in, got)
		}
		seen[got] = in
	})
}
