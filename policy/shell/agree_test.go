package shell

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// bash runs lines where no program can be found, and reports the simple
// commands that it runs or tries to run.
type bash struct{ program, env, folder string }

func newBash(t *testing.T) bash {
	t.Helper()
	program, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("NO BASH HERE: nothing checks that a shell reads allowed lines as the classifier does")
	}
	dir := t.TempDir()
	b := bash{program, filepath.Join(dir, "env"), filepath.Join(dir, "empty")}
	hook := "exec 9>&1 >/dev/null 2>&1 </dev/null\nset -T\ntrap 'printf \"%s\\0\" \"$BASH_COMMAND\" >&9' DEBUG\n"
	if err := os.WriteFile(b.env, []byte(hook), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b bash) commands(line string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.program, "-c", line)
	cmd.Env = []string{"PATH=/nonexistent", "BASH_ENV=" + b.env}
	cmd.Dir = b.folder
	cmd.WaitDelay = time.Second
	out, _ := cmd.Output() // the lines fail: there are no programs
	var cmds []string
	for part := range bytes.SplitSeq(out, []byte{0}) {
		if strings.TrimSpace(string(part)) != "" { // as it is: a blank at its end may be an escaped one
			cmds = append(cmds, string(part))
		}
	}
	return cmds
}

// check runs an allowed line and compares what bash makes of it.
func (b bash) check(t interface{ Errorf(string, ...any) }, line string) {
	for _, cmd := range b.commands(line) {
		if a := Classify(cmd); a.Decision != Allow {
			t.Errorf("%q is allowed, and bash runs %q, which is %s by %v", line, cmd, a.Decision, a.Policies)
		}
	}
	made, err := os.ReadDir(b.folder)
	if err != nil || len(made) > 0 {
		t.Errorf("%q is allowed, and made %v (%v)", line, made, err)
	}
}

// Bash runs no command in an allowed line that is not allowed by itself.
func TestBashAgreesOnTheTable(t *testing.T) {
	b := newBash(t)
	if got := b.commands("cat x | rm y"); len(got) != 2 {
		t.Fatalf("bash does not report what it runs: %q", got)
	}
	for _, e := range table(t) {
		if e.decision == Allow && !strings.HasPrefix(e.line, "sleep") && !strings.HasPrefix(e.line, "while") {
			b.check(t, e.line)
		}
	}
}

// pieces are what lines of the next test are made of.
var pieces = []string{
	"ls", "pwd", "cat", "echo", "rm x", "x", "'", "\"", "\\", "\\\n", "\n", " ", " ", ";", "&&", "||", "|", "(", ")", "{ ", " }", "$", "$?", "#", " # ",
	"<", ">", "<<EOF\n", "\nEOF\n", "<<'EOF'\n", "<<<", "!", "[", "]", "~", "*", "a=1 ", "if ", "then ", "fi", "time ", "[[ ", " ]]", "((", "))", "`", "$'",
	"{a,b}", "2>&1", "test", "printf", "%s", "\t", "cd", "true", "EO", "F\n", "\nrm x\n", "; rm x",
}

// However odd the line, bash and the classifier read the same commands in it.
func TestBashAgreesOnOddLines(t *testing.T) {
	b := newBash(t)
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]string{"ls ", "echo ", "cat <<EOF\n", "true; ", "cat <<'EOF'\n"}).Draw(t, "start")
		line := start + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 8).Draw(t, "pieces"), "")
		if Classify(line).Decision == Allow {
			b.check(t, line)
		}
	})
}
