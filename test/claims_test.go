package test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// claim is how a page of docs names the test that holds what it says: the package's
// folder, a dot, the test's name.
var claim = regexp.MustCompile("`([a-z0-9_/]+)\\.((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// TestClaimsHaveTests holds the page of threats to its word: every test that it names is
// there, and every row of a table that says what is held names one.
func TestClaimsHaveTests(t *testing.T) {
	have := make(map[string]bool)
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				have[path.Dir(s.path)+"."+f.Name.Name] = true
			}
		}
	}
	b, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	named, held := 0, false
	for i, line := range strings.Split(string(b), "\n") {
		row := strings.HasPrefix(line, "|")
		switch {
		case strings.HasPrefix(line, "| what is held |"):
			held = true
			continue
		case !row:
			held = false
		}
		found := claim.FindAllStringSubmatch(line, -1)
		if held && len(found) == 0 && !strings.HasPrefix(line, "|---") {
			t.Errorf("docs/security.md:%d: no test holds this: %s", i+1, line)
		}
		for _, m := range found {
			if named++; !have[m[1]+"."+m[2]] {
				t.Errorf("docs/security.md:%d: there is no test %s in %s", i+1, m[2], m[1])
			}
		}
	}
	if named < 30 {
		t.Errorf("docs/security.md names %d tests: is it read as it is written?", named)
	}
}
