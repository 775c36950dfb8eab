package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/npm"
	"github.com/sluice-run/sluice/test/proc"
)

const (
	conformance = "@modelcontextprotocol/conformance@0.1.16"
	inspector   = "@modelcontextprotocol/inspector@2.12.0"
)

// spoke runs a program of an npm package, and returns all that it says.
func spoke(t *testing.T, path string, args ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = proc.Env("HOME=" + cmd.Dir) // what it keeps of its own is nobody's
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%s does not end: %s", filepath.Base(path), tail(said.String(), 4000))
	}
	if err != nil {
		t.Logf("%s: %v", filepath.Base(path), err)
	}
	return said.String()
}

var (
	scenario = regexp.MustCompile(`(?m)^[✓✗] ([a-z0-9-]+): (\d+) passed, (\d+) failed`)
	inTable  = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| (\\d+) \\| (\\d+) \\|")
)

// rows are the lines of a table as name, passed and failed, by name.
func rows(re *regexp.Regexp, text string) []string {
	var out []string
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.Join(m[1:], " "))
	}
	slices.Sort(out)
	return out
}

// TestMCPConformance: the official suite says of this server what the documentation says
// that it says.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	dir, node := npm.Install(t, conformance), npm.Node22(t)
	n := newPlace(t).serve("--mcp-ask-clients") // nobody sits at the suite
	said := spoke(t, node, filepath.Join(dir, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"),
		"server", "--url", n.HTTP+"/mcp", "--suite", "all")
	doc, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	got, want := rows(scenario, said), rows(inTable, string(doc))
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("docs/mcp.md has\n%s\nand the suite says\n%s\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"), tail(said, 6000))
	}
}

// TestMCPInspector: the inspector's command line lists and calls, over HTTP and over
// standard streams.
func TestMCPInspector(t *testing.T) {
	t.Parallel()
	dir, node := npm.Install(t, inspector), npm.Node22(t)
	p := newPlace(t)
	n := p.serve()
	cli := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	ways := map[string][]string{
		"http":    {n.HTTP + "/mcp", "--transport", "http"},
		"streams": {filepath.Join(bin, "sluice-node"), "mcp", "--data", p.data, "--workspace", p.work},
	}
	for name, way := range ways {
		var list struct {
			Tools []struct {
				Name        string
				InputSchema json.RawMessage
				Annotations struct{ ReadOnlyHint, DestructiveHint bool }
			}
		}
		listed := spoke(t, node, append(append([]string{cli, "--cli"}, way...), "--method", "tools/list")...)
		if err := json.Unmarshal([]byte(object(listed)), &list); err != nil {
			t.Fatalf("%s: %v: %s", name, err, tail(listed, 2000))
		}
		names := make([]string, len(list.Tools))
		for i, tool := range list.Tools {
			names[i] = tool.Name
			if tool.Name == "Read" && !tool.Annotations.ReadOnlyHint || tool.Name == "charge" && !tool.Annotations.DestructiveHint {
				t.Errorf("%s: %+v", name, tool)
			}
		}
		if !slices.IsSorted(names) || !slices.Contains(names, "Read") || !slices.Contains(names, "charge") {
			t.Errorf("%s: the tools are %v", name, names)
		}
		called := spoke(t, node, append(append([]string{cli, "--cli"}, way...), "--method", "tools/call", "--tool-name", "charge", "--tool-arg", "order="+name, "--tool-arg", "amount=3")...)
		if !strings.Contains(called, "charged 3 for order "+name) {
			t.Errorf("%s: %s", name, tail(called, 2000))
		}
	}
	if lines := strings.Count(p.readLedger(), "\n"); lines != len(ways) {
		t.Errorf("%d charges", lines)
	}
}

// object is the JSON object in a text.
func object(s string) string {
	i, j := strings.Index(s, "{"), strings.LastIndex(s, "}")
	if i < 0 || j < i {
		return s
	}
	return s[i : j+1]
}
