package fs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/fs"
)

// previews are the tools of the family that change files.
func previews(t *testing.T) map[string]tools.Tool {
	t.Helper()
	out := map[string]tools.Tool{}
	for _, make := range []func() (tools.Tool, error){fs.Edit, fs.Write} {
		tool, err := make()
		if err != nil {
			t.Fatal(err)
		}
		out[tool.Name] = tool
	}
	return out
}

func args(t *testing.T, v map[string]any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPreviews: what a person sees is the change to the file as it is, what cannot be
// compared is described, what would fail says so, and nothing is touched.
func TestPreviews(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"a.txt": "one\ntwo\nthree\n", "crlf.txt": "one\r\ntwo\r\n", "bin": "\x00\x01\x02", "large": strings.Repeat("x\n", 1<<20), "hidden.txt": "ls\x1b[2K\u202e\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	before := fs.Digest([]byte("one\ntwo\nthree\n"))
	edit := func(path, old, now string) map[string]any {
		return map[string]any{"path": path, "old_string": old, "new_string": now}
	}
	for name, c := range map[string]struct {
		tool  string
		args  map[string]any
		has   []string
		lacks string
		base  string // path and digest
	}{
		"an edit":                             {"Edit", edit("a.txt", "two", "2"), []string{"--- a/a.txt", before, "+++ b/a.txt", "\n-two\n", "\n+2\n", "\n one\n"}, "", "a.txt " + before},
		"an edit through a link":              {"Edit", edit("link", "two", "2"), []string{"--- a/a.txt", "\n+2\n"}, "", "a.txt " + before},
		"line ends stay":                      {"Edit", edit("crlf.txt", "two", "2"), []string{"-two\r\n", "+2\r\n"}, "", "crlf.txt"},
		"text that is not there":              {"Edit", edit("a.txt", "four", "4"), []string{"would fail and change nothing"}, "---", "a.txt " + before},
		"a file that is not there":            {"Edit", edit("no.txt", "four", "4"), []string{"would fail", "there is no file"}, "---", "no.txt"},
		"the same text":                       {"Edit", edit("a.txt", "two", "two"), []string{"nothing to change"}, "---", "a.txt"},
		"a new file":                          {"Edit", edit("new.txt", "", "hello\n"), []string{"--- /dev/null", "it would be made", "\n+hello\n"}, "", "new.txt"},
		"a write":                             {"Write", map[string]any{"path": "a.txt", "text": "one\n2\nthree\n"}, []string{"\n-two\n", "\n+2\n"}, "", "a.txt " + before},
		"a write of a new file":               {"Write", map[string]any{"path": "d/e/f.txt", "text": "x"}, []string{"--- /dev/null", "+x"}, "", "d/e/f.txt"},
		"a write of the same":                 {"Write", map[string]any{"path": "a.txt", "text": "one\ntwo\nthree\n"}, []string{"has that content already"}, "", "a.txt"},
		"binary data":                         {"Write", map[string]any{"path": "bin", "text": "text"}, []string{"binary data of 3 bytes", "would become text of 4 bytes", "sha256:"}, "\x00", "bin"},
		"a large file":                        {"Write", map[string]any{"path": "large", "text": "text"}, []string{"are not compared", "sha256:"}, "xxx", "large"},
		"what a terminal obeys is kept exact": {"Write", map[string]any{"path": "hidden.txt", "text": "x\n"}, []string{"-ls\x1b[2K\u202e\n"}, "", "hidden.txt"},
		"a name that fakes a diff":            {"Write", map[string]any{"path": "x\n+++ b/other", "text": "x\n"}, []string{`b/x\u000a+++ b/other`}, "\n+++ b/other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := previews(t)[c.tool].Preview(t.Context(), tools.Invocation{Args: args(t, c.args), Workspace: dir})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.has {
				if !strings.Contains(p.Text.Text, want) {
					t.Errorf("it lacks %q:\n%s", want, p.Text.Text)
				}
			}
			if c.lacks != "" && strings.Contains(p.Text.Text, c.lacks) {
				t.Errorf("it has %q:\n%s", c.lacks, p.Text.Text)
			}
			path, digest, _ := strings.Cut(c.base, " ")
			if len(p.Base) != 1 || path != "" && p.Base[0].Path != path || digest != "" && p.Base[0].Digest != digest {
				t.Errorf("it is bound to %+v, want %q", p.Base, c.base)
			}
		})
	}
	now, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	if err != nil || fs.Digest(now) != before {
		t.Errorf("a.txt is %q now, %v", now, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "d")); err == nil {
		t.Error("a preview has made a folder")
	}
}

// TestPreviewsStayInside: what leads out of the workspace has none.
func TestPreviewsStayInside(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../x", "/etc/passwd", "out", "a\x00b", "."} {
		if p, err := previews(t)["Write"].Preview(t.Context(), tools.Invocation{Args: args(t, map[string]any{"path": path, "text": "x"}), Workspace: dir}); err == nil {
			t.Errorf("%q has the preview %+v", path, p)
		}
	}
}

// TestAPreviewSaysWhatTheCallDoes: the content that it announces is the one that is there
// afterwards.
func TestAPreviewSaysWhatTheCallDoes(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct {
		tool string
		args map[string]any
	}{
		{"Write", map[string]any{"path": "a.txt", "text": "one\ntwo\n"}},
		{"Edit", map[string]any{"path": "a.txt", "old_string": "two", "new_string": "2\u202e"}},
		{"Edit", map[string]any{"path": "./b/../a.txt", "old_string": "o", "new_string": "0", "replace_all": true}},
		{"Write", map[string]any{"path": "d/e.txt", "text": ""}},
	} {
		tool := previews(t)[c.tool]
		in := tools.Invocation{Args: args(t, c.args), Workspace: dir, Progress: func(events.Progress) {}}
		p, err := tool.Preview(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tool.Run(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		seen, err := fs.Look(t.Context(), dir, c.args["path"].(string))
		if err != nil || !strings.Contains(p.Text.Text, "+++ b/"+seen.Path) || !strings.Contains(p.Text.Text, seen.Digest) {
			t.Errorf("%d: the file is %+v, %v, and the preview was\n%s", i, seen, err, p.Text.Text)
		}
	}
}
