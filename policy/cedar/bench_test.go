package cedar

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// more is the default policy with n more policies.
func more(t testing.TB, n int) *Set {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "@id(\"own.%d\") forbid (principal, action, resource is Path)\nwhen { resource in Path::\"secret/%d\" && principal.id like \"agent-%d*\" };\n", i, i, i)
	}
	s, err := Load([]File{{DefaultFile, []byte(defaultText)}, {"own.cedar", []byte(b.String())}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func BenchmarkAuthorize(b *testing.B) {
	texts, err := Default(Options{})
	if err != nil {
		b.Fatal(err)
	}
	line := "git log --oneline -5 && grep -rn 'func main' src/cmd | head -20 && wc -l src/cmd/main.go"
	args := func(v map[string]string) json.RawMessage {
		raw, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		return raw
	}
	requests := map[string]policy.Request{
		"read": {
			Tool: "Read", Known: true, Tier: events.Readonly, Mode: events.ModeWrite, Workspace: "/w", Args: args(map[string]string{"path": "src/cmd/main.go"}),
			Principal: events.Principal{ID: "agent-1", Parents: []string{"lead"}}, Op: events.Operation{Class: events.OpRead, Paths: []string{"src/cmd/main.go"}},
		},
		"charge": {
			Tool: "charge", Known: true, Tier: events.Irreversible, Mode: events.ModeWrite, Workspace: "/w", Args: args(map[string]string{"order": "1"}),
			Principal: events.Principal{ID: "agent-1"}, Op: events.Operation{Class: events.OpExecute},
		},
		"shell": asBash(policy.Request{
			Tool: "Bash", Known: true, Tier: events.Readonly, Mode: events.ModeWrite, Workspace: "/w", Args: args(map[string]string{"command": line}),
			Principal: events.Principal{ID: "agent-1"}, Op: events.Operation{Class: events.OpExecute},
		}, line),
	}
	for _, name := range []string{"read", "charge", "shell"} {
		for _, who := range []struct {
			name string
			a    policy.Authorizer
		}{{"rows", policy.Default()}, {"texts", texts}, {"texts+200", more(b, 200)}} {
			b.Run(name+"/"+who.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					who.a.Authorize(requests[name])
				}
			})
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := Default(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
