package fs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// asked runs a call as b.try does, with a policy that closes what lies in secrets and
// what git runs, and notes what it was asked.
func (b *bench) asked(tool string, args m) (r events.Result, about []string, err error) {
	b.t.Helper()
	t, _ := b.reg.Lookup(tool)
	in := b.invocation(tool, args)
	in.May = func(op events.Operation) error {
		about = append(about, string(op.Class)+" "+strings.Join(op.Paths, " "))
		for _, p := range op.Paths {
			if p == "secrets" || strings.HasPrefix(p, "secrets/") || strings.HasPrefix(p, ".git/") {
				return errors.New("it is closed")
			}
		}
		return nil
	}
	r, err = t.Run(b.t.Context(), in)
	return r, about, err
}

func linked(t *testing.T) *bench {
	b := newBench(t, map[string]string{
		"a.txt": "find me\n", "secrets/key": "find me, secret\n", ".git/hooks/x": "#!\n", "src/b.txt": "find me\n", ".git/config": "[core]\n",
	})
	for target, name := range map[string]string{"secrets/key": "readme", "secrets": "docs", "a.txt": "same", ".git/hooks": "scripts", ".git/config": "settings", "src": "lib"} {
		b.link(target, name)
	}
	return b
}

// No link is a way round what the policy says of a path: the file's real name is judged.
func TestLinksAreNoWayRoundThePolicy(t *testing.T) {
	for _, c := range []struct {
		tool  string
		args  m
		about string // what is asked; "" nothing is
		open  bool
	}{
		{ReadName, m{"path": "a.txt"}, "", true},
		{ReadName, m{"path": "same"}, "read a.txt", true},
		{ReadName, m{"path": "lib/b.txt"}, "read src/b.txt", true},
		{ReadName, m{"path": "readme"}, "read secrets/key", false},
		{ReadName, m{"path": "docs/key"}, "read secrets/key", false},
		{ReadName, m{"path": "docs/none"}, "read secrets/none", false},
		{GrepName, m{"path": "readme", "pattern": "."}, "read secrets/key", false},
		{GrepName, m{"path": "docs", "pattern": "."}, "read secrets", false},
		{GlobName, m{"path": "docs", "pattern": "*"}, "read secrets", false},
		{WriteName, m{"path": "same", "text": "x"}, "write a.txt", true},
		{WriteName, m{"path": "readme", "text": "x"}, "write secrets/key", false},
		{WriteName, m{"path": "docs/new/deep", "text": "x"}, "write secrets/new/deep", false},
		{WriteName, m{"path": "scripts/post-checkout", "text": "x"}, "write .git/hooks/post-checkout", false},
		{EditName, m{"path": "settings", "old_string": "[core]", "new_string": "[x]"}, "write .git/config", false},
		{EditName, m{"path": "docs/key", "old_string": "me", "new_string": "x"}, "write secrets/key", false},
	} {
		b := linked(t)
		before := everything(t, b.dir, filepath.Join(b.dir, "none"))
		r, about, err := b.asked(c.tool, c.args)
		if c.about == "" && about != nil || c.about != "" && !slices.Contains(about, c.about) {
			t.Errorf("%s %v: asked %q, want %q", c.tool, c.args, about, c.about)
		}
		if c.open {
			if err != nil {
				t.Errorf("%s %v: %v", c.tool, c.args, err)
			}
			continue
		}
		e, ok := errors.AsType[*tools.Error](err)
		if !ok || e.Code != events.AccessDenied || e.Effects != events.EffectsNone || !strings.Contains(e.Message, "it is closed") || strings.Contains(r.Text.Text, "secret") {
			t.Errorf("%s %v: %q, %v", c.tool, c.args, r.Text.Text, err)
		}
		after := everything(t, b.dir, filepath.Join(b.dir, "none"))
		if len(before) != len(after) || before[filepath.Join(b.dir, "secrets/key")] != after[filepath.Join(b.dir, "secrets/key")] {
			t.Errorf("%s %v has changed something: %v", c.tool, c.args, after)
		}
	}
}

