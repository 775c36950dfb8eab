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

// maze makes a workspace full of links, and a secret beside it that none may
// lead to. up is the way to the secret from the workspace.
func maze(t *testing.T) (b *bench, secret, up string) {
	b = newBench(t, map[string]string{
		"a.txt": "inside\n", "src/b.txt": "inside\n", "src/deep/c.txt": "inside\n", "..name": "inside\n", "sp ace": "inside\n",
		`back\slash`: "inside\n", "...": "inside\n", "ünïcode": "inside\n", "-": "inside\n",
	})
	outside := t.TempDir()
	secret = filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("outside\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(b.dir, secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range [][2]string{
		{"/etc", "l"},
		{secret, "abs-file"},
		{outside, "abs-dir"},
		{up, "rel-file"},
		{filepath.Dir(up), "rel-dir"},
		{"../../../../../../../../etc/passwd", "src/climb"},
		{"a.txt", "good"},
		{"../a.txt", "src/up-good"},
		{"src", "dir-good"},
		{"good", "twice"},
		{"src/../../" + filepath.Base(b.dir) + "/a.txt", "out-and-in"},
		{filepath.Join(b.dir, "a.txt"), "abs-inside"},
		{"circle2", "circle1"},
		{"circle1", "circle2"},
		{"none", "dangling"},
		{"../" + strings.Repeat("x", 10), "dangling-out"},
		{"none/../a.txt", "through-nothing"},
		{"dir-good/../a.txt", "through-dir"},
	} {
		b.link(l[0], l[1])
	}
	return b, secret, up
}

const (
	isDenied = string(events.AccessDenied)
	isGone   = string(events.NotFound)
	isBad    = string(events.InvalidParam)
)

// mazePaths says what each path means: a code, or after = the real name of the file.
func mazePaths(dir, secret, up string) [][2]string {
	return [][2]string{
		{"a.txt", "=a.txt"},
		{"./a.txt", "=a.txt"},
		{"src/../a.txt", "=a.txt"},
		{"src//b.txt", "=src/b.txt"},
		{"src/./deep/../b.txt", "=src/b.txt"},
		{"none/../a.txt", "=a.txt"},
		{"a.txt/", "=a.txt"},
		{dir + "/a.txt", "=a.txt"},
		{dir + "/src/../a.txt", "=a.txt"},
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
		{"..", isDenied},
		{"../", isDenied},
		{"../x", isDenied},
		{"src/../../x", isDenied},
		{up, isDenied},
		{"/", isDenied},
		{"/etc/passwd", isDenied},
		{"//etc/passwd", isDenied},
		{dir + "/../x", isDenied},
		{dir + "x/a.txt", isDenied},
		{secret, isDenied},
		{"l/passwd", isDenied},
		{"l", isDenied},
		{"l/../a.txt", "=a.txt"},
		{"abs-file", isDenied},
		{"abs-dir/secret", isDenied},
		{"rel-file", isDenied},
		{"rel-dir/secret", isDenied},
		{"src/climb", isDenied},
		{"out-and-in", isDenied},
		{"abs-inside", isDenied},
		{"dangling-out", isDenied},
		{"through-nothing", isDenied},
		{"circle1", isBad},
		{"", isBad},
		{"a\x00.txt", isBad},
		{"a.txt\x00", isBad},
		{strings.Repeat("a/", 3000), isBad},
		{strings.Repeat("a", 300), isGone + isBad},
		{"none", isGone},
		{"src/none", isGone},
		{"none/none", isGone},
		{"a.txt/x", isGone},
		{"dangling", isGone},
		{`..\x`, isGone},
		{"%2e%2e/x", isGone},
		{"~/x", isGone},
		{"$HOME/x", isGone},
	}
}

func TestPathsStayInside(t *testing.T) {
	b, secret, up := maze(t)
	for _, c := range mazePaths(b.dir, secret, up) {
		path, want := c[0], c[1]
		r, err := b.try(ReadName, m{"path": path})
		if name, ok := strings.CutPrefix(want, "="); ok {
			if err != nil || r.Seen[0].Path != name || !strings.Contains(r.Text.Text, "inside") {
				t.Errorf("Read %q: got %v, %v; want %s", path, r.Seen, err, name)
			}
			continue
		}
		e, ok := errors.AsType[*tools.Error](err)
		if !ok || !strings.Contains(want, string(e.Code)) || e.Path != "/path" {
			t.Errorf("Read %.80q: got %q, %v; want %s", path, r.Text.Text, err, want)
		}
		if want == isDenied || want == isBad {
			b.shut(path)
		}
	}
	if content, err := os.ReadFile(secret); err != nil || string(content) != "outside\n" {
		t.Errorf("the file outside is %q, %v", content, err)
	}
}

// shut wants that no other tool takes the path, either.
func (b *bench) shut(path string) {
	b.t.Helper()
	for tool, args := range map[string]m{
		WriteName: {"path": path, "text": "broken in"}, EditName: {"path": path, "old_string": "outside", "new_string": "broken in"},
		GlobName: {"path": path, "pattern": "*"}, GrepName: {"path": path, "pattern": "."},
	} {
		if path == "" && (tool == GlobName || tool == GrepName) {
			continue // the workspace
		}
		r, err := b.try(tool, args)
		if e, ok := errors.AsType[*tools.Error](err); !ok || e.Code != events.AccessDenied && e.Code != events.InvalidParam || e.Effects != events.EffectsNone {
			b.t.Errorf("%s %.80q: got %q, %v", tool, path, r.Text.Text, err)
		}
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

// A folder that becomes a link to the outside and back, all the time, leads nobody out.
func TestALinkThatMovesMeanwhile(t *testing.T) {
	b := newBench(t, map[string]string{"real/f": "inside\n"})
	outside := t.TempDir()
	secret := filepath.Join(outside, "f")
	if err := os.WriteFile(secret, []byte("outside\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.link("real", "d")
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for targets := []string{outside, "real"}; ; targets[0], targets[1] = targets[1], targets[0] {
			next := filepath.Join(b.dir, "next")
			if err := errors.Join(os.Symlink(targets[0], next), os.Rename(next, filepath.Join(b.dir, "d"))); err != nil {
				stopped <- err
				return
			}
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
		}
	}()
	for range 100 {
		if r, err := b.try(ReadName, m{"path": "d/f"}); err == nil && strings.Contains(r.Text.Text, "outside") {
			t.Error("Read saw the outside")
		}
		if r, err := b.try(GrepName, m{"pattern": "outside", "output_mode": "content", "path": "d/f"}); err == nil && strings.Contains(r.Text.Text, ":outside") {
			t.Error("Grep saw the outside")
		}
		_, _ = b.try(WriteName, m{"path": "d/f", "text": "inside\n"}) // refused or done, but inside
		_, _ = b.try(WriteName, m{"path": "d/new", "text": "inside\n"})
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(outside)
	if content, rerr := os.ReadFile(secret); err != nil || rerr != nil || string(content) != "outside\n" || len(names) != 1 {
		t.Errorf("the outside has %v, %q, %v, %v", names, content, err, rerr)
	}
}
