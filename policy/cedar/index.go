package cedar

import (
	"slices"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/sluice-run/sluice/events"
)

// The entity types of the schema.
const (
	typeAgent   types.EntityType = "Agent"
	typePerson  types.EntityType = "Person"
	typeService types.EntityType = "Service"
	typeTool    types.EntityType = "Tool"
	typePath    types.EntityType = "Path"
	typeHost    types.EntityType = "Host"
	typeShell   types.EntityType = "Shell"
	typeMode    types.EntityType = "Mode"
	typeTier    types.EntityType = "Tier"
	typeText    types.EntityType = "Text"
	typeNumbers types.EntityType = "Numbers"
	typeAction  types.EntityType = "Action"
	typeClass   types.EntityType = "Class"
)

// Actions by their place; the last one stands for a class that is not known, which the
// floor denies.
const (
	numActions    = 6
	unknownAction = numActions - 1
)

var actions = [numActions]types.EntityUID{
	{Type: typeAction, ID: types.String(events.OpRead)},
	{Type: typeAction, ID: types.String(events.OpWrite)},
	{Type: typeAction, ID: types.String(events.OpExecute)},
	{Type: typeAction, ID: types.String(events.OpNetwork)},
	{Type: typeAction, ID: types.String(events.OpDelegate)},
	{Type: typeAction, ID: "unknown"},
}

func actionOf(class events.OpClass) int {
	for i, a := range actions[:unknownAction] {
		if string(a.ID) == string(class) {
			return i
		}
	}
	return unknownAction
}

// Kinds of resources by their place.
const (
	kindTool = iota
	kindPath
	kindHost
	kindShell
	numKinds
)

var kinds = [numKinds]types.EntityType{typeTool, typePath, typeHost, typeShell}

// wants is what policies look at that has to be read out of a request.
type wants struct{ args, numbers, workspace, names, class, session, time bool }

// own says whether policies look at what the context has of a request's own.
func (w wants) own() bool { return w.workspace || w.class || w.session || w.time }

// list is some policies, by their place, and what they cost together.
type list struct {
	rules []int
	cost  cost
}

func (l *list) add(i int, c cost) {
	l.rules = append(l.rules, i)
	l.cost = l.cost.plus(c)
}

// shelf is the policies that may fit a question about an action.
type shelf struct {
	kinds [numKinds]list            // by the kind of the resource
	keyed map[types.EntityUID]*list // those that fit only one resource or principal, and what is in it
}

// index sorts the policies by what they may fit, and notes what they look at: a policy
// that cannot fit a question says nothing of it, so that leaving it out changes no
// answer. Those that do not look at the principal are kept apart: they say the same for
// everybody.
func (s *Set) index() {
	s.named = make(map[types.EntityUID]bool)
	shellPlace := -1
	for i := range s.rules {
		r := &s.rules[i]
		tree := (*ast.Policy)(r.policy.AST())
		for _, uid := range entitiesOf(tree) {
			s.named[uid] = true
		}
		s.look(tree)
		r.cost = costOf(tree, r.cost.words)
		s.whole = s.whole.plus(r.cost)
		kind := resourcesOf(tree.Resource)
		if len(kind) == 1 && kind[0] == kindShell { // what a line does is told in the order of the line
			if shellPlace < 0 {
				shellPlace = i
			}
			r.place = shellPlace
		}
		shelves := &s.anybody
		if whose(tree) {
			shelves = &s.somebody
		}
		key, keyed := keyOf(tree)
		for _, a := range actionsOf(tree.Action) {
			sh := &shelves[a]
			if !keyed {
				for _, k := range kind {
					sh.kinds[k].add(i, r.cost)
				}
				continue
			}
			if sh.keyed == nil {
				sh.keyed = make(map[types.EntityUID]*list)
			}
			if sh.keyed[key] == nil {
				sh.keyed[key] = &list{}
			}
			sh.keyed[key].add(i, r.cost)
		}
	}
	s.plain, s.paths = contexts(), plainPaths()
}

