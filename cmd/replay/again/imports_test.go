package again_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNothingHereCanRunATool: of this module only packages are imported that decide, judge
// and tell, and of the library nothing that reaches out of the process.
func TestNothingHereCanRunATool(t *testing.T) {
	const module = "github.com/sluice-run/sluice/"
	may := []string{"bus", "events", "lifecycle", "policy", "policy/shell"}
	out := []string{"os", "net", "net/http", "os/exec", "syscall", "plugin", "unsafe", "context"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own, ours := strings.CutPrefix(path, module)
			if ours && !slices.Contains(may, own) || slices.Contains(out, path) || !ours && strings.Contains(path, ".") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d files", seen)
	}
}
