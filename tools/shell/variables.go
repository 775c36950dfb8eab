package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// assign looks at variables that name code, and at PATH.
func (f *finder) assign(a *syntax.Assign) {
	if a.Name == nil || a.Value == nil {
		return
	}
	if value, ok := literal(a.Value); ok {
		f.variable(a.Name.Value, value)
		return
	}
	if a.Name.Value == "PATH" {
		f.variable("PATH", folders(a.Value))
	}
}

// folders is a value of PATH, with what an expansion decides marked as not known.
func folders(w *syntax.Word) string {
	var b strings.Builder
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			b.WriteString(n.Value)
		case *syntax.SglQuoted:
			b.WriteString(n.Value)
		case *syntax.ParamExp:
			if n.Param != nil && n.Param.Value == "PWD" {
				b.WriteByte('.')
				return false
			}
			b.WriteString(unknown)
			return false
		case *syntax.CmdSubst, *syntax.ArithmExp:
			b.WriteString(unknown)
			return false
		}
		return true
	})
	return b.String()
}

const unknown = "\x00"

// loaders are variables that name files of code, or flags that do.
var loaders = strings.Fields("BASH_ENV ENV LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES PYTHONSTARTUP NODE_OPTIONS RUBYOPT PERL5OPT JAVA_TOOL_OPTIONS " +
	"GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS EDITOR VISUAL PAGER LESSOPEN SHELL MAKEFILES MAKEFLAGS CC CXX PYTHON RUSTC_WRAPPER")

func (f *finder) variable(name, value string) {
	switch {
	case name == "PATH":
		for dir := range strings.SplitSeq(value, ":") {
			if dir != "" && !strings.Contains(dir, unknown) && !slices.Contains(f.path, dir) && len(f.path) < maxPath {
				f.path = append(f.path, dir)
			}
		}
	case slices.Contains(loaders, name):
		for _, word := range strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || r == ':' || r == '=' }) {
			if strings.Contains(word, "/") || strings.Contains(word, ".") {
				f.add(word)
			}
		}
	}
}
