package secrets

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/test/data"
)

// lines are the lines of a file of examples, with their escapes undone.
func lines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, line := range strings.Split(string(text), "\n") {
		if line != "" && !strings.HasPrefix(line, "# ") {
			out = append(out, strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\x1b`, "\x1b").Replace(line))
		}
	}
	return out
}

// example is a text with the secrets in it that are to be found.
type example struct {
	kind Kind
	text string
	want []string
}

func examples(t testing.TB) []example {
	t.Helper()
	var out []example
	for _, line := range lines(t, "secrets.txt") {
		kind, marked, ok := strings.Cut(line, " | ")
		if !ok || !slices.Contains(Kinds, Kind(kind)) {
			t.Fatalf("not an example: %q", line)
		}
		e := example{kind: Kind(kind)}
		rest := marked
		for {
			before, after, more := strings.Cut(rest, "«")
			e.text += before
			if !more {
				break
			}
			secret, tail, _ := strings.Cut(after, "»")
			e.text += secret
			e.want = append(e.want, secret)
			rest = tail
		}
		out = append(out, e)
	}
	return out
}

func TestFindsSecrets(t *testing.T) {
	all := examples(t)
	if len(all) < 90 {
		t.Errorf("%d examples, want 90 or more", len(all))
	}
	for _, e := range all {
		var got []string
		kind := e.kind
		for _, s := range Find(e.text) {
			got = append(got, e.text[s.Start:s.End])
			kind = s.Kind
		}
		if !slices.Equal(got, e.want) || kind != e.kind {
			t.Errorf("%q: found %q as %s, want %q as %s", e.text, got, kind, e.want, e.kind)
		}
	}
}

func TestFindsNothingElse(t *testing.T) {
	for _, text := range lines(t, "plain.txt") {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestRecordedTexts counts what is found in real conversations, which hold no secret.
func TestRecordedTexts(t *testing.T) {
	for _, name := range []string{"airline_gpt4o.jsonl", "coding_marshmallow.jsonl"} {
		text, err := data.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		found := Find(string(text))
		inside := 0
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if RedactArgs(line) != line || (Cleaner{Detect: true}).JSON(line) != line {
				inside++
			}
		}
		t.Logf("%s: %d bytes: %d found in the text, and in %d of its messages", name, len(text), len(found), inside)
		for _, s := range found {
			t.Errorf("%s: %s: %q", name, s.Kind, text[max(0, s.Start-40):min(len(text), s.End+20)])
		}
		if inside > 0 {
			t.Errorf("%s: %d messages are changed", name, inside)
		}
	}
}

// checkFound holds what is found against what was promised of it.
func checkFound(t interface{ Fatalf(string, ...any) }, text string) {
	spans := Find(text)
	at := 0
	for _, s := range spans {
		if s.Start < at || s.End <= s.Start || s.End > len(text) || !slices.Contains(Kinds, s.Kind) {
			t.Fatalf("%q: spans %v", text, spans)
		}
		at = s.End
		if utf8.ValidString(text) && !(utf8.ValidString(text[:s.Start]) && utf8.ValidString(text[:s.End])) {
			t.Fatalf("%q: span %v cuts a rune", text, s)
		}
	}
	clean := Redact(text)
	if left := Find(clean); len(left) > 0 {
		t.Fatalf("%q became %q, which still holds %v", text, clean, left)
	}
	if again := Redact(clean); again != clean {
		t.Fatalf("%q became %q, and that %q", text, clean, again)
	}
	if utf8.ValidString(text) && !utf8.ValidString(clean) {
		t.Fatalf("%q became %q, which is no UTF-8", text, clean)
	}
	if len(spans) == 0 && clean != text {
		t.Fatalf("nothing is found in %q, which became %q", text, clean)
	}
	once := replace(text, spans, func(s Span) string { return Mark(s.Kind) })
	if len(Find(once)) == 0 && clean != once {
		t.Fatalf("%q became %q: something else than the secrets is gone", text, clean)
	}
}

// pieces are what random texts are made of.
func pieces(t testing.TB) []string {
	out := []string{
		"", " ", "\n", ":", "=", "://", "@", "/", "\"", "'", "`", "\\", "\\n", "-", "--", "[", "]", "{", "}", ",", ";", "&", "?", "#", "%", "$", "é", "界", "\x1b[0m", "\x80",
		"password", "token", "Authorization", "Cookie", "Bearer", "Basic", "curl", "mysql ", " -u ", " -p", "a", "b1", "hunter2", "u", "h.example", "sk-", "ghp_", "eyJ", "AKIA",
		pemBegin, "PRIVATE KEY", pemLine, pemEnd, markOpen, Mark(Token), Placeholder(strings.Repeat("0", idLength)), "https", "postgres", "tcp(", "sig",
	}
	for _, e := range examples(t) {
		out = append(out, e.want...)
	}
	return out
}

func TestFindKeepsItsPromises(t *testing.T) {
	for _, e := range examples(t) {
		checkFound(t, e.text)
	}
	for _, text := range lines(t, "plain.txt") {
		checkFound(t, text)
	}
	list := pieces(t)
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom(list), 1, 14).Draw(t, "parts")
		checkFound(t, strings.Join(parts, ""))
	})
}

func FuzzFind(f *testing.F) {
	for _, e := range examples(f) {
		f.Add(e.text)
	}
	for _, text := range lines(f, "plain.txt") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkFound(t, text) })
}

// hostile are texts that would be slow for who looks at each part of them again.
var hostile = map[string]string{
	"assignments": "token:", "tight": "token=", "values": "password=" + strings.Repeat("a", 100), "urls": "a://", "users": "://a:b", "blocks": pemBegin + "PRIVATE KEY" + pemLine,
	"tags": "<password>", "labels": "name: password value: x", "percents": "password%3D", "entities": "&quot;token&quot;:", "quotes": `"token":"`, "escapes": `\"token\":\"`, "flags": " --token ", "tokens": "sk-", "jwts": "eyJ.", "marks": markOpen, "basic": "Basic ", "at": "a:b@tcp(", "dots": "SG....",
	"curl": "curl -u ", "nothing": "\x00", "headers": "Authorization: ", "cookies": "Cookie: =",
}

func BenchmarkHostile(b *testing.B) {
	for name, part := range hostile {
		text := strings.Repeat(part, (1<<20)/len(part))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Find(text)
			}
		})
	}
}

// TestHostileTexts ends: a text that took time in proportion to its square would not.
func TestHostileTexts(t *testing.T) {
	for name, part := range hostile {
		text := strings.Repeat(part, (256<<10)/len(part))
		if got := Redact(text); len(got) == 0 {
			t.Errorf("%s: nothing is left", name)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	text, err := data.Read("coding_marshmallow.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Find(string(text))
	}
}
