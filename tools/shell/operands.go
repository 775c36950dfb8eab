package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of a look for operands.
const (
	maxOperands = 64
	maxNesting  = 4 // command lines inside command lines
)

// operands are the workspace files that a line would run, as far as the line
// itself says so: programs and scripts that it names by a path, and what it
// hands to an interpreter, followed through cd, wrappers and bash -c. They are
// relative to the workspace, except for absolute ones. What a script runs in
// its turn is not seen.
func operands(line string) []string {
	f := &finder{}
	f.line(line, 0)
	return f.found
}

type finder struct {
	dir   string // where the line stands, from the workspace
	lost  bool   // that is not known any more
	depth int
	found []string
}

func (f *finder) line(line string, depth int) {
	if depth > maxNesting || len(line) > MaxCommand {
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return
	}
	f.depth = depth
	f.walk(file)
}

// place is where a walk stood when it went into a node.
type place struct {
	dir   string
	lost  bool
	scope bool // what is changed inside does not last
}

func (f *finder) walk(root syntax.Node) {
	var stack []place
	syntax.Walk(root, func(n syntax.Node) bool {
		if n == nil {
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if last.scope {
				f.dir, f.lost = last.dir, last.lost
			}
			return true
		}
		p := place{dir: f.dir, lost: f.lost}
		switch n := n.(type) {
		case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst:
			p.scope = true
		case *syntax.Stmt:
			p.scope = n.Background || n.Coprocess
			f.stmt(n)
		case *syntax.BinaryCmd:
			p.scope = n.Op == syntax.Pipe || n.Op == syntax.PipeAll
			f.pipe(n)
		}
		stack = append(stack, p)
		return true
	})
}

// stmt looks at a simple command and at what is redirected into it.
func (f *finder) stmt(s *syntax.Stmt) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		words[i], _ = literal(w)
	}
	if f.command(words) {
		return
	}
	for _, r := range s.Redirs { // an interpreter with no script reads one from its input
		if to, ok := literal(r.Word); ok && (r.Op == syntax.RdrIn || r.Op == syntax.RdrInOut) {
			f.add(to)
		}
	}
}

// pipe looks for a file that cat hands to an interpreter.
func (f *finder) pipe(b *syntax.BinaryCmd) {
	from, ok := callOf(b.X)
	to, ok2 := callOf(b.Y)
	if b.Op != syntax.Pipe || !ok || !ok2 || from[0] != "cat" {
		return
	}
	if probe := (&finder{depth: maxNesting}); !probe.command(to) {
		for _, w := range from[1:] {
			if !strings.HasPrefix(w, "-") {
				f.add(w)
			}
		}
	}
}

func callOf(s *syntax.Stmt) ([]string, bool) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil, false
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		words[i], _ = literal(w)
	}
	return words, true
}

// command looks at the words of a simple command, "" for those that are not
// literal. It is false for an interpreter that would read its script from its input.
func (f *finder) command(words []string) bool {
	words = unwrap(words)
	if len(words) == 0 {
		return true
	}
	name, args := words[0], words[1:]
	if strings.Contains(name, "/") {
		f.add(name)
		name = path.Base(name)
	}
	switch name {
	case "cd", "pushd":
		f.move(args)
	case "source", ".":
		f.add(first(args))
	case "eval":
		f.nested(strings.Join(args, " "), true)
	case "make", "gmake":
		f.build(args)
	default:
		if in, ok := interpreterOf(name); ok {
			return f.interpreter(in, args)
		}
	}
	return true
}

func (f *finder) move(args []string) {
	to := first(args)
	switch {
	case to == "" || to == "-" || strings.HasPrefix(to, "~"):
		f.lost = true
	case path.IsAbs(to):
		f.dir, f.lost = to, false
	default:
		f.dir = path.Join(f.dir, to)
	}
}

// nested looks into a line inside the line; here says that it changes where the
// outer one stands.
func (f *finder) nested(line string, here bool) {
	was := *f
	f.line(line, f.depth+1)
	f.depth = was.depth
	if !here {
		f.dir, f.lost = was.dir, was.lost
	}
}

// build adds what make reads.
func (f *finder) build(args []string) {
	for i, a := range args {
		if file, ok := strings.CutPrefix(a, "--file="); ok {
			f.add(file)
			return
		}
		if (a == "-f" || a == "--file" || a == "--makefile") && i+1 < len(args) {
			f.add(args[i+1])
			return
		}
	}
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		f.add(name)
	}
}

// interpreter adds the script among args, and says whether there is one or the
// code is in the arguments.
func (f *finder) interpreter(in interpreter, args []string) bool {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "" || a == "-":
			return a == "" // not literal: nothing can be said of it
		case slices.Contains(in.code, a) || in.shell && bundle(a):
			if in.shell && i+1 < len(args) {
				f.nested(args[i+1], false)
			}
			return true
		case slices.Contains(in.file, a) && i+1 < len(args):
			f.add(args[i+1])
			if in.only {
				return true
			}
			i++
		case slices.Contains(in.value, a):
			i++
		case slices.Contains(in.skip, a) || strings.HasPrefix(a, "-") || strings.HasPrefix(a, "+"):
		case in.only:
			return true // a program in its own language
		default:
			f.add(a)
			return true
		}
	}
	return in.only
}

// bundle says whether short flags of a shell hold -c.
func bundle(a string) bool {
	return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "c")
}

// system are folders whose programs are not the workspace's.
var system = []string{"/bin/", "/sbin/", "/usr/", "/opt/", "/nix/", "/dev/", "/proc/", "/lib/", "/etc/"}

func (f *finder) add(p string) {
	if p == "" || strings.HasPrefix(p, "~") || len(f.found) >= maxOperands {
		return
	}
	if !path.IsAbs(p) {
		if f.lost {
			return
		}
		p = path.Join(f.dir, p)
	}
	p = path.Clean(p)
	outside := p == ".." || strings.HasPrefix(p, "../")
	for _, s := range system {
		outside = outside || strings.HasPrefix(p, s)
	}
	if !outside && !slices.Contains(f.found, p) {
		f.found = append(f.found, p)
	}
}

func first(args []string) string {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") || a == "-" {
			return a
		}
	}
	return ""
}
