package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of a look for operands.
const (
	maxOperands = 4096
	maxNesting  = 4    // command lines inside command lines
	maxWords    = 256  // of a line that cannot be read
	maxPath     = 8    // folders that the line puts into PATH
	maxName     = 4096 // bytes of a name
	maxFolders  = 16   // folders that the line goes into
)

// operands are the workspace files that a line would run, as far as the line
// itself says so: programs and scripts that it names by a path, what it hands to
// an interpreter, and the files by which a builder, a package manager or a test
// runner knows what to run, followed through cd, wrappers, find -exec and bash -c.
// They are relative to the workspace, except for absolute ones; those that the line
// names come before those that its programs look for. Files need not be there. What
// a script runs in its turn is not seen, nor what only an expansion names.
func operands(line string) []string { return find(line).found }

func find(line string) *finder {
	f := &finder{seen: map[string]bool{}, said: map[string]bool{}}
	f.line(line, 0)
	for _, p := range f.maybe {
		f.keep(&f.found, p)
	}
	return f
}

type finder struct {
	dir     string // where the line stands, from the workspace
	lost    bool   // that is not known any more
	depth   int
	path    []string // folders that the line puts into PATH
	found   []string
	maybe   []string
	bases   []string        // where the line has stood: it still does where a cd fails
	words   []string        // names that stand in the line, whatever its commands do with them
	seen    map[string]bool // of found and maybe
	said    map[string]bool // of words
	hidden  bool            // it runs a file whose name is known only when it runs
	unnamed bool            // some word of it is known only when it runs
	more    bool            // there are more words than are kept
}

func (f *finder) line(line string, depth int) {
	if depth > maxNesting || len(line) > MaxCommand {
		return
	}
	f.depth = depth
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err == nil {
		f.walk(file)
		return
	}
	// A shell runs what stands before the error, and finds fewer errors: any word may be a file.
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"`$(){}[]<>|&;=!*?#\\", r) }) {
		if len(f.found) < maxWords {
			f.add(word)
		}
		f.argument(word)
	}
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
		case *syntax.Assign:
			f.assign(n)
			f.assigned(n)
		case *syntax.CallExpr:
			f.called(n)
		case *syntax.Redirect:
			f.redirected(n)
		case *syntax.WordIter:
			f.mention(n.Items...)
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
	for _, a := range call.Assigns { // they hold for the command
		f.assign(a)
	}
	words := literals(call.Args)
	done := f.command(words)
	if f.runsText(words) {
		f.sources(call.Args)
	}
	if done {
		return
	}
	for _, r := range s.Redirs { // an interpreter with no script reads one from its input
		if r.Op == syntax.RdrIn || r.Op == syntax.RdrInOut {
			to, _ := literal(r.Word)
			f.add(to)
		}
	}
}

// runsText says whether a command runs what is in its arguments or in files that
// stand there.
func (f *finder) runsText(words []string) bool {
	for len(words) > 0 && words[0] != "" {
		p, wraps := peel(words)
		if !wraps {
			break
		}
		words = p.words
	}
	if len(words) == 0 {
		return false
	}
	name := base(words[0])
	in, ok := interpreterOf(name)
	return ok && !in.only || name == "eval" || name == "source" || name == "." || name == "trap"
}

// sources adds what the substitutions of words put out of files: bash <(cat x), eval
// "$(cat x)".
func (f *finder) sources(args []*syntax.Word) {
	for _, w := range args {
		syntax.Walk(w, func(n syntax.Node) bool {
			if s, ok := n.(*syntax.Stmt); ok {
				f.inputs(s)
			}
			return true
		})
	}
}

// inputs adds what a command reads, as far as it stands in its words.
func (f *finder) inputs(s *syntax.Stmt) {
	if call, ok := s.Cmd.(*syntax.CallExpr); ok && len(call.Args) > 0 {
		words := literals(call.Args)
		if !slices.Contains([]string{"echo", "printf"}, words[0]) {
			for _, a := range words[1:] {
				if a != "" && a[0] != '-' {
					f.add(a)
				}
			}
		}
	}
	for _, r := range s.Redirs {
		if to, ok := literal(r.Word); ok && (r.Op == syntax.RdrIn || r.Op == syntax.RdrInOut) {
			f.add(to)
		}
	}
}

