package cedar

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/tools/shell"
)

// What the tool Bash says that its line names is what the line names: nothing of it is
// judged a second time, as if the tool had brought it beside the line.
func TestBashNamesWhatItsLineNames(t *testing.T) {
	tool, err := shell.New(shell.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := theDefault(t)
	for _, row := range table(t, "shell.txt") {
		args, err := json.Marshal(map[string]string{"command": row.value})
		if err != nil {
			t.Fatal(err)
		}
		for _, network := range []bool{false, true} {
			r := policy.Request{
				Tool: "Bash", Known: true, Tier: events.Irreversible, Mode: events.ModeWrite, CanAsk: true, Workspace: "/w", Network: network,
				Args: args, Op: events.Operation{Class: events.OpExecute},
			}
			plain := s.Authorize(r)
			r.Op = tool.Operation(args)
			if v := s.Authorize(r); v.Decision != plain.Decision || len(policy.Readings(r)) != 1 || plain.Decision != policy.Deny && !slices.Equal(v.Policies, plain.Policies) {
				t.Errorf("%s: %q (network %t): %s by %v; by the line alone %s by %v; %d readings", row.at, row.value, network, v.Decision, v.Policies, plain.Decision, plain.Policies, len(policy.Readings(r)))
			}
		}
	}
}
