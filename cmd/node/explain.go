package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

// explained is what the gates would say of a call.
type explained struct {
	Decision  policy.Decision   `json:"decision"`
	Gate      string            `json:"gate"`
	Code      events.Code       `json:"code"`
	Reason    string            `json:"reason"`
	Policies  []string          `json:"policies"`
	Path      string            `json:"path,omitempty"`
	Tier      events.Tier       `json:"tier,omitempty"`
	Operation *events.Operation `json:"operation,omitempty"`
	Policy    string            `json:"policy,omitempty"` // version
	Texts     []policyText      `json:"texts,omitempty"`  // of those policies that are written in Cedar

	set *cedar.Set
}

// policyText is a deciding policy as its file has it.
type policyText struct {
	ID   string `json:"id"`
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// texts are those of the policies that decided.
func texts(set *cedar.Set, ids []string) []policyText {
	var out []policyText
	for _, id := range ids {
		for _, p := range set.Find(id) {
			out = append(out, policyText{p.ID, p.File, p.Line, p.Text})
		}
	}
	return out
}

// explain is the verb that asks the gates, and runs nothing.
func (a *app) explain() *cobra.Command {
	turn := events.TurnSubmitted{Mode: events.ModeWrite, CanAsk: true}
	var where moment
	cmd := &cobra.Command{
		Use: "explain TOOL ARGS", Short: "Say what the gates would decide of a call, and why", Args: command.Args(2, 2, "a tool and its arguments"),
		Long: "Say what the gates would decide of a call, and why, with the same code that a node uses. Nothing is run, and no\n" +
			"node is needed; where one runs on the data directory, its --fixtures, --network, --policy, --principals and --workspace count\n" +
			"unless they are given. The gates that need state (idempotency key, circuit, locks) are not asked.",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.set.asNode(); err != nil {
				return err
			}
			x, err := a.set.explain(where, turn, args[0], args[1])
			if err != nil {
				return err
			}
			a.noteVersion(x.set)
			if a.json {
				return a.printJSON(x)
			}
			a.printExplained(x)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&turn.Mode, "mode", turn.Mode, "read_only or write")
	f.BoolVar(&turn.CanAsk, "can-ask", turn.CanAsk, "somebody can be asked")
	f.StringVar(&turn.Principal.ID, "principal", "local", "`id` of who acts")
	f.StringVar(&turn.Principal.Kind, "kind", "", "what acts: agent, person or service; left out: agent")
	f.StringSliceVar(&turn.Principal.Parents, "parents", nil, "`ids` of those for whom the principal acts, nearest first")
	f.StringSliceVar(&turn.Allow, "allow", nil, "narrow the allowlist to these `tools`")
	f.StringVar(&turn.Placement, "placement", "", "`placement` of the turn; left out: default")
	where.flags(f)
	a.set.toolFlags(f)
	return cmd
}

// noteVersion tells where the files are not what the running node has read.
func (a *app) noteVersion(set *cedar.Set) {
	if in := a.set.inForce; in != "" && in != set.Version() {
		a.note("note: the node still runs by policy %s, and this is %s: sluice-node policy reload has it read its files anew", show.Short(in, 60), set.Version())
	}
}

func (a *app) printExplained(x explained) {
	a.print("%s by %s", x.Decision, x.Gate)
	if x.Code != "" {
		a.print(" (%s)", x.Code)
	}
	a.print("\n  reason    %s\n", show.Short(x.Reason, 2000))
	if len(x.Policies) > 0 {
		a.print("  policies  %s\n", strings.Join(x.Policies, ", "))
	}
	if x.Path != "" {
		a.print("  path      %s\n", show.Short(x.Path, 300))
	}
	for _, t := range x.Texts {
		a.print("\n%s:%d\n", show.Short(t.File, 200), t.Line)
		for line := range strings.Lines(t.Text) {
			a.print("  %s\n", show.Short(strings.TrimRight(line, "\r\n"), 500))
		}
	}
}

// told are the settings of a node that decide what its gates say, for who asks.
func (s *settings) told() (map[string]string, error) {
	workspace, err := s.directory()
	if err != nil {
		return nil, err
	}
	out := map[string]string{
		"workspace": workspace, "fixtures": strconv.FormatBool(s.fixtures), "network": strconv.FormatBool(s.network),
	}
	for name, path := range map[string]string{"principals": s.principals, "policy": s.policy} {
		if path == "" {
			continue
		}
		if out[name], err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// asNode takes over what the node on the data directory has told of its settings,
// where nothing else was asked for.
func (s *settings) asNode() error {
	if s.NATS != "" {
		return nil
	}
	r, found, err := jetlog.Find(s.Data)
	if err != nil {
		return exit.Unusable(err, "")
	}
	if !found {
		return nil
	}
	if s.from["policy"] == "" {
		s.policyTold = r.More["policy_state"]
	}
	if s.from["policy"] == "" && r.More["policy"] != "" {
		s.inForce = r.More["policy_version"]
	}
	for name, into := range map[string]*string{"workspace": &s.workspace, "principals": &s.principals, "policy": &s.policy} {
		if v := r.More[name]; v != "" && s.from[name] == "" {
			*into = v
		}
	}
	for name, into := range map[string]*bool{"fixtures": &s.fixtures, "network": &s.network} {
		if v, err := strconv.ParseBool(r.More[name]); err == nil && s.from[name] == "" {
			*into = v
		}
	}
	return nil
}

// moment is when and in which run a call is judged.
type moment struct {
	at  string // RFC 3339; "" means now
	key events.TurnKey
}

func (m *moment) flags(f *pflag.FlagSet) {
	f.StringVar(&m.at, "time", "", "the `time` of the judgement, as 2026-01-31T08:00:00Z; left out: now")
	f.StringVar(&m.key.Trace, "trace", "", "`id` of the agent's run that the call belongs to")
	f.StringVar(&m.key.Turn, "turn", "", "`id` of the turn in it")
}

// time is the moment.
func (m *moment) time() (time.Time, error) {
	if m.at == "" {
		return time.Now().UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, m.at)
	if err != nil {
		return at, exit.Misused(fmt.Errorf("the time %q", m.at), "write it as 2026-01-31T08:00:00Z")
	}
	return at.UTC(), nil
}

// explain asks the gates that need no state, in their order.
func (s *settings) explain(m moment, turn events.TurnSubmitted, tool, raw string) (explained, error) {
	set, err := policyfile.Load(s.policy)
	if err != nil {
		return explained{}, err
	}
	gates, err := s.gates(set)
	if err != nil {
		return explained{}, err
	}
	if turn.Workspace, err = s.directory(); err != nil {
		return explained{}, err
	}
	if turn.Mode != events.ModeRead && turn.Mode != events.ModeWrite {
		return explained{}, exit.Misused(fmt.Errorf("mode %q", turn.Mode), "use read_only or write")
	}
	at, err := m.time()
	if err != nil {
		return explained{}, err
	}
	gates.Now = func() time.Time { return at }
	x := explainBy(gates, turn, m.key, tool, raw)
	x.Texts, x.set = texts(set, x.Policies), set
	return x, nil
}

// gates are those of a node with these settings and that policy.
func (s *settings) gates(set *cedar.Set) (actors.Gates, error) {
	registry, err := s.plainRegistry()
	if err != nil {
		return actors.Gates{}, err
	}
	allow, err := s.allowlists()
	return actors.Gates{Registry: registry, Authorizer: set, Allow: allow, Network: s.network}, err
}

// explainBy asks gates about a call.
func explainBy(gates actors.Gates, turn events.TurnSubmitted, key events.TurnKey, tool, raw string) explained {
	asked := &actors.Asked{Tool: tool, Turn: &turn, Key: key}
	asked.Args, asked.Fault = lifecycle.Parse(strings.ToValidUTF8(raw, "\uFFFD"))
	findings, verdict := gates.Static(asked)
	last := findings[len(findings)-1]
	out := explained{
		Decision: policy.Allow, Gate: string(last.Gate), Code: last.Code, Reason: last.Reason, Policies: last.Policies,
		Path: last.Path, Policy: last.Policy,
	}
	if out.Policies == nil {
		out.Policies = []string{}
	}
	switch {
	case last.Ruling == lifecycle.Deny:
		out.Decision = policy.Deny
		return out
	case last.Ruling == lifecycle.Ask:
		out.Decision = policy.Ask
	case verdict.Tier == events.Approval && turn.CanAsk:
		out.Decision, out.Gate = policy.Ask, string(lifecycle.GateApprove)
		out.Reason = "A call of this tool always needs a person's approval."
	case verdict.Tier == events.Approval:
		out.Decision, out.Gate, out.Code = policy.Deny, string(lifecycle.GateApprove), events.PermissionDenied
		out.Reason = "A call of this tool always needs a person's approval, and nobody can be asked."
	}
	out.Tier, out.Operation = verdict.Tier, &verdict.Operation
	return out
}
