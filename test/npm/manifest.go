package npm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var exact = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// Manifest is the packages that a package.json depends on, as Install takes them. Versions
// that are not exact fail the test.
func Manifest(t testing.TB, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Dependencies map[string]string }
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var out []string
	for name, version := range m.Dependencies {
		if !exact.MatchString(version) {
			t.Errorf("%s: %s has the version %q: want an exact one", path, name, version)
		}
		out = append(out, name+"@"+version)
	}
	return out
}

// Place makes a folder like one of a repository in which somebody has called npm install: the
// files of the folder beside and around it that its programs import, and node_modules with the
// packages of its package.json, or with the given ones where there are any.
func Place(t testing.TB, folder string, beside []string, packages ...string) string {
	t.Helper()
	if len(packages) == 0 {
		packages = Manifest(t, filepath.Join(folder, "package.json"))
	}
	installed := Install(t, packages...)
	root := t.TempDir()
	dir := filepath.Join(root, filepath.Base(folder))
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	for _, path := range beside {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, filepath.Base(path)), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(installed, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}
