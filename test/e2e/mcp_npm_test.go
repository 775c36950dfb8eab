package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/test/npm"
)

// Servers that people use, of the npm registry.
const (
	everything = "@modelcontextprotocol/server-everything@2026.8.31"
	filesystem = "@modelcontextprotocol/server-filesystem@2026.8.31"
)

// packaged is the entry of a server of an npm package, contained as any other is.
func packaged(t *testing.T, dir, name, script string, own map[string]any, args ...string) map[string]any {
	t.Helper()
	e := map[string]any{
		"command": npm.Node(t), "args": append([]string{filepath.Join(dir, "node_modules", "@modelcontextprotocol", name, script)}, args...),
	}
	for k, v := range own {
		e[k] = v
	}
	return e
}

func TestMCPServerFilesystem(t *testing.T) {
	t.Parallel()
	dir := npm.Install(t, filesystem)
	p := newPlace(t)
	p.write("a.txt", "hello")
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"files": packaged(t, dir, "server-filesystem", "dist/index.js", map[string]any{
		"sandbox": map[string]any{"read": []string{dir}, "write": []string{p.work}},
		"tiers":   map[string]string{"read_text_file": "readonly", "write_file": "readonly"},
	}, p.work)}))

	c, a := n.do("files:read_text_file", args{"path": filepath.Join(p.work, "a.txt")})
	if c.State != "completed" || c.Tier != "readonly" || !strings.Contains(a.Content.Text+string(a.Content.Data), "hello") {
		t.Errorf("%+v, %+v", c, a)
	}
	// The server says of this one that it writes, and that makes the operator's word stricter.
	if c, _ := n.do("files__write_file", args{"path": filepath.Join(p.work, "b.txt"), "content": "x"}); c.State != "completed" || c.Tier != "irreversible" {
		t.Errorf("%+v", c)
	}
	if body, err := os.ReadFile(filepath.Join(p.work, "b.txt")); err != nil || string(body) != "x" {
		t.Errorf("%q, %v", body, err)
	}
	c, a = n.do("files__read_text_file", args{"path": "/etc/passwd"})
	c.is(t, "failed", "MCP_EXECUTION_ERROR", "none")
	if a.Content.Error == nil || !strings.Contains(strings.ToLower(a.Content.Error.Message), "denied") {
		t.Errorf("%+v", a)
	}
	c, _ = n.do("files__read_text_file", args{"path": 7})
	c.is(t, "denied", "INVALID_PARAM", "none")
}

func TestMCPServerEverything(t *testing.T) {
	t.Parallel()
	dir := npm.Install(t, everything)
	p := newPlace(t)
	n := p.serve("--mcp-servers", serversFile(t, "", map[string]any{"all": packaged(t, dir, "server-everything", "dist/index.js", map[string]any{
		"sandbox": map[string]any{"read": []string{dir}}, "tiers": map[string]string{"*": "readonly"},
	}, "stdio")}))
	list := n.tools()
	t.Logf("%v", list)
	c, a := n.do("all__echo", args{"message": "hello"})
	if c.State != "completed" || !strings.Contains(a.Content.Text, "hello") {
		t.Errorf("%+v, %+v", c, a)
	}
	c, a = n.do("all__get-tiny-image", args{})
	if c.State != "completed" || !strings.Contains(a.Content.Text, "image/png") {
		t.Errorf("%+v, %+v", c, a)
	}
	c, a = n.do("all__get-structured-content", args{"location": "New York"})
	var data map[string]any
	if c.State != "completed" || json.Unmarshal(a.Content.Data, &data) != nil || data["temperature"] == nil {
		t.Errorf("%+v, %+v", c, a)
	}
	v := n.run(turn{Calls: []call{{Tool: "all__trigger-long-running-operation", Args: args{"duration": 1, "steps": 2}}}})
	if v.Calls[0].State != "completed" || len(of(n.events(v.Trace, v.Turn), "progress", "0")) == 0 {
		t.Errorf("%+v", v.Calls[0])
	}
}
