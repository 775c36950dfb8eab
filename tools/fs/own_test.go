package fs

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// nodesOwn is a folder whose ws/data is a node's own, with a link to it and another name
// for the workspace.
func nodesOwn(t *testing.T) (top, data string) {
	t.Helper()
	top = t.TempDir()
	for _, name := range []string{"ws/data/secrets.key", "ws/a.txt", "ws/data-not/a.txt"} {
		at := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte("canary\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"ws/link": "data", "alias": filepath.Join(top, "ws")} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	return top, filepath.Join(top, "ws", "data")
}

// beside runs a tool where data is the node's own. What it would show before anybody has
// agreed is part of its answer.
func beside(t *testing.T, data, workspace, tool string, args map[string]any) (string, error) {
	t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, has := range all {
		if has.Name != tool {
			continue
		}
		in := tools.Invocation{
			Call: events.CallKey{Trace: "tr", Turn: "tu"}, Args: b, Workspace: workspace, Mode: events.ModeWrite,
			Closed: []string{data}, Progress: func(events.Progress) {},
		}
		shown := ""
		if has.Preview != nil {
			p, _ := has.Preview(context.Background(), in)
			shown = p.Text.Text
		}
		r, err := has.Run(context.Background(), in)
		return r.Text.Text + shown, err
	}
	t.Fatalf("there is no tool %s", tool)
	return "", nil
}

// TestWhatIsTheNodesStaysClosed: whatever workspace a turn names, and by whatever name, no
// tool reads, finds, changes or shows what belongs to the node.
func TestWhatIsTheNodesStaysClosed(t *testing.T) {
	top, data := nodesOwn(t)
	for ws, under := range map[string]string{filepath.Join(top, "ws"): "", filepath.Join(top, "alias"): "", top: "ws/"} {
		for _, p := range []string{"data/secrets.key", "link/secrets.key", "data/new.txt", "link/new.txt", "data", "link"} {
			for tool, args := range map[string]map[string]any{
				"Read":  {},
				"Write": {"text": "x"},
				"Edit":  {"old_string": "canary", "new_string": "x"},
				"Grep":  {"pattern": "canary"},
				"Glob":  {"pattern": "*"},
			} {
				args["path"] = under + p
				if text, err := beside(t, data, ws, tool, args); err == nil || strings.Contains(text, "canary") {
					t.Errorf("%s %s in %s: %q, %v", tool, p, ws, text, err)
				}
			}
		}
		for tool, pattern := range map[string]string{"Grep": "canary", "Glob": "**"} {
			text, err := beside(t, data, ws, tool, map[string]any{"pattern": pattern})
			if err != nil || strings.Contains(text, "secrets.key") || !strings.Contains(text, under+"a.txt") || !strings.Contains(text, under+"data-not/a.txt") {
				t.Errorf("%s of all in %s: %q, %v", tool, ws, text, err)
			}
		}
	}
	if text, err := beside(t, data, data, "Read", map[string]any{"path": "secrets.key"}); err == nil {
		t.Errorf("in the data directory itself: %q", text)
	}
	if got, err := os.ReadFile(filepath.Join(data, "secrets.key")); err != nil || string(got) != "canary\n" {
		t.Errorf("%q, %v", got, err)
	}
}
