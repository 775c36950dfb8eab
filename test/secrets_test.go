package test

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/policy/secrets"
)

// invented are values that look like secrets and open nothing: examples of
// documentation and tests. A new one is written here, so that somebody has looked at
// it; a value in a file of examples of the detector's own need not be.
var invented = []string{
	"sk-AAAAAAAAAAAAAAAAAAAAAAAA", "sk-BBBBBBBBBBBBBBBBBBBBBBBB", "sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "x-secret-of-another-folder",
}

// examples are files of examples of secrets.
var examples = []string{"policy/secrets/testdata/", "policy/secrets/secrets_test.go", "policy/secrets/seal_test.go", "policy/secrets/keep_test.go"}

// tracked are the files of the repository: those that git knows, or, where there is no
// git, all but what a build leaves.
func tracked(t *testing.T) []string {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	git.Dir = ".."
	if out, err := git.Output(); err == nil {
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	}
	var out []string
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || path == "bin") {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// text is what a file holds; of a gzipped one what was packed.
func text(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", filepath.FromSlash(path)))
	if err != nil {
		return "" // removed, and git does not know yet; or a link that leads nowhere
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return "" // a folder that git keeps as one
	}
	return string(b)
}

// TestSecretsAreNotInTheRepository looks at every file with the product's own detector.
func TestSecretsAreNotInTheRepository(t *testing.T) {
	files, size, passed := tracked(t), 0, 0
	for _, path := range files {
		if slices.ContainsFunc(examples, func(e string) bool { return strings.HasPrefix(path, e) }) {
			continue
		}
		whole := text(t, path)
		size += len(whole)
		for _, s := range secrets.Find(whole) {
			value := whole[s.Start:s.End]
			known := slices.ContainsFunc(invented, func(v string) bool { return strings.Contains(value, v) })
			if known || short(s.Kind, value) || inventedHere(path, value) {
				passed++
				continue
			}
			line := strings.Count(whole[:s.Start], "\n") + 1
			t.Errorf("%s:%d: looks like a secret (%s), %d bytes: take it out of the repository and change it; or, if it is an example, name it in invented", path, line, s.Kind, len(value))
		}
	}
	t.Logf("%d files, %d bytes, %d examples", len(files), size, passed)
	if len(files) < 500 || size < 1<<20 || passed == 0 {
		t.Errorf("only %d files with %d bytes and %d examples were looked at", len(files), size, passed)
	}
}

// leastValue is the length in bytes of the shortest value that counts where only a name
// beside it says that it is one: tests and documentation are full of short ones.
const leastValue = 20

func short(kind secrets.Kind, value string) bool {
	return len(value) < leastValue && kind != secrets.APIKey && kind != secrets.PrivateKey && kind != secrets.Webhook
}

// inventedHere says whether a value is a piece of a test that makes one.
func inventedHere(path, value string) bool {
	return strings.HasSuffix(path, "_test.go") && (strings.Contains(value, "`+") || strings.Contains(value, "+`") || strings.Contains(value, `"+`) || strings.HasPrefix(value, "+")) // Go that puts a text together
}
