package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// interpreter is how a program that runs scripts is called.
type interpreter struct {
	shell bool     // its code is a command line too
	only  bool     // scripts come only behind one of file
	code  []string // flags behind which the code itself stands
	file  []string // flags behind which a file of code stands
	value []string // other flags with a value
	skip  []string // words before the script that are none
}

var (
	aShell  = interpreter{shell: true, code: []string{"-c"}, file: []string{"--rcfile", "--init-file"}, value: []string{"-o", "-O", "+O"}}
	aPython = interpreter{code: []string{"-c", "-m"}, value: []string{"-W", "-X"}}
	aNode   = interpreter{code: []string{"-e", "-p", "--eval", "--print"}, file: []string{"-r", "--require", "--import"}, skip: []string{"run", "exec", "watch"}}
	aScript = interpreter{code: []string{"-e", "-E", "-r"}, value: []string{"-I", "-M"}}
	aFilter = interpreter{only: true, file: []string{"-f", "--file"}, value: []string{"-e", "-v", "-F"}}
)

var interpreters = map[string]interpreter{
	"sh": aShell, "bash": aShell, "dash": aShell, "ash": aShell, "zsh": aShell, "ksh": aShell, "mksh": aShell, "rbash": aShell,
	"python": aPython, "pypy": aPython,
	"node": aNode, "nodejs": aNode, "bun": aNode, "deno": aNode, "tsx": aNode, "ts-node": aNode,
	"ruby": aScript, "perl": aScript, "php": aScript, "lua": aScript, "julia": aScript, "Rscript": aScript, "tclsh": aScript, "guile": aScript,
	"awk": aFilter, "gawk": aFilter, "mawk": aFilter, "nawk": aFilter, "sed": aFilter, "jq": aFilter,
}

// interpreterOf finds a program whatever version its name carries.
func interpreterOf(name string) (interpreter, bool) {
	if in, ok := interpreters[name]; ok {
		return in, true
	}
	in, ok := interpreters[strings.TrimRight(name, "0123456789.-")]
	return in, ok
}

// wrapper is a program that runs the command behind its own flags.
type wrapper struct {
	value    []string // flags with a value
	operands int      // own operands before the command
	assigns  bool     // variables may stand before the command
}

var wrappers = map[string]wrapper{
	"env":   {value: []string{"-u", "-C", "--unset", "--chdir"}, assigns: true},
	"nohup": {}, "setsid": {}, "time": {}, "command": {}, "builtin": {}, "exec": {value: []string{"-a"}},
	"nice": {value: []string{"-n", "--adjustment"}}, "ionice": {value: []string{"-c", "-n"}},
	"timeout": {value: []string{"-k", "-s", "--kill-after", "--signal"}, operands: 1},
	"stdbuf":  {value: []string{"-i", "-o", "-e"}}, "sudo": {value: []string{"-u", "-g"}, assigns: true}, "doas": {value: []string{"-u"}},
	"xargs": {value: []string{"-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E"}}, "strace": {value: []string{"-e", "-o", "-p"}},
}

// unwrap takes programs away that only run another one.
func unwrap(words []string) []string {
	for len(words) > 0 {
		w, ok := wrappers[words[0]]
		if !ok {
			return words
		}
		words = behind(w, words[1:])
	}
	return nil
}

func behind(w wrapper, args []string) []string {
	own := w.operands
	for len(args) > 0 {
		a := args[0]
		flag := strings.HasPrefix(a, "-")
		takes := false
		for _, v := range w.value {
			takes = takes || a == v
		}
		switch {
		case a == "--":
			return args[min(1+own, len(args)):]
		case flag && takes:
			args = args[min(2, len(args)):]
		case flag, w.assigns && strings.Contains(a, "="):
			args = args[1:]
		case own > 0:
			own, args = own-1, args[1:]
		default:
			return args
		}
	}
	return nil
}

// literal is what a word stands for, if nothing in it is expanded.
func literal(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	var b strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(part.Value, "*?[{") {
				return "", false
			}
			b.WriteString(unescape(part.Value))
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false
			}
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			for _, in := range part.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok || part.Dollar {
					return "", false
				}
				b.WriteString(unquote(lit.Value))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescape takes the backslashes of unquoted text away.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unquote takes the backslashes of text in double quotes away.
func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
