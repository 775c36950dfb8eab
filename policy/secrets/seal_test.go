package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
)

// testKeys name and seal in the tests.
var testKeys = func() *Keys {
	k, err := NewKeys(bytes.Repeat([]byte{7}, KeySize))
	if err != nil {
		panic(err)
	}
	return k
}()

func sealed(args string, declared ...string) Sealed {
	return Seal(args, Sealing{ID: testKeys.ID, Declared: declared})
}

// valuesOf are a seal's values by their ids.
func valuesOf(s Sealed) map[string]Value {
	out := make(map[string]Value)
	for i, r := range s.Refs {
		out[r.ID] = s.Values[i]
	}
	return out
}

// shape is a seal's arguments with S for each placeholder.
func shape(s Sealed) string {
	out := s.Args
	for _, id := range Placeholders(out) {
		out = strings.ReplaceAll(out, Placeholder(id), "S")
	}
	return out
}

func TestSeal(t *testing.T) {
	for _, c := range []struct{ args, want, values string }{
		{`{"token":"sk-AAAAAAAAAAAAAAAAAAAAAAAA"}`, `{"token":"S"}`, "sk-AAAAAAAAAAAAAAAAAAAAAAAA"},
		{`{ "Password" : "x", "command":"id" }`, `{ "Password" : "S", "command":"id" }`, "x"},
		{`{"api-key":"a b","API_KEY":"a b","apiKey":"c"}`, `{"api-key":"S","API_KEY":"S","apiKey":"S"}`, "a b|a b|c"},
		{`{"headers":{"Authorization":"Bearer x","Accept":"y"}}`, `{"headers":{"Authorization":"S","Accept":"y"}}`, "Bearer x"},
		{`{"headers":[{"name":"Authorization","value":"x"},{"name":"Accept","value":"y"}]}`, `{"headers":[{"name":"Authorization","value":"S"},{"name":"Accept","value":"y"}]}`, "x"},
		{`{"env":[{"name":"DB_PASSWORD","value":"x"}]}`, `{"env":[{"name":"DB_PASSWORD","value":"S"}]}`, "x"},
		{`{"env":["DB_PASSWORD=hunter2","A=b"]}`, `{"env":["DB_PASSWORD=S","A=b"]}`, "hunter2"},
		{`{"credentials":{"username":"bob","key":"k1","type":"basic","url":"https://h"}}`, `{"credentials":{"username":"bob","key":"S","type":"basic","url":"https://h"}}`, "k1"},
		{`{"argv":["deploy","--token","abc123def","--region","eu"]}`, `{"argv":["deploy","--token","S","--region","eu"]}`, "abc123def"},
		{`{"words":["mysql","--password","Tr0ub4dor&3 x","db"]}`, `{"words":["mysql","--password","S","db"]}`, "Tr0ub4dor&3 x"},
		{`{"argv":["x","--token","$TOKEN"],"args":["--token","--verbose"],"flags":["--password"],"options":["--page-token","x1"]}`, `{"argv":["x","--token","$TOKEN"],"args":["--token","--verbose"],"flags":["--password"],"options":["--page-token","x1"]}`, ""},
		{`{"passwords":["a","b"]}`, `{"passwords":["S","S"]}`, "a|b"},
		{`{"password":1234}`, `{"password":"S"}`, "1234"},
		{`{"content":"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"}`, `{"content":"S"}`, "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"},
		{`{"command":"curl -H 'X: sk-AAAAAAAAAAAAAAAAAAAAAAAA' https://h"}`, `{"command":"curl -H 'X: S' https://h"}`, "sk-AAAAAAAAAAAAAAAAAAAAAAAA"},
		{`{"url":"https://u:p4ss@h/x"}`, `{"url":"https://u:S@h/x"}`, "p4ss"},
		{`{"a/b~c":{"token":"x"}}`, `{"a/b~c":{"token":"S"}}`, "x"},
		{`{"token":"abc-def-ghi","note":"use abc-def-ghi, twice: abc-def-ghi"}`, `{"token":"S","note":"use S, twice: S"}`, "abc-def-ghi|abc-def-ghi"},
		{`{"v":"\u0073k-AAAAAAAAAAAAAAAAAAAAAAAA <é>"}`, `{"v":"S <é>"}`, "sk-AAAAAAAAAAAAAAAAAAAAAAAA"},
		{`{"token":"","password":null,"secret":"${X}","api_key":"$KEY","pwd":"***"}`, `{"token":"","password":null,"secret":"${X}","api_key":"$KEY","pwd":"***"}`, ""},
		{`{"next_page_token":"x","max_tokens":5,"token_count":"7"}`, `{"next_page_token":"x","max_tokens":5,"token_count":"7"}`, ""},
		{`{"tool_call_id":"call_AbCdEfGhIjKlMnOpQrStUvWx","id":"toolu_01A09q90qw90lq917835lq9"}`, `{"tool_call_id":"call_AbCdEfGhIjKlMnOpQrStUvWx","id":"toolu_01A09q90qw90lq917835lq9"}`, ""},
		{`{"body":"{\"password\":\"a b\\\"c\"}"}`, `{"body":"{\"password\":\"a b\\\"c\"}"}`, ""},
		{`{"body":"{\"password\":\"hunter2\"}"}`, `{"body":"{\"password\":\"S\"}"}`, "hunter2"},
		{``, ``, ""},
		{`null`, `null`, ""},
		{`{}`, `{}`, ""},
	} {
		s := sealed(c.args)
		var values []string
		for _, v := range s.Values {
			values = append(values, v.Text())
		}
		if s.Refused != nil || shape(s) != c.want || strings.Join(values, "|") != c.values {
			t.Errorf("%s: became %s with %q (refused: %v), want %s with %q", c.args, shape(s), values, s.Refused, c.want, c.values)
		}
		checkSealed(t, c.args, s)
	}
}

