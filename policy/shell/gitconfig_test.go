package shell

import (
	"strings"
	"testing"
)

func TestGitConfig(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"# a comment\n; another\n\n": "",
		"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n":                                                                                               "",
		"[remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n": "",
		"[alias]\n\tst = !rm -rf x\n":                            "",
		"[alias \"st\"]\n\tcommand = !rm -rf x\n":                "",
		"[core]\r\n\tbare = false\r\n":                           "",
		"[blame]\n\tignoreRevsFile = .git-blame-ignore-revs\n":   "",
		"[user] name = a ; b\n":                                  "",
		"[diff]\n\tcolor = auto\n":                               "",
		"[submodule \"a\"]\n\tactive = true\n\tignore = dirty\n": "",
		"[branch]\n\tsort = -committerdate\n":                    "",

		"[diff]\n\texternal = x\n":             "diff.external",
		"[DIFF]\n\tEXTERNAL=x":                 "diff.external",
		"[diff]external=x":                     "diff.external",
		"[diff]\n\texternal\n":                 "diff.external",
		"[ diff \"a b\" ] command = x\n":       "diff.a b.command",
		"[diff \"a\\\"]\"]\n\tcommand = x\n":   "diff.a\\\"].command",
		"[diff.x]\ntextconv=cat":               "diff.x.textconv",
		"[filter \"x\"]\n\tclean = a\n":        "filter.x.clean",
		"[filter \"x\"]\n\tsmudge = a\n":       "filter.x.smudge",
		"[filter \"x\"]\n\tprocess = a\n":      "filter.x.process",
		"[include]\n\tpath = x\n":              "include.path",
		"[includeIf \"onbranch:main\"] path=x": "includeif.onbranch:main.path",
		"[hook \"x\"]\n\tcommand = a\n":        "hook.x.command",
		"[core]\n\tworktree = ..\n":            "core.worktree",
		"[blame]\n\tignoreRevsFile = ../x\n":   "blame.ignorerevsfile",
		"[alias]\n\tShortLog = !x\n":           "alias.shortlog",
		"[alias.annotate]\n\tcommand = !x\n":   "alias.annotate.command",
		"[alias \"cherry\"]\n\tcommand = !x\n": "alias.cherry.command",
		"[submodule \"a\"]\n\tignore = none\n": "submodule.a.ignore",
		"[tag]\n\tsort = Signature:grade\n":    "tag.sort",
		"[a]\n\tb = c\\\n[diff]\n":             "a line that is not understood",
		"[diff]\n# \\\nexternal = x\n":         "a line that is not understood",
		"[a] [diff] external = x":              "a line that is not understood",
		"[a\nexternal = x":                     "a line that is not understood",
		"\ufeff[diff]\nexternal = x":           "a line that is not understood",
		"[diff]\rexternal = x":                 "a line that is not understood",
		"[diff]\n\x00external = x":             "a line that is not understood",
		"[diff]\n=x":                           "a line that is not understood",
		"[a \"b\nc\"]\nexternal = x":           "a line that is not understood",
	} {
		setting, ok := GitConfig(text)
		if setting != want || ok != (want == "") {
			t.Errorf("%q: %q, %t; want %q", text, setting, ok, want)
		}
	}
}

// Whatever stands around it, a setting that starts a program is seen, or the text
// is not understood.
func FuzzGitConfig(f *testing.F) {
	f.Add("[core]\n\tbare = false\n", "[a]\n")
	f.Add("[a \"b\\\"]\"] c = d", "# \\")
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + "\n[diff \"x\"]\n\tcommand = ./evil\n" + after
		if setting, ok := GitConfig(text); ok {
			t.Fatalf("%q: nothing is found", text)
		} else if setting == "" || strings.Contains(setting, "\n") {
			t.Fatalf("%q: %q", text, setting)
		}
	})
}
