package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/policy/cedar"
)

// policy is the verb for policies: it looks at them, tests them, and has a node read
// its own anew.
func (a *app) policy() *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "Check, show and test policies, or have a node read its own anew", Args: command.Args(0, 0, "one of check, default, reload, show, test"),
		Long: "Check, show and test policies in the Cedar language, or have a node read its own anew. serve --policy FILE runs a node\n" +
			"by them. To write some, begin with the program's own:\n\n" +
			"  sluice-node policy default > policies/default.cedar\n" +
			"  sluice-node policy check policies\n" +
			"  sluice-node policy test --policy policies policies/tests\n" +
			"  sluice-node explain --policy policies Bash '{\"command\":\"make\"}'",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyCheck(), a.policyDefault(), a.policyShow(), a.policyTest(), a.policyReload())
	return cmd
}

func (a *app) policyDefault() *cobra.Command {
	return &cobra.Command{
		Use: "default", Short: "Print the policy of a node that was given none", Args: command.Args(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error {
			return a.say(map[string]string{"file": cedar.DefaultFile, "text": cedar.DefaultText()}, "%s", cedar.DefaultText())
		},
	}
}

// onePolicy is one policy for programs.
type onePolicy struct {
	ID     string `json:"id"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Effect string `json:"effect"` // permit, ask or forbid
	Text   string `json:"text"`
}

func onePolicyOf(p cedar.Policy) onePolicy {
	effect := "permit"
	switch {
	case p.Forbid:
		effect = "forbid"
	case p.Ask:
		effect = "ask"
	}
	return onePolicy{p.ID, p.File, p.Line, effect, p.Text}
}

func (a *app) policyCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check [PATH]", Short: "Say whether a policy would load, and what is wrong with it", Args: command.Args(0, 1, "a file or directory at most"),
		Long: "Say whether the policy at PATH, else that of --policy, would load, and name what is wrong by file, line and column.\n" +
			"It must parse, every policy needs an id of its own, and all must fit the schema. Exits 2 where it would not load.",
		RunE: func(_ *cobra.Command, args []string) error {
			path := a.set.policy
			if len(args) == 1 {
				path = args[0]
			}
			if path == "" {
				return exit.Misused(errors.New("no policy was named"), "name a file or a directory, or set --policy")
			}
			set, err := policyfile.Load(path)
			if err != nil {
				return err
			}
			if err := a.noteTools(set); err != nil {
				return err
			}
			for _, text := range warnings(set) {
				a.note("note: %s", show.Short(text, 2000))
			}
			n := len(set.Policies())
			return a.say(map[string]any{"policy": set.Version(), "policies": n}, "%s: %d policies, %s\n", show.Short(path, 300), n, set.Version())
		},
	}
	a.set.toolFlags(cmd.Flags())
	return cmd
}

// noteTools tells of tools that policies name, and that this program does not have:
// other nodes may have them, or a letter is wrong.
func (a *app) noteTools(set *cedar.Set) error {
	registry, err := a.set.plainRegistry()
	if err != nil {
		return err
	}
	for _, name := range set.Tools() {
		if _, known := registry.Lookup(name); !known {
			a.note("note: the policy names the tool %s, which is not here: a name that is misspelt fits no call", show.Short(fmt.Sprintf("%q", name), 80))
		}
	}
	return nil
}

func (a *app) policyShow() *cobra.Command {
	var schema bool
	cmd := &cobra.Command{
		Use: "show [ID]", Short: "Print the policies in force, or those of one id", Args: command.Args(0, 1, "an id at most"),
		Long: "Print the policies of --policy, else of the node that runs on --data, else the program's own, or those of one id, as\n" +
			"verdicts and the log name them. --schema prints what policies can speak of, in Cedar's notation for schemas.",
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				return a.say(map[string]string{"schema": cedar.SchemaText()}, "%s", cedar.SchemaText())
			}
			if err := a.set.asNode(); err != nil {
				return err
			}
			set, err := policyfile.Load(a.set.policy)
			if err != nil {
				return errors.Join(a.showState(), err) // what is in force is not in the files any more
			}
			a.noteVersion(set)
			list := set.Policies()
			if len(args) == 1 {
				if list = set.Find(args[0]); len(list) == 0 {
					return fmt.Errorf("the policy has none with the id %q", args[0])
				}
			}
			return a.showPolicies(set.Version(), list, len(args) == 0)
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "print the schema instead")
	a.set.toolFlags(cmd.Flags())
	return cmd
}

// showState prints what the node that runs has told of its policy, if one does.
func (a *app) showState() error {
	switch {
	case a.set.policyTold == "":
	case a.json:
		return a.printJSON(map[string]any{"state": json.RawMessage(a.set.policyTold)})
	default:
		a.noteState(a.set.policyTold)
	}
	return nil
}

// showPolicies prints policies, and where it is all of them, what the node that runs has
// told of them.
func (a *app) showPolicies(version string, list []cedar.Policy, all bool) error {
	if a.json {
		out := []onePolicy{}
		for _, p := range list {
			out = append(out, onePolicyOf(p))
		}
		answer := map[string]any{"policy": version, "policies": out}
		if a.set.policyTold != "" {
			answer["state"] = json.RawMessage(a.set.policyTold)
		}
		return a.printJSON(answer)
	}
	if all {
		if err := a.showState(); err != nil {
			return err
		}
	}
	for i, p := range list {
		if i > 0 {
			a.print("\n")
		}
		a.print("// %s:%d\n", show.Short(p.File, 200), p.Line)
		for line := range strings.Lines(p.Text) {
			a.print("%s\n", show.Short(strings.TrimRight(line, "\r\n"), 1000))
		}
	}
	return nil
}