func TestDeclared(t *testing.T) {
	s := sealed(`{"pin":"1","nested":{"a":"x","n":12,"t":true},"other":"y"}`, "/pin", "/nested", "/gone")
	if shape(s) != `{"pin":"S","nested":{"a":"S","n":"S","t":true},"other":"y"}` || s.Refused != nil {
		t.Errorf("%s, refused %v", shape(s), s.Refused)
	}
	got, err := Open([]byte(s.Args), s.Refs, valuesOf(s))
	if string(got) != `{"pin":"1","nested":{"a":"x","n":12,"t":true},"other":"y"}` || err != nil {
		t.Errorf("opened: %s, %v", got, err)
	}
}

// TestRefused are the ways to hide from the gates what a call does, and others that are
// told to a model instead of being done.
func TestRefused(t *testing.T) {
	id := strings.Repeat("0", idLength)
	for name, c := range map[string]struct {
		args     string
		declared []string
	}{
		"a command as a secret":        {`{"command":"rm -rf /"}`, []string{"/command"}},
		"a list of a command":          {`{"argv":["rm","-rf"]}`, []string{"/argv"}},
		"a path as a secret":           {`{"file_path":"x"}`, []string{"/file_path"}},
		"a URL as a secret":            {`{"url":"https://evil.example/"}`, []string{"/url"}},
		"a nested command":             {`{"a":{"command":"id"}}`, []string{"/a"}},
		"metacharacters":               {`{"command":"PASSWORD='x;rm -rf /' env"}`, nil},
		"a quote":                      {`{"command":"mysql --password=\"a'b\" x"}`, nil},
		"a substitution":               {`{"command":"curl -u a:b$(id) https://h"}`, nil},
		"a blank":                      {`{"command":"--password 'a b'"}`, nil},
		"a host in a password":         {`{"url":"https://u:p@evil.example@good.example/"}`, nil},
		"a path in a password":         {`{"url":"postgres://u:p/../x@good.example/"}`, nil},
		"an escape in a password":      {`{"url":"https://u:p%40evil@good.example/"}`, nil},
		"a home at a word's beginning": {`{"command":"--password ~root1"}`, nil},
		"a flag as a password":         {`{"command":"curl -u a:-b1x https://h --password -x"}`, []string{"/command"}},
		"a secret in a path":           {`{"path":"keys/sk-AAAAAAAAAAAAAAAAAAAAAAAA"}`, nil},
		"a secret as a name":           {`{"sk-AAAAAAAAAAAAAAAAAAAAAAAA":1}`, nil},
		"a known value in a path":      {`{"token":"abc-def-ghi","path":"x/abc-def-ghi"}`, nil},
		"a known value as a name":      {`{"token":"abc-def-ghi","abc-def-ghi":1}`, nil},
		"a placeholder":                {`{"v":"` + Placeholder(id) + `"}`, nil},
		"a placeholder within":         {`{"command":"echo ` + Placeholder(id) + `"}`, nil},
		"a mark":                       {`{"text":"a=` + Mark(Password) + `"}`, nil},
		"an escaped placeholder":       {`{"v":"\u0073luice-secret-` + id + `"}`, nil},
		"too long":                     {`{"token":"` + strings.Repeat("x", MaxValue+1) + `"}`, nil},
		"too many":                     {`{"passwords":[` + strings.TrimSuffix(strings.Repeat(`"a",`, MaxValues+1), ",") + `]}`, nil},
	} {
		s := sealed(c.args, c.declared...)
		if s.Refused == nil || len(s.Refs) > 0 || len(s.Values) > 0 {
			t.Errorf("%s: %s became %s, not refused", name, c.args, s.Args)
			continue
		}
		if len(s.Refused.Reason) < 20 || len(Find(s.Refused.Reason)) > 0 {
			t.Errorf("%s: the reason is %q", name, s.Refused.Reason)
		}
		if len(find(s.Args, false)) > 0 {
			t.Errorf("%s: what is stored is %s", name, s.Args)
		}
	}
}

