package events

import "testing"

func TestJSONIsMadeWholeOnce(t *testing.T) {
	for in, want := range map[string]string{
		`{"v":"\ud83d\ude00"}`:             `{"v":"\ud83d\ude00"}`,
		`{"v":"\ud83d"}`:                   `{"v":"\ufffd"}`,
		`{"v":"\ud83d\ud83d\ude00"}`:       `{"v":"\ufffd\ud83d\ude00"}`,
		`{"v":"\ude00\ud83d"}`:             `{"v":"\ufffd\ufffd"}`,
		`{"v":"\udE00x"}`:                  `{"v":"\ufffdx"}`,
		`{"v":"\\ud83d"}`:                  `{"v":"\\ud83d"}`,
		`{"v":"\\\ud83d"}`:                 `{"v":"\\\ufffd"}`,
		`{"v":"\n\ud83d\n"}`:               `{"v":"\n\ufffd\n"}`,
		`{"a\udc00":1e400, "b":[ 1.50 ] }`: `{"a\ufffd":1e400, "b":[ 1.50 ] }`,
		`{"v":"\u12"}`:                     `{"v":"\u12"}`,
		"{\"v\":\"a\xff\xc3\"}":            "{\"v\":\"a\uFFFD\"}",
		`\`:                                `\`,
		`\ud800`:                           `\ufffd`,
		`\ud800\`:                          `\ufffd\`,
		`\u`:                               `\u`,
		``:                                 ``,
	} {
		got := string(WholeJSON([]byte(in)))
		if got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		if twice := string(WholeJSON([]byte(got))); twice != want {
			t.Errorf("%q twice became %q", in, twice)
		}
	}
}
