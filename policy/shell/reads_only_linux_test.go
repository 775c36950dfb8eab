//go:build linux && (amd64 || arm64)

package shell

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

var (
	traceLines = flag.Int("trace.lines", 120, "random lines that are run and watched, and as many mutants of the examples")
	traceSeed  = flag.Uint64("trace.seed", 0, "seed of the random lines; 0 means a new one")
)

// sandbox is a workspace full of traps, and a tracer.
type sandbox struct {
	dir, tmp string
	env      []string
	tracer   *tracer
}

const searchPath = "/usr/local/bin:/usr/bin:/bin"

// newSandbox makes a workspace in which whatever can be hostile is: names of
// files, links, and the configuration of all that looks for one.
func newSandbox(t testing.TB) *sandbox {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("NO BASH HERE: nothing checks that allowed lines only read")
	}
	root := t.TempDir()
	s := &sandbox{dir: filepath.Join(root, "ws"), tmp: filepath.Join(root, "tmp"), tracer: startTracer(bash)}
	t.Cleanup(s.tracer.stop)
	traps := filepath.Join(root, "bin")
	for _, d := range []string{s.dir, s.tmp, traps} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name := range names("gpg gpg2 gpgsm ssh ssh-keygen pr gzip zcat less more vi editor curl wget nc git-evil git-lfs") {
		if _, err := exec.LookPath(name); err != nil {
			s.file(t, filepath.Join(traps, name), evil)
		}
	}
	s.populate(t)
	vars := Quiet()
	vars["PATH"], vars["TMPDIR"], vars["LANG"], vars["TERM"] = searchPath+":"+traps, s.tmp, "C.UTF-8", "dumb"
	for k, v := range vars {
		s.env = append(s.env, k+"="+v)
	}
	return s
}

const evil = "#!/bin/sh\ntouch new\n"

