package policy_test

import (
	"encoding/json"
	"fmt"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

func ExampleJudge() {
	v := policy.Judge(policy.Default(), policy.Request{
		Tool: "Bash", Known: true, Mode: events.ModeWrite,
		Args: json.RawMessage(`{"command":"mv a b"}`),
		Op:   events.Operation{Class: events.OpExecute},
	})
	fmt.Println(v.Decision, v.Code, v.Path, v.Policies)
	fmt.Println(v.Reason)
	// Output:
	// deny PERMISSION_DENIED /command [shell.move-copy]
	// "mv" moves or copies files; use the tool that writes files (a person would have to agree, and nobody can be asked).
}
