package cedar

import (
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// maxCost is the most that one call may cost to judge, in words and signs of policies
// that are evaluated: some tenths of a second. A call chooses how many paths it names,
// and how long its arguments are, and an operator how many policies look at them.
const maxCost = 200_000_000

// cost is what it takes to evaluate policies once, at most.
type cost struct {
	words int // of their texts
	own   int // bytes of the patterns that are held against what is short: names and ids
	args  int // bytes of the patterns of policies that look at arguments
}

func (c cost) plus(o cost) cost { return cost{c.words + o.words, c.own + o.own, c.args + o.args} }

// shortText is about how long names and ids are; that of a path or a host counts beside it.
const shortText = 64

// of is the cost with texts of these lengths. A pattern is held against each place of a text.
func (c cost) of(name, args int) int {
	return c.words + c.own*(name+shortText)/4 + c.args*(args+shortText)/4
}

// costOf is what a policy of so many words costs.
func costOf(tree *ast.Policy, words int) cost {
	c, patterns, args := cost{words: words}, 0, false
	for _, cond := range tree.Conditions {
		ast.Inspect(ast.NewNode(cond.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeLike:
				patterns += len(n.Value.MarshalCedar())
			case ast.NodeTypeAccess:
				args = args || n.Value == "args" || n.Value == "workspace"
			}
			return true
		})
	}
	if args {
		c.args = patterns
	} else {
		c.own = patterns
	}
	return c
}

// tooMuch denies a call that would take too long to judge.
var tooMuch = policy.Finding{
	Decision: policy.Deny, Code: events.TooLarge, Policies: []string{"default.limit"},
	Reason: "The call touches more than the policy can look at in time; split it into several calls.",
}

// affordable says whether the questions of a call may be asked of so many principals.
func (t *tally) affordable(chain []types.EntityUID) bool {
	a, sum := actionOf(t.req.Op.Class), 0
	args := max(len(t.req.Args), len(t.req.Workspace))
	longest := 0
	for i := range t.things {
		longest = max(longest, len(t.things[i].uid.ID))
	}
	if len(t.things)*len(chain)*t.set.whole.of(longest, args) <= maxCost {
		return true // whatever is asked
	}
	for i := range t.things {
		thing := &t.things[i]
		c := costOfAll(t.set.anybody[a].fit(thing, nil, nil))
		own := costOfAll(t.set.somebody[a].fit(thing, chain, nil))
		sum += c.of(len(thing.uid.ID), args) + len(chain)*own.of(len(thing.uid.ID), args)
		if sum > maxCost {
			return false
		}
	}
	return true
}

// costOfAll is what it takes to ask all of some lists.
func costOfAll(lists []*list) (sum cost) {
	for _, l := range lists {
		sum = sum.plus(l.cost)
	}
	return sum
}
