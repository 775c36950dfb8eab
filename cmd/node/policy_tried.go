package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
)

// tested is what came of one case.
type tested struct {
	File     string          `json:"file"`
	Line     int             `json:"line"`
	Case     string          `json:"case"`
	OK       bool            `json:"ok"`
	Wrong    []string        `json:"wrong,omitempty"` // what is otherwise than expected
	Decision policy.Decision `json:"decision"`
	Code     events.Code     `json:"code,omitempty"`
	Reason   string          `json:"reason"`
	Policies []string        `json:"policies"`
	Gate     string          `json:"gate"`           // that decided
	Note     string          `json:"note,omitempty"` // why a case that passed may show less than it seems to
}

// report is what came of all of them.
type report struct {
	Policy    string   `json:"policy"`
	Passed    int      `json:"passed"`
	Failed    int      `json:"failed"`
	Untouched []string `json:"untouched"` // ids of policies that decided in no case
	Cases     []tested `json:"cases"`
}

// policyTest is the verb that holds a policy against cases.
func (a *app) policyTest() *cobra.Command {
	var cover bool
	cmd := &cobra.Command{
		Use: "test PATH…", Short: "Hold a policy against cases: calls, and what should be decided of them", Args: command.Args(1, 100, "files of cases, or directories with files *"+casesExt),
		Long: "Hold the policy of --policy, else the program's own, against cases, with the same code that a node uses. A file of\n" +
			"cases is YAML:\n\n" +
			"  defaults:                        # each line may be left out, and may stand in a case, too\n" +
			"    principal: {id: builder, kind: agent, parents: [lead]}\n" +
			"    mode: write                    # or read_only\n" +
			"    can_ask: true\n" +
			"    network: false                 # true: as a node with --network, which has Fetch\n" +
			"    workspace: /srv/work\n" +
			"    allow: [Read, Bash]\n" +
			"    time: 2026-06-01T12:00:00Z     # of the judgement; this one where none is given\n" +
			"    session: {trace: run-1, turn: t1, placement: default}\n" +
			"  cases:\n" +
			"    - name: nobody deletes         # may be left out\n" +
			"      tool: Bash\n" +
			"      args: {command: rm -rf build}\n" +
			"      expect: deny                 # allow, ask or deny\n" +
			"      policies: [shell.remove]     # among those that decided; default.deny where no policy permits\n" +
			"      code: PERMISSION_DENIED\n" +
			"      reason: deletes files        # a part of the sentence\n" +
			"    - tool: jira_create            # one that this program does not have\n" +
			"      tier: irreversible\n" +
			"      operation: {class: network, hosts: [jira.example.com]}\n" +
			"      expect: ask\n\n" +
			"Exits 0 if all cases pass, 1 if one fails, 2 if a file or the policy cannot be used.",
		RunE: func(_ *cobra.Command, args []string) error { return a.testPolicy(args, cover) },
	}
	cmd.Flags().BoolVar(&cover, "cover", false, "also name the policies that decided in no case")
	a.set.toolFlags(cmd.Flags())
	return cmd
}

func (a *app) testPolicy(paths []string, cover bool) error {
	set, err := policyfile.Load(a.set.policy)
	if err != nil {
		return err
	}
	gates, err := a.set.caseGates(set)
	if err != nil {
		return err
	}
	const next = "sluice-node policy test --help shows how cases are written"
	files, err := findCases(paths)
	if err != nil {
		return exit.Misused(err, next)
	}
	r := report{Policy: set.Version(), Cases: []tested{}}
	for _, path := range files {
		f, err := readCases(path)
		if err != nil {
			return exit.Misused(err, next)
		}
		for i := range f.Cases {
			one, err := a.set.try(gates, f, i)
			if err != nil {
				return err
			}
			r.add(one)
		}
	}
	r.Untouched = untouched(set, r.Cases)
	if a.json {
		err = a.printJSON(r)
	} else {
		a.printReport(r, set, cover)
	}
	if err == nil && r.Failed > 0 {
		err = &exit.Failure{Err: fmt.Errorf("%d of %d cases failed", r.Failed, r.Failed+r.Passed), Code: exit.Failed}
	}
	return err
}