// TestMalformedNeverRuns: what is no JSON object must not become one by what is taken out.
func TestMalformedNeverRuns(t *testing.T) {
	for _, args := range []string{
		`{"command":"ls","token":"sk-AAAAAAAAAAAAAAAAAAAAAAAA`, `{"a":1}{"token":"sk-AAAAAAAAAAAAAAAAAAAAAAAA"}`, `["sk-AAAAAAAAAAAAAAAAAAAAAAAA"]`,
		"{\"content\":\"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\"}", `{"password":"hunter2`, `token=hunter2`,
	} {
		s := sealed(args)
		if json.Valid([]byte(s.Args)) && strings.HasPrefix(s.Args, "{") && s.Refused == nil {
			t.Errorf("%q became %s, which can run", args, s.Args)
		}
		if len(Find(s.Args)) > 0 || len(s.Refs) > 0 {
			t.Errorf("%q became %q with %v", args, s.Args, s.Refs)
		}
	}
}

func TestKeptPlaceholders(t *testing.T) {
	first := sealed(`{"token":"abc","x":"1"}`)
	changed := strings.Replace(first.Args, `"1"`, `"2"`, 1)
	s := Seal(changed, Sealing{ID: testKeys.ID, Keep: first.Refs})
	if s.Refused != nil || s.Args != changed || !slices.Equal(s.Refs, first.Refs) || s.Values[0] != "" {
		t.Errorf("%+v", s)
	}
	moved := strings.Replace(first.Args, `"x":"1"`, `"x":"`+Placeholder(first.Refs[0].ID)+`"`, 1)
	if s := Seal(moved, Sealing{ID: testKeys.ID, Keep: first.Refs}); s.Refused == nil {
		t.Errorf("a placeholder in another place was kept: %s", s.Args)
	}
}

