package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

// texts are those of the policies that decided.
func texts(set *cedar.Set, ids []string) []gateway.PolicyText {
	var out []gateway.PolicyText
	for _, id := range ids {
		for _, p := range set.Find(id) {
			out = append(out, gateway.PolicyText{ID: p.ID, File: p.File, Line: p.Line, Text: p.Text})
		}
	}
	return out
}

// asking is what the verb explain was asked.
type asking struct {
	gateway.Supposition
	at string // RFC 3339; "" means now
}

func (q *asking) flags(f *pflag.FlagSet) {
	f.StringVar(&q.Mode, "mode", events.ModeWrite, "read_only or write")
	f.BoolVar(&q.CanAsk, "can-ask", true, "somebody can be asked, as a turn says that is submitted with --can-ask")
	f.StringVar(&q.Principal.ID, "principal", "", "`id` of who acts; left out: local, or with --as its user")
	f.StringVar(&q.Principal.Kind, "kind", "", "what acts: agent, person or service; left out: agent")
	f.StringSliceVar(&q.Principal.Parents, "parents", nil, "`ids` of those for whom the principal acts, nearest first")
	f.StringSliceVar(&q.Allow, "allow", nil, "narrow the allowlist to these `tools`")
	f.StringVar(&q.Placement, "placement", "", "`placement` of the turn; left out: default")
	f.StringVar(&q.at, "time", "", "the `time` of the judgement, as 2026-01-31T08:00:00Z; left out: now")
	f.StringVar(&q.Trace, "trace", "", "`id` of the agent's run that the call belongs to")
	f.StringVar(&q.Turn, "turn", "", "`id` of the turn in it")
}

// read takes the tool and its arguments, as a model would write them, and says what is
// wrong with the rest.
func (q *asking) read(tool, args string) error {
	text, err := json.Marshal(strings.ToValidUTF8(args, "\uFFFD"))
	if err != nil {
		return err
	}
	q.Tool, q.Args = tool, text
	if q.Mode != events.ModeRead && q.Mode != events.ModeWrite {
		return exit.Misused(fmt.Errorf("mode %q", q.Mode), "use read_only or write")
	}
	if q.at != "" {
		if q.Time, err = time.Parse(time.RFC3339, q.at); err != nil {
			return exit.Misused(fmt.Errorf("the time %q", q.at), "write it as 2026-01-31T08:00:00Z")
		}
	}
	return nil
}

// explain is the verb that asks the gates, and runs nothing.
func (a *app) explain() *cobra.Command {
	var q asking
	verb := a.through(func() *cobra.Command { return a.explainVerb(&q) }, func(ctx context.Context, d *door, cmd *cobra.Command, args []string) error {
		if err := q.read(args[0], args[1]); err != nil {
			return err
		}
		if cmd.Flags().Changed("workspace") {
			q.Workspace = a.set.workspace
		}
		var x gateway.Explained
		if _, err := d.ask(ctx, "explain", q.Supposition, &x); err != nil {
			return err
		}
		return a.tellExplained(x, knownThere)
	})
	return verb()
}

func (a *app) explainVerb(q *asking) *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain TOOL ARGS", Short: "Say what the gates would decide of a call, and why", Args: command.Args(2, 2, "a tool and its arguments"),
		Long: "Say what the gates would decide of a call, and why, with the same code that a node uses. Nothing is run. Where a node runs\n" +
			"on the data directory it is asked, with its policy and all of its tools, those of MCP servers and of workers too; so is the\n" +
			"one behind --as. With --policy, --principals, --fixtures, --network or --mcp-servers, or without a node, this process\n" +
			"judges: a node's own settings count then where no others are given, a server of --mcp-servers is started to learn\n" +
			"its tools, and workers' tools are not known. The gates that need state (idempotency key, circuit, locks) are not asked.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.read(args[0], args[1]); err != nil {
				return err
			}
			x, answered, err := a.set.askExplain(cmd.Context(), *q)
			switch {
			case err != nil:
				return err
			case answered:
				a.noteUnread()
				return a.tellExplained(x, knownThere)
			}
			return a.explainHere(cmd.Context(), *q)
		},
	}
	q.flags(cmd.Flags())
	a.set.toolFlags(cmd.Flags())
	return cmd
}

// What to do about a tool that is not known, by who was asked.
const (
	knownThere = "the node has no such tool now: sluice-node tools lists what it has, mcpservers check and workers say what its servers and workers offer"
	knownHere  = "only the tools of this program are known here: those of MCP servers with --mcp-servers FILE, and those of workers, or of servers\n" +
		"that a node already runs, to that node: name its --data, or go through its door with --as"
)

// explainHere judges in this process.
func (a *app) explainHere(ctx context.Context, q asking) error {
	if err := a.set.asNode(); err != nil {
		return err
	}
	x, set, err := a.set.explain(ctx, q)
	if err != nil {
		return err
	}
	a.noteVersion(set)
	return a.tellExplained(x, knownHere)
}

// tellExplained prints what the gates say. unknown is what to do where they know no such
// tool.
func (a *app) tellExplained(x gateway.Explained, unknown string) error {
	if x.Code == events.UnknownTool {
		a.note("note: %s", unknown)
	}
	if a.json {
		return a.printJSON(x)
	}
	a.printExplained(x)
	return a.out.failed()
}

// noteVersion tells where the files are not what the running node has read.
func (a *app) noteVersion(set *cedar.Set) {
	if in := a.set.inForce; in != "" && in != set.Version() {
		a.note("note: the node still runs by policy %s, and this is %s: sluice-node policy reload has it read its files anew", show.Short(in, 60), set.Version())
	}
}

// noteUnread tells where the node that was asked runs by another policy than its files now
// say. Files that do not load say nothing here: policy show tells of those.
func (a *app) noteUnread() {
	if a.set.asNode() != nil || a.set.inForce == "" {
		return
	}
	set, err := policyfile.Load(a.set.policy)
	if err == nil && set.Version() != a.set.inForce {
		a.note("note: the node runs by policy %s, and its files are %s by now: explain --policy %s judges by those, and sluice-node policy reload has it read them",
			show.Short(a.set.inForce, 60), set.Version(), show.Short(a.set.policy, 200))
	}
}

func (a *app) printExplained(x gateway.Explained) {
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
	if x.Decision == policy.Ask {
		a.print("  submit    with --can-ask, or \"can_ask\": true; the call of a turn that does not say so is denied\n")
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
		toldVerb: cmp.Or(s.verb, verbServe), toldWays: s.alike, toldSits: strings.Join(s.mcpDoor.approvers, ","),
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