func (r *report) add(t tested) {
	if t.OK {
		r.Passed++
	} else {
		r.Failed++
	}
	r.Cases = append(r.Cases, t)
}

// caseGates are those of a node without the network and of one with it, which has more
// tools: a case says which it is about.
func (s *settings) caseGates(set *cedar.Set) (map[bool]actors.Gates, error) {
	out := make(map[bool]actors.Gates)
	for _, network := range []bool{false, true} {
		node := *s
		node.network = network
		gates, err := node.gates(set)
		if err != nil {
			return nil, err
		}
		out[network] = gates
	}
	return out, nil
}

// try asks about one case.
func (s *settings) try(by map[bool]actors.Gates, f *caseFile, i int) (tested, error) {
	c, d := &f.Cases[i], f.Defaults
	out := tested{File: f.name, Line: f.lines[i], Case: c.title()}
	raw, err := c.raw()
	if err != nil {
		return out, err
	}
	own, err := s.directory()
	if err != nil {
		return out, err
	}
	who := either(c.Principal, d.Principal, caller{ID: "local"})
	turn := events.TurnSubmitted{
		Principal: events.Principal{ID: who.ID, Kind: who.Kind, Parents: who.Parents},
		Mode:      either(c.Mode, d.Mode, events.ModeWrite), CanAsk: either(c.CanAsk, d.CanAsk, true),
		Workspace: either(c.Workspace, d.Workspace, own), Allow: either(c.Allow, d.Allow, nil),
	}
	where := either(c.Session, d.Session, place{})
	turn.Placement = where.Placement
	at, err := time.Parse(time.RFC3339, either(c.Time, d.Time, caseTime))
	if err != nil {
		return out, exit.Misused(fmt.Errorf("%s: defaults: time: %w", f.name, err), "write it as 2026-01-31T08:00:00Z")
	}
	gates := by[either(c.Network, d.Network, s.network)]
	gates.Now = func() time.Time { return at }
	var x gateway.Explained
	if c.Operation != nil {
		x = judged(gates, turn, where, c, raw)
	} else {
		x = explainBy(gates, turn, events.TurnKey{Trace: where.Trace, Turn: where.Turn}, c.Tool, raw)
	}
	out.Decision, out.Code, out.Reason, out.Policies = x.Decision, x.Code, x.Reason, x.Policies
	out.Wrong, out.Gate = c.against(x), x.Gate
	if out.OK = len(out.Wrong) == 0; out.OK {
		out.Note = c.hollow(x)
	}
	return out, nil
}

// judged asks about a call of a tool that this program does not have.
func judged(gates actors.Gates, turn events.TurnSubmitted, where place, c *testCase, raw string) gateway.Explained {
	r := policy.Request{
		Principal: turn.Principal, Tool: c.Tool, Known: true, Mode: turn.Mode, CanAsk: turn.CanAsk,
		Network: gates.Network, Workspace: turn.Workspace,
		Tier: policy.StricterTier(events.OpClass(c.Operation.Class), events.Tier(c.Tier)), Time: gates.Now().UTC().Truncate(time.Millisecond),
		Session: policy.Session{Trace: where.Trace, Turn: where.Turn, Placement: cmp.Or(where.Placement, events.DefaultPlacement)},
		Op:      events.Operation{Class: events.OpClass(c.Operation.Class), Paths: c.Operation.Paths, Hosts: c.Operation.Hosts},
	}
	args, err := lifecycle.Parse(raw)
	if err != nil {
		return gateway.Explained{Decision: policy.Deny, Gate: string(lifecycle.GateValidate), Code: events.InvalidParam, Reason: err.Error(), Policies: []string{}}
	}
	r.Args = args.JSON
	if len(turn.Allow) > 0 {
		r.Allowlists = append(r.Allowlists, turn.Allow)
	}
	if gates.Allow != nil {
		for _, id := range append([]string{turn.Principal.ID}, turn.Principal.Parents...) {
			r.Allowlists = append(r.Allowlists, gates.Allow(id))
		}
	}
	v := policy.Judge(gates.Authorizer, r)
	return gateway.Explained{Decision: v.Decision, Gate: v.Gate, Code: v.Code, Reason: v.Reason, Policies: v.Policies, Path: v.Path, Policy: v.Version}
}

