package lifecycle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/lifecycle"
)

func hashOf(t testing.TB, raw string) string {
	t.Helper()
	a, err := lifecycle.Parse(raw)
	if err != nil {
		t.Fatalf("%s: %v", clip(raw), err)
	}
	return a.Hash
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// TestSameArguments has groups of spellings: within a group one hash, between
// groups different ones.
func TestSameArguments(t *testing.T) {
	seen := map[string]string{}
	for _, group := range [][]string{
		{"", "   ", "\n\t", "null", " null ", "{}", "{ }"},
		{`{"id":9007199254740993}`, `{"id":9007199254740993.0}`, `{"id":90071992547409930e-1}`, ` { "id" : 9.007199254740993E+15 } `},
		{`{"id":9007199254740992}`},
		{`{"id":10000000000000001}`},
		{`{"id":10000000000000000}`, `{"id":1e16}`},
		{`{"id":1234567890123456789}`},
		{`{"id":"1234567890123456789"}`, `{"\u0069d":"\u003123456789\u003012345678\u0039"}`},
		{`{"id":1}`, `{"id":1.0}`, `{"id":1e0}`, `{"id":10E-1}`, `{"id":0.1e1}`, `{"id":1.000}`},
		{`{"id":1000}`, `{"id":1e3}`, `{"id":1E+3}`, `{"id":1000.0}`, `{"id":0.001e6}`},
		{`{"id":0}`, `{"id":-0}`, `{"id":0.0}`, `{"id":0e9}`, `{"id":-0.00e-3}`},
		{`{"id":-1}`, `{"id":-1.0}`},
		{`{"id":0.1}`, `{"id":1e-1}`, `{"id":0.10}`},
		{`{"id":1e300}`, `{"id":10e299}`},
		{`{"id":1e-300}`, `{"id":0.1e-299}`},
		{`{"id":1e999999999999999999999}`},
		{`{"id":1e999999999999999999998}`},
		{`{"id":true}`},
		{`{"id":false}`},
		{`{"id":null}`},
		{`{"id":"null"}`},
		{`{"id":""}`},
		{`{"id":[]}`},
		{`{"id":{}}`},
		{`{"id":[1,2]}`, `{"id":[1.0,2e0]}`},
		{`{"id":[2,1]}`},
		{`{"id":[[1],2]}`},
		{`{"id":["1,2"]}`},
		{`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`},
		{`{"a":1,"b":{"c":3,"d":2}}`},
		{`{"a":"\u003cb\u003e\/\u0026"}`, `{"a":"<b>/&"}`},
		{`{"a":"\ud83d\ude00"}`, `{"a":"😀"}`},
		{`{"a":"\ud83d"}`, `{"a":"\ufffd"}`, `{"a":"�"}`},
	} {
		want := hashOf(t, group[0])
		if before, ok := seen[want]; ok {
			t.Errorf("%s and %s have one hash", before, group[0])
		}
		seen[want] = group[0]
		for _, s := range group {
			if got := hashOf(t, s); got != want {
				t.Errorf("%s and %s have different hashes", group[0], s)
			}
		}
	}
}

// TestExactDigits: what the tool sees is what the model wrote, compact.
func TestExactDigits(t *testing.T) {
	for raw, want := range map[string]string{
		`{ "id" : 9007199254740993 }`:                  `{"id":9007199254740993}`,
		`{"id":10000000000000001,"b":1.50,"a":-0}`:     `{"id":10000000000000001,"b":1.50,"a":-0}`,
		`{"id":1234567890123456789012345678901234567}`: `{"id":1234567890123456789012345678901234567}`,
		`{"b":[1E3, 2.0 ],"a":{"c":null,"b":true}}`:    `{"b":[1E3,2.0],"a":{"c":null,"b":true}}`,
		`{"html":"<a href=\"x\">&amp;</a>"}`:           `{"html":"<a href=\"x\">&amp;</a>"}`,
		"":                                             `{}`,
		"null":                                         `{}`,
	} {
		a, err := lifecycle.Parse(raw)
		if err != nil || string(a.JSON) != want {
			t.Errorf("%s: got %s, %v, want %s", raw, a.JSON, err, want)
		}
	}
}

// TestBadArguments are refused with a sentence that says what is wrong.
func TestBadArguments(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	arrays := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	for raw, says := range map[string]string{
		`{`:                                      "it ends too early",
		`{"command":"rm -rf /tmp/x`:              "it ends too early",
		`{"path":"a"`:                            "it ends too early",
		`[1]`:                                    "must be an object",
		`"{}"`:                                   "must be an object",
		`1`:                                      "must be an object",
		`true`:                                   "must be an object",
		`{} {}`:                                  "something stands behind the object",
		`{}x`:                                    "something stands behind the object",
		`{"a":1}]`:                               "something stands behind the object",
		`{"a":1,}`:                               "",
		`{"a":[1,]}`:                             "",
		`{"a":1]`:                                "",
		`{a:1}`:                                  "",
		`{'a':1}`:                                "",
		`{"a":01}`:                               "",
		`{"a":+1}`:                               "",
		`{"a":NaN}`:                              "",
		`{"a":1 "b":2}`:                          "",
		`{"a" 1}`:                                "",
		`{1:2}`:                                  "",
		"{\"a\":\"\n\"}":                         "",
		`{"a":1,"a":1}`:                          `member "a" stands twice`,
		`{"a":1,"\u0061":2}`:                     `member "a" stands twice`,
		`{"b":{"a":1,"c":2,"a":3}}`:              `member "a" stands twice`,
		`{"b":[{"a":1},{"a":1,"a":2}]}`:          `member "a" stands twice`,
		deep(65):                                 "nested deeper than 64",
		deep(100_000):                            "nested deeper than 64",
		arrays(64):                               "nested deeper than 64",
		arrays(500_000):                          "nested deeper than 64",
		strings.Repeat(" ", lifecycle.MaxArgs+1): "at most 1048576",
		`{"\ud800":1,"\udfff":2}`:                "stands twice", // both are U+FFFD to whoever reads them
		"{\"a\xff\":1,\"a\xfe\":2}":              "stands twice",
	} {
		_, err := lifecycle.Parse(raw)
		if !errors.Is(err, lifecycle.ErrArgs) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want one that says %q", clip(raw), err, says)
		}
	}
	hashOf(t, deep(64))
	hashOf(t, arrays(63))
}