func (s *sandbox) file(t testing.TB, name, body string) {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.dir, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(body), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (s *sandbox) populate(t testing.TB) {
	t.Helper()
	for name, body := range map[string]string{
		"a.txt": "a\nb\nc\n", "b.txt": "a\nc\nd\n", "main.go": "package main\n\nfunc main() {}\n", "src/lib.go": "package src\n",
		"go.mod": "module x\n\ngo 1.99\n\ntoolchain go1.99.9\n", "data.json": `{"a":1,"items":[{"name":"x"}]}`, "sub/f.txt": "x\n",
		".python-version": "../../evil", ".jq": "def evil: 1;", ".gitattributes": "* merge=evil\n", "sub/.gitattributes": "* filter=evil\n",
		".gitconfig": hostileGit, ".config/git/config": hostileGit, ".bashrc": "touch new\n", ".bash_profile": "touch new\n", ".profile": "touch new\n",
		".inputrc": "", ".magic": "0 string x evil\n", ".ripgreprc": "--pre=./evil.sh\n", ".digrc": "", ".curlrc": "output = new\n", ".netrc": "",
		"opts": "-o new\n", "@opts": "-o new\n", "-o": "", "-R": "", "-l": "", "-rf": "", "--output=new": "", "--pre=evil.sh": "", "-exec": "", "-delete": "",
		"--compress-program=evil.sh": "", "evil.sh": evil, "ls": evil, "cat": evil, "git": evil, "hooks/post-index-change": evil, "hooks/pre-commit": evil,
	} {
		s.file(t, name, body)
	}
	for name, to := range map[string]string{"link": "/etc", "in": "src", "out": "/tmp"} {
		if err := os.Symlink(to, filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Log("NO GIT HERE: nothing checks that its allowed commands only read")
		return
	}
	cmd := exec.Command("bash", "-e", "-c", makeRepository)
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=" + searchPath, "HOME=" + s.tmp, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the repository: %v\n%s", err, out)
	}
	f, err := os.OpenFile(filepath.Join(s.dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(hostileGit); err != nil {
		t.Fatal(err)
	}
}

// makeRepository makes one with a merge, a signed commit, a stash, a submodule, an
// object that is missing, and files that look changed and are not.
const makeRepository = `
git init -q -b main . ; git add a.txt b.txt main.go src data.json .gitattributes; git commit -q -m one
(cd sub; git init -q -b main .; git add f.txt .gitattributes; git commit -q -m sub)
git add sub 2>/dev/null; git commit -q -m two; git tag v1
git checkout -q -b feature; echo feature >> a.txt; git commit -q -a -m feature
git checkout -q main; echo main > a.txt; git commit -q -a -m main; git merge -q -s ours -m merge feature
git checkout -q -b partial; echo lost > lost.txt; git add lost.txt; git commit -q -m lost
blob=$(git rev-parse HEAD:lost.txt); git checkout -q main; rm -f .git/objects/${blob:0:2}/${blob:2}
commit=$(git cat-file commit HEAD | sed '0,/^$/s/^$/gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n/' | git hash-object -t commit -w --stdin --literally)
git update-ref refs/heads/signed $commit; git update-ref HEAD $commit
echo stashed >> b.txt; git stash -q; echo dirty >> b.txt; echo staged >> main.go; git add main.go; git remote add origin 'ext::sh -c touch% new'
touch -d '2001-01-01' a.txt data.json sub/f.txt
printf '[filter "evil"]\n clean = ../evil.sh\n process = ../evil.sh\n' >> sub/.git/config
`

// hostileGit names a program wherever git takes one without inventing a name for it,
// or makes it write.
const hostileGit = `
[core]
	fsmonitor = ./evil.sh
	hooksPath = hooks
	pager = ./evil.sh
	sshCommand = ./evil.sh
	editor = ./evil.sh
	askPass = ./evil.sh
	gitProxy = ./evil.sh
	alternateRefsCommand = ./evil.sh
	untrackedCache = true
	splitIndex = true
[pager]
	log = ./evil.sh
	diff = ./evil.sh
[alias]
	st = !./evil.sh
	log = !./evil.sh
[log]
	showSignature = true
	diffMerges = remerge
[gpg]
	program = ./evil.sh
	format = openpgp
[gpg "ssh"]
	program = ./evil.sh
[merge "evil"]
	driver = ./evil.sh %O %A %B
[pretty]
	evil = %h %G?
[status]
	submoduleSummary = true
[diff]
	submodule = diff
	ignoreSubmodules = none
	autoRefreshIndex = true
[credential]
	helper = !./evil.sh
[remote "origin"]
	promisor = true
	uploadpack = ./evil.sh
	partialclonefilter = blob:none
[extensions]
	partialClone = origin
[protocol]
	allow = always
[protocol "ext"]
	allow = always
[sequence]
	editor = ./evil.sh
[diff]
	tool = evil
	guitool = evil
[difftool "evil"]
	cmd = ./evil.sh
[trailer "x"]
	command = ./evil.sh
[uploadpack]
	packObjectsHook = ./evil.sh
`

// programs are what the commands of a line may start: their own executables, and
// where one is a script, its interpreter with it.
func (s *sandbox) programs(a Analysis) func(program, script string) bool {
	var files []os.FileInfo
	scripts := map[string][]string{} // by their interpreters
	for _, cmd := range a.Commands {
		for _, name := range started(cmd) {
			for _, n := range append(also[name], name) {
				p := lookup(n)
				info, err := os.Stat(p)
				if err != nil {
					continue // no such program, perhaps a builtin
				}
				files = append(files, info)
				head, _ := os.ReadFile(p)
				if line, ok := bytes.CutPrefix(head[:min(len(head), 100)], []byte("#!")); ok {
					if interpreter, err := filepath.EvalSymlinks(strings.Fields(string(line))[0]); err == nil {
						scripts[interpreter] = append(scripts[interpreter], n)
					}
				}
			}
		}
	}
	return func(program, script string) bool {
		if known := scripts[program]; known != nil {
			return slices.Contains(known, filepath.Base(script))
		}
		info, err := os.Stat(program)
		return err == nil && slices.ContainsFunc(files, func(f os.FileInfo) bool { return os.SameFile(f, info) })
	}
}

// also are programs that others start as a part of themselves.
var also = map[string][]string{"egrep": {"grep"}, "fgrep": {"grep"}, "git": {"../lib/git-core/git"}}

func lookup(name string) string {
	for dir := range strings.SplitSeq(searchPath, ":") {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && info.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// started are the names of programs that a simple command starts: its own, and
// behind a wrapper, others.
func started(cmd string) []string {
	file, err := syntax.NewParser().Parse(strings.NewReader(cmd), "")
	if err != nil || len(file.Stmts) == 0 {
		return nil
	}
	call, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok {
		return nil
	}
	c := &classifier{line: cmd}
	var out []string
	args := c.words(call.Args)
	for len(args) > 0 {
		name := args[0].text
		out = append(out, name)
		w := wrappers[name]
		if w == nil || !w.same {
			return out
		}
		args, _ = w.strip(c, args[1:])
	}
	return out
}

// check runs an allowed line, and reports what it did that is not reading.
func (s *sandbox) check(t testing.TB, line string) seen {
	t.Helper()
	a := Classify(line)
	if a.Decision != Allow {
		t.Fatalf("%q is %s", line, a.Decision)
	}
	got := s.run(line, s.programs(a))
	if errors.Is(got.err, errNoTracing) {
		t.Skipf("NO TRACING HERE: nothing checks that allowed lines only read: %v", got.err)
	}
	if got.err != nil {
		t.Fatalf("%q: %v", line, got.err)
	}
	for _, what := range got.found {
		t.Errorf("%q is allowed, and would %s", line, what)
	}
	return got
}

func (s *sandbox) run(line string, may func(string, string) bool) seen {
	return s.tracer.run(job{dir: s.dir, line: line, env: s.env, tmp: s.tmp, may: may, limit: 2 * time.Second})
}

// TestTracerSees: a line that writes, starts something or connects is caught, and
// ended before it has done so.
func TestTracerSees(t *testing.T) {
	s := newSandbox(t)
	all := func(string, string) bool { return true }
	for line, want := range map[string]string{
		"echo x > new": "open ", "echo x >> a.txt": "open ", "touch new": "open ", "rm a.txt": "unlink", "mkdir new": "mkdir", "mv a.txt new": "rename",
		"chmod 600 a.txt": "fchmod", "ln -s a new": "symlink", "ln a.txt new": "link", "touch -d 2001-01-01 a.txt": "open ", "rmdir src": "unlink|rmdir",
		"(cp a.txt new)": "open |", "sed -n 'w new' a.txt": "open ", "sort -o new a.txt": "open ", "cd src; : > new": "open ", "truncate -s 0 a.txt": "open ",
		"echo x > /dev/tcp/127.0.0.1/9": "socket", "sleep 9 & kill 1": "signal", "cat a.txt | tee new": "open ", "f() { echo x > new; }; f": "open ",
		"while :; do echo > new; done": "open ", "timeout 5 timeout 5 touch new": "open ", "sh -c 'exec 3<>new'": "open ", "mkfifo new": "mknod",
		"unshare -r true": "unshare", "chown 0 a.txt": "fchown", "mktemp": "open ",
	} {
		got := s.run(line, all)
		if errors.Is(got.err, errNoTracing) {
			t.Skipf("NO TRACING HERE: %v", got.err)
		}
		ok := len(got.found) > 0 && slices.ContainsFunc(strings.Split(want, "|"), func(w string) bool { return strings.Contains(got.found[0], w) })
		if !ok {
			t.Errorf("%q: saw %q, want %q (%+v)", line, got.found, want, got)
		}
		if _, err := os.Lstat(filepath.Join(s.dir, "new")); err == nil {
			t.Fatalf("%q was not held back", line)
		}
	}
	for line, want := range map[string]string{
		"./evil.sh": "execute", "find . -maxdepth 0 -exec date ';'": "execute", "cat a.txt | sed -n p": "execute", "git -c core.fsmonitor=./evil.sh status": "execute",
	} {
		got := s.run(line, s.programs(Analysis{Commands: []string{"find .", "cat", "git x"}}))
		if len(got.found) == 0 || !strings.HasPrefix(got.found[0], want) {
			t.Errorf("%q: saw %q, want %q", line, got.found, want)
		}
	}
	got := s.run("ls -la | cat; cat <<< x; git status", s.programs(Classify("ls | cat; git status")))
	if len(got.found) > 0 || len(got.ran) < 4 || got.cut {
		t.Errorf("reading: %+v", got)
	}
	if got := s.run("read <> /dev/zero; while :; do :; done", all); len(got.found) == 0 && !got.cut {
		t.Errorf("what does not end: %+v", got)
	}
}

// TestQuietIsNeeded: the traps work. Without Quiet they are sprung.
func TestQuietIsNeeded(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NO GIT HERE: nothing checks that its settings are overridden")
	}
	s := newSandbox(t)
	quiet := s.env
	still := "core.fsmonitor=false "
	for line, least := range map[string]string{ // and what is overridden for it, but for what is not
		"git status": "", "git status -s": still, "git log -3": still, "git log -m -p -3": still + "log.showSignature=false",
		"git diff": still + "diff.ignoreSubmodules=dirty diff.submodule=short", "git diff --stat": still,
		"git show partial:lost.txt": still, "git log -1": still + "log.showSignature=false format.pretty=evil",
	} {
		s.env = []string{"PATH=" + searchPath, "HOME=" + s.dir, "TMPDIR=" + s.tmp}
		set := strings.Fields(least)
		for i, kv := range set {
			k, v, _ := strings.Cut(kv, "=")
			s.env = append(s.env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, k), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, v))
		}
		s.env = append(s.env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(set)))
		a := Classify(line)
		if got := s.run(line, s.programs(a)); len(got.found) == 0 {
			t.Errorf("%q does no harm without Quiet: %+v", line, got)
		} else {
			t.Logf("%q without Quiet: %s", line, got.found[0])
		}
		s.env = quiet
		s.check(t, line)
	}
}

