package shell

import (
	"slices"
	"strings"
	"testing"
)

// Of a line with git, whatever may be a file's name is one.
func TestNamesOfGit(t *testing.T) {
	for line, want := range map[string]string{
		"git status":                             "",
		"git diff HEAD~1 src/a.go":               "HEAD~1 src/a.go",
		"git diff secrets/k":                     "secrets/k",
		"git blame -L1,5 secrets/k":              "secrets/k",
		"git show HEAD":                          "",
		"git log HEAD..":                         "",
		"git log @...HEAD":                       "",
		"git ls-files HEAD":                      "HEAD",
		"git show HEAD:secrets/k":                "secrets/k",
		"git show HEAD^:secrets/k":               "HEAD^:secrets/k secrets/k",
		"git show 'HEAD@{12:00}:secrets/k'":      "00}:secrets/k HEAD@{12:00}:secrets/k secrets/k",
		"git show 'HEAD^{/a:b}:secrets/k'":       "HEAD^{/a:b}:secrets/k b}:secrets/k secrets/k",
		"git show :secrets/k":                    ":secrets/k secrets/k",
		"git show :0:secrets/k":                  "0:secrets/k :0:secrets/k secrets/k",
		"git show :./secrets/k":                  "./secrets/k :./secrets/k",
		"git cat-file -p HEAD:secrets/k":         "secrets/k",
		"git diff HEAD:secrets/k HEAD:a":         "a secrets/k",
		"git diff HEAD:a..HEAD:secrets/k":        "a a..HEAD:secrets/k secrets/k",
		"git diff main...dev:secrets/k":          "dev:secrets/k main main...dev:secrets/k secrets/k",
		"git log main..dev":                      "dev main main..dev",
		"git log -L1,5:secrets/k":                "secrets/k",
		"git log -L :f:secrets/k":                "f:secrets/k secrets/k",
		"git log -L '/a:b/,+1:secrets/k'":        "b/,+1:secrets/k secrets/k",
		"git log --relative=secrets":             "secrets",
		"git ls-tree HEAD secrets/":              "secrets/",
		"git ls-tree HEAD:secrets":               "secrets",
		"git log -p HEAD~1:secrets":              "HEAD~1:secrets secrets",
		"git log ':(glob)secrets/**'":            "(glob)secrets/** :(glob)secrets/** secrets/**",
		"git log ':(top,exclude)secrets'":        "(top,exclude)secrets :(top,exclude)secrets secrets",
		"git diff -- :/secrets/k":                ":/secrets/k secrets/k",
		"git diff -- ':!secrets/k'":              "!secrets/k :!secrets/k secrets/k",
		"git diff -- ':!/:secrets/k'":            "!/:secrets/k :!/:secrets/k secrets/k",
		"git diff -- ':^secrets/k'":              ":^secrets/k ^secrets/k secrets/k",
		"git log -- secrets":                     "secrets",
		"git grep secrets":                       "",
		"git grep -n x HEAD:secrets":             "secrets",
		"git grep -e x secrets/k":                "secrets/k",
		"git log -S secrets --author secrets":    "",
		"timeout 5 git show HEAD:secrets/k":      "secrets/k",
		"git show HEAD:./a//secrets/k":           "./a//secrets/k",
		"git show HEAD:w/secrets/k":              "secrets/k w/secrets/k",
		"git show :repo/w/secrets/k":             ":repo/w/secrets/k repo/w/secrets/k secrets/k",
		"git archive HEAD:secrets":               "HEAD HEAD:secrets archive secrets",
		"env git show HEAD:secrets/k":            "HEAD HEAD:secrets/k git secrets/k show",
		"docker run -v secrets:/x img":           "/x img run secrets secrets:/x",
		"git -C . show --textconv HEAD:secrets/": ". HEAD HEAD:secrets/ secrets/ show",
	} {
		var names []string
		if want != "" {
			names = strings.Fields(want)
		}
		if got := (Scope{Workspace: "/home/repo/w"}).Classify(line).Names; !slices.Equal(got, names) {
			t.Errorf("%s: %q, want %q", line, got, names)
		}
	}
}

// What git would look for above the workspace is outside, however it is written.
func TestGitOutside(t *testing.T) {
	for line, want := range map[string]Decision{
		"git show :../x": Ask, "git show :0:../x": Ask, "git show :./../x": Ask, "git log ':(top)../x'": Ask, "git log ':(glob)/etc/*'": Ask, "git log -L1,5:../x": Ask,
		"git diff HEAD:a..HEAD:../x": Ask, "git log -L" + strings.Repeat(":", maxColons+1) + "x": Ask,
		"git log :/": Allow, "git log :/etc": Allow, "git log main..dev": Allow, "git log main...dev -- a": Allow, "git log ..dev": Allow, "git log dev..": Allow, "git show :": Allow,
		"git log -L1,5:a": Allow, "git diff HEAD~1 src/a.go": Allow, "git show HEAD:src/a.go": Allow, "git show 'HEAD^{/a}:src/a.go'": Allow,
	} {
		if a := Classify(line); a.Decision != want {
			t.Errorf("%s: %s by %v, want %s", line, a.Decision, a.Policies, want)
		}
	}
}
