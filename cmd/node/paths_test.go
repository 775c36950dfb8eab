package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools"
)

// outsideText is in every file outside the workspace, and in none inside. It holds
// what an edit would look for, so that an edit outside would succeed.
const outsideText = "outside: inside\n"

// hostile is a workspace full of traps, in a folder with what they lead to.
type hostile struct{ base, ws, out string }

func hostileWorld(t testing.TB) hostile {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := hostile{base, filepath.Join(base, "ws"), filepath.Join(base, "out")}
	write := func(path, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"a.txt", "src/b.txt", "src/deep/c.txt", "...", "..name", "sp ace", "ünïcode", "-", "a.txt.", "A.TXT", "~name", "%41", "x;y", "$HOME", "{a,b}", "star*",
	} {
		write(filepath.Join(h.ws, name), "inside "+name+"\n")
	}
	for _, name := range []string{"out/secret", "ws-evil/secret", "wsspace/secret", "secret"} {
		write(filepath.Join(base, name), outsideText)
	}
	for link, target := range map[string]string{
		"good": "a.txt", "twice": "good", "src/up-good": "../a.txt", "dir-good": "src", "through-dir": "dir-good/../a.txt",
		"etc": "/etc", "abs-file": h.out + "/secret", "abs-dir": h.out, "abs-inside": h.ws + "/a.txt",
		"rel-file": "../out/secret", "rel-dir": "../out", "to-rel-dir": "src/../rel-dir", "src/climb": "../../../../../../../../../../etc/passwd",
		"out-and-in": "../ws/a.txt", "proc-root": "/proc/self/root", "proc-cwd": "/proc/self/cwd", "proc-fd": "/proc/self/fd/0",
		"dangling": "none", "dangling-out": "../none", "dangling-abs": "/none", "through-nothing": "none/../a.txt", "evil-sibling": "../ws-evil",
		"circle1": "circle2", "circle2": "circle1", "self": "self", "to-pipe": "pipe",
	} {
		if err := os.Symlink(target, filepath.Join(h.ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		if err := os.Symlink(fmt.Sprintf("chain%d", i+1), filepath.Join(h.ws, fmt.Sprintf("chain%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(h.ws, "chain60"), "inside\n")
	if err := syscall.Mkfifo(filepath.Join(h.ws, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.socket(t)
	return h
}

// socket listens under a short name, since a socket's may not be as long as a test's folder.
func (h hostile) socket(t testing.TB) {
	t.Helper()
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Rename(filepath.Join(short, "s"), filepath.Join(h.ws, "socket")); err != nil {
		t.Fatal(err)
	}
}

// outside is everything that is not the workspace, name by name.
func (h hostile) outside(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(h.base, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == h.ws:
			return fs.SkipDir
		case d.IsDir():
			out[p] = "a folder"
			return nil
		}
		b, err := os.ReadFile(p)
		out[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pathRow is a line of testdata/paths.txt.
type pathRow struct{ at, decision, reason, disk, path string }

func pathRows(t testing.TB, h hostile) []pathRow {
	t.Helper()
	raw, err := os.ReadFile("testdata/paths.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []pathRow
	for i, line := range strings.Split(string(raw), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := "paths.txt:" + strconv.Itoa(i+1)
		parts := strings.SplitN(strings.Replace(line, "| |", "|  |", 1), " | ", 4)
		if len(parts) != 4 {
			t.Fatalf("%s: want policy | reason | disk | path", at)
		}
		p := parts[3]
		if len(p) > 1 && p[0] == '"' {
			if u, err := strconv.Unquote(p); err == nil {
				p = u
			}
		}
		p = strings.NewReplacer(
			"{ws}", h.ws, "{out}", h.out, "{long}", strings.Repeat("n", 256), "{deep}", strings.Repeat("d/", 2100)+"f", "{deeper}", strings.Repeat("d/", 2000)+"f",
			"{deepest}", strings.Repeat("d/", policy.MaxSegments-1)+"f",
		).Replace(p)
		out = append(out, pathRow{at, parts[0], strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2]), p})
	}
	return out
}

// pathTools are the tools of a node with everything on that take a path, with the other
// arguments that they need.
func pathTools(t testing.TB) map[string]map[string]any {
	t.Helper()
	others := map[string]map[string]any{
		"Read": {}, "Grep": {"pattern": "in", "output_mode": "content", "no_ignore": true}, "Glob": {"pattern": "**", "no_ignore": true},
		"Edit": {"old_string": "inside", "new_string": "changed"}, "Write": {"text": "written\n"},
		"read": {}, "write": {"text": "written\n"}, "down": {},
	}
	s := newSettings()
	s.fixtures, s.network, s.ledger = true, true, filepath.Join(t.TempDir(), "ledger")
	r, err := s.registry(actors.UndoConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, tool := range r.List() {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		names := slices.Collect(maps.Keys(schema.Properties))
		if slices.ContainsFunc(names, func(n string) bool {
			n = strings.ToLower(n)
			return strings.Contains(n, "path") || strings.Contains(n, "file") || strings.Contains(n, "dir") || strings.Contains(n, "folder")
		}) {
			found = append(found, tool.Name)
		}
	}
	if want := slices.Sorted(maps.Keys(others)); !slices.Equal(slices.Sorted(slices.Values(found)), want) {
		t.Fatalf("the tools %v take a path, and this test knows %v: give the new one its other arguments", found, want)
	}
	return others
}

// try makes a call of a tool, past all gates. It says what the policy would have said.
func (h hostile) try(t testing.TB, tool tools.Tool, args map[string]any, path string) (policy.Verdict, events.Result, error) {
	t.Helper()
	all := maps.Clone(args)
	all["path"] = path
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	if err := enc.Encode(all); err != nil {
		t.Fatal(err)
	}
	body := raw.Bytes()
	if !strings.Contains(path, "\ufffd") {
		body = []byte(strings.ReplaceAll(raw.String(), `\ufffd`, "\ufffd"))
	}
	op := events.Operation{Class: events.OpRead, Paths: []string{path}}
	if tool.Operation != nil {
		op = tool.Operation(body)
	}
	v := policy.Judge(policy.Default(), policy.Request{
		Tool: tool.Name, Known: true, Tier: tool.Tier, Mode: events.ModeWrite, CanAsk: true, Workspace: h.ws, Args: body, Op: op,
	})
	r, err := tool.Run(t.Context(), tools.Invocation{Args: body, Workspace: h.ws, Progress: func(events.Progress) {}})
	return v, r, err
}

// TestHostilePaths tries every tool of a node that takes a path with every path of the
// table: the policy says what the table says, and whatever it says, no tool reads,
// changes or makes anything outside the workspace, or waits for a pipe.
func TestHostilePaths(t *testing.T) {
	others := pathTools(t)
	s := newSettings()
	s.fixtures, s.ledger = true, filepath.Join(t.TempDir(), "ledger")
	reg, err := s.registry(actors.UndoConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(pathRows(t, hostileWorld(t))); n < 120 {
		t.Errorf("%d paths, want 120", n)
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		t.Run(name, func(t *testing.T) {
			h := hostileWorld(t)
			before := h.outside(t)
			tool, _ := reg.Lookup(name)
			for _, row := range pathRows(t, h) {
				v, r, err := h.try(t, tool, others[name], row.path)
				h.check(t, tool, row, v, r, err)
			}
			if after := h.outside(t); !maps.Equal(before, after) {
				t.Errorf("the outside has changed: %v", after)
			}
		})
	}
}

// check holds one call against its row.
func (h hostile) check(t *testing.T, tool tools.Tool, row pathRow, v policy.Verdict, r events.Result, err error) {
	t.Helper()
	if strings.Contains(r.Text.Text+string(r.Data), "outside:") {
		t.Errorf("%s: %s %.80q has read the outside: %.200q", row.at, tool.Name, row.path, r.Text.Text)
	}
	if text := fmt.Sprint(err); strings.Contains(text, "outside:") || strings.Contains(text, "root:x:") {
		t.Errorf("%s: %s %.80q tells of the outside: %.200q", row.at, tool.Name, row.path, text)
	}
	plain := row.path != ""                                    // there "" may be the workspace
	product := strings.ToUpper(tool.Name[:1]) == tool.Name[:1] // a fixture has none of the product's own bounds
	if product && plain {
		decision := string(v.Decision)
		if row.decision == "deny" && decision != "deny" || row.decision == "allow" && decision == "deny" {
			t.Errorf("%s: %s %.80q: the policy says %s: %s", row.at, tool.Name, row.path, v.Decision, v.Reason)
		}
		if tool.Name == "Read" && !strings.Contains(v.Reason, row.reason) {
			t.Errorf("%s: %.80q: %q, want %q", row.at, row.path, v.Reason, row.reason)
		}
	}
	e, told := errors.AsType[*tools.Error](err)
	if err != nil && !told {
		t.Errorf("%s: %s %.80q fails by %v", row.at, tool.Name, row.path, err)
	}
	if told && (e.Effects != events.EffectsNone && e.Effects != "" || e.Code == "") && tool.Name != "write" {
		t.Errorf("%s: %s %.80q: %+v", row.at, tool.Name, row.path, e)
	}
	closed := row.disk == string(events.AccessDenied) || row.disk == string(events.InvalidParam) && (product || row.decision == "allow")
	if closed && err == nil && plain && tool.Name != "down" {
		t.Errorf("%s: %s %.80q goes through: %.200q", row.at, tool.Name, row.path, r.Text.Text)
	}
	if tool.Name != "Read" {
		return
	}
	if file, ok := strings.CutPrefix(row.disk, "="); ok {
		if err != nil || !strings.Contains(r.Text.Text, "\tinside "+strings.TrimSpace(file)) {
			t.Errorf("%s: %.80q reads %.100q, %v; want %s", row.at, row.path, r.Text.Text, err, file)
		}
		return
	}
	if !told || !slices.Contains(strings.Fields(row.disk), string(e.Code)) {
		t.Errorf("%s: %.80q: %.200q, %v; want %s", row.at, row.path, r.Text.Text, err, row.disk)
	}
}
