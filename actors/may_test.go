package actors

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/bus/memlog"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/web"
)

// closes is a policy that denies secrets, asks about letters, and allows the rest.
type closes struct{}

func (closes) Version() string { return "closes" }

func (closes) Authorize(r policy.Request) policy.Verdict {
	v := policy.Verdict{Decision: policy.Allow, Gate: policy.GateAuthorize, Reason: "It may.", Policies: []string{"may"}, Version: "closes"}
	for _, name := range append(r.Op.Paths, r.Op.Hosts...) {
		switch {
		case strings.HasPrefix(name, "secrets"):
			v.Decision, v.Reason = policy.Deny, "Secrets are closed to "+r.Principal.ID+"."
		case strings.HasPrefix(name, "letters"):
			v.Decision, v.Reason = policy.Ask, "Somebody must agree."
		}
	}
	if r.Op.Class == events.OpWrite && r.Mode == events.ModeRead {
		v.Decision, v.Reason = policy.Deny, "It only reads."
	}
	return v
}

// What a call finds while it runs is judged for the same agent by the same policy, and
// only allow lets it.
func TestMayAsksThePolicyAgain(t *testing.T) {
	reads := tools.Tool{
		Spec: tools.Spec{
			Name: "reads", Description: "reads", Tier: events.Readonly, Schema: json.RawMessage(`{"type":"object"}`),
			Operation: func(json.RawMessage) events.Operation {
				return events.Operation{Class: events.OpRead, Paths: []string{"letters/asked"}}
			},
		},
		Run: func(context.Context, tools.Invocation) (events.Result, error) { return events.Result{}, nil },
	}
	reg, err := tools.NewRegistry(reads)
	if err != nil {
		t.Fatal(err)
	}
	g := Gates{Registry: reg, Authorizer: closes{}}
	args, err := lifecycle.Parse(`{}`)
	if err != nil {
		t.Fatal(err)
	}
	asked := &Asked{Tool: "reads", Args: args, Turn: &events.TurnSubmitted{Principal: events.Principal{ID: "reviewer"}, Mode: events.ModeRead}}
	g.learn(reads, asked)
	may := g.May(asked)
	for _, c := range []struct {
		op   events.Operation
		says string // "" it may
	}{
		{events.Operation{Class: events.OpRead, Paths: []string{"a.txt"}}, ""},
		{events.Operation{Class: events.OpRead, Paths: []string{"secrets/key"}}, "the policy does not allow it: Secrets are closed to reviewer."},
		{events.Operation{Class: events.OpRead, Paths: []string{"letters/other"}}, "name it itself, in another call (Somebody must agree.)"},
		{events.Operation{Class: events.OpRead, Paths: []string{"letters/asked"}}, ""}, // somebody has agreed to this one
		{events.Operation{Class: events.OpWrite, Paths: []string{"letters/asked"}}, "It only reads."},
		{events.Operation{Class: events.OpNetwork, Hosts: []string{"secrets.example"}}, "Secrets are closed"},
	} {
		err := may(c.op)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v, want %q", c.op, err, c.says)
		}
	}
}

// A list of hosts in Cedar holds for where a redirect leads, too.
func TestMayHoldsToAListOfHosts(t *testing.T) {
	set, err := cedar.Load([]cedar.File{{Name: "hosts.cedar", Text: []byte(`
@id("hosts.mine") permit (principal, action == Action::"network", resource is Host) when { resource.public && resource in Host::"example.com" };
@id("hosts.ask") @ask("Who is that?") permit (principal, action == Action::"network", resource == Host::"example.net");
@id("hosts.tool") permit (principal, action == Action::"network", resource is Tool);
`)}}, cedar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fetch, err := web.Fetch(web.Config{})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := tools.NewRegistry(fetch)
	if err != nil {
		t.Fatal(err)
	}
	args, err := lifecycle.Parse(`{"url":"https://example.com/"}`)
	if err != nil {
		t.Fatal(err)
	}
	g := Gates{Registry: reg, Authorizer: set, Network: true}
	asked := &Asked{Tool: "Fetch", Args: args, Turn: &events.TurnSubmitted{Principal: events.Principal{ID: "a"}, CanAsk: true}}
	g.learn(fetch, asked)
	for host, want := range map[string]bool{
		"example.com": true, "api.example.com": true, "example.org": false, "example.net": false, "notexample.com": false, "example.com.evil.example": false, "127.0.0.1": false,
	} {
		if err := g.May(asked)(events.Operation{Class: events.OpNetwork, Hosts: []string{host}}); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// Refuses is what the gates say of other arguments, and nothing where nobody can say.
func TestRefuses(t *testing.T) {
	writes := tools.Tool{
		Spec: tools.Spec{
			Name: "writes", Description: "writes", Tier: events.Irreversible,
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","maxLength":40}},"required":["path"]}`),
			Operation: func(args json.RawMessage) events.Operation {
				return events.Operation{Class: events.OpWrite, Paths: []string{stringAt(args, "/path")}}
			},
		},
		Run: func(context.Context, tools.Invocation) (events.Result, error) { return events.Result{}, nil },
	}
	n := testNode(t, memlog.New(memlog.Config{}).View("a"), func(c *Config) { c.Authorizer = closes{} }, writes)
	turn := lifecycle.Turn{Submitted: &events.TurnSubmitted{Calls: []events.RawCall{{Tool: "writes"}, {Tool: "elsewhere"}}}}
	for _, c := range []struct {
		call       int
		args, want string // "" it would not
	}{
		{0, `{"path":"a.txt"}`, ""},
		{0, `{"path":"letters/a"}`, ""}, // asked about once more
		{0, `{"path":"sluice-secret-0123"}`, ""},
		{0, `{"path":"secrets/key"}`, "Secrets are closed"},
		{0, `{"file":"a.txt"}`, "the arguments do not fit the tool's schema"},
		{1, `{"path":"secrets/key"}`, ""},
	} {
		args, err := lifecycle.Parse(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Refuses(turn, c.call, args); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
}
