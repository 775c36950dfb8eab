package cedar

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/policy"
)

// complaint is what is wrong with a policy, near a word of its text.
type complaint struct{ near, text string }

// known is the schema as the checks use it.
type known struct {
	schema    *resolved.Schema
	validator *validate.Validator
	attrs     map[string][]string // by variable: every attribute that it can have
	members   map[types.EntityType][]string
	parts     map[string][]string // of the context: the records in it, with their attributes
}

// theSchema is made once: it never changes.
var theSchema = sync.OnceValue(func() *known {
	var s schema.Schema
	s.SetFilename("schema.cedarschema")
	if err := s.UnmarshalCedar([]byte(schemaText)); err != nil {
		panic("cedar: the schema of the package does not parse: " + err.Error())
	}
	r, err := s.Resolve()
	if err != nil {
		panic("cedar: the schema of the package does not resolve: " + err.Error())
	}
	k := &known{schema: r, validator: validate.New(r), attrs: map[string][]string{}, members: map[types.EntityType][]string{}, parts: map[string][]string{}}
	for uid, a := range r.Actions {
		k.members[uid.Type] = append(k.members[uid.Type], string(uid.ID))
		k.add("context", a.AppliesTo.Context)
		for name, t := range a.AppliesTo.Context {
			if r, ok := t.Type.(resolved.RecordType); ok && k.parts[string(name)] == nil {
				for attr := range r {
					k.parts[string(name)] = append(k.parts[string(name)], string(attr))
				}
				slices.Sort(k.parts[string(name)])
			}
		}
		for _, t := range a.AppliesTo.Principals {
			k.add("principal", r.Entities[t].Shape)
		}
		for _, t := range a.AppliesTo.Resources {
			k.add("resource", r.Entities[t].Shape)
		}
	}
	for t, e := range r.Enums {
		for _, v := range e.Values {
			k.members[t] = append(k.members[t], string(v.ID))
		}
	}
	for _, list := range k.members {
		slices.Sort(list)
	}
	return k
})

func (k *known) add(variable string, shape resolved.RecordType) {
	for name := range shape {
		if !slices.Contains(k.attrs[variable], string(name)) {
			k.attrs[variable] = append(k.attrs[variable], string(name))
		}
	}
	slices.Sort(k.attrs[variable])
}

// check holds a policy against the schema, and against what the schema cannot say:
// entities that can never be, and questions that are always answered the same.
func check(p *cedar.Policy) []complaint {
	k := theSchema()
	tree := (*ast.Policy)(p.AST())
	var out []complaint
	add := func(c complaint) {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, uid := range entitiesOf(tree) {
		if text := k.literal(uid); text != "" {
			add(complaint{string(uid.ID), text})
		}
	}
	for _, c := range tree.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			if c, ok := k.question(n); ok {
				add(c)
			}
			return true
		})
	}
	if len(out) > 0 {
		return out // what the validator would say follows from it
	}
	if err := k.validator.Policy("", tree); err != nil {
		for _, text := range strings.Split(err.Error(), "\n") {
			c := k.explain(text)
			if m := wrongType.FindStringSubmatch(text); m != nil {
				if m[2] == "True" || m[2] == "False" {
					m[2] = "Bool"
				}
				c.near, c.text = mistyped(tree, m[2]), fmt.Sprintf("unexpected type: here a %s stands, where a %s is wanted", m[2], m[1])
				if m[1] == "Long" && m[2] == "String" {
					c.text += ": numbers are written without quotes, and context.numbers has the arguments that are some"
				}
			}
			add(c)
		}
	}
	slices.SortFunc(out, func(a, b complaint) int { return strings.Compare(a.text, b.text) })
	return out
}

// entitiesOf are the entities that a policy names.
func entitiesOf(p *ast.Policy) []types.EntityUID {
	var out []types.EntityUID
	for _, scope := range []ast.IsScopeNode{p.Principal, p.Action, p.Resource} {
		switch s := scope.(type) {
		case ast.ScopeTypeEq:
			out = append(out, s.Entity)
		case ast.ScopeTypeIn:
			out = append(out, s.Entity)
		case ast.ScopeTypeInSet:
			out = append(out, s.Entities...)
		case ast.ScopeTypeIsIn:
			out = append(out, s.Entity)
		}
	}
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			if v, ok := n.(ast.NodeValue); ok {
				if uid, ok := v.Value.(types.EntityUID); ok {
					out = append(out, uid)
				}
			}
			return true
		})
	}
	return out
}