// TestLargeArguments take no more time or space than their size explains.
func TestLargeArguments(t *testing.T) {
	var members, numbers, exponents strings.Builder
	for i := 0; members.Len() < lifecycle.MaxArgs-40; i++ {
		fmt.Fprintf(&members, `,"%d":0`, i)
	}
	for numbers.Len() < lifecycle.MaxArgs-40 {
		numbers.WriteString(",1e400")
	}
	for exponents.Len() < lifecycle.MaxArgs-60 {
		exponents.WriteString(",1e999999999,-2E-999999999,0e99999")
	}
	for _, raw := range []string{
		"{" + members.String()[1:] + "}",
		`{"a":[` + numbers.String()[1:] + "]}",
		`{"a":"` + strings.Repeat(`\u0000`, 170_000) + `"}`,
		`{"a":[` + exponents.String()[1:] + "]}",
		`{"a":1e` + strings.Repeat("9", 1_000_000) + "}",
		`{"a":1e-` + strings.Repeat("0", 1_000_000) + "1}",
		`{"a":0.` + strings.Repeat("0", 1_000_000) + "1}",
		`{"a":` + strings.Repeat("9", 1_000_000) + "e400}",
		`{"` + strings.Repeat(`\ud800`, 170_000) + `":0}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		hashOf(t, raw)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 200<<20 {
			t.Errorf("%s takes %d bytes", clip(raw), took)
		}
	}
}

// anyJSON draws a value, as encoding/json would decode it with UseNumber.
func anyJSON(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 6
		if depth == 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "what") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2, 3:
			n := json.Number(fmt.Sprint(rapid.Int64().Draw(t, "n")))
			if rapid.Bool().Draw(t, "fraction") {
				n += json.Number(fmt.Sprintf(".%d", rapid.Uint16().Draw(t, "digits")))
			}
			return n
		case 4:
			return rapid.String().Draw(t, "s")
		case 5:
			return rapid.SliceOfN(anyJSON(depth-1), 0, 4).Draw(t, "array")
		}
		return rapid.MapOfN(rapid.StringN(0, 4, -1), anyJSON(depth-1), 0, 4).Draw(t, "object")
	})
}

// spell writes a value in one of its many spellings.
func spell(t *rapid.T, v any) string {
	blank := rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "blank")
	switch v := v.(type) {
	case json.Number:
		return blank + spellNumber(t, string(v))
	case string:
		var b strings.Builder
		for _, r := range v {
			if r < 0x10000 && rapid.Bool().Draw(t, "escaped") {
				fmt.Fprintf(&b, `\u%04x`, r)
				continue
			}
			q, _ := json.Marshal(string(r))
			b.Write(q[1 : len(q)-1])
		}
		return blank + `"` + b.String() + `"`
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = spell(t, v[i])
		}
		return blank + "[" + strings.Join(parts, ",") + blank + "]"
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, spell(t, name)+blank+":"+spell(t, v[name]))
		}
		parts = rapid.Permutation(parts).Draw(t, "order")
		return blank + "{" + strings.Join(parts, ",") + blank + "}"
	}
	b, _ := json.Marshal(v)
	return blank + string(b)
}

// spellNumber moves the point and says so in the exponent.
func spellNumber(t *rapid.T, s string) string {
	whole, frac, point := strings.Cut(s, ".")
	zeros := strings.Repeat("0", rapid.IntRange(0, 3).Draw(t, "zeros"))
	switch {
	case !point && (strings.TrimLeft(whole, "-0") == "" || rapid.Bool().Draw(t, "as it is")):
		return s
	case !point:
		return fmt.Sprintf("%s%se-%d", whole, zeros, len(zeros))
	case rapid.Bool().Draw(t, "no point") && strings.TrimLeft(whole, "-0") != "":
		return fmt.Sprintf("%s%s%sE-%d", whole, frac, zeros, len(frac)+len(zeros))
	}
	return s + zeros
}

// Order, blanks, escapes and the spelling of numbers do not matter; any value does.
func TestHashIsOfTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.StringN(0, 4, -1), anyJSON(3), 0, 4)
		v, u := object.Draw(t, "value"), object.Draw(t, "another")
		one, two, other := parsed(t, spell(t, v)), parsed(t, spell(t, v)), parsed(t, spell(t, u))
		if one.Hash != two.Hash {
			t.Fatalf("%s and %s have different hashes", one.JSON, two.JSON)
		}
		if (one.Hash == other.Hash) != equalJSON(v, u) {
			t.Fatalf("%s and %s: one hash is %t", one.JSON, other.JSON, one.Hash == other.Hash)
		}
		if !equalJSON(decode(t, one.JSON), any(v)) {
			t.Fatalf("%s is not what was written", one.JSON)
		}
		if again := parsed(t, string(one.JSON)); again.Hash != one.Hash || !bytes.Equal(again.JSON, one.JSON) {
			t.Fatalf("%s becomes %s", one.JSON, again.JSON)
		}
	})
}

func parsed(t *rapid.T, raw string) lifecycle.Args {
	a, err := lifecycle.Parse(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return a
}

func decode(t interface{ Fatal(...any) }, b []byte) any {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// equalJSON is the dumb comparison: numbers as exact fractions.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if _, exp, _ := strings.Cut(strings.ToLower(string(a)), "e"); len(exp) > 5 {
			return a == b // a fraction of that many digits fits nowhere
		}
		x, okX := new(big.Rat).SetString(string(a))
		y, okY := new(big.Rat).SetString(string(b))
		return ok && okX && okY && x.Cmp(y) == 0
	case []any:
		b, ok := b.([]any)
		same := ok && len(a) == len(b)
		for i := 0; same && i < len(a); i++ {
			same = equalJSON(a[i], b[i])
		}
		return same
	case map[string]any:
		b, ok := b.(map[string]any)
		same := ok && len(a) == len(b)
		for name, v := range a {
			w, there := b[name]
			same = same && there && equalJSON(v, w)
		}
		return same
	}
	return a == b
}

// FuzzParse: whatever bytes come, Parse agrees with encoding/json about what is JSON,
// except where it is stricter on purpose.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "null", "{}", `{"a":[1,2.50,{"b":null}],"c":"\ud83d"}`, `{"a":1,"a":2}`, `{"a":1e999}`, "[1]", `{"a":1}x`, `{"a":[1,]}`, "{\"\xff\":1}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := lifecycle.Parse(raw)
		if err != nil {
			if !errors.Is(err, lifecycle.ErrArgs) {
				t.Fatalf("%v does not wrap ErrArgs", err)
			}
			if plainObject(raw) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if s := strings.TrimSpace(raw); s != "" && s != "null" && !json.Valid([]byte(raw)) {
			t.Fatalf("%q was taken for JSON", raw)
		}
		if !json.Valid(a.JSON) || a.JSON[0] != '{' {
			t.Fatalf("%q became %q", raw, a.JSON)
		}
		b, err := lifecycle.Parse(string(a.JSON))
		if err != nil || b.Hash != a.Hash || !bytes.Equal(a.JSON, b.JSON) {
			t.Fatalf("%q became %q, and then %q: %v", raw, a.JSON, b.JSON, err)
		}
		if s := strings.TrimSpace(raw); s != "" && s != "null" && !equalJSON(decode(t, []byte(raw)), decode(t, a.JSON)) {
			t.Fatalf("%q became %q", raw, a.JSON)
		}
	})
}

// plainObject says, the dumb way, that a string is an object that must be accepted.
func plainObject(raw string) bool {
	if len(raw) > lifecycle.MaxArgs || !json.Valid([]byte(raw)) || strings.TrimLeft(raw, " \t\r\n")[0] != '{' {
		return false
	}
	type level struct {
		names map[string]bool
		key   bool
	}
	var stack []level
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return true
		}
		top := len(stack) - 1
		if name, ok := tok.(string); ok && top >= 0 && stack[top].key {
			if stack[top].names[name] {
				return false
			}
			stack[top].names[name], stack[top].key = true, false
			continue
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{map[string]bool{}, true})
		case json.Delim('['):
			stack = append(stack, level{nil, false})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if len(stack) > lifecycle.MaxDepth {
			return false
		}
		if top = len(stack) - 1; top >= 0 && stack[top].names != nil {
			stack[top].key = true
		}
	}
}