// A walk reads no file that the policy would not let the call read by its name.
func TestWalksAreNoWayRoundThePolicy(t *testing.T) {
	b := linked(t)
	r, about, err := b.asked(GrepName, m{"pattern": "find", "output_mode": "content"})
	if err != nil || strings.Contains(r.Text.Text, "secret\n") || !strings.Contains(r.Text.Text, "src/b.txt:1:find me") || !strings.Contains(r.Text.Text, "1 files that the policy closes") {
		t.Errorf("Grep: %q, %v", r.Text.Text, err)
	}
	if !slices.Contains(about, "read secrets/key") || !slices.Contains(about, "read a.txt") {
		t.Errorf("Grep asked about %q", about)
	}
	r, _, err = b.asked(GlobName, m{"pattern": "**"})
	if err != nil || strings.Contains(r.Text.Text, "key") || !strings.Contains(r.Text.Text, "src/b.txt") || !strings.Contains(r.Text.Text, "1 files that the policy closes") {
		t.Errorf("Glob: %q, %v", r.Text.Text, err)
	}
}

// Where nobody can be asked, what git runs is still not written through a link.
func TestWhatGitRunsIsNotWrittenThroughLinks(t *testing.T) {
	b := linked(t)
	b.fails(events.AccessDenied, []string{".git/hooks/pre-commit", "which programs git runs"}, WriteName, m{"path": "scripts/pre-commit", "text": "#!/bin/sh\n"})
	b.fails(events.AccessDenied, []string{".git/config"}, EditName, m{"path": "settings", "old_string": "[core]", "new_string": "[x]"})
	b.ok(ReadName, m{"path": "settings"})
	b.ok(WriteName, m{"path": ".git/hooks/x", "text": "by its own name the policy has judged it\n"})
	if _, err := os.Stat(filepath.Join(b.dir, ".git/hooks/pre-commit")); err == nil {
		t.Error("it is there")
	}
}

// Links below a folder that is walked are not followed, wherever they lead.
func TestWalksFollowNoLinks(t *testing.T) {
	b, _, _ := maze(t)
	for _, args := range []m{{}, {"path": "src"}, {"path": "dir-good"}} {
		args["no_ignore"] = true
		args["pattern"] = "outside|root:|inside"
		args["output_mode"] = "content"
		r := b.ok(GrepName, args)
		if strings.Contains(r.Text.Text, "outside") || strings.Contains(r.Text.Text, "root:") || !strings.Contains(r.Text.Text, "b.txt:1:inside") {
			t.Errorf("Grep %v: %q", args, r.Text.Text)
		}
		delete(args, "output_mode")
		args["pattern"] = "**"
		r = b.ok(GlobName, args)
		for name := range strings.SplitSeq(r.Text.Text, "\n") {
			if strings.Contains(name, "passwd") || strings.Contains(name, "secret") || strings.HasPrefix(name, "l/") || strings.HasPrefix(name, "abs-dir/") {
				t.Errorf("Glob %v lists %q", args, name)
			}
		}
	}
}

