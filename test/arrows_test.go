package test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// arrow is what a package may import of this module.
type arrow struct {
	pkg string   // "a/..." is a and everything below
	may []string // "..." is anything
}

// arrows is the diagram of the design as data. The first that fits a package
// counts; a package that none fits needs one.
var arrows = []arrow{
	// Below the pure line.
	{"events", nil},
	{"events/near", nil}, // which word a misspelt one means
	{"lifecycle", []string{"events"}},
	{"policy/...", []string{"events", "events/near", "policy/..."}},
	{"schemas", []string{"events"}},
	{"schemas/remote", []string{"tools/remote/wire"}},
	{"gateway/codec", []string{"events", "events/near", "lifecycle"}}, // lifecycle parses arguments and bounds answers
	{"projections", []string{"events", "lifecycle"}},                  // lifecycle says what the model is told

	// Promises, and their keepers.
	{"bus", []string{"events"}},
	{"bus/vault", []string{"bus", "events", "policy/secrets"}}, // values that the log must not hold, sealed in cells
	{"bus/jetlog", []string{"bus", "events"}},
	{"bus/jetlog/jettest", []string{"bus/jetlog", "test/ports"}},
	{"bus/memlog", []string{"bus", "events"}},
	{"bus/bustest", []string{"bus", "events"}},

	// Where effects live.
	{"tools/remote/wire", []string{"events"}},                              // what nodes and workers say to each other: client speaks it, too
	{"tools/remote", []string{"bus", "events", "policy/...", "tools/..."}}, // bus: the way to workers
	{"tools/...", []string{"events", "policy/...", "tools/..."}},
	{"actors/det", []string{"bus", "bus/memlog", "events"}},                               // steps, a clock and a bus for whole nodes: the simulator's, and the replay's
	{"actors", []string{"bus", "events", "lifecycle", "policy/...", "tools", "tools/fs"}}, // tools/fs: files as the start gates see them
	{"projections/...", []string{"bus", "events", "lifecycle", "projections/..."}},
	{"gateway/...", []string{"bus", "bus/vault", "events", "events/near", "gateway/...", "lifecycle", "policy/...", "projections/...", "schemas"}}, // policy/access: who may do what; policy/secrets
	{"web/...", []string{"bus", "events", "lifecycle", "projections/...", "web/..."}},
	{"client/...", []string{"client/...", "events", "tools/remote/wire"}},

	// Wiring.
	{"cmd/...", []string{"..."}},
	{"examples/...", []string{"client"}}, // what anybody could write
	{"test/...", []string{"..."}},
}

func arrowOf(pkg string) *arrow {
	i := slices.IndexFunc(arrows, func(a arrow) bool { return within(pkg, a.pkg) })
	if i < 0 {
		return nil
	}
	return &arrows[i]
}

// TestArrows holds direct imports against the diagram.
func TestArrows(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue // a test may need more than what it tests
		}
		a := arrowOf(s.pkg)
		if a == nil {
			t.Errorf("%s: package %s is not in the diagram: give it a row in arrows", s.path, s.pkg)
			continue
		}
		for path, at := range s.imports() {
			pkg, ours := strings.CutPrefix(path, module+"/")
			if ours && !slices.Contains(a.may, "...") && !withinAny(pkg, a.may) {
				t.Errorf("%s: %s must not import %s", s.at(at), s.pkg, pkg)
			}
		}
	}
}

// TestOneImporter: these modules are kept behind one package each.
func TestOneImporter(t *testing.T) {
	for prefix, only := range map[string][]string{
		"github.com/nats-io/":                        {"bus/jetlog/...", "client", "test/..."}, // the one keeper; a worker, which is not a part of the house; tests look from outside
		"github.com/synadia-io/":                     {"bus/jetlog/...", "test/..."},
		"github.com/asynkron/":                       {"actors"},
		"github.com/google/go-cmp/":                  nil, // for tests: it panics on what it does not know
		"pgregory.net/rapid":                         nil,
		"go.uber.org/goleak":                         nil,
		"github.com/rogpeppe/go-internal/testscript": nil,
		"github.com/anishathalye/porcupine":          nil,
		"github.com/cedar-policy/":                   {"policy/..."},
		"mvdan.cc/sh/":                               {"policy/...", "tools/shell"},
		"modernc.org/":                               {"projections/readstore"},
		"github.com/modelcontextprotocol/go-sdk":     {"tools/mcp", "gateway/...", "test/..."},
	} {
		for _, s := range sources(t) {
			library := strings.HasPrefix(s.pkg, "bus/bustest") || strings.HasPrefix(s.pkg, "tools/tooltest") || within(s.pkg, "test/...")
			if withinAny(s.pkg, only) || only == nil && (s.test || library) {
				continue
			}
			for path, at := range s.imports() {
				if strings.HasPrefix(path, prefix) && !(s.test && strings.HasPrefix(s.pkg, "cmd/")) {
					t.Errorf("%s: %s must not import %s", s.at(at), s.pkg, path)
				}
			}
		}
	}
}

