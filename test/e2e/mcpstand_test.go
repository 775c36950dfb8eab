package e2e

import (
	"strings"
	"testing"
)

// TestMCPTakesNoNodesPlace: an agent's process goes through the node that runs. When that one
// dies it does not take its place, with other settings: its calls wait for the node.
func TestMCPTakesNoNodesPlace(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	joins := p.speakWith("--join", "--workspace", p.work) // it is first, and waits
	n := p.serve()
	agent := p.speakWith("--workspace", p.work)
	for i, s := range []*speaker{joins, agent} {
		if a := s.call("counter", `{"name":"x"}`); a.text() != []string{"x is 1", "x is 2"}[i] {
			t.Fatalf("%+v", a)
		}
	}
	n.kill()
	answered := make(chan mcpAnswer, 1)
	go func() { answered <- agent.call("counter", `{"name":"y"}`) }()
	poll(t, "it waits for the node", func() bool { return strings.Contains(agent.log.String(), "calls wait for it to come back") })
	n = p.serve() // it finds its directory free
	if a := <-answered; a.text() != "y is 1" {
		t.Errorf("the next node: %+v", a)
	}
	for _, more := range [][]string{{"--policy", "p"}, {"--mcp-servers", "s"}, {"--fixtures"}, {"--require-sandbox"}, {"--http", "127.0.0.1:0"}} {
		s := verb(t, "", append([]string{"mcp", "--data", p.data}, more...)...)
		if s.code != 2 || !strings.Contains(s.err, more[0]) || !strings.Contains(s.err, "sluice-node serve") {
			t.Errorf("%q beside a node: exit %d, %s", more, s.code, s.err)
		}
	}
	for _, s := range []*speaker{joins, agent} {
		_ = s.in.Close()
		if code := s.wait(t); code != 0 {
			t.Errorf("it ends with %d: %s", code, s.log.String())
		}
	}
	n.stop()
}

// TestMCPOfOtherSettings: an agent's process goes through another one's node only with the
// same settings.
func TestMCPOfOtherSettings(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first := p.speak()
	if a := first.call("counter", `{"name":"x"}`); a.text() != "x is 1" {
		t.Fatalf("%+v", a)
	}
	s := verb(t, "", "mcp", "--data", p.data, "--workspace", p.work, "--fixtures", "--network")
	if s.code != 2 || !strings.Contains(s.err, "other settings") {
		t.Errorf("exit %d, %s", s.code, s.err)
	}
	_ = first.in.Close()
	if code := first.wait(t); code != 0 {
		t.Errorf("it ends with %d: %s", code, first.log.String())
	}
}