// The allowed examples only read.
func TestExamplesOnlyRead(t *testing.T) {
	s := newSandbox(t)
	ran := 0
	for _, e := range table(t) {
		if e.decision == Allow && !strings.HasPrefix(e.line, "sleep") && !strings.HasPrefix(e.line, "while") {
			ran += len(s.check(t, e.line).ran)
		}
	}
	if ran < 80 {
		t.Errorf("%d programs ran", ran)
	}
}

// Random lines that are allowed, and mutants of the examples that are, only read.
func TestRandomLinesOnlyRead(t *testing.T) {
	s := newSandbox(t)
	seed := *traceSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("reproduce: go test ./policy/shell -run RandomLinesOnlyRead -trace.lines=%d -trace.seed=%d", *traceLines, seed)
	g := newGenerator(seed)
	var lines []string
	for _, e := range table(t) {
		if !strings.HasPrefix(e.line, "sleep") && !strings.HasPrefix(e.line, "while") {
			lines = append(lines, e.line)
		}
	}
	tried, ran := 0, 0
	for allowed := 0; allowed < 2**traceLines && !t.Failed(); tried++ {
		line := g.line()
		if tried%2 == 1 {
			line = g.mutate(pick(g, lines), lines)
		}
		if Classify(line).Decision != Allow || strings.Contains(line, "while") || strings.Contains(line, "sleep") {
			continue
		}
		allowed++
		ran += len(s.check(t, line).ran)
	}
	t.Logf("%d lines tried, %d programs run", tried, ran)
}

// Whatever the line, and whatever a generator makes of a seed: what is allowed only reads.
func FuzzAllowedLinesOnlyRead(f *testing.F) {
	s := newSandbox(f)
	var lines []string
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	for i, e := range table(f) {
		lines = append(lines, e.line)
		if i%50 == 0 || fuzzing && e.decision == Allow { // without fuzzing, TestExamplesOnlyRead runs them
			f.Add(e.line, uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, line string, seed uint64) {
		g := newGenerator(seed)
		for _, l := range []string{line, g.line(), g.mutate(pick(g, lines), lines)} {
			if Classify(l).Decision == Allow {
				s.check(t, l)
			}
		}
	})
}