// pipe looks for files that come to an interpreter through a pipe.
func (f *finder) pipe(b *syntax.BinaryCmd) {
	if b.Op != syntax.Pipe && b.Op != syntax.PipeAll {
		return
	}
	call, ok := b.Y.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	probe := &finder{depth: maxNesting, seen: map[string]bool{}, said: map[string]bool{}}
	if probe.command(literals(call.Args)) {
		return
	}
	syntax.Walk(b.X, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			f.inputs(n)
		case *syntax.Word:
			if _, ok := literal(n); !ok {
				f.hidden = true
			}
		}
		return true
	})
}

// command looks at the words of a simple command, "" for those that are not
// literal. It is false for an interpreter that would read its script from its input.
func (f *finder) command(words []string) bool {
	many := false // what it runs is given more words as it runs
	for range maxNesting * 4 {
		if len(words) == 0 || words[0] == "" {
			f.hidden = f.hidden || len(words) > 0
			return true
		}
		f.program(words[0])
		if slices.Contains([]string{"xargs", "parallel"}, base(words[0])) {
			many, f.unnamed = true, true
		}
		p, wraps := peel(words)
		if !wraps {
			break
		}
		for _, a := range p.own {
			name, value, _ := strings.Cut(a, "=")
			f.variable(name, value)
		}
		for _, line := range p.lines {
			f.nested(line, false)
		}
		if pr, ok := projects[base(words[0])]; ok {
			f.project(pr, nil)
		}
		words = p.words
	}
	if len(words) == 0 || words[0] == "" {
		f.hidden = f.hidden || len(words) > 0
		return true
	}
	done := f.named(base(words[0]), words[1:])
	f.hidden = f.hidden || many && !done
	return done
}

// named looks at a command by its name.
func (f *finder) named(name string, args []string) bool {
	switch name {
	case "cd", "pushd", "popd":
		f.move(args)
	case "source", ".":
		f.add(first(args))
	case "eval":
		f.nested(strings.Join(args, " "), true)
	case "trap":
		f.nested(first(args), false)
	case "find", "fd", "gfind":
		f.actions(args)
	case "git":
		f.git(args)
	default:
		pr, known := projects[name]
		if !known {
			pr, known = projects[strings.TrimRight(name, "0123456789.-")]
		}
		if known {
			f.project(pr, args)
		}
		if in, ok := interpreterOf(name); ok {
			return f.interpreter(in, args)
		}
	}
	return true
}

// program adds a program that is named by a path, or found by the line's own PATH.
func (f *finder) program(name string) {
	if strings.Contains(name, "/") {
		f.add(name)
		return
	}
	for _, dir := range f.path {
		f.add(dir + "/" + name)
	}
}

// actions looks at what find runs.
func (f *finder) actions(args []string) {
	for i := 0; i < len(args); i++ {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}, args[i]) {
			continue
		}
		from := i + 1
		for i++; i < len(args) && args[i] != ";" && args[i] != "+"; i++ {
			continue
		}
		if from < i {
			f.command(args[from:i])
		}
	}
}

func (f *finder) move(args []string) {
	if !f.lost {
		f.stood(f.dir)
	}
	to := first(args)
	switch {
	case to == "" || to == "-" || strings.HasPrefix(to, "~") || strings.HasPrefix(to, "+"):
		f.lost = true
	case path.IsAbs(to):
		f.dir, f.lost = to, false
	case !f.lost:
		f.dir = path.Join(f.dir, to)
		f.lost = len(f.dir) > maxName
	}
}

// nested looks into a line inside the line; here says that it changes where the
// outer one stands.
func (f *finder) nested(line string, here bool) {
	f.hidden = f.hidden || strings.TrimSpace(line) == ""
	dir, lost, depth := f.dir, f.lost, f.depth
	f.line(line, depth+1)
	f.depth = depth
	if !here {
		f.dir, f.lost = dir, lost
	}
}

