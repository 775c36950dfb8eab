package main

import (
	"testing"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/mcp"
)

// TestServersThatAreWanting: a tool that cannot be had fails a check where the entry names
// it, and is only told of where nobody asked for it.
func TestServersThatAreWanting(t *testing.T) {
	const tasked, gone = "run: it can only be called as a task, which is not spoken here", "run: the file names it, and the server has no such tool"
	for _, c := range []struct {
		about   string
		entry   mcp.Server
		state   mcp.State
		refused []string
		want    string
	}{
		{"all is there", mcp.Server{Name: "s"}, mcp.Up, nil, ""},
		{"it is down", mcp.Server{Name: "s"}, mcp.Down, nil, "server s is not all that its entry says"},
		{"nobody asked for it", mcp.Server{Name: "s", Tiers: map[string]events.Tier{"*": events.Approval}}, mcp.Up, []string{tasked}, ""},
		{"another one is named", mcp.Server{Name: "s", Tiers: map[string]events.Tier{"ru": events.Approval}}, mcp.Up, []string{tasked}, ""},
		{"its tier is said", mcp.Server{Name: "s", Tiers: map[string]events.Tier{"run": events.Readonly}}, mcp.Up, []string{tasked, gone}, "server s is not all that its entry says"},
		{"it is let in", mcp.Server{Name: "s", Allow: []string{"run"}}, mcp.Up, []string{gone}, "server s is not all that its entry says"},
		{"it honours the key", mcp.Server{Name: "s", HonoursKey: []string{"run"}}, mcp.Up, []string{gone}, "server s is not all that its entry says"},
		{"it is kept out, and there", mcp.Server{Name: "s", Deny: []string{"run"}}, mcp.Up, []string{tasked, gone}, ""},
		{"it is kept out, and misspelt", mcp.Server{Name: "s", Deny: []string{"run"}}, mcp.Up, []string{gone}, "server s is not all that its entry says"},
		{"its name is taken", mcp.Server{Name: "s", Allow: []string{"run"}}, mcp.Up, []string{"not a tool: s__run is registered already here: choose another name"}, "server s is not all that its entry says"},
	} {
		got := ""
		if err := wanting([]mcp.Server{c.entry}, []checkedServer{{Server: "s", State: c.state, Refused: c.refused}}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.about, got, c.want)
		}
	}
	two := []checkedServer{{Server: "a", State: mcp.Down}, {Server: "b", State: mcp.Up}, {Server: "c", State: mcp.Down}}
	if err := wanting([]mcp.Server{{Name: "a"}, {Name: "b"}, {Name: "c"}}, two); err == nil || err.Error() != "servers a, c are not all that their entries say" {
		t.Error(err)
	}
}

// TestWhoSitsAtAnAgent: the node behind the door at the streams has been told, and so has who
// starts the command, whose word comes first.
func TestWhoSitsAtAnAgent(t *testing.T) {
	for approver, want := range map[string]string{"": "ada", "bob": "bob"} {
		sp := &speaking{principal: "coder", approver: approver}
		a := &app{set: &settings{workspace: t.TempDir()}}
		_, conf, err := a.speaks(sp)
		if err != nil {
			t.Fatal(err)
		}
		if got := conf.Approver(events.Principal{ID: "coder"}); got != approver {
			t.Errorf("without a node: %q", got)
		}
		s := &standing{app: a, told: sp}
		if err := s.fits(jetlog.Running{More: map[string]string{toldVerb: verbServe, toldSits: "coder=ada,tester=eve"}}); err != nil {
			t.Fatal(err)
		}
		if got := conf.Approver(events.Principal{ID: "coder"}); got != want {
			t.Errorf("at the client of coder sits %q, want %q", got, want)
		}
	}
}
