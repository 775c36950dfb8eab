package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

// judgement is what explain says.
type judgement struct {
	Decision, Gate, Code, Reason, Tier string
	Texts                              []struct{ ID string }
}

// explained asks for a judgement, and returns it with what stood on standard error.
func explained(t *testing.T, args ...string) (out judgement, note string) {
	t.Helper()
	s := verb(t, "", append([]string{"explain", "--json"}, args...)...)
	if s.code != 0 {
		t.Fatalf("%q: exit %d\n%s%s", args, s.code, s.out, s.err)
	}
	if err := json.Unmarshal([]byte(s.out), &out); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, s.out)
	}
	return out, s.err
}

// TestExplainKnowsTheNodesTools: explain asks the node, which knows the tools of its MCP
// servers and workers, and says of each what then becomes of the call.
func TestExplainKnowsTheNodesTools(t *testing.T) {
	t.Parallel()
	srv := script(t, mcptest.Options{Tools: []string{"echo", "charge"}}, map[string]any{"tiers": map[string]string{"echo": "readonly", "charge": "approval"}})
	file := serversFile(t, "", map[string]any{"srv": srv.entry(t)})
	b := newBench(t, "--mcp-servers", file, "--workspace", t.TempDir())
	b.worker()
	for _, c := range []struct{ tool, args, decision, tier string }{
		{"srv__echo", `{"v":1}`, "allow", "readonly"},
		{"srv.echo", `{"v":1}`, "allow", "readonly"}, // as a model may spell it
		{"srv__charge", `{}`, "ask", "approval"},
		{"sum", `{"numbers":[1,2]}`, "", "readonly"},
	} {
		j, note := explained(t, "--data", b.place.data, c.tool, c.args)
		if j.Code == "UNKNOWN_TOOL" || c.decision != "" && j.Decision != c.decision || j.Decision != "deny" && j.Tier != c.tier {
			t.Errorf("%s: %+v %s", c.tool, j, note)
		}
	}
	if j, note := explained(t, "--data", b.place.data, "--can-ask=false", "srv__charge", `{}`); j.Decision != "deny" {
		t.Errorf("nobody can be asked: %+v %s", j, note)
	}
	if j, note := explained(t, "--data", b.place.data, "srv__gone", `{}`); j.Code != "UNKNOWN_TOOL" || !strings.Contains(note, "sluice-node tools") {
		t.Errorf("%+v %s", j, note)
	}
	if s := verb(t, "", "explain", "--data", b.place.data, "--placement", strings.Repeat("p", 300), "sum", `{}`); s.code != 2 {
		t.Errorf("a placement that is none: %+v", s)
	}
	// It only asks: nothing was called.
	if n := srv.noted("call"); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// TestExplainWithoutANode: the one server of the file that the name tells of is started;
// what only a node can know is said to be so.
func TestExplainWithoutANode(t *testing.T) {
	t.Parallel()
	srv := script(t, mcptest.Options{Tools: []string{"echo", "charge"}}, map[string]any{"tiers": map[string]string{"echo": "readonly"}})
	gone := map[string]any{"command": "no-such-program-there"}
	file := serversFile(t, "", map[string]any{"srv": srv.entry(t), "gone": gone})
	at := []string{"--data", t.TempDir(), "--workspace", t.TempDir()}
	with := append(at, "--mcp-servers", file)
	if j, note := explained(t, append(with, "srv__echo", `{"v":1}`)...); j.Decision != "allow" || j.Tier != "readonly" {
		t.Errorf("%+v %s", j, note)
	}
	if j, note := explained(t, append(with, "Read", `{"path":"a"}`)...); j.Decision != "allow" {
		t.Errorf("%+v %s", j, note)
	}
	if s := verb(t, "", append([]string{"explain"}, append(with, "gone__x", `{}`)...)...); s.code != 3 || !strings.Contains(s.err, "no-such-program-there") || !strings.Contains(s.err, "mcpservers check") {
		t.Errorf("%+v", s)
	}
	j, note := explained(t, append(at, "srv__echo", `{"v":1}`)...)
	if j.Code != "UNKNOWN_TOOL" || !strings.Contains(note, "--mcp-servers") || !strings.Contains(note, "--data") {
		t.Errorf("%+v %s", j, note)
	}
}

// TestExplainAtTheNATSDoor: a user asks with its own rights.
func TestExplainAtTheNATSDoor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	n := p.serve("--listen-nats", "127.0.0.1:0", "--nats-users", p.natsUsers())
	as := func(user string, more ...string) []string {
		return append([]string{"--as", user, "--nats", n.natsURL(user)}, more...)
	}
	if j, note := explained(t, as("planner", "echo", `{"v":"x"}`)...); j.Decision != "allow" || len(j.Texts) != 0 {
		t.Errorf("%+v %s", j, note)
	}
	if j, note := explained(t, as("eye", "--principal", "other", "echo", `{"v":"x"}`)...); j.Decision != "allow" || len(j.Texts) == 0 {
		t.Errorf("%+v %s", j, note)
	}
	if s := verb(t, "", append([]string{"explain"}, as("planner", "--principal", "other", "echo", `{}`)...)...); s.code != 1 || !strings.Contains(s.err, "other") {
		t.Errorf("in another's name: %+v", s)
	}
}

// TestMCPServersCheckNamesAll: all servers that are wanting are named.
func TestMCPServersCheckNamesAll(t *testing.T) {
	t.Parallel()
	odd := script(t, mcptest.Options{Tools: []string{"echo"}}, nil)
	names := script(t, mcptest.Options{Tools: []string{"echo"}}, map[string]any{"tiers": map[string]string{"ecco": "readonly"}})
	typo := script(t, mcptest.Options{Tools: []string{"echo"}}, map[string]any{"tools": map[string]any{"deny": []string{"ecco"}}})
	s := verb(t, "", "mcpservers", "check", "--mcp-servers", serversFile(t, "", map[string]any{
		"names": names.entry(t), "typo": typo.entry(t), "odd": odd.entry(t), "gone": map[string]any{"command": "no-such-program-there"},
	}))
	if s.code != 1 || !strings.Contains(s.err, "servers gone, names, typo are not all that their entries say") {
		t.Errorf("%+v", s)
	}
}
