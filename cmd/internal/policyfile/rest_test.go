package policyfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-run/sluice/policy/cedar"
)

// Files that change while they are read are read again, all of them, and given up where
// they do not come to rest.
func TestFilesComeToRest(t *testing.T) {
	gone := errors.New("gone")
	for _, c := range []struct {
		name  string
		reads []string // what each reading finds; "!" is an error, and the last one is found ever after
		want  string
		times int
		err   error
	}{
		{"at rest", []string{"a"}, "a", 2, nil},
		{"exchanged meanwhile", []string{"a", "b"}, "b", 3, nil},
		{"exchanged twice", []string{"a", "b", "c"}, "c", 4, nil},
		{"never", []string{"a", "b", "a", "b", "a", "b"}, "", 5, ErrChanging},
		{"not there", []string{"!"}, "", 1, gone},
		{"gone meanwhile", []string{"a", "!"}, "", 2, gone},
	} {
		n := 0
		files, err := atRest(func() ([]cedar.File, error) {
			text := c.reads[min(n, len(c.reads)-1)]
			n++
			if text == "!" {
				return nil, gone
			}
			return []cedar.File{{Name: "x", Text: []byte(text)}}, nil
		})
		if !errors.Is(err, c.err) || n != c.times || err == nil && string(files[0].Text) != c.want {
			t.Errorf("%s: %v, %v after %d readings", c.name, files, err, n)
		}
	}
	same := []cedar.File{{Name: "x"}}
	if slices.EqualFunc(same, []cedar.File{{Name: "y"}}, sameFile) {
		t.Error("a file that was renamed is the same")
	}
}

// A directory may be a link, and hold links, as those that are exchanged at once are.
func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"v1/a.cedar": "@id(\"one\") " + permit, "v2/a.cedar": "@id(\"two\") " + permit})
	link := func(from, to string) {
		t.Helper()
		tmp := filepath.Join(dir, "tmp")
		if err := os.Symlink(to, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	link("data", "v1")
	if err := os.Mkdir(filepath.Join(dir, "policies"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../data/a.cedar", filepath.Join(dir, "policies", "a.cedar")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ to, want string }{{"v1", "one"}, {"v2", "two"}, {"v1", "one"}} {
		link("data", c.to)
		for _, path := range []string{"data", "policies", "data/a.cedar", "policies/a.cedar"} {
			s, err := Load(filepath.Join(dir, path))
			if err != nil || ids(s)[0] != c.want {
				t.Errorf("%s at %s: %v", c.to, path, err)
			}
		}
	}
	link("data", "v3") // nowhere
	for _, path := range []string{"data", "policies", "policies/a.cedar"} {
		if _, err := Load(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s leads nowhere, and loads", path)
		}
	}
}

// What was written in part does not load as something else: wherever the text is cut it
// is refused, or holds the policies up to there.
func TestHalfWritten(t *testing.T) {
	text := "@id(\"a\") " + permit + "\n@id(\"b\") forbid (principal, action, resource in Path::\"x\");\n// the end\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "p.cedar")
	loads := 0
	for n := range len(text) + 1 {
		if err := os.WriteFile(path, []byte(text[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(path)
		if err != nil {
			continue
		}
		loads++
		if got := ids(s); !slices.Equal(got, []string{"a", "b"}[:len(got)]) {
			t.Errorf("cut at %d: %v", n, got)
		}
	}
	if loads == 0 {
		t.Error("not even the whole loads")
	}
}
