package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func TestKeys(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, KeySize), bytes.Repeat([]byte{2}, KeySize)
	one, err1 := NewKeys(a)
	two, err2 := NewKeys(b, a)
	alone, err3 := NewKeys(b)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	v, nonce := StringValue("hunter2"), bytes.Repeat([]byte{9}, NonceSize)
	if one.ID(v) != two.ID(v) || one.ID(v) == alone.ID(v) || !isID(one.ID(v)) || one.ID(v) == one.ID(StringValue("hunter3")) {
		t.Errorf("ids: %s %s %s", one.ID(v), two.ID(v), alone.ID(v))
	}
	if one.ID(StringValue("1")) == one.ID(Value(ofNumber+"1")) {
		t.Error("a string and a number have one id")
	}
	sealed := one.Seal(v, "here", nonce)
	for name, c := range map[string]struct {
		keys  *Keys
		place string
		text  []byte
		want  Value
	}{
		"itself": {one, "here", sealed, v}, "with a newer key": {two, "here", sealed, v}, "under another": {alone, "here", sealed, ""},
		"elsewhere": {one, "there", sealed, ""}, "changed": {one, "here", append(slices.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1), ""},
		"cut": {one, "here", sealed[:5], ""}, "nothing": {one, "here", nil, ""},
	} {
		got, err := c.keys.Open(c.text, c.place)
		if got != c.want || (c.want == "") != errors.Is(err, ErrSealed) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := alone.Open(two.Seal(v, "here", nonce), "here"); got != v || err != nil {
		t.Errorf("the first key seals: %q, %v", got, err)
	}
	if bytes.Contains(sealed, []byte("hunter2")) {
		t.Error("the value stands in clear")
	}
}

