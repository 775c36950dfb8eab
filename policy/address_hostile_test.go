package policy

import (
	"encoding/json"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func TestDecidesGit(t *testing.T) {
	for p, want := range map[string]bool{
		".git": true, ".git/config": true, "a/.git/hooks/x": true, ".GIT/config": true, ".Git": true, "GIT~1": true, "git~1/config": true, "a/git~2": true,
		".git.": true, ".git ": true, ".git. .": true, ".git::$INDEX_ALLOCATION": true, ".git:x": true, ".git::$INDEX_ALLOCATION/config": true,
		`a\.git\config`: true, ".g\u200cit": true, ".git\u200d/config": true, "\ufeff.git": true, ".\u2060git": true, ".gi\u00adt": true, "HEAD": true, "sub/head": true,
		".gitignore": false, ".gitattributes": false, ".github/workflows/a.yml": false, "git": false, "a.git": false, "git-lfs": false, "heads": false, "agit~1": false, "": false, "x/.git2": false,
	} {
		if got := DecidesGit(p); got != want {
			t.Errorf("%q: %v", p, got)
		}
	}
}

func TestNamesPrograms(t *testing.T) {
	for p, want := range map[string]bool{
		".mcp.json": true, "mcp.json": true, "a/MCP.json": true, ".mcp.json.": true, "MCP~1.JSO": true, ".mcp.json::$DATA": true,
		".claude": true, ".claude/settings.local.json": true, "sub/.Claude/hooks/x.sh": true, "CLAUDE~1/x": true, ".cl\u200daude/x": true,
		".codex/config.toml": true, ".cursor/mcp.json": true, ".gemini/settings.json": true, `.vscode\tasks.json`: true, "vscode~2/tasks.json": true,
		".idea/workspace.xml": true, ".zed/tasks.json": true, ".devcontainer/devcontainer.json": true, ".devcontainer.json": true, "DEVCON~1.JSO": true,
		"AGENTS.md": false, "CLAUDE.md": false, "claude/x": false, "mcp.json.md": false, "mcp.jsonl": false, ".mcp": false, "my.mcp.json": false, ".vscodeignore": false,
		".cursorrules": false, "mcp/server.go": false, "": false, "ideas/x": false, "claude": false,
	} {
		if got := NamesPrograms(p); got != want {
			t.Errorf("%q: %v", p, got)
		}
	}
}

func TestCheckAddr(t *testing.T) {
	for a, ok := range map[string]bool{
		"1.1.1.1": true, "8.8.8.8": true, "2606:4700::1111": true, "2a00:1450:4001::1": true, "168.63.129.15": true,
		"168.63.129.16": false, "127.0.0.1": false, "::ffff:1.1.1.1": false, "::1": false, "fe80::1%eth0": false, "2606:4700::5efe:1.1.1.1": false,
		"2606:4700::200:5efe:101:101": false, "64:ff9b::101:101": false, "2002:101:101::": false, "2001:0:101:101::": false, "5f00::1": false,
	} {
		if err := CheckAddr(netip.MustParseAddr(a)); (err == nil) != ok {
			t.Errorf("%s: %v", a, err)
		}
	}
	if CheckAddr(netip.Addr{}) == nil {
		t.Error("no address at all is public")
	}
}

// Two spellings of one host are one host to every policy.
func TestHostsHaveOneName(t *testing.T) {
	for given, want := range map[string]string{
		"EXAMPLE.com": "example.com", "example.com.": "example.com", "https://Example.COM.:443/": "example.com", "http://[2606:4700:0:0::1111]/": "2606:4700::1111",
		"2606:4700:0000::1111": "2606:4700::1111", "[2606:4700::1111]:443": "2606:4700::1111", "1.1.1.1.": "1.1.1.1",
	} {
		if got := HostName(given); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// However deep an address is in the arguments, it is looked at.
func TestDeepAddressesAreLookedAt(t *testing.T) {
	for _, depth := range []int{0, 10, 16, 17, 60} {
		for open, end := range map[string]string{`{"url":`: "}", `[`: "]"} {
			args := `{"url":` + strings.Repeat(open, depth) + `"http://127.0.0.1/"` + strings.Repeat(end, depth) + `}`
			r := Request{Tool: "t", Known: true, Network: true, Args: json.RawMessage(args), Op: events.Operation{Class: events.OpNetwork}}
			v := Default().Authorize(r)
			if v.Decision != Deny || !strings.HasPrefix(v.Path, "/url") {
				t.Errorf("%d deep: %s at %q", depth, v.Decision, v.Path)
			}
			if f := Look(r); len(f.Hosts) != 1 || f.Hosts[0].Public {
				t.Errorf("%d deep: %+v", depth, f.Hosts)
			}
		}
	}
}

func TestWalkStringsSaysWhereTheyAre(t *testing.T) {
	var got []string
	walkStrings([]byte(`{"a":"1","b":{"c/d":["2",{"~":"3"},[["4"]],5,"6"]},"e":null,"a":"7"}`), func(name string, path func() string, text string) bool {
		got = append(got, name+" "+path()+" "+text)
		return text != "7"
	})
	if want := "a /a 1, c/d /b/c~1d/0 2, ~ /b/c~1d/1/~0 3, c/d /b/c~1d/2/0/0 4, c/d /b/c~1d/4 6, a /a 7"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	for args, want := range map[string]int{``: 0, `"x"`: 1, `["x"`: 1, `{"a":`: 0, `{"a":"x"}}`: 1, `[]`: 0, `]`: 0, `{"a" 1}`: 0, `5`: 0} {
		n := 0
		walkStrings([]byte(args), func(string, func() string, string) bool { n++; return true })
		if n != want {
			t.Errorf("%s: %d strings, want %d", args, n, want)
		}
	}
}

// Long names above many values are read once, and not written out for each.
func TestLongNamesCostNothingTwice(t *testing.T) {
	args := json.RawMessage(`{"` + strings.Repeat("n", 500_000) + `":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 100_000), ",") + `]}`)
	for name, run := range map[string]func(){
		"pointer": func() { pointer(args, "y") },
		"Leaves": func() {
			if leaves, ok := Leaves(args, 4096); ok || len(leaves) > 10 {
				t.Errorf("%d leaves, whole %v", len(leaves), ok)
			}
		},
		"Look": func() { Look(Request{Args: args, Op: events.Operation{Class: events.OpNetwork}}) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 {
			t.Errorf("%s takes %d bytes", name, took)
		}
	}
}
