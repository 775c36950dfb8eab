package shell

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rules "github.com/sluice-run/sluice/policy/shell"
)

var (
	leakLines = flag.Int("leak.lines", 150, "random reading lines that are run among links that lead out")
	leakSeed  = flag.Uint64("leak.seed", 0, "seed of the random lines; 0 means a new one")
)

// Lines of the next test are made of these: commands that show what they read, and
// names of which many lead out.
var (
	leakShow = []string{
		"cat", "head -3", "grep -r x", "grep -R x", "grep -rn x --", "ls -la", "ls -LR", "ls", "find", "find -L", "find -H", "wc -l <", "cat <", "sed -n p", "sed s/x/x/", "awk 1", "sort", "cut -c1-", "nl",
		"diff -r src", "tac", "fold", "strings", "od -c", "echo", "printf '%s\\n'", "basename -a", "realpath", "readlink -f", "stat -L -c %n", "file", "du -aL", "uniq", "comm src/f", "paste",
		"grep -h -f src/f", "grep -f", "jq -R .", "git diff --no-index src/f", "git grep --no-index x", "git ls-files -o", "xxd", "rev", "column", "tree -l", "rg -L x", "test -f", "expr a :",
		"find . -follow -name", "find . -newer", "timeout 5 cat", "nice grep -R x", "command ls", "egrep -R ''", "sha256sum", "base64", "cmp src/f",
	}
	leakNames = []string{
		"out", "out/s", "out/*", "o*", "o*/*", "*", "*/*", "*/*/*", "./*", "src", "src/f", "src/out", "src/*", "src/*/s", "file", "f*", "[f]ile", "[!a]ile", "[[:alpha:]]ile", "?ile",
		"src/deep", "src/deep/o*", "src/deep/*/s", ".", "./out", "src//out", "in", "in/out", "in/out/s", "'out'/s", "o\"u\"t/s", "o\\ut/s", "sp*", "'sp ace/out/s'", "sp\\ ace/*", "sp?ace/out/*",
		"src/./out/s", "src/deep/../f", "loop", "loop/*", "", ".[!.]*", ".hid/*", ".h*", "out/sub/*", "*/sub", "ou[a-z]", "ou[^a]/s",
		"a.txt", "src/f", "in/f", "src/deep", "src/deep/f", "deep", "f", "a*", "a.*", "src/f*", "s*/f", "*/f", "[a]*", "in", "'sp ace'", "sp*/f", "src/d*", "a.txt a.txt", "-- f", "deep/f",
	}
	leakMoves = []string{"", "", "", "cd src && ", "cd src; cd deep; ", "cd in && ", "cd 'sp ace' && ", "cd -P src && cd -- deep && ", "(cd src); ", "cd src/deep && ", "cd . && cd src && cd . && cd deep && ", "command cd src && "}
)

// TestNothingOutsideIsShown: whatever a reading line that is let through names, nothing
// that lies behind a link out of the workspace comes out of it.
func TestNothingOutsideIsShown(t *testing.T) {
	const secret = "x-secret-of-another-folder"
	outside := workspaceOf(t, map[string]string{"s": secret + "\n", "sub/" + secret: secret + "\n", secret: ""})
	dir := workspaceOf(t, map[string]string{
		"out": "->" + outside, "file": "->" + outside + "/s", "src/f": "x\n", "src/out": "->" + outside, "src/deep/out": "->" + outside, "src/deep/f": "x\n",
		"in": "->src", "sp ace/out": "->" + outside, "sp ace/f": "x\n", "loop": "->.", ".hid/out": "->" + outside, "a.txt": "x\n",
	})
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("NO BASH HERE: nothing checks what reading lines show")
	}
	seed := *leakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("reproduce: go test ./tools/shell -run NothingOutside -leak.lines=%d -leak.seed=%d", *leakLines, seed)
	g := rand.New(rand.NewPCG(seed, 3))
	pick := func(list []string) string { return list[g.IntN(len(list))] }
	ran, refused := 0, 0
	for range *leakLines {
		line := pick(leakMoves) + pick(leakShow) + " " + pick(leakNames)
		if g.IntN(3) == 0 {
			line += " " + pick(leakNames)
		}
		if g.IntN(4) == 0 {
			line += " | cat - " + pick(leakNames)
		}
		a := classify(line)
		if !a.Reads {
			continue
		}
		if inside(dir, a, nil) != nil {
			refused++
			continue
		}
		ran++
		if out := shown(t, bash, dir, line); strings.Contains(out, secret) {
			t.Errorf("%q shows %.200q", line, out)
		}
	}
	t.Logf("%d lines run, %d refused", ran, refused)
	if ran < *leakLines/20 || refused < *leakLines/20 {
		t.Errorf("%d lines run, %d refused: the test does not look at both", ran, refused)
	}
	if out := shown(t, bash, dir, "cat src/deep/../out/s; ls out/*"); strings.Count(out, secret) < 3 {
		t.Errorf("the secret is not one: %q", out)
	}
}

func shown(t *testing.T, bash, dir, line string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, "--noprofile", "--norc", "-c", line)
	cmd.Dir = dir
	vars := rules.Quiet()
	vars["PATH"], vars["LANG"] = os.Getenv("PATH"), "C.UTF-8"
	for k, v := range vars {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	slices.Sort(cmd.Env)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // many lines fail, of which nothing is asked
	return strings.ReplaceAll(out.String(), filepath.Base(dir), "")
}
