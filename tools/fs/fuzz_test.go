package fs

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// steps are what fuzzed paths and links are made of, beside what the fuzzer writes
// itself. The workspace is ws, in a folder with what lies outside.
var steps = []string{
	"a.txt", "src", "b.txt", "new", "..", ".", "", "l0", "l1", "l2", "l3", "out", "secret", "ws", "ws-evil", "%2e%2e", "..\\", "...", ".. ", "\uff0e\uff0e", "~",
	"OUT", "WS", "/", "/proc/self/root", "/proc/self/cwd", "\x00", strings.Repeat("n", 255), ".git", "pipe",
}

// walkOf is a path that bytes stand for: one step each.
func walkOf(moves []byte, base string) string {
	var parts []string
	for _, m := range moves[:min(len(moves), 12)] {
		switch s := steps[int(m)%len(steps)]; s {
		case "OUT":
			parts = append(parts, base+"/out")
		case "WS":
			parts = append(parts, base+"/ws")
		default:
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "/")
}

// shortLived is a folder in memory, where the system has one: a fuzzer makes thousands.
func shortLived(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "paths")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// everything is all below a folder but for one of its folders: names, content, targets.
func everything(t *testing.T, base, but string) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == but:
			return fs.SkipDir
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			out[p] = string(b)
			return err
		}
		out[p] = d.Type().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzPaths: wherever links lead and however a path is written, no tool touches what is
// outside of the workspace, and what the policy lets through is a place inside it.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"", "a.txt", "../out/secret", "l0/secret", "..\\x", "%2e%2e/x", "/etc/passwd", "a\x00", "....//", "file:///x", "~/x"} {
		f.Add(path, []byte{7, 12}, []byte{4, 11}, []byte{22}, []byte{8, 4})
		f.Add(path, []byte{10, 9}, []byte{7}, []byte{8, 4, 4}, []byte{24})
	}
	list, err := Tools()
	if err != nil {
		f.Fatal(err)
	}
	args := map[string]m{
		ReadName: {}, GrepName: {"pattern": ".", "output_mode": "content", "no_ignore": true}, GlobName: {"pattern": "**", "no_ignore": true},
		EditName: {"old_string": "inside", "new_string": "changed"}, WriteName: {"text": "inside, written\n"},
	}
	f.Fuzz(func(t *testing.T, path string, moves, to0, to1, to2 []byte) {
		base := shortLived(t)
		ws := filepath.Join(base, "ws")
		for name, text := range map[string]string{"ws/a.txt": "inside\n", "ws/src/b.txt": "inside\n", "out/secret": "outside: inside\n", "ws-evil/secret": "outside: inside\n"} {
			p := filepath.Join(base, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		for i, to := range [][]byte{to0, to1, to2} {
			name := filepath.Join(ws, []string{"l0", "src/l1", "l2"}[i])
			_ = os.Symlink(walkOf(to, base), name) // some targets cannot be: no link, then
		}
		given := path
		if len(moves) > 0 {
			given = strings.TrimPrefix(path+"/"+walkOf(moves, base), "/")
			if moves[0]%5 == 0 {
				given = walkOf(moves, base)
			}
		}
		before := everything(t, base, ws)
		for _, tool := range list {
			all := maps.Clone(args[tool.Name])
			all["path"] = given
			raw, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			r, err := tool.Run(t.Context(), tools.Invocation{Args: raw, Workspace: ws, Progress: func(events.Progress) {}})
			e, told := errors.AsType[*tools.Error](err)
			if err != nil && !told {
				t.Fatalf("%s %q fails by %v", tool.Name, given, err)
			}
			if told && e.Effects != events.EffectsNone && e.Effects != "" {
				t.Fatalf("%s %q: %+v", tool.Name, given, e)
			}
			if strings.Contains(r.Text.Text, "outside:") || told && strings.Contains(e.Message, "outside:") {
				t.Fatalf("%s %q has read the outside: %q, %v", tool.Name, given, r.Text.Text, err)
			}
			if err == nil && strings.HasPrefix(given, "/") && !strings.HasPrefix(filepath.Clean(given)+"/", ws+"/") {
				t.Fatalf("%s %q goes through", tool.Name, given)
			}
		}
		if after := everything(t, base, ws); !maps.Equal(before, after) {
			t.Fatalf("%q: the outside was %v and is %v", given, before, after)
		}
		if policy.CheckPath(given) == nil && !filepath.IsLocal(given) {
			t.Fatalf("the policy lets %q through", given)
		}
	})
}
