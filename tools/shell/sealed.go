package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sluice-run/sluice/policy/secrets"
	rules "github.com/sluice-run/sluice/policy/shell"
)

// filesOf are the files that a line names: those that its analysis has found, but for
// words with a placeholder in them that are no names: the value of a flag, an argument
// of a program of which nobody knows what it takes. Whether what stands in the place of
// such a word is a file that is there is looked at with the value in it, by whoever runs
// the line.
func filesOf(line string, a rules.Analysis) []string {
	if a.Reads || !slices.ContainsFunc(a.Paths, sealed) {
		return a.Paths
	}
	named, ok := sealedNames(line)
	if !ok {
		return a.Paths
	}
	return slices.DeleteFunc(slices.Clone(a.Paths), func(p string) bool { return sealed(p) && !named[p] })
}

func sealed(word string) bool { return len(secrets.Placeholders(word)) > 0 }

// sealedNames are the words with a placeholder in them that name files for sure. ok is
// false where the line cannot be read.
func sealedNames(line string) (named map[string]bool, ok bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, false
	}
	named = make(map[string]bool)
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Redirect:
			to, _ := literal(n.Word)
			named[to] = true
		case *syntax.CallExpr:
			for _, word := range filesAmong(line, n) {
				named[word] = true
			}
		}
		return true
	})
	return named, true
}

// anyWord are rules for commands of whose words nobody knows what they are.
var anyWord = []string{"shell.command", "shell.script", "shell.install", "shell.environment", "shell.network"}

// changes are rules for commands whose words are the files that they change.
var changes = []string{"shell.move-copy", "shell.mode-owner", "shell.write"}

// filesAmong are the arguments of a command that name files: those of one that reads or
// changes files, but for the values of flags that take a secret.
func filesAmong(line string, call *syntax.CallExpr) []string {
	words := literals(call.Args)
	if !slices.ContainsFunc(words, sealed) {
		return nil
	}
	of := func(list []string) bool {
		a := rules.Classify(line[call.Pos().Offset():call.End().Offset()])
		return slices.ContainsFunc(a.Findings, func(f rules.Found) bool { return slices.Contains(list, f.Rule) })
	}
	if of(anyWord) && !of(changes) {
		return nil
	}
	var out []string
	for i, w := range words[1:] {
		if !takesSecret(words[:i+1]) {
			out = append(out, w)
		}
	}
	return out
}

// takesSecret says whether the last of a command's words is a flag that takes a secret.
func takesSecret(words []string) bool {
	const like = "hJ7kQ2mX9vT4"
	flag := words[len(words)-1]
	if !strings.HasPrefix(flag, "-") {
		return false
	}
	line := strings.Join(words, " ") + " " + like
	return slices.ContainsFunc(secrets.Find(line), func(s secrets.Span) bool { return s.End == len(line) && s.Start >= len(line)-len(like) })
}
