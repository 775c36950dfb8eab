package shell_test

import (
	"encoding/json"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

// sealed are the default policy and one folder that is nobody's to open.
func sealed(t *testing.T) *cedar.Set {
	t.Helper()
	files := []cedar.File{{Name: "default.cedar", Text: []byte(cedar.DefaultText())}, {Name: "folder.cedar", Text: []byte(`@id("sealed") forbid (principal, action, resource in Path::"secrets");`)}}
	s, err := cedar.Load(files, cedar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decided(t *testing.T, s *cedar.Set, line string) policy.Verdict {
	t.Helper()
	args, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		t.Fatal(err)
	}
	return s.Authorize(policy.Request{
		Tool: "Bash", Known: true, Tier: events.Irreversible, Mode: events.ModeWrite, CanAsk: true, Workspace: "/home/repo/w",
		Args: args, Op: events.Operation{Class: events.OpExecute},
	})
}

// A folder that a policy closes is closed to git too, however the line names it, and
// what names nothing of it is judged as before.
func TestClosedFolders(t *testing.T) {
	s := sealed(t)
	for _, line := range []string{
		"cat secrets/k", "git diff secrets/k", "git blame secrets/k", "git show HEAD:secrets/k", "git show :secrets/k", "git show :0:secrets/k", "git show :./secrets/k",
		"git cat-file -p HEAD:secrets/k", "git diff HEAD:secrets/k HEAD:a", "git diff HEAD:a..HEAD:secrets/k", "git log -L1,5:secrets/k", "git log -L:f:secrets/k",
		"git log -L '/a:b/,+1:secrets/k'", "git ls-tree HEAD secrets/", "git ls-tree HEAD:secrets", "git log -p HEAD~1:secrets", "git log ':(glob)secrets/**'",
		"git log ':(top,exclude)secrets'", "git diff -- :/secrets/k", "git diff -- ':!secrets'", "git log -p -- secrets/k", "git show HEAD -- secrets", "git show 'HEAD@{12:00}:secrets/k'",
		"git show 'HEAD^{/a:b}:secrets/k'", "git log --relative=secrets", "git grep x HEAD:secrets", "git grep -e x secrets", "git show HEAD:w/secrets/k", "timeout 5 git show HEAD:secrets/k",
		"ls && git show HEAD:./secrets//k", "git archive HEAD:secrets", "docker run -v secrets:/x img", "git show HEAD:secrets", "git diff --no-index secrets/k a",
		"[ -d secrets ] && echo y", "test -s secrets", "[ secrets -nt a ]", "[ a -ef secrets ]", "rg x -g 'secrets/**'", "rg x --glob=secrets/k",
	} {
		if v := decided(t, s, line); v.Decision != policy.Deny {
			t.Errorf("%s: %s by %v", line, v.Decision, v.Policies)
		}
	}
	for _, line := range []string{
		"git diff HEAD~1 src/a.go", "git show HEAD:src/a.go", "git log main..dev", "git log main...dev -- src", "git diff HEAD", "git log HEAD..", "git grep secrets", "git log -S secrets",
		"git log --author=secrets", "git show v1.2", "git log -p ':(glob)src/**'", "git diff -- . ':!vendor'", "git show 'stash@{1}'", "git blame -L1,5 src/secrets.go", "git log :/secret",
	} {
		if v := decided(t, s, line); v.Decision != policy.Allow {
			t.Errorf("%s: %s by %v: %s", line, v.Decision, v.Policies, v.Reason)
		}
	}
}

// Revisions and ranges do not leave the workspace, and are none of the files that
// decide what git runs, for a policy that looks at that.
func TestRangesAreNotOutside(t *testing.T) {
	files := []cedar.File{{Name: "default.cedar", Text: []byte(cedar.DefaultText())}, {Name: "strict.cedar", Text: []byte(`
@id("out") forbid (principal, action, resource is Path) unless { resource.inside };
@id("git") forbid (principal, action, resource is Path) when { resource.git };`)}}
	s, err := cedar.Load(files, cedar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"git diff main..dev", "git log main...dev", "git log ..dev", "git log dev..", "git log HEAD..", "git log main..HEAD", "git show HEAD~1", "git show HEAD", "git show HEAD:src/a.go",
		"git diff HEAD:a..HEAD:b", "git log feature/x..feature/y", "git show v1.2", "git show 'HEAD@{1}'", "git show 'HEAD^{tree}'", "git log ^main dev",
	} {
		if v := decided(t, s, line); v.Decision != policy.Allow {
			t.Errorf("%s: %s by %v: %s", line, v.Decision, v.Policies, v.Reason)
		}
	}
}