// literal says why no request has an entity; "" if one may.
func (k *known) literal(uid types.EntityUID) string {
	id := string(uid.ID)
	list, closed := k.members[uid.Type]
	_, open := k.schema.Entities[uid.Type]
	switch {
	case closed && !slices.Contains(list, id):
		return fmt.Sprintf("there is no %s::%s: those are %s%s", uid.Type, shown(id), strings.Join(list, ", "), meant(id, list))
	case closed:
		return ""
	case !open:
		return fmt.Sprintf("there is no entity type %s: those are %s%s", plain(string(uid.Type), 64), strings.Join(k.types(), ", "), meant(string(uid.Type), k.types()))
	case id == "":
		return fmt.Sprintf("the name in %s::\"\" is never empty", uid.Type)
	}
	switch uid.Type {
	case typeTool:
		if !events.ValidToolName(id) {
			return fmt.Sprintf("no tool is called %s: a name is 1 to %d of A-Z a-z 0-9 _ -, and no pattern; for several tools write a condition, resource is Tool && resource.name like %s",
				shown(id), events.MaxToolName, likePattern(id))
		}
	case typePath:
		if clean := path.Clean(id); clean != id || policy.CheckPath(id) != nil {
			return fmt.Sprintf("no path is called %s: write it relative to the workspace, without /, . and .. at its ends and in between; for others there are resource.inside and resource.path", shown(id))
		}
	case typeHost:
		if host := policy.HostName(id); host != id || strings.ContainsAny(id, "/*@ ") {
			return fmt.Sprintf("no host is called %s: write it in lower case, without scheme, port, * and dot at the end; the hosts below a domain are in Host::%s", shown(id), shown("example.com"))
		}
	}
	return ""
}

func (k *known) types() []string {
	var out []string
	for t := range k.schema.Entities {
		out = append(out, string(t))
	}
	for t := range k.members {
		out = append(out, string(t))
	}
	slices.Sort(out)
	return out
}

// question says what is wrong with asking for an attribute or a tag. A literal is only a
// name: what it names is not there to be asked, and the call would be denied each time.
func (k *known) question(n ast.IsNode) (complaint, bool) {
	switch n := n.(type) {
	case ast.NodeTypeAccess:
		if of := argumentsBy(n.Arg); of != "" {
			pointer := strconv.Quote("/" + plainText(string(n.Value), 60))
			return complaint{string(n.Value), fmt.Sprintf("an argument is asked for by its JSON Pointer, and only where there is one: %s.hasTag(%s) && %s.getTag(%s)", of, pointer, of, pointer)}, true
		}
		if !isVariable(n.Arg) && partOf(n.Arg) == "" {
			return complaint{string(n.Value), fmt.Sprintf("%s is asked of what has no attributes: only principal, resource and context have some", shown(string(n.Value)))}, true
		}
	case ast.NodeTypeHas:
		if text := k.never(n); text != "" {
			return complaint{string(n.Value), text}, true
		}
	case ast.NodeTypeHasTag:
		return tag("hasTag", n.Left, n.Right)
	case ast.NodeTypeGetTag:
		return tag("getTag", n.Left, n.Right)
	}
	return complaint{}, false
}

// tag says what is wrong with asking for a tag: who has none, or a name that no argument has.
func tag(near string, of, name ast.IsNode) (complaint, bool) {
	if !isArguments(of) {
		return complaint{near, onlyArguments}, true
	}
	v, literal := name.(ast.NodeValue)
	text, ok := v.Value.(types.String)
	if !literal || !ok || strings.HasPrefix(string(text), "/") {
		return complaint{}, false
	}
	return complaint{string(text), fmt.Sprintf("no argument is found by %s: write its JSON Pointer, %s", shown(string(text)), shown("/"+string(text)))}, true
}

const onlyArguments = "only context.args and context.numbers have tags"

// partOf is the name of the record in the context that a node is, "" if it is none.
func partOf(n ast.IsNode) string {
	a, ok := n.(ast.NodeTypeAccess)
	if !ok {
		return ""
	}
	v, ok := a.Arg.(ast.NodeTypeVariable)
	if ok && v.Name == "context" && theSchema().parts[string(a.Value)] != nil {
		return string(a.Value)
	}
	return ""
}

func isVariable(n ast.IsNode) bool {
	_, ok := n.(ast.NodeTypeVariable)
	return ok
}

func isArguments(n ast.IsNode) bool { return argumentsBy(n) != "" }

// argumentsBy is how a condition speaks of the arguments, "" where it is of something else.
func argumentsBy(n ast.IsNode) string {
	if a, ok := n.(ast.NodeTypeAccess); ok && isVariable(a.Arg) && (a.Value == "args" || a.Value == "numbers") {
		return "context." + string(a.Value)
	}
	return ""
}

// never says that a has can only be false. Every attribute there is, is always there:
// a question for another one would make a policy say nothing, without a word.
func (k *known) never(has ast.NodeTypeHas) string {
	v, ok := has.Arg.(ast.NodeTypeVariable)
	if part := partOf(has.Arg); part != "" && slices.Contains(k.parts[part], string(has.Value)) {
		return ""
	}
	if !ok {
		return fmt.Sprintf("this never has %s: only principal, resource and context have attributes; an argument of the call is asked for by context.args.hasTag(\"/order\")", shown(string(has.Value)))
	}
	list := k.attrs[string(v.Name)]
	if slices.Contains(list, string(has.Value)) {
		return ""
	}
	return fmt.Sprintf("%s never has %s: it has %s%s", v.Name, shown(string(has.Value)), strings.Join(list, ", "), meant(string(has.Value), list))
}