func TestKeyFiles(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, KeySize), bytes.Repeat([]byte{2}, KeySize)
	good := "# newest first\n" + hex.EncodeToString(b) + "\n\n  " + base64.StdEncoding.EncodeToString(a) + "\r\n"
	got, err := ReadKeys([]byte(good))
	if err != nil || len(got) != 2 || !bytes.Equal(got[0], b) || !bytes.Equal(got[1], a) {
		t.Errorf("%x, %v", got, err)
	}
	parse := func(text string) error {
		keys, err := ReadKeys([]byte(text))
		if err == nil {
			_, err = NewKeys(keys...)
		}
		return err
	}
	if err := parse(good); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"empty": "", "comments": "# x\n", "short": hex.EncodeToString(a[:31]), "long": hex.EncodeToString(a) + "00", "words": "hunter2 is my key",
		"twice": hex.EncodeToString(a) + "\n" + hex.EncodeToString(a), "too many": func() string {
			var s string
			for i := range maxKeys + 1 {
				s += hex.EncodeToString(bytes.Repeat([]byte{byte(i)}, KeySize)) + "\n"
			}
			return s
		}(),
	} {
		err := parse(text)
		if !errors.Is(err, ErrKey) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), hex.EncodeToString(a[:16])) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLiterals(t *testing.T) {
	const v = `p"ä/ss <w>&rd+12`
	l := NewLiterals(v, "x1", "", "  ")
	inJSON, _ := json.Marshal(v)
	twice, _ := json.Marshal(string(inJSON))
	for name, text := range map[string]string{
		"plain": v, "json": string(inJSON), "json in json": string(twice), "no html": strings.Trim(quote(v), `"`), "query": url.QueryEscape(v), "path": url.PathEscape(v),
		"capitals": strings.ToUpper(v), "hex": hex.EncodeToString([]byte(v)), "base64": base64.StdEncoding.EncodeToString([]byte(v)), "base64 url": base64.URLEncoding.EncodeToString([]byte(v)),
		"basic": base64.StdEncoding.EncodeToString([]byte("user:" + v)), "basic 1": base64.StdEncoding.EncodeToString([]byte("a:" + v + "zz")),
		"basic 2": base64.StdEncoding.EncodeToString([]byte("ab:" + v + "z")), "raw": base64.RawURLEncoding.EncodeToString([]byte(v)),
		"capital hex": strings.ToUpper(hex.EncodeToString([]byte(v))), "a dump": fmt.Sprintf("% x", v), "hex with colons": strings.Join(strings.Fields(fmt.Sprintf("% x", v)), ":"),
		"bytes": fmt.Sprint([]byte(v)), "bytes in json": strings.ReplaceAll(fmt.Sprint([]byte(v)), " ", ", "), "escapes of C": fmt.Sprintf("%q", v) + bytewise(`\x%02X`, v),
		"percents": bytewise("%%%02x", v), "small percents": bytewise("%%%02x", `p"`) + v[2:], "twice escaped": url.QueryEscape(url.QueryEscape(v)), "component": strings.ReplaceAll(url.QueryEscape(v), "+", "%20"),
		"html": html.EscapeString(v), "html in html": html.EscapeString(html.EscapeString(v)), "slashes of json": strings.ReplaceAll(string(inJSON), "/", `\/`), "ascii": strconv.QuoteToASCII(v),
		"a shell's": strings.NewReplacer(`"`, `\"`, " ", `\ `, "<", `\<`, "&", `\&`).Replace(v), "two lines": v[:7] + "\n  " + v[7:], "lines of DOS": v[:7] + "\r\n" + v[7:],
		"a line's end in json": v[:7] + `\n` + v[7:], "coloured": v[:7] + "\x1b[1;31m" + v[7:], "base64 in lines": wrapped(base64.StdEncoding.EncodeToString([]byte("0123456789"+v)), 20),
		"two bytes a character": strings.Join(strings.Split(v, ""), "\x00"),
	} {
		got := l.Redact("before " + text + " after")
		if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") || !strings.Contains(got, Mark(Secret)) || strings.Contains(got, "ss") && name != "plain" && !strings.HasPrefix(name, "b") {
			t.Errorf("%s: %q became %q", name, text, got)
		}
		if again := l.Redact(got); again != got {
			t.Errorf("%s: %q became %q, and that %q", name, text, got, again)
		}
	}
	if got := l.Redact("x1 x11"); got != "x1 x11" {
		t.Errorf("a short value is looked for: %q", got)
	}
	var none *Literals
	if none.Redact("x1") != "x1" || !none.Empty() || !new(Literals).Empty() {
		t.Error("no literals take something out")
	}
}

