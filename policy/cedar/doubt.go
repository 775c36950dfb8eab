package cedar

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// patternSigns are what a pattern of names holds in other languages, and a name may hold,
// too. A word in square brackets alone is none: frameworks name files so.
var patternSigns = regexp.MustCompile(`(?:\*|\?|\[[!^]?(?:[A-Za-z0-9]-[A-Za-z0-9])+\]|\{[^{}]*,[^{}]*\})+`)

// doubts are names of a policy that look like patterns. Each may be a name, and the
// policy then says what it should: so it loads, and its author is told.
func doubts(p *cedar.Policy) []complaint {
	tree := (*ast.Policy)(p.AST())
	var out []complaint
	add := func(name, text string) {
		if c := (complaint{name, text}); text != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, uid := range entitiesOf(tree) {
		add(string(uid.ID), patternEntity(uid))
	}
	for _, c := range comparisonsOf(tree) {
		add(c.text, c.doubt())
	}
	return out
}

// patternEntity says what to write for an entity whose name looks like a pattern; "" where
// it does not.
func patternEntity(uid types.EntityUID) string {
	id := string(uid.ID)
	if !patternSigns.MatchString(id) {
		return ""
	}
	var attribute string
	switch uid.Type {
	case typePath:
		attribute = "resource is Path && resource.path"
	case typeAgent, typePerson, typeService:
		attribute = "principal.id"
	default:
		return ""
	}
	text := fmt.Sprintf("%s::%s is a name, and no pattern", uid.Type, shown(id))
	folder := strings.TrimRight(id, "*/")
	switch {
	case uid.Type == typePath && folder == "":
		return text + `: resource in Path::"." covers all that is in the workspace`
	case uid.Type == typePath && !patternSigns.MatchString(folder) && strings.Contains(id[len(folder):], "/"):
		return text + fmt.Sprintf(": resource in Path::%s covers all below it", shown(folder))
	}
	return text + fmt.Sprintf(": write a condition instead, %s like %s", attribute, likePattern(id))
}

// likePattern is a pattern in Cedar's notation: its only sign is *, which stands for any
// characters, those between folders included.
func likePattern(id string) string {
	out := patternSigns.ReplaceAllString(strings.ReplaceAll(id, "**/", "*"), "*")
	return plainText(strconv.Quote(out), 200)
}

// comparison is a text that one of the attributes is held against.
type comparison struct{ attribute, text string }

// doubt says what to write where the text looks like a pattern; "" where it does not.
func (c comparison) doubt() string {
	if !patternSigns.MatchString(c.text) {
		return ""
	}
	return fmt.Sprintf("%s is compared with the very text %s: a pattern stands behind like, %s like %s", c.attribute, shown(c.text), c.attribute, likePattern(c.text))
}

// comparisonsOf are those of a policy's conditions.
func comparisonsOf(p *ast.Policy) []comparison {
	var out []comparison
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			out = append(out, comparisons(n)...)
			return true
		})
	}
	return out
}

// comparisons are those that a node makes: by == and !=, or by a list that contains what
// is asked for. Arguments are left out: some hold patterns.
func comparisons(n ast.IsNode) []comparison {
	switch n := n.(type) {
	case ast.NodeTypeEquals:
		return append(against(n.Left, n.Right), against(n.Right, n.Left)...)
	case ast.NodeTypeNotEquals:
		return append(against(n.Left, n.Right), against(n.Right, n.Left)...)
	case ast.NodeTypeContains:
		set, _ := n.Left.(ast.NodeTypeSet)
		var out []comparison
		for _, e := range set.Elements {
			out = append(out, against(n.Right, e)...)
		}
		return out
	}
	return nil
}

// against is the comparison of an attribute with a text; none where they are not these.
func against(attribute, text ast.IsNode) []comparison {
	a, isAttribute := attribute.(ast.NodeTypeAccess)
	v, isValue := text.(ast.NodeValue)
	s, isText := v.Value.(types.String)
	if !isAttribute || !isValue || !isText {
		return nil
	}
	of := partOf(a.Arg)
	if variable, ok := a.Arg.(ast.NodeTypeVariable); ok {
		of = string(variable.Name)
	} else if of != "" {
		of = "context." + of
	}
	if of == "" {
		return nil
	}
	return []comparison{{of + "." + string(a.Value), string(s)}}
}
