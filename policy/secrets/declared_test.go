package secrets

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func TestMissing(t *testing.T) {
	const args = `{"v":"x","n":1,"t":true,"z":null,"e":"","o":{"a/b":{"~":"y"}},"l":["p",{"q":"r"}],"to\u006ben":"k","":"w"}`
	for _, p := range []string{"/v", "/n", "/z", "/e", "/o", "/o/a~1b", "/o/a~1b/~0", "/l", "/l/0", "/l/1/q", "/token", "/"} {
		if got, ok := Missing(args, []string{p}); len(got) > 0 || !ok {
			t.Errorf("%s: missing %q, %t", p, got, ok)
		}
	}
	vain := []string{"", "/V", "/vv", "/v/", "/v/0", "/t", "/o/a", "/o/a/b", "/o/a~1b/~", "/l/00", "/l/-", "/l/2", "/l/1/q/r", "v", "//v", "/%76"}
	if got, ok := Missing(args, append([]string{"/v"}, vain...)); !slices.Equal(got, vain) || !ok {
		t.Errorf("missing %q, %t", got, ok)
	}
	for _, none := range []string{"", " \n", "null", "{}"} {
		if got, ok := Missing(none, []string{"/v"}); len(got) != 1 || !ok {
			t.Errorf("%q: missing %q, %t", none, got, ok)
		}
	}
	for _, odd := range []string{`{"v":"x"`, `["x"]`, `"x"`, `{"v":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`} {
		if got, ok := Missing(odd, []string{"/v"}); len(got) != 0 || ok {
			t.Errorf("%.20q: missing %q, %t", odd, got, ok)
		}
	}
}

// TestDeclaredIsNeverLeft: whatever becomes of a call, what was declared does not stand
// in what is stored of it.
func TestDeclaredIsNeverLeft(t *testing.T) {
	const secret = "plain words"
	for name, c := range map[string]struct {
		args     string
		declared []string
		code     events.Code
	}{
		"cut off":             {`{"v":"` + secret, []string{"/v"}, events.InvalidParam},
		"a list":              {`["` + secret + `"]`, []string{"/0"}, events.InvalidParam},
		"a string":            {`"` + secret + `"`, []string{"/v"}, events.InvalidParam},
		"something behind":    {`{"v":"` + secret + `"} {}`, []string{"/v"}, events.InvalidParam},
		"too deep":            {`{"v":` + strings.Repeat("[", 300) + `"` + secret + `"` + strings.Repeat("]", 300) + `}`, []string{"/v"}, events.InvalidParam},
		"beside a command":    {`{"v":"` + secret + `","command":"ls"}`, []string{"/v", "/command"}, events.AccessDenied},
		"as a command":        {`{"command":"` + secret + `"}`, []string{"/command"}, events.AccessDenied},
		"again in a command":  {`{"v":"` + secret + `","command":"echo ` + secret + `"}`, []string{"/v"}, events.AccessDenied},
		"again as a name":     {`{"v":"` + secret + `","o":{"` + secret + `":1}}`, []string{"/v"}, events.AccessDenied},
		"beside a mark":       {`{"v":"` + secret + `","x":"` + Mark(Token) + `"}`, []string{"/v"}, events.InvalidParam},
		"too long":            {`{"v":"` + secret + strings.Repeat("x", MaxValue) + `"}`, []string{"/v"}, events.TooLarge},
		"too many":            {`{"v":["` + secret + `"` + manyTexts(MaxValues) + `],"x":"` + secret + `"}`, []string{"/v"}, events.TooLarge},
		"too many, and again": {`{"v":["` + secret + `"` + manyTexts(50_000) + `],"` + secret + `":1}`, []string{"/v"}, events.TooLarge},
		"below what is named": {`{"v":{"a":["` + secret + `"]},"x":"` + Mark(Token) + `"}`, []string{"/v"}, events.InvalidParam},
	} {
		s := sealed(c.args, c.declared...)
		if s.Refused == nil || s.Refused.Code != c.code || strings.Contains(s.Args+s.Refused.Reason, secret) || len(s.Refs) > 0 {
			t.Errorf("%s: %.300q, %+v", name, s.Args, s.Refused)
		}
		if got := RedactArgs(c.args, c.declared...); strings.Contains(got, secret) {
			t.Errorf("%s: %.300q", name, got)
		}
	}
	for _, none := range []string{"", " ", "null", "{}"} { // a schema may declare what is not there
		if s := sealed(none, "/v"); s.Args != none || s.Refused != nil {
			t.Errorf("%q: %q, %+v", none, s.Args, s.Refused)
		}
	}
}

// manyTexts are n different strings of a list, with a comma before each.
func manyTexts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"another-%d"`, i)
	}
	return b.String()
}
