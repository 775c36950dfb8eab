package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// constructs finds what decides wherever it stands, and counts the simple
// commands, so that none can be missed by the walk that judges them.
func (c *classifier) constructs(file *syntax.File) (calls int) {
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			calls++
		case *syntax.CmdSubst:
			c.add(ruleSubst, "")
			c.stmts(n.Stmts, false)
		case *syntax.ProcSubst:
			c.add(ruleProcSubst, "")
			c.stmts(n.Stmts, true)
		}
		return true
	})
	return calls
}

// stmts judges a list. piped says that standard input is another command's output.
func (c *classifier) stmts(list []*syntax.Stmt, piped bool) {
	if c.depth++; c.depth > MaxDepth {
		c.add(ruleLimit, "")
		c.depth--
		return
	}
	for i, s := range list {
		if i > 0 && s.Pos().Line() != list[i-1].Pos().Line() {
			c.add(ruleLines, "")
		}
		c.stmt(s, piped)
	}
	c.depth--
}

func (c *classifier) stmt(s *syntax.Stmt, piped bool) {
	if s.Coprocess || s.Disown {
		c.add(ruleConstruct, "")
	}
	for _, r := range s.Redirs {
		c.redirect(r)
	}
	if s.Cmd == nil {
		c.add(ruleConstruct, "")
		return
	}
	c.command(s.Cmd, piped)
}

func (c *classifier) command(cmd syntax.Command, piped bool) {
	switch x := cmd.(type) {
	case *syntax.CallExpr:
		c.call(x, piped)
	case *syntax.BinaryCmd:
		c.binary(x, piped)
	case *syntax.Subshell:
		c.stmts(x.Stmts, piped)
	case *syntax.Block:
		c.stmts(x.Stmts, piped)
	case *syntax.IfClause:
		for ; x != nil; x = x.Else {
			c.stmts(x.Cond, piped)
			c.stmts(x.Then, piped)
		}
	case *syntax.WhileClause:
		c.stmts(x.Cond, piped)
		c.stmts(x.Do, piped)
	case *syntax.ForClause:
		c.loop(x)
		c.stmts(x.Do, piped)
	case *syntax.CaseClause:
		c.add(ruleConstruct, "")
		for _, item := range x.Items {
			c.stmts(item.Stmts, piped)
		}
	case *syntax.TimeClause:
		c.inner(x.Stmt, piped)
	case *syntax.CoprocClause:
		c.add(ruleEval, "coproc") // parsers disagree on which word is its name
		c.inner(x.Stmt, piped)
	case *syntax.FuncDecl:
		c.add(ruleConstruct, "")
		c.inner(x.Body, piped)
	case *syntax.DeclClause:
		c.add(ruleAssign, x.Variant.Value)
		c.assigns(x.Args)
	default: // [[ … ]], (( … )), let, and what a later parser may know
		c.add(ruleConstruct, "")
	}
}

// inner judges a statement that another one holds.
func (c *classifier) inner(s *syntax.Stmt, piped bool) {
	if s == nil {
		c.add(ruleConstruct, "")
		return
	}
	c.stmts([]*syntax.Stmt{s}, piped)
}

// binary judges a && b, a || b, a | b. Long chains lean to the left, so they
// are walked in a loop and do not count as depth.
func (c *classifier) binary(x *syntax.BinaryCmd, piped bool) {
	var chain []*syntax.BinaryCmd
	for {
		chain = append(chain, x)
		left, ok := x.X.Cmd.(*syntax.BinaryCmd)
		if !ok || len(x.X.Redirs) > 0 || x.X.Coprocess || x.X.Disown {
			break
		}
		x = left
	}
	c.inner(x.X, piped)
	for i := len(chain) - 1; i >= 0; i-- {
		b := chain[i]
		if _, timed := b.Y.Cmd.(*syntax.TimeClause); timed && b.Op != syntax.AndStmt && b.Op != syntax.OrStmt {
			c.add(ruleWrapper, "time") // behind a pipe it is a program, not a word of the shell
		}
		switch b.Op {
		case syntax.AndStmt, syntax.OrStmt:
			c.inner(b.Y, piped)
		case syntax.Pipe:
			c.inner(b.Y, true)
		default: // |& is two other things to other shells
			c.add(ruleConstruct, "")
			c.inner(b.Y, true)
		}
	}
}

func (c *classifier) loop(x *syntax.ForClause) {
	iter, ok := x.Loop.(*syntax.WordIter)
	if !ok || x.Select || x.Braces {
		c.add(ruleConstruct, "")
		return
	}
	c.assign(iter.Name.Value)
	items := c.words(iter.Items)
	c.valuesOf(items)
	if w, found := unsafe(items); found {
		c.add(ruleExpansion, w.text)
	}
}

