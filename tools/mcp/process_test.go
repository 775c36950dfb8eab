package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/tools/sandbox"
)

// TestWhatToDoAboutTheSandbox: a server that does not come up has its operator told which of
// its arguments it is not shown, and that it has no network.
func TestWhatToDoAboutTheSandbox(t *testing.T) {
	dir, away := t.TempDir(), filepath.Join(t.TempDir(), "server.py")
	for _, file := range []string{away, filepath.Join(dir, "here.py")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	aside, err := filepath.Rel(dir, away)
	if err != nil {
		t.Fatal(err)
	}
	const unseen, network = "so not ", "no network"
	box := sandbox.Use{Namespaces: true, Landlock: 6}
	for _, c := range []struct {
		about   string
		p       sandbox.Policy
		args    []string
		is, not []string
	}{
		{"not contained", sandbox.Policy{Workspace: dir}, []string{away}, nil, []string{"sandbox", network}},
		{"by its path", sandbox.Policy{Workspace: dir, Use: box}, []string{"-u", away}, []string{unseen + away + ": name", "sandbox.read", network}, nil},
		{"by a flag, and again", sandbox.Policy{Workspace: dir, Use: box}, []string{"--file=" + away, away}, []string{unseen + away + ": name"}, nil},
		{"from its directory", sandbox.Policy{Workspace: dir, Use: box}, []string{aside}, []string{unseen + away}, nil},
		{"all is shown", sandbox.Policy{Workspace: dir, Use: box, Read: []string{away}}, []string{away, "here.py", "", "--", "stdio"}, []string{"sandbox.read"}, []string{unseen}},
		{"what is not there", sandbox.Policy{Workspace: dir, Use: box}, []string{away + ".gone", "a\x00b"}, []string{"sandbox.read"}, []string{unseen}},
		{"with the network", sandbox.Policy{Workspace: dir, Use: box, Network: true}, []string{away}, []string{unseen + away}, []string{network}},
	} {
		got := contained(c.p, append([]string{"/usr/bin/env"}, c.args...))
		for _, want := range c.is {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in %q", c.about, want, got)
			}
		}
		for _, wrong := range c.not {
			if strings.Contains(got, wrong) {
				t.Errorf("%s: %q is in %q", c.about, wrong, got)
			}
		}
	}
	if e := (&ended{why: os.ErrClosed, hint: "do this"}); strings.Contains(forCallers(e), "do this") {
		t.Errorf("who calls a tool reads %q", forCallers(e))
	}
}
