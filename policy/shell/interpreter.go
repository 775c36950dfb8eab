package shell

import "strings"

// interpreter says how a language takes code from the command line.
type interpreter struct {
	letters string // any of these in a cluster of short flags is code
	words   string // long flags and subcommands that are code
	takes   string // letters whose value is the next argument
	program bool   // the first operand is a program, not a file
	prints  string // short flags that by themselves only print something of the interpreter's own
}

const (
	nodeWords = "--eval --print --interactive"
	phpWords  = "--run --process-code --process-begin --process-end --interactive"
)

var interpreters = map[string]interpreter{
	"python":  {letters: "c", takes: "WXQ"},
	"pythonw": {letters: "c", takes: "WXQ"},
	"pypy":    {letters: "c", takes: "WXQ"},
	"ipython": {letters: "c"},
	"jython":  {letters: "c"},

	"perl":  {letters: "eE", takes: "I", prints: "-v -h"},
	"raku":  {letters: "e", takes: "IM", prints: "-v -h"},
	"ruby":  {letters: "e", takes: "IrCEKW", prints: "-v -h"},
	"jruby": {letters: "e", takes: "IrCEKW", prints: "-v -h"},
	"irb":   {letters: "e", takes: "Ir"},

	"node":   {letters: "epi", words: nodeWords, takes: "rC", prints: "-v -h"},
	"nodejs": {letters: "epi", words: nodeWords, takes: "rC", prints: "-v -h"},
	"deno":   {words: "eval repl", prints: "-V -h"},
	"bun":    {letters: "ep", words: "--eval --print repl", takes: "r", prints: "-v -h"},
	"qjs":    {letters: "ei", words: "--eval"},

	"php":     {letters: "rRBEa", words: phpWords, takes: "cdz", prints: "-v -h"},
	"lua":     {letters: "ei", takes: "l", prints: "-v"},
	"luajit":  {letters: "ei", takes: "lj", prints: "-v"},
	"tclsh":   {letters: "c"},
	"wish":    {letters: "c"},
	"guile":   {letters: "c", takes: "Ll"},
	"racket":  {letters: "e", words: "--eval", takes: "Itlpr"},
	"sbcl":    {words: "--eval"},
	"elixir":  {letters: "e", words: "--eval", takes: "pr", prints: "-v -h"},
	"iex":     {letters: "e"},
	"erl":     {words: "-eval"},
	"groovy":  {letters: "e"},
	"scala":   {letters: "e"},
	"ghc":     {letters: "e"},
	"ghci":    {letters: "e"},
	"ocaml":   {letters: "e", takes: "I"},
	"jshell":  {letters: "e"},
	"octave":  {words: "--eval"},
	"julia":   {letters: "eEi", words: "--eval --print", takes: "LtpC", prints: "-v -h"},
	"r":       {letters: "e"},
	"rscript": {letters: "e"},

	"osascript": {letters: "e", takes: "l"},

	"bc": {program: true},
	"dc": {program: true},
}

// interpreter judges a language's program: with a file's name it is a program
// like any other, and code on the line or on standard input is never run.
func (c *classifier) interpreter(in interpreter, args []word, piped bool) {
	if in.program {
		c.add(ruleUnknown, args[0].text)
		return
	}
	rest := args[1:]
	if len(rest) == 1 && !piped && (anyIs(rest, "--version", "-V", "--help") || rest[0].plain() && names(in.prints)[rest[0].text]) {
		c.add(ruleUnknown, args[0].text) // a manager of versions may stand in for it
		return
	}
	switch operand, inline := in.scan(rest); {
	case inline:
		c.add(ruleInline, args[0].text)
	case operand && anyIs(rest, "pip") && anyIs(rest, "install", "download", "uninstall"):
		c.add(ruleInstall, args[0].text)
	case operand:
		c.add(ruleScript, args[0].text)
		c.operandsOf(rest)
	case piped:
		c.add(rulePipeShell, args[0].text)
	default:
		c.add(ruleInline, args[0].text)
	}
}

// scan looks for code and for a file's name. A letter that may also be the
// value of an earlier one counts as code.
func (in interpreter) scan(args []word) (operand, inline bool) {
	code := names(in.words)
	for i := 0; i < len(args); i++ {
		w := args[i]
		head, _, attached := strings.Cut(w.text, "=")
		switch {
		case w.opaque, w.is("-"), code[head], strings.HasPrefix(w.text, "/dev/"), strings.HasPrefix(w.text, "/proc/"):
			return false, true
		case strings.HasPrefix(w.text, "--"):
			if !attached && longValues[head] {
				i++
			}
		case !w.flag():
			return true, false
		case strings.HasPrefix(w.text, "-m"):
			return true, false // a module
		case in.letters != "" && strings.ContainsAny(w.text, in.letters):
			return false, true
		case len(w.text) == 2 && strings.Contains(in.takes, w.text[1:]):
			i++
		}
	}
	return false, false
}

// longValues are long flags of interpreters whose value is the next argument.
var longValues = names("--require --import --loader --experimental-loader --input-type --env-file --conditions --check-hash-based-pycs")
