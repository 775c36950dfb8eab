package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	rewrite = flag.Bool("rewrite", false, "write what the commands print into the pages, and the pictures")
	built   = flag.String("bin", "", "folder with a sluice-replay that is built already; left out: it is built")
)

// root is where the commands of the pages are typed.
const root = "../.."

// pages are the documents whose commands are run: every block that is marked as
// console, with the archive of the incident.
var pages = []string{"docs/replay.md"}

// pictures are the files that the commands of the pages write into $OUT, and where
// they are kept.
const pictures = "docs/pictures"

// TestPages runs every command of the pages, and holds what it prints against what
// stands there; a picture that a page makes is the one that it shows.
func TestPages(t *testing.T) {
	bin, out := program(t), t.TempDir()
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			path := filepath.Join(root, page)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			now, commands := replay(t, string(text), bin, out)
			if commands == 0 {
				t.Fatal("the page has no commands")
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, page, string(text), now)
		})
	}
	keep(t, out)
}

// program is the folder of the program under test.
func program(t *testing.T) string {
	t.Helper()
	if *built != "" {
		path, err := filepath.Abs(*built)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	bin := t.TempDir()
	if b, err := exec.Command("go", "build", "-o", filepath.Join(bin, "sluice-replay"), root+"/cmd/replay").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return bin
}

// compare says where a page and what its commands print begin to differ.
func compare(t *testing.T, page, text, now string) {
	t.Helper()
	if text == now || *rewrite {
		return
	}
	want, got := strings.Split(text, "\n"), strings.Split(now, "\n")
	for i := range want {
		if i >= len(got) || want[i] != got[i] {
			t.Fatalf("%s:%d is not what the command prints (run go test ./test/incident -rewrite, and read the page again):\n page: %s\n  now: %s", page, i+1, want[i], at(got, i))
		}
	}
	t.Fatalf("%s: the commands print more than stands there: %s", page, at(got, len(want)))
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

const fence = "```"

// replay runs the commands of a page, and returns it with what they print now.
func replay(t *testing.T, text, bin, out string) (now string, commands int) {
	t.Helper()
	var b strings.Builder
	console, held := false, ""
	flush := func() {
		if held != "" {
			commands++
			b.WriteString(shell(t, held, bin, out))
			held = ""
		}
	}
	for line := range strings.Lines(text) {
		switch {
		case !console:
			console = strings.HasPrefix(line, fence+"console")
			b.WriteString(line)
		case strings.HasPrefix(line, fence):
			flush()
			console = false
			b.WriteString(line)
		case strings.HasPrefix(line, "$ "):
			flush()
			held = strings.TrimSuffix(strings.TrimPrefix(line, "$ "), "\n")
			b.WriteString(line)
		case strings.HasSuffix(held, "\\"): // the command goes on
			held += "\n" + strings.TrimSuffix(line, "\n")
			b.WriteString(line)
		}
	}
	if console {
		t.Fatal("a block of the page has no end")
	}
	return b.String(), commands
}

// shell runs a command as somebody would type it, and returns all that it prints.
func shell(t *testing.T, command, bin, out string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = root
	cmd.Env = environment(bin, out)
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Run(); err != nil {
		t.Errorf("$ %s\n%v\n%s", command, err, printed.String())
	}
	text := printed.String()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// environment is one without settings of the developer's own, with the program
// under test first in the path.
func environment(bin, out string) []string {
	env := []string{"OUT=" + out, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if name != "PATH" && name != "OUT" && name != "LC_ALL" && !strings.HasPrefix(name, "SLUICE_") {
			env = append(env, e)
		}
	}
	return env
}

// keep holds the pictures that the pages made against those that are kept.
func keep(t *testing.T, out string) {
	t.Helper()
	made, err := filepath.Glob(filepath.Join(out, "*.svg"))
	if err != nil || len(made) == 0 {
		t.Fatal("the pages make no picture", err)
	}
	for _, path := range made {
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kept := filepath.Join(root, pictures, filepath.Base(path))
		if *rewrite {
			if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(kept, now, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		was, err := os.ReadFile(kept)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(now, was) {
			t.Errorf("%s is not what the command draws now: run go test ./test/incident -rewrite, and look at it", kept)
		}
	}
	shown(t, made)
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks: what the pages lead to is there.
func TestLinks(t *testing.T) {
	for _, page := range pages {
		path := filepath.Join(root, page)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := link.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s leads nowhere", page)
		}
		for _, m := range found {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(m[1]))); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// shown: every picture that is made is shown by a page, and every one that is shown
// is there.
func shown(t *testing.T, made []string) {
	t.Helper()
	var all strings.Builder
	for _, page := range pages {
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	for _, path := range made {
		if name := filepath.Base(path); !strings.Contains(all.String(), fmt.Sprintf("](pictures/%s)", name)) {
			t.Errorf("no page shows %s", name)
		}
	}
}