// Files and folders that become pipes and back, all the time, keep nobody waiting: every
// call ends, by an answer or a refusal.
func TestPipesKeepNobodyWaiting(t *testing.T) {
	b := newBench(t, map[string]string{"d/f": "inside\n", "d/.gitignore": "x\n", "keep/f": "inside\n", "keep/.gitignore": "x\n"})
	at := func(name string) string { return filepath.Join(b.dir, name) }
	stop, stopped := make(chan struct{}), make(chan error, 1)
	swap := func(name string) error {
		if err := errors.Join(syscall.Mkfifo(at("next"), 0o644), os.Rename(at(name), at("away")), os.Rename(at("next"), at(name))); err != nil {
			return err
		}
		return errors.Join(os.Remove(at(name)), os.Rename(at("away"), at(name)))
	}
	go func() {
		var err error
		for err == nil {
			for _, name := range []string{"d/f", "d/.gitignore", "d"} {
				err = errors.Join(err, swap(name))
			}
			select {
			case <-stop:
				stopped <- err
				return
			default:
			}
		}
		<-stop
		stopped <- err
	}()
	for range 60 {
		for tool, args := range map[string]m{
			ReadName: {"path": "d/f"}, GrepName: {"pattern": "inside"}, GlobName: {"pattern": "**"}, EditName: {"path": "d/f", "old_string": "none", "new_string": "x"},
		} {
			if _, err := b.try(tool, args); err != nil {
				if _, told := errors.AsType[*tools.Error](err); !told {
					t.Errorf("%s fails by %v", tool, err)
				}
			}
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

// What a hard link leads to cannot be told from a file of the workspace; a change gives
// the name a new file, and leaves what is outside alone.
func TestHardLinksOutsideAreNotChanged(t *testing.T) {
	b := newBench(t, map[string]string{"a": "x"})
	outside := filepath.Join(t.TempDir(), "f")
	if err := errors.Join(os.WriteFile(outside, []byte("both\n"), 0o644), os.Link(outside, filepath.Join(b.dir, "hard"))); err != nil {
		t.Fatal(err)
	}
	if r := b.ok(ReadName, m{"path": "hard"}); !strings.Contains(r.Text.Text, "both") {
		t.Errorf("%q", r.Text.Text)
	}
	if r := b.ok(WriteName, m{"path": "hard", "text": "mine\n"}); !strings.Contains(r.Text.Text, "hard links") {
		t.Errorf("%q", r.Text.Text)
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "both\n" {
		t.Errorf("the file outside is %q, %v", text, err)
	}
}

// Patterns that are short to write and endless to match are refused before they are
// tried on anything.
func TestEndlessPatternsAreRefused(t *testing.T) {
	b := newBench(t, map[string]string{"a.txt": strings.Repeat("a", 100_000) + "\n", strings.Repeat("a", 60): "x"})
	for _, pattern := range []string{"(abcdefghijklmnop){900}", "(a?b?c?d?e?f?g?h?){1000}", `(\pL\pN){900}`} {
		b.fails(events.InvalidParam, []string{"repeats too much"}, GrepName, m{"pattern": pattern})
		b.fails(events.InvalidParam, []string{"repeats too much"}, GrepName, m{"pattern": pattern, "multiline": true, "ignore_case": true})
	}
	for _, pattern := range []string{strings.Repeat("{a,a}", 40) + "b", strings.Repeat("{a,{b,c}}", 20), strings.Repeat("{a,", 300) + strings.Repeat("}", 300), "{" + strings.Repeat(",", 300) + "}"} {
		b.fails(events.InvalidParam, []string{"ways to choose"}, GlobName, m{"pattern": pattern})
		b.fails(events.InvalidParam, []string{"ways to choose"}, GrepName, m{"pattern": "a", "glob": pattern})
	}
	b.ok(GlobName, m{"pattern": "**/*.{go,mod,sum,txt,md,json,yaml,yml}"})
	b.ok(GlobName, m{"pattern": `\{a,b\}{c,d}`})
	b.ok(GrepName, m{"pattern": "^a{900}", "output_mode": "count"})
	b.ok(GrepName, m{"pattern": `(?i)\b(todo|fixme|xxx)\b.{0,200}$`})
}

// A search across lines whose every match looks at the rest of the file ends, and says
// that it has not seen all.
func TestASearchAcrossLinesEnds(t *testing.T) {
	content := []byte(strings.Repeat("a\n", 5000))
	for mode, want := range map[string]int{modeCount: 11, modeContent: 11, modeFiles: 1} {
		s, err := newSearch(grepIn{Pattern: "a.*z|a", Multiline: true, OutputMode: mode})
		if err != nil {
			t.Fatal(err)
		}
		s.work = s.size * len(content) * 10
		found := s.acrossLines(content)
		if len(found.spans) != want || s.stopped != (mode != modeFiles) {
			t.Errorf("%s: %d matches, stopped %v", mode, len(found.spans), s.stopped)
		}
	}
	s, err := newSearch(grepIn{Pattern: "a.*z|a", Multiline: true, OutputMode: modeCount})
	if err != nil {
		t.Fatal(err)
	}
	if found := s.acrossLines(content[:2000]); len(found.spans) != 1000 || s.stopped {
		t.Errorf("an ordinary file: %d matches, stopped %v", len(found.spans), s.stopped)
	}
	if s.work = s.size * 1000; s.largest() != 1000 {
		t.Errorf("files of %d bytes are searched", s.largest())
	}
}

// What is a device is not opened, where this user may make one to try it.
func TestDevicesAreNotOpened(t *testing.T) {
	b := newBench(t, nil)
	if err := syscall.Mknod(filepath.Join(b.dir, "zero"), syscall.S_IFCHR|0o666, 1<<8|5); err != nil {
		return // only root may, and not everywhere
	}
	for tool, args := range map[string]m{ReadName: {}, GrepName: {"pattern": "x"}, WriteName: {"text": "x"}, EditName: {"old_string": "x", "new_string": "y"}} {
		args["path"] = "zero"
		b.fails(events.AccessDenied, []string{"device"}, tool, args)
	}
	b.ok(GrepName, m{"pattern": "x"}) // passes it by
}