// pure are the packages that decide, judge and fold: no clock, no chance, no I/O.
var pure = []string{"events", "lifecycle", "policy/...", "projections", "gateway/codec", "schemas", "bus"}

// impure are the imports that they do without. Addresses and URLs are only text.
func impure(pkg, path string) bool {
	switch path {
	case "net/url", "net/netip", "net/mail": // texts
		return false
	case "context":
		return pkg != "bus" // promises are kept in time
	}
	return slices.ContainsFunc([]string{"os", "net", "math/rand", "syscall"}, func(p string) bool {
		return path == p || strings.HasPrefix(path, p+"/")
	}) || path == "crypto/rand" || path == "log" || path == "log/slog"
}

// onlyNumbers says that nothing but status codes is taken from net/http.
func onlyNumbers(s source, path string) bool {
	only := path == "net/http"
	s.uses(path, func(name string, _ token.Pos) { only = only && strings.HasPrefix(name, "Status") })
	return only
}

// clocks are the names of package time that read or run a clock.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}

// TestPure holds what is below the pure line to it.
func TestPure(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !withinAny(s.pkg, pure) {
			continue
		}
		for path, at := range s.imports() {
			if impure(s.pkg, path) && !onlyNumbers(s, path) {
				t.Errorf("%s: %s is pure and must not import %s: let the value come in a command", s.at(at), s.pkg, path)
			}
		}
		s.uses("time", func(name string, at token.Pos) {
			if slices.Contains(clocks, name) {
				t.Errorf("%s: %s is pure and must not use time.%s: let the time come in a command", s.at(at), s.pkg, name)
			}
		})
		ast.Inspect(s.file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: %s is pure and must not start goroutines", s.at(g.Pos()), s.pkg)
			}
			return true
		})
	}
}

// TestNoSleep: a test waits for facts. Sleeping is for the fake clock of a
// synctest bubble.
func TestNoSleep(t *testing.T) {
	for _, s := range sources(t) {
		var bubbles []ast.Node
		ast.Inspect(s.file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && isCall(c, "synctest", "Test") {
				bubbles = append(bubbles, c)
			}
			return true
		})
		s.uses("time", func(name string, at token.Pos) {
			fake := slices.ContainsFunc(bubbles, func(b ast.Node) bool { return b.Pos() <= at && at < b.End() })
			if name == "Sleep" && !fake {
				t.Errorf("%s: time.Sleep outside synctest.Test: wait for a fact", s.at(at))
			}
		})
	}
}

func isCall(c *ast.CallExpr, pkg, name string) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && sel.Sel.Name == name
}

// TestContextsComeFromOutside: only what starts or tests the house makes one.
func TestContextsComeFromOutside(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || withinAny(s.pkg, []string{"cmd/...", "examples/...", "test/..."}) {
			continue
		}
		s.uses("context", func(name string, at token.Pos) {
			if name == "Background" || name == "TODO" {
				t.Errorf("%s: context.%s: take it from the caller", s.at(at), name)
			}
		})
	}
}

// TestTwoRecovers: running a tool, and the actors' boundary. Anywhere else a
// panic is a bug that must be heard.
func TestTwoRecovers(t *testing.T) {
	allowed := map[string]int{"tools": 1, "actors": 1}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := c.Fun.(*ast.Ident); ok && f.Name == "recover" {
				if allowed[s.pkg]--; allowed[s.pkg] < 0 {
					t.Errorf("%s: one recover too many in %s", s.at(c.Pos()), s.pkg)
				}
			}
			return true
		})
	}
}
