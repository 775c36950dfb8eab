package npm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/npm"
	"github.com/sluice-run/sluice/test/proc"
)

// TestCodingAgent: the files of the example, put into a project, do what its page says, for a
// client that reads them as coding agents do.
func TestCodingAgent(t *testing.T) {
	node := npm.Node22(t)
	server := npm.Install(t, "@modelcontextprotocol/server-filesystem@2026.8.31")
	inspector := filepath.Join(npm.Install(t, "@modelcontextprotocol/inspector@2.12.0"), "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	project, home := project(t, server), t.TempDir()
	client := func(more ...string) string {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		cmd := exec.CommandContext(ctx, node, append([]string{inspector, "--cli", "--config", "mcp.json", "--server", "sluice"}, more...)...)
		cmd.Dir, cmd.WaitDelay = project, 10*time.Second
		path := strings.Join([]string{bin, filepath.Join(server, "node_modules", ".bin"), filepath.Dir(node), os.Getenv("PATH")}, string(filepath.ListSeparator))
		cmd.Env = clean("HOME="+home, "XDG_DATA_HOME=", "MCP_INSPECTOR_SECRET_STORE=memory", "PATH="+path)
		var said, log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &log
		run, err := proc.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Wait(); err != nil {
			t.Fatalf("%q: %v\n%s%s", more, err, said.String(), log.String())
		}
		return said.String()
	}

	list := client("--method", "tools/list")
	for _, name := range []string{"Read", "files__read_text_file", "files__write_file", "files__move_file"} {
		if !strings.Contains(list, `"`+name+`"`) {
			t.Errorf("%s is not in the list:\n%s", name, list)
		}
	}
	note := filepath.Join(project, "note.txt")
	wrote := client("--method", "tools/call", "--tool-name", "files__write_file", "--tool-arg", "path="+note, "--tool-arg", "content=seen")
	if text, err := os.ReadFile(note); err != nil || string(text) != "seen" {
		t.Errorf("%q, %v: %s", text, err, wrote)
	}
	read := client("--method", "tools/call", "--tool-name", "files__read_text_file", "--tool-arg", "path="+note)
	if !strings.Contains(read, `"seen`) || !strings.Contains(read, `"run.sluice/trace"`) {
		t.Errorf("it reads %s", read)
	}
}

// project is a folder with the example's files, as its page says to copy and change them:
// the paths are the project's, and a server that is on no network is left out.
func project(t *testing.T, server string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "examples", "coding-agent")))
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "servers.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Servers map[string]map[string]any `json:"mcpServers"`
	}
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("/home/you/project"), []byte(dir)), &config); err != nil {
		t.Fatal(err)
	}
	delete(config.Servers, "tracker")
	config.Servers["files"]["sandbox"].(map[string]any)["read"] = []string{server}
	if text, err = json.Marshal(config); err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
