package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Bounds of what a reader is asked to hold in mind at once.
const (
	maxFunc      = 70  // lines of a function
	maxFile      = 700 // lines of a file
	maxInterface = 5   // methods of an interface
)

// ratchetFile lists what was too large when the bounds came, one a line: what, and
// how many lines. Entries may shrink and go, and none may come.
const ratchetFile = "testdata/ratchet.txt"

// TestSizes holds functions and files to their bounds.
func TestSizes(t *testing.T) {
	old := ratchet(t)
	for _, s := range sources(t) {
		if generated(s.file) {
			continue
		}
		check := func(what string, lines, bound int) {
			most, listed := old[what]
			delete(old, what)
			switch {
			case listed && lines <= bound:
				t.Errorf("%s is small enough now: take it out of %s", what, ratchetFile)
			case listed && lines < most:
				t.Errorf("%s has shrunk to %d lines: write that into %s", what, lines, ratchetFile)
			case lines > max(bound, most):
				t.Errorf("%s has %d lines, at most %d are allowed", what, lines, max(bound, most))
			}
		}
		check(s.path, s.lines(s.file.FileStart, s.file.FileEnd-1), maxFile)
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				check(s.path+" "+funcName(f), s.lines(f.Pos(), f.End()), maxFunc)
			}
		}
	}
	for what := range old {
		t.Errorf("%s is not there any more: take it out of %s", what, ratchetFile)
	}
}

// ratchet reads the ratchet file: an entry is a name and a number of lines.
func ratchet(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile(ratchetFile)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.Atoi(line[i+1:])
		if i < 0 || err != nil {
			t.Fatalf("%s: %q: want a name and a number of lines", ratchetFile, line)
		}
		out[line[:i]] = n
	}
	return out
}

func generated(f *ast.File) bool { return ast.IsGenerated(f) }

func funcName(f *ast.FuncDecl) string {
	if r := receiver(f); r != "" {
		return r + "." + f.Name.Name
	}
	return f.Name.Name
}

// receiver is the name of a method's type, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	e := f.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return fmt.Sprintf("%T", e)
		}
	}
}

// TestDocComments: whoever uses a package can read what it exports.
func TestDocComments(t *testing.T) {
	documented := map[string]bool{} // packages
	seen := map[string]string{}     // package → one of its files
	for _, s := range sources(t) {
		if s.test || generated(s.file) || withinAny(s.pkg, []string{"cmd/...", "test/...", "internal/deps"}) {
			continue
		}
		documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil
		seen[s.pkg] = s.path
		for _, d := range s.file.Decls {
			undocumented(s, d, func(name string, at token.Pos) {
				t.Errorf("%s: %s has no doc comment", s.at(at), name)
			})
		}
	}
	for pkg, path := range seen {
		if !documented[pkg] {
			t.Errorf("%s: package %s has no doc comment", path, pkg)
		}
	}
}

// undocumented yields the exported names of a declaration that nothing is said
// of. A group's comment is said of all of it, and one of several functions in
// adjacent lines of all of them.
func undocumented(s source, d ast.Decl, yield func(string, token.Pos)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		own := receiver(d)
		standard := own != "" && (d.Name.Name == "Error" || d.Name.Name == "String")
		if d.Doc == nil && d.Name.IsExported() && !standard && (own == "" || ast.IsExported(own)) && !follows(s, d) {
			yield(funcName(d), d.Pos())
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					yield(spec.Name.Name, spec.Pos())
				}
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					if n.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
						yield(n.Name, n.Pos())
					}
				}
			}
		}
	}
}

// follows says whether a function of one line stands right behind another one of
// the same name, as implementations of a small interface do.
func follows(s source, f *ast.FuncDecl) bool {
	i := slices.IndexFunc(s.file.Decls, func(d ast.Decl) bool { return d == ast.Decl(f) })
	if i < 1 || s.lines(f.Pos(), f.End()) > 1 {
		return false
	}
	before, ok := s.file.Decls[i-1].(*ast.FuncDecl)
	return ok && before.Name.Name == f.Name.Name && s.lines(before.End(), f.Pos()) == 2
}

// large are the interfaces that may have more methods.
var large = []string{
	"bus.Bus",      // all promises of one keeper: nothing is written against it but wiring
	"bus.Delivery", // what a message says (3), and what can be done with it (3)
}

// TestInterfacesAreSmall counts the methods of each, with those that it embeds of
// its own package.
func TestInterfacesAreSmall(t *testing.T) {
	methods := map[string]map[string]*ast.InterfaceType{} // package → name
	for _, s := range sources(t) {
		if methods[s.pkg] == nil {
			methods[s.pkg] = map[string]*ast.InterfaceType{}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if i, ok := spec.Type.(*ast.InterfaceType); ok {
					methods[s.pkg][spec.Name.Name] = i
				}
			}
			return true
		})
	}
	for pkg, all := range methods {
		for name, i := range all {
			n := countMethods(all, i)
			if full := pkg[strings.LastIndexByte(pkg, '/')+1:] + "." + name; n > maxInterface && !slices.Contains(large, full) {
				t.Errorf("%s: interface %s has %d methods, at most %d are allowed", pkg, name, n, maxInterface)
			}
		}
	}
}

func countMethods(all map[string]*ast.InterfaceType, i *ast.InterfaceType) int {
	n := 0
	for _, f := range i.Methods.List {
		n += len(f.Names)
		if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && all[id.Name] != nil {
			n += countMethods(all, all[id.Name])
		}
	}
	return n
}