// interpreter adds the script among args, and says whether there is one or the
// code is in the arguments.
func (f *finder) interpreter(in interpreter, args []string) bool {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "": // not literal: it may be a flag, or nothing
			f.hidden = f.hidden || !in.only
		case in.shell && letters(a, "c"): // its line is the first word that is no flag
			f.nested(first(args[i+1:]), false)
			return true
		case a == "-" || in.shell && letters(a, "s"):
			return false
		case a == "--":
			if i+1 < len(args) && !in.only {
				f.script(in, args[i+1])
				return true
			}
		case takesNext(in.code, a), given(in.code, a), f.module(in, args, i):
			return true
		case f.preloaded(in, args, &i):
			if in.only {
				return true
			}
		case takesNext(in.value, a):
			i++
		case slices.Contains(in.skip, a) || a[0] == '-' || a[0] == '+' && in.shell:
		case in.only:
			return !in.input // a program in its own language
		default:
			f.script(in, a)
			return true
		}
	}
	return in.only && !in.input
}

// letters says whether short flags hold one of some letters.
func letters(a, any string) bool {
	return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a, any)
}

// given says whether a flag of the list has its value attached.
func given(flags []string, a string) bool {
	_, ok := attached(flags, a)
	return ok && a[0] == '-' && !strings.HasPrefix(a, "--")
}

// preloaded adds a file of code behind a flag, and moves behind it.
func (f *finder) preloaded(in interpreter, args []string, i *int) bool {
	v, ok := valueOf(in.file, args, i)
	if ok {
		f.add(v)
	}
	return ok
}

// module adds the files in which a module may be that an interpreter is told to run.
func (f *finder) module(in interpreter, args []string, i int) bool {
	name, ok := valueOf(in.module, args, &i)
	if !ok || name == "" {
		return false
	}
	at := strings.ReplaceAll(name, ".", "/")
	for _, p := range []string{at + ".py", at + "/__main__.py", at + "/__init__.py"} {
		f.perhaps(p)
	}
	f.named(name, args[i+1:]) // python -m pytest
	return true
}

// script adds an interpreter's script, with what its name may leave out.
func (f *finder) script(in interpreter, name string) {
	f.add(name)
	for _, end := range in.ends {
		if path.Ext(name) == "" {
			f.perhaps(name + end)
		}
	}
	for _, other := range in.reads {
		f.perhaps(other)
	}
}

// system are folders whose programs are not the workspace's.
var system = []string{"/bin/", "/sbin/", "/usr/", "/opt/", "/nix/", "/dev/", "/proc/", "/lib/", "/etc/"}

// add keeps a file that the line runs and names; "" stands for one that it does not.
func (f *finder) add(p string) {
	f.hidden = f.hidden || p == "" || f.lost && !path.IsAbs(p)
	f.keep(&f.found, f.at(p))
	f.word(p)
}

// perhaps keeps a file that a program of the line looks for.
func (f *finder) perhaps(p string) {
	f.hidden = f.hidden || p == "" || f.lost && !path.IsAbs(p)
	f.word(p)
	if p = f.at(p); p != "" && len(f.maybe) < maxOperands {
		f.maybe = append(f.maybe, p)
	}
}

// at is a name from the workspace, or "".
func (f *finder) at(p string) string {
	if f.lost && !path.IsAbs(p) {
		return ""
	}
	return from(f.dir, p)
}

// from is what a name in a folder is from the workspace, or "".
func from(dir, p string) string {
	if p == "" || strings.HasPrefix(p, "~") || strings.Contains(p, "://") {
		return ""
	}
	if !path.IsAbs(p) {
		p = path.Join(dir, p)
	}
	p = path.Clean(p)
	outside := p == "." || p == ".." || strings.HasPrefix(p, "../")
	for _, s := range system {
		outside = outside || strings.HasPrefix(p, s)
	}
	if outside {
		return ""
	}
	return p
}

func (f *finder) keep(list *[]string, p string) {
	if p != "" && !f.seen[p] && len(*list) < maxOperands {
		f.seen[p] = true
		*list = append(*list, p)
	}
}

// base is a program's name without its folder.
func base(name string) string { return path.Base(name) }

func first(args []string) string {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") || a == "-" {
			return a
		}
	}
	return ""
}