var (
	quotedName = regexp.MustCompile("`([^`]*)`")
	forAction  = regexp.MustCompile(` for Action::"[^"]*"`)
	noTypes    = regexp.MustCompile(`^the types (\w+) and (\w+) are not compatible`)
)

// wrongType is the validator's message of a value that is not what its place wants.
var wrongType = regexp.MustCompile(`^unexpected type: expected (\w+) but saw (?:\w+::)*(\w+)`)

// mistyped is the word near which a value of the wrong type probably stands: a literal of
// that type that is compared or reckoned with, else the only sign that compares or
// reckons, else where the condition begins.
func mistyped(p *ast.Policy, saw string) string {
	var literals, signs []string
	look := func(sign string, operands ...ast.IsNode) {
		signs = append(signs, sign)
		for _, n := range operands {
			v, ok := n.(ast.NodeValue)
			if !ok {
				continue
			}
			switch l := v.Value.(type) {
			case types.String:
				if saw == "String" {
					literals = append(literals, string(l))
				}
			case types.Long, types.Boolean:
				if _, long := l.(types.Long); long == (saw == "Long") {
					literals = append(literals, l.String())
				}
			}
		}
	}
	begins := "when"
	for _, c := range p.Conditions {
		if c.Condition == ast.ConditionUnless {
			begins = "unless"
		}
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeLessThan:
				look("<", n.Left, n.Right)
			case ast.NodeTypeLessThanOrEqual:
				look("<=", n.Left, n.Right)
			case ast.NodeTypeGreaterThan:
				look(">", n.Left, n.Right)
			case ast.NodeTypeGreaterThanOrEqual:
				look(">=", n.Left, n.Right)
			case ast.NodeTypeAdd:
				look("+", n.Left, n.Right)
			case ast.NodeTypeSub:
				look("-", n.Left, n.Right)
			case ast.NodeTypeMult:
				look("*", n.Left, n.Right)
			}
			return true
		})
	}
	switch {
	case len(literals) > 0:
		return literals[0]
	case len(signs) == 1:
		return signs[0]
	case len(p.Conditions) == 1:
		return begins
	}
	return ""
}

// explain turns a message of the validator into a complaint.
func (k *known) explain(text string) complaint {
	c := complaint{text: plainText(forAction.ReplaceAllString(text, ""), 300)}
	if m := quotedName.FindStringSubmatch(text); m != nil {
		c.near = strings.Trim(m[1][strings.LastIndexAny(m[1], ".:")+1:], `"`)
	}
	switch {
	case strings.HasPrefix(text, "attribute ") && strings.Contains(text, " on entity type"):
		c.text = k.noAttribute(c.near)
	case strings.HasPrefix(text, "attribute "):
		list := k.attrs["context"]
		c.text = fmt.Sprintf("context has no attribute %s: those are %s%s", shown(c.near), strings.Join(list, ", "), meant(c.near, list))
	case strings.Contains(text, "safety of access to tag"):
		c.near = "getTag"
		c.text = `getTag of what may not be there: ask first, for example context.args.hasTag("/order") && context.args.getTag("/order") == "1"`
	case strings.Contains(text, "applicable action"):
		c.text = "no call fits this scope: actions, principals and resources of these types never meet"
	case noTypes.MatchString(text):
		m := noTypes.FindStringSubmatch(text)
		c.text = fmt.Sprintf("a %s and a %s are never equal", m[1], m[2])
		for _, t := range m[1:] {
			if list := k.members[types.EntityType(t)]; list != nil {
				c.near, c.text = list[0], fmt.Sprintf("%s: a %s is written %s::%q", c.text, t, t, list[0])
			}
		}
	}
	return c
}

// noAttribute says what to do about an attribute that not every resource or principal
// of a policy's scope has.
func (k *known) noAttribute(name string) string {
	list := append(slices.Clone(k.attrs["resource"]), k.attrs["principal"]...)
	if !slices.Contains(list, name) {
		return fmt.Sprintf("nothing has an attribute %s: there are %s%s", shown(name), strings.Join(list, ", "), meant(name, list))
	}
	var of []string
	for t, e := range k.schema.Entities {
		if _, ok := e.Shape[types.String(name)]; ok {
			of = append(of, string(t))
		}
	}
	slices.Sort(of)
	return fmt.Sprintf("not everything that this may be has the attribute %s: only %s; ask first, for example: resource is %s && resource.%s",
		shown(name), strings.Join(of, ", "), of[0], name)
}
