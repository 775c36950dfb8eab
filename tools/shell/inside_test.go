package shell

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// workspaceOf makes a workspace: a name that ends in a slash is a folder, a text that
// begins with -> is a link.
func workspaceOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		p := filepath.Join(dir, name)
		folder := filepath.Dir(p)
		if strings.HasSuffix(name, "/") {
			folder = p
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		to, link := strings.CutPrefix(text, "->")
		switch {
		case folder == p:
		case link:
			err = os.Symlink(to, p)
		default:
			err = os.WriteFile(p, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// refusal is what inside says of a line, or "".
func refusal(t *testing.T, dir, line string) string {
	t.Helper()
	a := classify(line)
	if !a.Reads {
		t.Fatalf("%q is %s by %v", line, a.Decision, a.Policies)
	}
	err := inside(dir, a, nil)
	if err == nil {
		return ""
	}
	var e *tools.Error
	if !errors.As(err, &e) || e.Code != events.AccessDenied || e.Effects != events.EffectsNone {
		t.Errorf("%q: %v", line, err)
	}
	return e.Message
}

func TestLinksThatLeadOut(t *testing.T) {
	dir := workspaceOf(t, map[string]string{
		"a/b/out": "->/etc", "a/b/f": "x", "link": "->/etc/passwd", "a b/out": "->/etc", "deep/in": "->../a", "plain/f": "x", "plain/in": "->f",
		"venv/bin/python": "->/usr/bin/python3", "gone": "->/nonexistent/x", "src/x.go": "x",
	})
	for line, refused := range map[string]bool{
		"cd a && cd b && cat out/passwd": true, "cd 'a b' && cat out/passwd": true, "cd -P a; cd -- b; cat out/passwd": true,
		"command cd a && command cd b && cat out/passwd": true, "cat [!a]ink": true, "cat [[:alpha:]]ink": true, "cat ?ink": true,
		"cat l[i]n[k]": true, "cat a/*/out/passwd": true, "cat a/b/o*/passwd": true, "cat a/b/[o]ut/pass*": true, "cd a && ls b/out": true,
		"grep -R x a": true, "grep -rR x .": true, "grep --dereference-recursive x a": true, "find -L a -name x": true, "find a -follow": true,
		"ls -LR a": true, "du -L a": true, "diff -r a plain": true, "grep -R x deep": true, "cd a && grep -R x": true, "wc -l < link": true,
		"grep -R x": true, "egrep -R x venv": true, "grep -f link x": true, "timeout 5 cat link": true, "(cat link)": true, "ls | cat - link": true,

		"grep -R x plain": false, "grep -r x .": false, "find . -name x": false, "grep -R x src": false, "ls -la": false, "cat gone": false,
		"cat plain/[f]": false, "cat [!a]*/f": false, "cd plain && cat in": false, "diff -r src plain": false, "cat s*/*.go": false, "du -sh a": false,
	} {
		if why := refusal(t, dir, line); (why != "") != refused {
			t.Errorf("%q: %q", line, why)
		}
	}
}

func TestPatternsThatAreFlags(t *testing.T) {
	dir := workspaceOf(t, map[string]string{"-R": "", "a.txt": "x", "--files0-from=list": "", "sub/-x": "", "sub/a": ""})
	for line, refused := range map[string]bool{
		"grep x *": true, "cat *": true, "wc ??*": true, "wc -l [!a]*": true, "wc -l [a]*": true /* more than it stands for */, "cd sub && cat *": true,
		"cat *.txt": false, "cat ./*": false, "cat sub/*": false, "cat a*": false,
	} {
		if why := refusal(t, dir, line); (why != "") != refused {
			t.Errorf("%q: %q", line, why)
		}
	}
}

// A repository whose configuration names programs is not one to run git in unasked.
func TestRepositoriesThatNamePrograms(t *testing.T) {
	base := map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", ".git/config": "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n"}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{base, more} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	outside := workspaceOf(t, with(nil))
	for name, c := range map[string]struct {
		files   map[string]string
		refused string
	}{
		"a usual one":                 {with(nil), ""},
		"none":                        {map[string]string{"a": ""}, ""},
		"external diff":               {with(map[string]string{".git/config": "[diff]\nexternal = ./x\n"}), "diff.external"},
		"a driver's command":          {with(map[string]string{".git/config": "[Diff \"a\"] Command=./x\n"}), "diff.a.command"},
		"textconv":                    {with(map[string]string{".git/config": "[diff.a]\n\ttextConv = ./x"}), "diff.a.textconv"},
		"a filter":                    {with(map[string]string{".git/config": "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n"}), "filter.lfs.clean"},
		"behind a header":             {with(map[string]string{".git/config": "[core] [diff] external = x\n"}), "not understood"},
		"a line that goes on":         {with(map[string]string{".git/config": "[diff]\n\tx = a\\\n[core]\n\texternal = ./x\n"}), "not understood"},
		"an include":                  {with(map[string]string{".git/config": "[include]\n\tpath = ../x\n"}), "include.path"},
		"a conditional one":           {with(map[string]string{".git/config": "[includeIf \"gitdir:.\"]\n\tpath = ../x\n"}), "includeif."},
		"another work tree":           {with(map[string]string{".git/config": "[core]\n\tworktree = /etc\n"}), "core.worktree"},
		"config.worktree":             {with(map[string]string{".git/config.worktree": "[diff]\n\texternal = x\n"}), "diff.external"},
		"commondir":                   {with(map[string]string{".git/commondir": "../evil\n", "evil/config": "[diff]\n\texternal = x\n"}), "diff.external"},
		"a file inside":               {map[string]string{".git": "gitdir: meta\n", "meta/config": "[diff]\n\texternal = x\n"}, "diff.external"},
		"a file to another":           {map[string]string{".git": "gitdir: " + outside + "/.git\n"}, "does not belong"},
		"a file that is odd":          {map[string]string{".git": "what\n"}, "not understood"},
		"a link to another":           {map[string]string{".git": "->" + outside + "/.git"}, "leads out"},
		"a bare one":                  {map[string]string{"HEAD": "", "objects/": "", "refs/": "", "config": "[diff]\n\texternal = x\n"}, "diff.external"},
		"submodules looked into":      {with(map[string]string{".gitmodules": "[submodule \"a\"]\n\tpath = a\n\tignore = none\n"}), "submodule.a.ignore"},
		"submodules":                  {with(map[string]string{".gitmodules": "[submodule \"a\"]\n\tpath = a\n\turl = ../b\n\tignore = dirty\n"}), ""},
		"a link in it that leads out": {with(map[string]string{".git/rebase-merge/done": "->" + outside + "/.git/HEAD"}), "leads out"},
		"a folder of it elsewhere":    {with(map[string]string{".git/info": "->" + outside}), ".git/info leads out"},
		"borrowed objects elsewhere":  {with(map[string]string{".git/objects/info/alternates": "->" + outside + "/.git/HEAD"}), "alternates leads out"},
		"links that stay inside":      {with(map[string]string{".git/logs/HEAD": "->../HEAD", ".git/hooks/pre-commit": "->/bin/true", ".git/refs/x": "->/nonexistent"}), ""},
		"links among what is shared":  {with(map[string]string{".git/commondir": "../shared\n", "shared/packed-refs": "->" + outside + "/.git/HEAD"}), "packed-refs leads out"},
		"revisions to pass over":      {with(map[string]string{".git-blame-ignore-revs": "->" + outside + "/.git/HEAD"}), "leads out"},
		"a configuration too long":    {with(map[string]string{".git/config": strings.Repeat("#", maxGitFile+1)}), "cannot be looked at"},
		"a name that is a folder":     {with(map[string]string{".git/config.worktree/": ""}), "cannot be looked at"},
	} {
		why := refusal(t, workspaceOf(t, c.files), "git status")
		if (why == "") != (c.refused == "") || !strings.Contains(why, c.refused) {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// A work tree that git made for a repository elsewhere is one to run git in.
func TestOtherWorkTrees(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("NO GIT HERE: nothing checks work trees that it made")
	}
	dir := workspaceOf(t, nil)
	script := "cd " + dir + " && git init -q main && cd main && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m x && git worktree add -q ../side"
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = []string{"PATH=" + filepath.Dir(git) + ":/usr/bin:/bin", "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	side := filepath.Join(dir, "side")
	if why := refusal(t, side, "git log --oneline"); why != "" {
		t.Error(why)
	}
	if err := os.WriteFile(filepath.Join(dir, "main", ".git", "config"), []byte("[diff]\n\texternal = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if why := refusal(t, side, "git log --oneline"); !strings.Contains(why, "diff.external") {
		t.Error(why)
	}
}

// TestAbsoluteNamesAreLookedAt: the policy knows the workspace, and lets a line run
// unasked that names files in it by absolute paths.
func TestAbsoluteNamesAreLookedAt(t *testing.T) {
	dir := workspaceOf(t, map[string]string{
		"link": "->/etc/passwd", "f": "mine\n", "evil": "#!/bin/sh\ntouch ran\n",
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", ".git/config": "[core]\n\tfsmonitor = ./evil\n",
	})
	if err := os.Chmod(filepath.Join(dir, "evil"), 0o700); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]events.Code{
		"cat " + dir + "/link": events.AccessDenied, "cat " + dir + "/l*": events.AccessDenied, "cd " + dir + " && cat link": events.AccessDenied,
		"cat " + dir + "/f": "", "git ls-files " + dir: "", "git status " + dir: "",
	} {
		r := runIn(t.Context(), t, Config{}, dir, Args{Command: line})
		if r.Result.Error != nil && r.Result.Error.Code == events.ExecutionError && strings.HasPrefix(line, "git") {
			continue // no git here
		}
		if got := r.Result.Error; (got == nil) != (want == "") || got != nil && got.Code != want {
			t.Errorf("%q: %+v %q", line, got, r.Result.Text.Text)
		}
		if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
			t.Fatalf("%q started what the repository names", line)
		}
	}
}

// What a pattern or a link stands for is judged as if the line named it, and where the
// policy would ask about the line itself nothing more is asked.
func TestPatternsAndLinksAreJudged(t *testing.T) {
	dir := workspaceOf(t, map[string]string{"secrets/key": "k", "src/a": "a", "src/b": "b", "alias": "->secrets/key", "fine": "->src/a"})
	closed := func(op events.Operation) error {
		if slices.ContainsFunc(op.Paths, func(p string) bool { return p == "secrets" || strings.HasPrefix(p, "secrets/") }) {
			return errors.New("it is closed")
		}
		return nil
	}
	for line, want := range map[string]string{
		"cat s*/key": "secrets/key", "cat secret?/key": "secrets/key", "cat [s]e*/*": "secrets/key", "cat alias": "secrets/key", "cat al*": "secrets/key", "ls *": "secrets",
		"cat src/*": "", "cat fine": "", "cat s?c/a": "", "cat nothing*": "",
	} {
		err := inside(dir, classify(line), closed)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "stands for "+want+",") {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if err := inside(dir, classify("cat s*/key"), func(events.Operation) error { return errors.New("ask") }); err != nil {
		t.Errorf("a line that a person agreed to: %v", err)
	}
}
