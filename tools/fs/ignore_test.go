package fs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// walked are the files and links of a workspace that a walk meets.
func walked(t testing.TB, dir string, all bool) []string {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	out := []string{}
	w := walk{root: root, all: all}
	w.each = func(p string, d fs.DirEntry) error {
		if !d.IsDir() {
			out = append(out, p)
		}
		return nil
	}
	if err := w.run(t.Context(), "."); err != nil {
		t.Fatal(err)
	}
	return out
}

func needGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("GIT IS NOT ON THIS MACHINE: the .gitignore rules are compared with nothing")
	}
}

// gitFiles are the files that git would add.
func gitFiles(t testing.TB, dir string) []string {
	t.Helper()
	cmd := exec.Command("git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "--others", "--exclude-standard")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(list)
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

func gitInit(t testing.TB, dir string) {
	t.Helper()
	cmd := exec.Command("git", "init", "-q", dir)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TEMPLATE_DIR=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

var ignoreCases = []map[string]string{
	{"": "*.log\n!keep.log\n"},
	{"": "build/\n", "src": "!build/\n"},
	{"": "/a\n"},
	{"": "a/*\n!a/b\n"},
	{"": "a/**\n!a/keep.log\n"},
	{"": "a/\n!a/keep.log\n"},
	{"": "**/b/c.txt\n"},
	{"": "a/**/c.txt\n"},
	{"": "**\n!*.txt\n!*/\n"},
	{"": "*\n!*/\n!*.log\n"},
	{"": "[!a].txt\n[a-c].log\n"},
	{"": "[^a].txt\n"},
	{"": "[]x].txt\n"},
	{"": "[[:digit:]].txt\n[[:upper:]]*\n"},
	{"": "\\#hash\n\\!bang\n# comment\n"},
	{"": "trail   \nkept\\ \n"},
	{"": "x.txt\r\ny.txt\r\n"},
	{"": "\ufeffx.txt\n"},
	{"": "{x,y}.txt\n"},
	{"": "a**c\n"},
	{"": "src/*b/c.txt\nfoob**/c.txt\n"},
	{"": "a/b/\n", "a": "!b/\n*.txt\n"},
	{"": "*.txt\n", "a": "!c.txt\n", "a/b": "c.txt\n"},
	{"a": "/c.txt\nb/c.txt\n"},
	{"a/b": "*\n!.gitignore\n"},
	{"": "/\n//\n!\n"},
	{"": "b\n", ".git/info": "x.txt\n"},
	{"": "!x.txt\n", ".git/info": "x.txt\n"},
	{"": "link\nlinkdir/\n"},
	{"": "?.txt\n??.txt\n"},
	{"": "a\\"},
	{"": "[a\n*.log"},
	{"": "\\a\n\\*\n"},
	{"": "ä*\n"},
	{"": "/**/b\n"},
	{"": "**/\n"},
	{"": "a/b/c.txt/\nb/\n"},
	{"": "  lead.txt\n\ttab.txt\n"},
}

var ignoreFiles = []string{
	"x.txt", "y.txt", "z.log", "keep.log", "a/c.txt", "a/keep.log", "a/b/c.txt", "a/b/d.log", "a/b/e/c.txt", "b/c.txt", "build/out",
	"src/build/out", "src/ab/c.txt", "src/x.txt", "#hash", "!bang", "trail", "kept ", "{x,y}.txt", "].txt", "7.txt", "Upper", "ac", "abc", "a.txt", "b.log",
	"ab.txt", "foobar/c.txt", "foo/b/c.txt", "äää.txt", "*", " lead.txt", "  lead.txt", "tab.txt", "\ttab.txt", "[a", "a\\", ".hidden",
}

func TestIgnoreRulesAreGits(t *testing.T) {
	needGit(t)
	for i, rules := range ignoreCases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := newBench(t, nil)
			gitInit(t, b.dir)
			for _, f := range ignoreFiles {
				b.put(f, "")
			}
			b.link("x.txt", "link")
			b.link("src", "linkdir")
			for dir, text := range rules {
				name := ".gitignore"
				if dir == ".git/info" {
					name = "exclude"
				}
				b.put(filepath.Join(dir, name), text)
			}
			if diff := cmp.Diff(gitFiles(t, b.dir), walked(t, b.dir, false)); diff != "" {
				t.Errorf("%q (-git +ours):\n%s", rules, diff)
			}
		})
	}
}

func TestRandomIgnoreRulesAreGits(t *testing.T) {
	needGit(t)
	b := newBench(t, nil)
	gitInit(t, b.dir)
	for _, f := range []string{"a", "b.c", "ab", "d/a", "d/b.c", "d/e/a", "d/e/ab", "e/d/a", "e/b.c"} {
		b.put(f, "")
	}
	line := rapid.StringMatching(`!?/?(a|b|d|e|\*|\*\*|\?|b\.c|\[ab\]|\[!a\]|a\*|\*b)(/(a|b|d|e|\*|\*\*|\?|\*\.c)){0,3}/?`)
	rapid.Check(t, func(rt *rapid.T) {
		for _, dir := range []string{"", "d", "d/e"} {
			text := strings.Join(rapid.SliceOfN(line, 0, 3).Draw(rt, "rules of /"+dir), "\n")
			b.put(filepath.Join(dir, ".gitignore"), text)
		}
		if diff := cmp.Diff(gitFiles(t, b.dir), walked(t, b.dir, false)); diff != "" {
			rt.Fatalf("(-git +ours):\n%s", diff)
		}
	})
}

func TestWalkOrder(t *testing.T) {
	b := newBench(t, map[string]string{"a/b": "", "a.txt": "", "a-b": "", "a0": "", "A": "", "a/c/d": "", "a/c.x": "", ".git/config": "", tempName("x"): ""})
	got := walked(t, b.dir, true)
	want := []string{"A", "a-b", "a.txt", "a/b", "a/c.x", "a/c/d", "a0"}
	if diff := cmp.Diff(want, got); diff != "" || !slices.IsSorted(got) {
		t.Error(diff)
	}
}