// assign judges the setting of a variable.
func (c *classifier) assign(name string) {
	if loaders[name] || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") {
		c.add(ruleLoader, name)
		return
	}
	c.add(ruleAssign, name)
}

// loaders are variables from which a shell or a linker takes code to run.
var loaders = names("BASH_ENV ENV PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS BASH_LOADABLES_PATH")

func (c *classifier) assigns(list []*syntax.Assign) {
	for _, a := range list {
		if a.Name != nil {
			c.assign(a.Name.Value)
		}
		if a.Value != nil {
			c.valuesOf([]word{c.word(a.Value)})
		}
		if a.Array != nil {
			for _, e := range a.Array.Elems {
				if e.Value != nil {
					c.valuesOf([]word{c.word(e.Value)})
				}
			}
		}
	}
}

// call judges a simple command.
func (c *classifier) call(x *syntax.CallExpr, piped bool) {
	c.calls++
	c.assigns(x.Assigns)
	if len(x.Args) > MaxWords {
		c.add(ruleLimit, "")
		return
	}
	args := c.words(x.Args)
	if len(args) > MaxWords { // braces are several
		c.add(ruleLimit, "")
		return
	}
	if len(c.commands) <= MaxCommands {
		c.commands = append(c.commands, c.print(x.Assigns, args))
	}
	if len(args) > 0 {
		c.simple(args, piped)
	}
}

func (c *classifier) print(assigns []*syntax.Assign, args []word) string {
	parts := make([]string, 0, len(assigns)+len(args))
	for _, a := range assigns {
		parts = append(parts, c.source(a))
	}
	for _, w := range args {
		parts = append(parts, w.shown)
	}
	return strings.Join(parts, " ")
}

func (c *classifier) redirect(r *syntax.Redirect) {
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		c.add(ruleAssign, r.N.Value)
	}
	if r.Word == nil {
		c.add(ruleConstruct, "")
		return
	}
	target := c.word(r.Word)
	if strings.HasPrefix(target.text, "/dev/tcp/") || strings.HasPrefix(target.text, "/dev/udp/") {
		c.hosts = append(c.hosts, strings.SplitN(target.text[len("/dev/tcp/"):], "/", 2)[0])
		c.add(ruleNetwork, target.text)
		return
	}
	switch r.Op {
	case syntax.RdrIn:
		c.input(target)
	case syntax.DplIn, syntax.DplOut:
		switch {
		case target.is("-"):
			c.add(ruleConstruct, "") // a file that is opened next would take its place
		case !descriptor(target):
			c.output(target)
		}
	case syntax.Hdoc, syntax.DashHdoc:
		c.heredoc(r)
	case syntax.WordHdoc:
		if target.opaque {
			c.add(ruleExpansion, target.text)
		}
	default:
		c.output(target)
	}
}

func descriptor(w word) bool {
	return w.plain() && len(w.text) == 1 && w.text[0] >= '0' && w.text[0] <= '9'
}

func (c *classifier) input(w word) {
	if !w.plain() {
		c.add(ruleExpansion, w.text)
		c.namesOf([]word{w})
		return
	}
	c.path(w.text)
}

func (c *classifier) output(w word) {
	if w.is("/dev/null") {
		c.add(ruleNull, "")
		return
	}
	c.add(ruleRedirect, w.text)
	if !w.plain() {
		c.namesOf([]word{w})
		return
	}
	c.paths = append(c.paths, w.text)
	if w.text != "" && c.outside(w.text) {
		c.add(ruleOutside, w.text)
	}
}

// heredoc judges text for standard input. Its end must be beyond doubt: where a
// shell ends it earlier than the parser, the rest would run as commands.
func (c *classifier) heredoc(r *syntax.Redirect) {
	mark, quoted := delimiter(r.Word)
	if !name(mark) {
		c.add(ruleAmbiguous, "")
		return
	}
	if r.Hdoc == nil || quoted {
		return
	}
	if strings.Contains(c.source(r.Hdoc), "\\") {
		c.add(ruleAmbiguous, "")
	}
	for _, p := range r.Hdoc.Parts {
		if _, ok := p.(*syntax.Lit); !ok {
			c.add(ruleExpansion, c.source(p))
		}
	}
}

// delimiter is the mark that ends a here-document, if it is one plain word.
func delimiter(w *syntax.Word) (mark string, quoted bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	switch p := w.Parts[0].(type) {
	case *syntax.Lit:
		return p.Value, false
	case *syntax.SglQuoted:
		if !p.Dollar {
			return p.Value, true
		}
	case *syntax.DblQuoted:
		if len(p.Parts) == 1 && !p.Dollar {
			if l, ok := p.Parts[0].(*syntax.Lit); ok {
				return l.Value, true
			}
		}
	}
	return "", false
}

func name(s string) bool {
	for _, r := range s {
		if r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return s != ""
}
