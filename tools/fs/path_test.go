package fs

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// paths is what each path means: a code, or the real name of a file that is there.
func TestPathsStayInside(t *testing.T) {
	b := newBench(t, map[string]string{
		"a.txt": "inside\n", "src/b.txt": "inside\n", "src/deep/c.txt": "inside\n", "..name": "inside\n", "sp ace": "inside\n",
		`back\slash`: "inside\n", "...": "inside\n", "ünïcode": "inside\n", "-": "inside\n",
	})
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("outside\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(b.dir, secret)
	if err != nil {
		t.Fatal(err)
	}
	b.link("/etc", "l")
	b.link(secret, "abs-file")
	b.link(outside, "abs-dir")
	b.link(up, "rel-file")
	b.link(filepath.Dir(up), "rel-dir")
	b.link("../../../../../../../../etc/passwd", "src/climb")
	b.link("a.txt", "good")
	b.link("../a.txt", "src/up-good")
	b.link("src", "dir-good")
	b.link("good", "twice")
	b.link("src/../../"+filepath.Base(b.dir)+"/a.txt", "out-and-in")
	b.link(filepath.Join(b.dir, "a.txt"), "abs-inside")
	b.link("circle2", "circle1")
	b.link("circle1", "circle2")
	b.link("none", "dangling")
	b.link("../"+strings.Repeat("x", 10), "dangling-out")
	b.link("none/../a.txt", "through-nothing")
	b.link("dir-good/../a.txt", "through-dir")

	denied, gone, bad := string(events.AccessDenied), string(events.NotFound), string(events.InvalidParam)
	for _, c := range []struct{ path, want string }{
		{"a.txt", "=a.txt"},
		{"./a.txt", "=a.txt"},
		{"src/../a.txt", "=a.txt"},
		{"src//b.txt", "=src/b.txt"},
		{"src/./deep/../b.txt", "=src/b.txt"},
		{"none/../a.txt", "=a.txt"},
		{"a.txt/", "=a.txt"},
		{b.dir + "/a.txt", "=a.txt"},
		{b.dir + "/src/../a.txt", "=a.txt"},
		{"..name", "=..name"},
		{"...", "=..."},
		{"sp ace", "=sp ace"},
		{`back\slash`, `=back\slash`},
		{"ünïcode", "=ünïcode"},
		{"-", "=-"},
		{"good", "=a.txt"},
		{"src/up-good", "=a.txt"},
		{"dir-good/b.txt", "=src/b.txt"},
		{"twice", "=a.txt"},
		{"dir-good/deep/c.txt", "=src/deep/c.txt"},
		{"through-dir", "=a.txt"},
		{"..", denied},
		{"../", denied},
		{"../x", denied},
		{"src/../../x", denied},
		{up, denied},
		{"/", denied},
		{"/etc/passwd", denied},
		{"//etc/passwd", denied},
		{b.dir + "/../x", denied},
		{b.dir + "x/a.txt", denied},
		{secret, denied},
		{"l/passwd", denied},
		{"l", denied},
		{"l/../a.txt", "=a.txt"},
		{"abs-file", denied},
		{"abs-dir/secret", denied},
		{"rel-file", denied},
		{"rel-dir/secret", denied},
		{"src/climb", denied},
		{"out-and-in", denied},
		{"abs-inside", denied},
		{"dangling-out", denied},
		{"through-nothing", denied},
		{"circle1", bad},
		{"", bad},
		{"a\x00.txt", bad},
		{"a.txt\x00", bad},
		{strings.Repeat("a/", 3000), bad},
		{strings.Repeat("a", 300), gone + bad},
		{"none", gone},
		{"src/none", gone},
		{"none/none", gone},
		{"a.txt/x", gone},
		{"dangling", gone},
		{`..\x`, gone},
		{"%2e%2e/x", gone},
		{"~/x", gone},
		{"$HOME/x", gone},
	} {
		r, err := b.try(ReadName, m{"path": c.path})
		if name, ok := strings.CutPrefix(c.want, "="); ok {
			if err != nil || r.Seen[0].Path != name || !strings.Contains(r.Text.Text, "inside") {
				t.Errorf("Read %q: got %v, %v; want %s", c.path, r.Seen, err, name)
			}
			continue
		}
		e, ok := errors.AsType[*tools.Error](err)
		if !ok || !strings.Contains(c.want, string(e.Code)) || e.Path != "/path" {
			t.Errorf("Read %.80q: got %q, %v; want %s", c.path, r.Text.Text, err, c.want)
		}
		if c.want != denied && c.want != bad {
			continue
		}
		for tool, args := range map[string]m{
			WriteName: {"path": c.path, "text": "broken in"}, EditName: {"path": c.path, "old_string": "outside", "new_string": "broken in"},
			GlobName: {"path": c.path, "pattern": "*"}, GrepName: {"path": c.path, "pattern": "."},
		} {
			if c.path == "" && (tool == GlobName || tool == GrepName) {
				continue // the workspace
			}
			r, err := b.try(tool, args)
			if e, ok := errors.AsType[*tools.Error](err); !ok || e.Code != events.AccessDenied && e.Code != events.InvalidParam || e.Effects != events.EffectsNone {
				t.Errorf("%s %.80q: got %q, %v", tool, c.path, r.Text.Text, err)
			}
		}
	}
	if content, err := os.ReadFile(secret); err != nil || string(content) != "outside\n" {
		t.Errorf("the file outside is %q, %v", content, err)
	}
}

func TestResolveGivesOneNameToOneFile(t *testing.T) {
	b := newBench(t, map[string]string{"src/a.go": "x"})
	b.link("src", "s")
	b.link("s/a.go", "a")
	for _, given := range []string{"src/a.go", "./src/a.go", "s/a.go", "a", b.dir + "/s/../src/a.go", "src//a.go"} {
		if name, err := Resolve(b.dir, given); err != nil || name != "src/a.go" {
			t.Errorf("%s: got %s, %v", given, name, err)
		}
	}
	if name, err := Resolve(b.dir, "s/new/b.go"); err != nil || name != "src/new/b.go" {
		t.Errorf("a file that is missing: got %s, %v", name, err)
	}
	if _, err := Resolve(b.dir, "../x"); err == nil {
		t.Error("a path that leads out has a name")
	}
}

func TestWhatIsNoFileIsNotOpened(t *testing.T) {
	b := newBench(t, map[string]string{"d/x": "x"})
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(b.dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, word := range map[string]string{"pipe": "named pipe", "sock": "socket"} {
		b.fails(events.AccessDenied, []string{word}, ReadName, m{"path": path})
		b.fails(events.AccessDenied, []string{word}, WriteName, m{"path": path, "text": "x"})
		b.fails(events.AccessDenied, []string{word}, EditName, m{"path": path, "old_string": "x", "new_string": "y"})
		b.fails(events.AccessDenied, []string{word}, GrepName, m{"path": path, "pattern": "x"})
	}
	b.ok(GrepName, m{"pattern": "x"}) // passes them by
	b.fails(events.IsDirectory, []string{"Glob"}, ReadName, m{"path": "d"})
	b.fails(events.IsDirectory, nil, WriteName, m{"path": "d", "text": "x"})
	b.fails(events.IsDirectory, nil, WriteName, m{"path": ".", "text": "x"})
	b.fails(events.IsDirectory, nil, EditName, m{"path": "d", "old_string": "x", "new_string": "y"})
	b.fails(events.NotFound, []string{`"d/x" is a file`}, WriteName, m{"path": "d/x/y", "text": "x"})
	b.fails(events.InvalidParam, []string{"d/x"}, WriteName, m{"path": b.dir + "/d/x", "text": "x"})
}

func TestPermissionsAreTold(t *testing.T) {
	for err, want := range map[error]events.Code{
		&os.PathError{Op: "openat", Path: "/secret/place", Err: syscall.EACCES}: events.AccessDenied,
		&os.PathError{Op: "openat", Path: "x", Err: syscall.EROFS}:              events.ExecutionError,
		&os.PathError{Op: "openat", Path: "x", Err: syscall.ENOSPC}:             events.ExecutionError,
		&os.PathError{Op: "openat", Path: "x", Err: syscall.ELOOP}:              events.InvalidParam,
		&os.PathError{Op: "openat", Path: "x", Err: syscall.ENOENT}:             events.NotFound,
	} {
		e, ok := errors.AsType[*tools.Error](pathError("a.txt", err))
		if !ok || e.Code != want || !strings.Contains(e.Message, "a.txt") || strings.Contains(e.Message, "secret") {
			t.Errorf("%v: got %v, want %s", err, e, want)
		}
	}
	if os.Geteuid() == 0 {
		return // root may read and write everything
	}
	b := newBench(t, map[string]string{"closed": "x", "dir/x": "x"})
	if err := errors.Join(os.Chmod(filepath.Join(b.dir, "closed"), 0), os.Chmod(filepath.Join(b.dir, "dir"), 0o555)); err != nil {
		t.Fatal(err)
	}
	b.fails(events.AccessDenied, []string{"permissions"}, ReadName, m{"path": "closed"})
	b.fails(events.AccessDenied, []string{"permissions"}, WriteName, m{"path": "dir/x", "text": "y"})
	if err := os.Chmod(filepath.Join(b.dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestMissingFilesHaveNeighbours(t *testing.T) {
	b := newBench(t, map[string]string{"src/server.go": "", "src/service.go": "", "lib/util/parse.py": "", "README.md": ""})
	for path, words := range map[string][]string{
		"src/sever.go":    {"did you mean src/server.go"},
		"readme.md":       {"README.md"},
		"parse.py":        {"lib/util/parse.py"},
		"scr/server.go":   {`no directory "scr"`, "src"},
		"zzzzzzzz.q":      {"Glob", "**/zzzzzzzz.q"},
		"README.md/x":     {`"README.md" is a file`},
		"lib/utils/x[.go": {`no directory "lib/utils"`, "lib/util"},
	} {
		b.fails(events.NotFound, words, ReadName, m{"path": path})
	}
	b.fails(events.NotFound, []string{"src/server.go"}, EditName, m{"path": "src/servr.go", "old_string": "a", "new_string": "b"})
	b.fails(events.NotFound, []string{"src"}, GrepName, m{"path": "scr", "pattern": "x"})
	if _, err := os.Stat(filepath.Join(b.dir, "scr")); err == nil {
		t.Error("a failed edit made a directory")
	}
	b.fails(events.NotFound, nil, EditName, m{"path": "new/dir/x", "old_string": "a", "new_string": "b"})
	if _, err := os.Stat(filepath.Join(b.dir, "new")); err == nil {
		t.Error("a failed edit made a directory")
	}
}