// against says what of an answer is otherwise than expected.
func (c *testCase) against(x gateway.Explained) []string {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if string(x.Decision) != c.Expect {
		add("want %s, got %s", c.Expect, x.Decision)
	}
	for _, id := range c.Policies {
		if !slices.Contains(x.Policies, id) {
			add("want it decided by %s, it was by %s", show.Short(id, 80), orNobody(x.Policies))
		}
	}
	if c.Code != "" && string(x.Code) != c.Code {
		add("want the code %s, got %s", show.Short(c.Code, 80), orNobody([]string{string(x.Code)}))
	}
	if !strings.Contains(x.Reason, c.Reason) {
		add("want %q in the reason", show.Short(c.Reason, 200))
	}
	return wrong
}

// hollow says of a deny that no policy gave, and of which the case does not say why it
// expects it, what else there was: the case passes whatever the policies say.
func (c *testCase) hollow(x gateway.Explained) string {
	switch {
	case x.Decision != policy.Deny || len(c.Policies) > 0 || c.Code != "" || c.Reason != "":
		return ""
	case x.Gate != policy.GateAuthorize:
		return fmt.Sprintf("the gate %s denied it (%s) before the policy was asked; write code: %s if that is what the case is about", x.Gate, x.Code, x.Code)
	case slices.Equal(x.Policies, []string{cedar.DefaultDeny}):
		return "no policy forbids it, and none permits it; write policies: [" + cedar.DefaultDeny + "] if that is what the case is about"
	}
	return ""
}

func orNobody(ids []string) string {
	if s := strings.Join(ids, ", "); s != "" {
		return s
	}
	return "none"
}

// untouched are the policies that decided in no case.
func untouched(set *cedar.Set, cases []tested) []string {
	out := []string{}
	for _, p := range set.Policies() {
		if !slices.Contains(out, p.ID) && !slices.ContainsFunc(cases, func(t tested) bool { return slices.Contains(t.Policies, p.ID) }) {
			out = append(out, p.ID)
		}
	}
	return out
}

func (a *app) printReport(r report, set *cedar.Set, cover bool) {
	for _, t := range r.Cases {
		if t.OK {
			if t.Note != "" {
				a.print("note  %s:%d  %s\n      %s\n", show.Short(t.File, 300), t.Line, t.Case, t.Note)
			}
			continue
		}
		a.print("FAIL  %s:%d  %s\n", show.Short(t.File, 300), t.Line, t.Case)
		for _, w := range t.Wrong {
			a.print("      %s\n", w)
		}
		a.print("      it says: %s\n", show.Short(t.Reason, 600))
		for _, p := range texts(set, t.Policies) {
			a.print("      %s is at %s:%d\n", p.ID, show.Short(p.File, 200), p.Line)
		}
	}
	if cover {
		for _, id := range r.Untouched {
			a.print("never %s\n", id)
		}
		all := map[string]bool{}
		for _, p := range set.Policies() {
			all[p.ID] = true
		}
		a.print("%d of %d policies decided in some case\n", len(all)-len(r.Untouched), len(all))
	}
	a.print("%d passed, %d failed, policy %s\n", r.Passed, r.Failed, r.Policy)
}