func bytewise(format, s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func wrapped(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "\n" + wrapped(s[n:], n)
}

// TestLiteralsAreBounded: a text that is nearly a value everywhere takes no longer than
// another one, and the value is found where it stands as it is.
func TestLiteralsAreBounded(t *testing.T) {
	v := strings.Repeat("a", 50_000) + "b"
	text := strings.Repeat("a", 1<<20) + "b"
	if got := NewLiterals(v).Redact(text); got != strings.Repeat("a", 1<<20-50_000)+Mark(Secret) {
		t.Errorf("%d bytes are left of %d", len(got), len(text))
	}
}

// TestLiteralsLeaveTheRest: what is only alike stays.
func TestLiteralsLeaveTheRest(t *testing.T) {
	l := NewLiterals("abcd", "0123456789")
	for _, text := range []string{"ABCD", "ab\ncd", "abc d", "a b c d", "012345678 9", "01 23 45 67 89", "9, 12, 13", "\\", "%", "&", "a\\", "%%%25", "&amp;&", "\\u00", "\\x"} {
		if got := l.Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestLiteralsAtACut: what is left of a value where a limit cut it is taken out, too.
func TestLiteralsAtACut(t *testing.T) {
	const v = "abcdefghijklmnopqrstuvwxyz0123456789"
	l := NewLiterals(v)
	for _, c := range []struct{ text, want string }{
		{"ends with " + v[:20], "ends with " + Mark(Secret)},
		{v[10:] + " begins", Mark(Secret) + " begins"},
		{"head " + v[:15] + "\n[999 bytes not kept]\n" + v[20:] + " tail", "head " + Mark(Secret) + "\n[999 bytes not kept]\n" + Mark(Secret) + " tail"},
		{"short " + v[:5], "short " + v[:5]},
	} {
		if got := l.Redact(c.text); got != c.want {
			t.Errorf("%q became %q, want %q", c.text, got, c.want)
		}
	}
}

func TestCleaner(t *testing.T) {
	const v = "hunter2-and-more"
	c := Cleaner{Known: NewLiterals(v), Detect: true}
	r := c.Result(events.Result{
		Status: events.Failure, Text: events.Body{Text: "got " + v + " and sk-AAAAAAAAAAAAAAAAAAAAAAAA"},
		Data:  json.RawMessage(`{"v":"` + v + `","token":"abc","n":1,"deep":[{"x":"https://u:p@h/"}],"` + v + `":1}`),
		Error: &events.Error{Code: events.ExecutionError, Message: "dial https://u:p@h/: " + v, Path: "/" + v},
		Stats: events.Stats{More: map[string]int64{v: 1, "other": 2}}, Seen: []events.Seen{{Path: v, Digest: "sha256:00"}},
		Context: []events.Modifier{{Name: "a", Value: json.RawMessage(`"` + v + `"`)}, {Name: "gone"}}, Undo: json.RawMessage(`{"before":"` + v + `"}`),
	})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{v, "sk-A", ":p@", `"abc"`} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%q is left in %s", secret, text)
		}
	}
	if r.Seen[0].Digest != "sha256:00" || r.Context[1].Value != nil || r.Stats.More["other"] != 2 {
		t.Errorf("something else is gone: %+v", r)
	}
	known := Cleaner{Known: NewLiterals("1234")}
	if got := known.JSON(`{"pin":1234,"x":"1234"}`); got != `{"pin":"`+Mark(Secret)+`","x":"`+Mark(Secret)+`"}` {
		t.Errorf("a number: %s", got)
	}
	if got := known.Text("sk-AAAAAAAAAAAAAAAAAAAAAAAA"); got != "sk-AAAAAAAAAAAAAAAAAAAAAAAA" {
		t.Errorf("what is only detected: %q", got)
	}
	blob := append([]byte{0, 1, 0xff}, []byte("xx"+v+" sk-AAAAAAAAAAAAAAAAAAAAAAAA")...)
	masked := c.Bytes(bytes.Clone(blob))
	if len(masked) != len(blob) || bytes.Contains(masked, []byte(v)) || bytes.Contains(masked, []byte("sk-A")) || !bytes.Equal(masked[:5], blob[:5]) {
		t.Errorf("bytes became %q", masked)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]Kind{
		"password": Password, "userPassword": Password, "PGPASSWORD": Password, "new_password": Password, "password2": Password, "dbpassword": Password, "DB_PASS": Password, "mysql_pwd": Password,
		"token": Token, "accessToken": Token, "ACCESS-TOKEN": Token, "X-Auth-Token": Token, "_authToken": Token, "authorization": Token, "Proxy-Authorization": Token, "jwt": Token,
		"api_key": Secret, "apiKey": Secret, "X-API-Key": Secret, "clientSecret": Secret, "private_key": Secret, "aws_secret_access_key": Secret, "credentials": Secret, "SECRET_KEY_BASE": Secret,
		"cookie": Cookie, "Set-Cookie": Cookie,
		"": "", "key": "", "id": "", "public_key": "", "primaryKey": "", "token_type": "", "tokens": "", "max_tokens": "", "next_token": "", "nextPageToken": "", "password_file": "", "secret_name": "",
		"cookie_domain": "", "pwd": "", "OLDPWD": "", "passenger": "", "compass": "", "author": "", "keyboard": "", "tool_call_id": "", "session_id": "", "monkey": "", "passport": "",
	} {
		if got := named(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
