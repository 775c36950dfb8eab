package tools

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the work of one validation, in visits of a schema to a value.
// A visit takes well under a microsecond.
const maxSteps = 1_000_000

// affordable says whether validating v takes at most maxSteps visits. A few
// lines of $ref that double each other would otherwise take for ever, and a
// validation cannot be stopped. The walk mirrors the validator, but takes
// every branch, so it never counts too little.
func affordable(s *jsonschema.Schema, v any) bool {
	b := budget{left: maxSteps}
	return b.visit(s, v, nil)
}

type budget struct{ left int }

// chain is the way by which a schema was reached without leaving the value.
type chain struct {
	schema *jsonschema.Schema
	parent *chain
}

func (c *chain) has(s *jsonschema.Schema) bool {
	for ; c != nil; c = c.parent {
		if c.schema == s {
			return true
		}
	}
	return false
}

func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= 0
}

func (b *budget) visit(s *jsonschema.Schema, v any, above *chain) bool {
	if s == nil {
		return true
	}
	if !b.spend(1) {
		return false
	}
	if above.has(s) {
		return true // the validator stops here, with an error
	}
	if s.Enum != nil && !b.spend(len(s.Enum.Values)) {
		return false
	}
	here := &chain{schema: s, parent: above}
	for _, c := range inPlace(s) {
		if !b.visit(c, v, here) {
			return false
		}
	}
	switch v := v.(type) {
	case map[string]any:
		return b.object(s, v, here)
	case []any:
		return b.array(s, v)
	case string:
		return b.spend(len(v) / 64)
	case json.Number:
		return b.spend(len(v) / 64)
	}
	return true
}

// inPlace are the schemas that judge the same value as s does.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for _, c := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
		if c != nil {
			out = append(out, c)
		}
	}
	out = append(append(append(out, s.AllOf...), s.AnyOf...), s.OneOf...)
	return out
}

func (b *budget) object(s *jsonschema.Schema, obj map[string]any, here *chain) bool {
	for name, dependent := range s.DependentSchemas {
		if _, ok := obj[name]; ok && !b.visit(dependent, obj, here) {
			return false
		}
	}
	for name, dependent := range s.Dependencies {
		c, ok := dependent.(*jsonschema.Schema)
		if _, has := obj[name]; ok && has && !b.visit(c, obj, here) {
			return false
		}
	}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for name, child := range obj {
		for _, c := range []*jsonschema.Schema{s.Properties[name], additional, s.UnevaluatedProperties} {
			if !b.visit(c, child, nil) {
				return false
			}
		}
		if s.PropertyNames != nil && !b.visit(s.PropertyNames, name, nil) {
			return false
		}
		for re, c := range s.PatternProperties {
			if !b.spend(1+len(name)/64) || re.MatchString(name) && !b.visit(c, child, nil) {
				return false
			}
		}
	}
	return true
}

func (b *budget) array(s *jsonschema.Schema, arr []any) bool {
	if s.UniqueItems && !b.spend(len(arr)) {
		return false
	}
	items, _ := s.Items.(*jsonschema.Schema)
	tuple, _ := s.Items.([]*jsonschema.Schema)
	additional, _ := s.AdditionalItems.(*jsonschema.Schema)
	every := []*jsonschema.Schema{s.Contains, items, additional, s.Items2020, s.UnevaluatedItems}
	for i, child := range arr {
		for _, c := range every {
			if !b.visit(c, child, nil) {
				return false
			}
		}
		for _, prefix := range [][]*jsonschema.Schema{s.PrefixItems, tuple} {
			if i < len(prefix) && !b.visit(prefix[i], child, nil) {
				return false
			}
		}
	}
	return true
}
