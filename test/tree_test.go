// Package test holds what is checked of the house as a whole: who may import whom,
// and how large things may grow. The folders below it hold the simulator, the logs
// of every release, and tests of the whole product.
package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/sluice-run/sluice"

// source is one Go file of this module.
type source struct {
	path string // from the module's root, with slashes
	pkg  string // its folder from there; "." for the root
	test bool   // its name ends in _test.go
	file *ast.File
	fset *token.FileSet
}

// at is a place in a source, for messages.
func (s source) at(p token.Pos) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(p).Line)
}

// lines is how many lines stand from one place to another, both counted.
func (s source) lines(from, to token.Pos) int {
	return s.fset.Position(to).Line - s.fset.Position(from).Line + 1
}

// imports are the paths that the file imports.
func (s source) imports() map[string]token.Pos {
	out := map[string]token.Pos{}
	for _, i := range s.file.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err == nil {
			out[p] = i.Pos()
		}
	}
	return out
}

// uses calls yield for every name of a package's that is used, by the package's
// import path: time.Now of "time".
func (s source) uses(path string, yield func(name string, at token.Pos)) {
	local := ""
	for _, i := range s.file.Imports {
		if i.Path.Value == strconv.Quote(path) {
			local = path[strings.LastIndexByte(path, '/')+1:]
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				yield(sel.Sel.Name, sel.Pos())
			}
		}
		return true
	})
}

var tree = sync.OnceValues(readTree)

// sources are all Go files of the module, in the order of their names.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readTree() ([]source, error) {
	var out []source
	root := ".."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		s, err := readSource(root, path)
		out = append(out, s)
		return err
	})
	return out, err
}

func readSource(root, path string) (source, error) {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return source{}, err
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	s := source{path: filepath.ToSlash(rel), fset: token.NewFileSet(), test: strings.HasSuffix(path, "_test.go")}
	s.pkg = filepath.ToSlash(filepath.Dir(rel))
	s.file, err = parser.ParseFile(s.fset, rel, src, parser.ParseComments)
	return s, err
}

// within says whether a package is the one that a pattern names, or, where the
// pattern ends in "/...", one below it.
func within(pkg, pattern string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == below || strings.HasPrefix(pkg, below+"/")
	}
	return pkg == pattern
}

func withinAny(pkg string, patterns []string) bool {
	for _, p := range patterns {
		if within(pkg, p) {
			return true
		}
	}
	return false
}