func TestOpenIsExact(t *testing.T) {
	s := sealed(`{"token":"abc","x":"1"}`)
	ref, values := s.Refs[0], valuesOf(s)
	p := Placeholder(ref.ID)
	for name, c := range map[string]struct {
		args string
		refs []events.SecretRef
		want string // "" for an error
	}{
		"as it was":            {s.Args, s.Refs, `{"token":"abc","x":"1"}`},
		"elsewhere, too":       {`{"token":"` + p + `","x":"` + p + `"}`, s.Refs, `{"token":"abc","x":"` + p + `"}`},
		"only elsewhere":       {`{"x":"` + p + `"}`, s.Refs, ""},
		"not listed":           {s.Args, nil, s.Args},
		"another id":           {s.Args, []events.SecretRef{{ID: strings.Repeat("0", idLength), Path: "/token"}}, ""},
		"in a member's name":   {`{"` + p + `":"` + p + `","token":"` + p + `"}`, s.Refs, `{"` + p + `":"` + p + `","token":"abc"}`},
		"no object":            {`["` + p + `"]`, s.Refs, ""},
		"the value is missing": {`{"token":"x"}`, s.Refs, ""},
	} {
		got, err := Open([]byte(c.args), c.refs, values)
		if c.want == "" && !errors.Is(err, ErrUnsealed) || c.want != "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	tricky := StringValue(`a"b\` + Placeholder(strings.Repeat("1", idLength)))
	got, err := Open([]byte(s.Args), s.Refs, map[string]Value{ref.ID: tricky})
	var back struct{ Token string }
	if err != nil || json.Unmarshal(got, &back) != nil || back.Token != tricky.Text() {
		t.Errorf("a value that must be escaped, and looks like a placeholder: %s, %v", got, err)
	}
}

// checkSealed holds a seal against what was promised of it.
func checkSealed(t interface{ Fatalf(string, ...any) }, args string, s Sealed) {
	if len(s.Refs) != len(s.Values) {
		t.Fatalf("%s: %d references, %d values", args, len(s.Refs), len(s.Values))
	}
	if again := Seal(args, Sealing{ID: testKeys.ID}); !reflect.DeepEqual(again, s) {
		t.Fatalf("%s: %+v, and then %+v", args, s, again)
	}
	if s.Refused != nil {
		if len(s.Refs) > 0 || len(Find(s.Refused.Reason)) > 0 {
			t.Fatalf("%s: refused with %v, saying %q", args, s.Refs, s.Refused.Reason)
		}
		return
	}
	for _, v := range s.Values {
		if len(v.Text()) >= 16 && strings.Contains(s.Args, v.Text()) {
			t.Fatalf("%s: %q is still in %s", args, v, s.Args)
		}
	}
	if len(s.Refs) == 0 {
		return
	}
	opened, err := Open([]byte(s.Args), s.Refs, valuesOf(s))
	if err != nil {
		t.Fatalf("%s: became %s, which does not open: %v", args, s.Args, err)
	}
	var was, is any
	if json.Unmarshal([]byte(args), &was) != nil || json.Unmarshal(opened, &is) != nil || !reflect.DeepEqual(was, is) {
		t.Fatalf("%s: became %s, and opened %s", args, s.Args, opened)
	}
}

func TestSealKeepsItsPromises(t *testing.T) {
	list := pieces(t)
	names := []string{"token", "v", "command", "url", "path", "password", "content", "name", "value", "a/b", "credentials"}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) any {
			return strings.ToValidUTF8(strings.Join(rapid.SliceOfN(rapid.SampledFrom(list), 0, 5).Draw(t, "parts"), ""), "?")
		})
		flat := rapid.MapOfN(rapid.SampledFrom(names), rapid.OneOf(text, rapid.Just(any(12.0))), 0, 4)
		m := make(map[string]any)
		for k, v := range flat.Draw(t, "flat") {
			m[k] = v
		}
		m["deep"] = []any{flat.Draw(t, "deep"), text.Draw(t, "text")}
		args, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		checkSealed(t, string(args), sealed(string(args)))
		clean := RedactArgs(string(args))
		if !json.Valid([]byte(clean)) || RedactArgs(clean) != clean {
			t.Fatalf("%s: redacted to %s", args, clean)
		}
	})
}

func FuzzSeal(f *testing.F) {
	f.Add(`{"token":"sk-AAAAAAAAAAAAAAAAAAAAAAAA","command":"curl -u a:b1 https://u:p@h/"}`)
	f.Add(`{"a":{"b":[{"name":"Authorization","value":"x"}]},"password":1}`)
	f.Add(`{"password":"a","password":"b"}`)
	f.Fuzz(func(t *testing.T, args string) {
		if strings.Count(args, `"`) > 1 && json.Valid([]byte(args)) {
			var m map[string]any
			if json.Unmarshal([]byte(args), &m) == nil {
				if plain, err := json.Marshal(m); err == nil { // members once, as lifecycle.Parse wants them
					checkSealed(t, string(plain), sealed(string(plain)))
				}
			}
		}
		_ = sealed(args)
		clean := RedactArgs(args)
		if json.Valid([]byte(args)) && isObject(args) && !json.Valid([]byte(clean)) {
			t.Fatalf("%s: redacted to %s", args, clean)
		}
		if c := (Cleaner{Detect: true}).JSON(args); json.Valid([]byte(args)) && !json.Valid([]byte(c)) {
			t.Fatalf("%s: cleaned to %s", args, c)
		}
	})
}

func TestSubstitute(t *testing.T) {
	s := sealed(`{"command":"echo sk-AAAAAAAAAAAAAAAAAAAAAAAA"}`)
	var m struct{ Command string }
	if err := json.Unmarshal([]byte(s.Args), &m); err != nil {
		t.Fatal(err)
	}
	if got := Substitute(m.Command, valuesOf(s)); got != "echo sk-AAAAAAAAAAAAAAAAAAAAAAAA" {
		t.Errorf("got %q", got)
	}
	if got := SealedPaths([]byte(s.Args)); !slices.Equal(got, []string{"/command"}) {
		t.Errorf("paths %q", got)
	}
}
