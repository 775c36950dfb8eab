package fs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
)

func TestEditReplacesAndTells(t *testing.T) {
	b := newBench(t, map[string]string{"a.go": "package a\n\nfunc f() {}\n"})
	r := b.ok(EditName, m{"path": "a.go", "old_string": "f()", "new_string": "<g>()"})
	if got := b.get("a.go"); got != "package a\n\nfunc <g>() {}\n" {
		t.Errorf("got %q", got)
	}
	want := "edited a.go: 1 replaced\n--- a/a.go\n+++ b/a.go\n@@ -1,3 +1,3 @@\n package a\n \n-func f() {}\n+func <g>() {}"
	if diff := cmp.Diff(want, r.Text.Text); diff != "" {
		t.Error(diff)
	}
	var d done
	if err := json.Unmarshal(r.Data, &d); err != nil {
		t.Fatal(err)
	}
	if d.Path != "a.go" || d.Replacements != 1 || d.Digest != Digest([]byte(b.get("a.go"))) || r.Seen[0].Digest != d.Digest || r.Seen[0].Size != 25 || r.Seen[0].Mtime.IsZero() {
		t.Errorf("data %s, seen %+v", r.Data, r.Seen)
	}
	now, err := Look(t.Context(), b.dir, "a.go")
	if err != nil || now != r.Seen[0] {
		t.Errorf("the file is %+v, %v; the edit said %+v", now, err, r.Seen[0])
	}
	if l := b.leftovers(); l != nil {
		t.Errorf("left over: %v", l)
	}
}