// whose says whether a policy looks at the principal.
func whose(tree *ast.Policy) bool {
	if _, all := tree.Principal.(ast.ScopeTypeAll); !all {
		return true
	}
	found := false
	for _, c := range tree.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			v, ok := n.(ast.NodeTypeVariable)
			found = found || ok && v.Name == "principal"
			return !found
		})
	}
	return found
}

// keyOf is the one resource or principal without which a policy does not fit: that of
// its scope, or of what its first condition asks first. Everything behind it is then
// not even evaluated, so that nothing there can fail.
func keyOf(tree *ast.Policy) (key types.EntityUID, ok bool) {
	for _, scope := range []ast.IsScopeNode{tree.Resource, tree.Principal} {
		switch s := scope.(type) {
		case ast.ScopeTypeEq:
			return s.Entity, true
		case ast.ScopeTypeIn:
			return s.Entity, true
		case ast.ScopeTypeIsIn:
			return s.Entity, true
		}
	}
	if len(tree.Conditions) == 0 || tree.Conditions[0].Condition != ast.ConditionWhen {
		return key, false
	}
	n := tree.Conditions[0].Body
	for {
		and, more := n.(ast.NodeTypeAnd)
		if !more {
			break
		}
		n = and.Left
	}
	switch n := n.(type) {
	case ast.NodeTypeIn:
		return literalOf(n.Left, n.Right)
	case ast.NodeTypeEquals:
		return literalOf(n.Left, n.Right)
	}
	return key, false
}

// literalOf is the entity that the resource or the principal is compared with.
func literalOf(left, right ast.IsNode) (key types.EntityUID, ok bool) {
	v, ok := left.(ast.NodeTypeVariable)
	if !ok || v.Name != "resource" && v.Name != "principal" {
		return key, false
	}
	value, ok := right.(ast.NodeValue)
	if !ok {
		return key, false
	}
	key, ok = value.Value.(types.EntityUID)
	return key, ok
}

// resourcesOf are the kinds of resources that a scope may fit.
func resourcesOf(scope ast.IsResourceScopeNode) []int {
	of := func(t types.EntityType) []int {
		if i := slices.Index(kinds[:], t); i >= 0 {
			return []int{i}
		}
		return nil
	}
	switch r := scope.(type) {
	case ast.ScopeTypeEq:
		return of(r.Entity.Type)
	case ast.ScopeTypeIn:
		return of(r.Entity.Type)
	case ast.ScopeTypeIs:
		return of(r.Type)
	case ast.ScopeTypeIsIn:
		return of(r.Type)
	}
	return []int{kindTool, kindPath, kindHost, kindShell}
}

// actionsOf are the actions that a scope may fit. Actions are in no groups.
func actionsOf(scope ast.IsActionScopeNode) []int {
	var uids []types.EntityUID
	switch a := scope.(type) {
	case ast.ScopeTypeEq:
		uids = []types.EntityUID{a.Entity}
	case ast.ScopeTypeIn:
		uids = []types.EntityUID{a.Entity}
	case ast.ScopeTypeInSet:
		uids = a.Entities
	default:
		return []int{0, 1, 2, 3, 4, unknownAction}
	}
	var out []int
	for i, a := range actions {
		if slices.Contains(uids, a) {
			out = append(out, i)
		}
	}
	return out
}

// look notes what the conditions of a policy look at.
func (s *Set) look(tree *ast.Policy) {
	for _, c := range tree.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeAccess:
				s.wants.names = s.wants.names || n.Value == "path" || n.Value == "name"
				if v, ok := n.Arg.(ast.NodeTypeVariable); ok && v.Name == "context" {
					s.wants.args = s.wants.args || n.Value == "args"
					s.wants.numbers = s.wants.numbers || n.Value == "numbers"
					s.wants.workspace = s.wants.workspace || n.Value == "workspace"
					s.wants.class = s.wants.class || n.Value == "classification"
					s.wants.session = s.wants.session || n.Value == "session"
					s.wants.time = s.wants.time || n.Value == "time" || n.Value == "weekday"
					return false
				}
			case ast.NodeTypeVariable:
				if n.Name == "context" { // all of it
					s.wants = wants{args: true, numbers: true, workspace: true, names: s.wants.names, class: true, session: true, time: true}
				}
			}
			return true
		})
	}
}