func TestEditKeepsWhatItDoesNotReplace(t *testing.T) {
	for name, c := range map[string]struct{ content, old, new, want string }{
		"crlf":               {"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"},
		"crlf, one line":     {"a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"},
		"crlf, as it is":     {"a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"},
		"mixed, as it is":    {"a\nb\r\nc\n", "a\n", "x\n", "x\nb\r\nc\n"},
		"mixed, converted":   {"a\nb\r\nc\n", "b\nc", "x\ny", "a\nx\r\ny\n"},
		"bom":                {"\ufeffa\nb\n", "a", "x", "\ufeffx\nb\n"},
		"bom, written":       {"\ufeffa\n", "\ufeffa", "\ufeffx", "\ufeffx\n"},
		"no last newline":    {"a\nb", "b", "x", "a\nx"},
		"everything":         {"a", "a", "", ""},
		"replacement is $":   {"a", "a", "$1 \\n %s", "$1 \\n %s"},
		"bom, the beginning": {"\ufeffa\nb\n", "a\n", "", "\ufeffb\n"},
	} {
		b := newBench(t, map[string]string{"f": c.content})
		b.ok(EditName, m{"path": "f", "old_string": c.old, "new_string": c.new})
		if got := b.get("f"); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	b := newBench(t, map[string]string{"f": "a"})
	p := filepath.Join(b.dir, "f")
	for _, mode := range []os.FileMode{0o755, 0o600, 0o444} {
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		b.ok(EditName, m{"path": "f", "old_string": "a", "new_string": "aa", "replace_all": true})
		b.ok(EditName, m{"path": "f", "old_string": "aa", "new_string": "a", "replace_all": true})
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != mode {
			t.Errorf("mode %v became %v, %v", mode, info.Mode(), err)
		}
	}
}

func TestEditFollowsALinkAndKeepsIt(t *testing.T) {
	b := newBench(t, map[string]string{"src/a": "one"})
	b.link("src/a", "l")
	r := b.ok(EditName, m{"path": "l", "old_string": "one", "new_string": "two"})
	if b.get("src/a") != "two" || r.Seen[0].Path != "src/a" || r.Seen[1].Path != "l" {
		t.Errorf("%q, %+v", b.get("src/a"), r.Seen)
	}
	if target, err := os.Readlink(filepath.Join(b.dir, "l")); err != nil || target != "src/a" {
		t.Errorf("the link is %q, %v", target, err)
	}
	if err := os.Link(filepath.Join(b.dir, "src/a"), filepath.Join(b.dir, "hard")); err != nil {
		t.Fatal(err)
	}
	if r := b.ok(EditName, m{"path": "src/a", "old_string": "two", "new_string": "three"}); !strings.Contains(r.Text.Text, "2 names (hard links)") || b.get("hard") != "two" {
		t.Errorf("%s; the other name has %q", r.Text.Text, b.get("hard"))
	}
}

func TestEditRefusals(t *testing.T) {
	const code = "func a() {\n\tif x {\n\t\treturn \"it's\"\n\t}\n}\n\nfunc b() {\n\treturn 1\n}\n"
	b := newBench(t, map[string]string{
		"code.go": code, "twice": "x\ny\nx\nx x\n", "bin": "a\x00b", "latin": "caf\xe9", "empty": "", "crlf": "a\r\nb\r\n", "padded": "\n\na\n\n",
	})
	edit := func(path, old, new string) m { return m{"path": path, "old_string": old, "new_string": new} }
	for name, c := range map[string]struct {
		args  m
		code  events.Code
		at    string
		words []string
	}{
		"same":        {edit("code.go", "x", "x"), events.InvalidParam, "/new_string", []string{"same"}},
		"exists":      {edit("code.go", "", "x"), events.InvalidParam, "/old_string", []string{"Write"}},
		"exists too":  {edit("empty", "", "x"), events.InvalidParam, "/old_string", []string{"exists"}},
		"several":     {edit("twice", "x", "z"), events.InvalidParam, "/old_string", []string{"4 times", "lines 1, 3, 4, 4", "replace_all"}},
		"binary":      {edit("bin", "a", "z"), events.BinaryFile, "/path", []string{"3 bytes"}},
		"latin":       {edit("latin", "caf", "z"), events.BinaryFile, "/path", []string{"UTF-8"}},
		"missing":     {edit("none", "a", "z"), events.NotFound, "/path", nil},
		"white space": {edit("code.go", "if x {\n    return \"it's\"\n}", "z"), events.InvalidParam, "/old_string", []string{"white space", "lines 2-4", "     3\t\t\treturn \"it's\""}},
		"quotes":      {edit("code.go", "return \u201cit\u2019s\u201d", "z"), events.InvalidParam, "/old_string", []string{"quotes", "lines 3-3"}},
		"numbers":     {edit("code.go", "     2\t\tif x {\n     3\t\t\treturn", "z"), events.InvalidParam, "/old_string", []string{"line numbers"}},
		"capitals":    {edit("code.go", "FUNC b", "z"), events.InvalidParam, "/old_string", []string{"capital", "lines 7-7"}},
		"padding":     {edit("padded", "\n\n\na\n\n\n", "z"), events.InvalidParam, "/old_string", []string{"empty lines", "lines 3"}},
		"near":        {edit("code.go", "\treturn 12345", "z"), events.InvalidParam, "/old_string", []string{"nearest line is 8", "     8\t\treturn 1"}},
		"nothing":     {edit("code.go", "qqqqqqqq", "z"), events.InvalidParam, "/old_string", []string{"nothing near"}},
		"empty file":  {edit("empty", "qqqqqqqq", "z"), events.InvalidParam, "/old_string", []string{"nothing near"}},
		"line ends":   {edit("crlf", "a\nb", "a\r\nb"), events.InvalidParam, "/new_string", []string{"line ends"}},
	} {
		if e := b.fails(c.code, c.words, EditName, c.args); e.Path != c.at {
			t.Errorf("%s: path %s", name, e.Path)
		}
	}
	if b.get("code.go") != code || b.leftovers() != nil {
		t.Error("a refused edit changed something")
	}
}

func TestEditMakesAFile(t *testing.T) {
	b := newBench(t, nil)
	r := b.ok(EditName, m{"path": "new/dir/f", "old_string": "", "new_string": "hi\n"})
	if b.get("new/dir/f") != "hi\n" || !strings.HasPrefix(r.Text.Text, "made new/dir/f") {
		t.Errorf("%s", r.Text.Text)
	}
}

// An edit replaces exactly what it was told, whatever stands around it.
func TestEditsAndReadsAgree(t *testing.T) {
	piece := rapid.StringMatching(`[ab\n ]{0,6}`)
	rapid.Check(t, func(rt *rapid.T) {
		before, old, after, new := piece.Draw(rt, "before"), piece.Draw(rt, "old"), piece.Draw(rt, "after"), piece.Draw(rt, "new")
		all := rapid.Bool().Draw(rt, "all")
		content := before + old + after
		b := newBench(t, map[string]string{"f": content})
		seen := b.ok(ReadName, m{"path": "f"}).Seen[0]
		r, err := b.try(EditName, m{"path": "f", "old_string": old, "new_string": new, "replace_all": all}, expectationOf(seen))
		n := strings.Count(content, old)
		if old == "" || old == new || n > 1 && !all {
			if err == nil || b.get("f") != content {
				rt.Fatalf("it was done: %q", b.get("f"))
			}
			return
		}
		want := strings.ReplaceAll(content, old, new)
		if err != nil || b.get("f") != want {
			rt.Fatalf("%q, %v; want %q", b.get("f"), err, want)
		}
		if again := b.ok(ReadName, m{"path": "f"}).Seen[0]; again != r.Seen[0] {
			rt.Fatalf("Read saw %+v, Edit said %+v", again, r.Seen[0])
		}
		in := b.invocation(EditName, m{"path": "f", "old_string": old, "new_string": new, "replace_all": all})
		in.Expect = []events.Expectation{expectationOf(seen)}
		if f, err := probeEdit(t.Context(), in); err != nil || !f.Found && !all && new != "" {
			rt.Fatalf("the probe found %+v, %v", f, err)
		}
		if _, err := undo(t.Context(), in, r); err != nil || b.get("f") != content {
			rt.Fatalf("undone to %q, %v", b.get("f"), err)
		}
		if f, err := probeEdit(t.Context(), in); err != nil || f.Found {
			rt.Fatalf("undone, and the probe found %+v, %v", f, err)
		}
	})
}
