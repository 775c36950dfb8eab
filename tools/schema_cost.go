package tools

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the work of one validation, in visits of a schema to a value.
// A visit takes about a microsecond, and an error at one some hundred bytes.
const maxSteps = 500_000

// affordable says whether validating v takes at most maxSteps steps. A few
// lines of $ref that double each other would otherwise take for ever, and a
// validation cannot be stopped. The walk mirrors the validator, but takes
// every branch, so it never counts too little.
func affordable(c *compiled, v any) bool { return steps(c, v) <= maxSteps }

// steps is what validating v takes, counted up to a little more than maxSteps.
func steps(c *compiled, v any) int {
	b := budget{left: maxSteps, of: c, heavy: heaviest(v)}
	if !b.visit(c.Schema, v, nil) {
		return maxSteps + 1
	}
	return maxSteps - b.left
}

// heaviest is the weight of the heaviest number in v, at least 1.
func heaviest(v any) int {
	n := 1
	switch v := v.(type) {
	case json.Number:
		n = max(n, numberWeight(string(v)))
	case []any:
		for _, e := range v {
			n = max(n, heaviest(e))
		}
	case map[string]any:
		for _, e := range v {
			n = max(n, heaviest(e))
		}
	}
	return n
}

type budget struct {
	left  int
	of    *compiled
	heavy int // weight of the heaviest number
	depth int // of the value in the arguments
}

// chain is the way by which a schema was reached without leaving the value.
type chain struct {
	schema *jsonschema.Schema
	parent *chain
	length int
}

func (c *chain) has(s *jsonschema.Schema) bool {
	for ; c != nil; c = c.parent {
		if c.schema == s {
			return true
		}
	}
	return false
}

func (c *chain) len() int {
	if c == nil {
		return 0
	}
	return c.length
}

// spend takes n steps. What is over the bound is never taken, so nothing overflows.
func (b *budget) spend(n int) bool {
	b.left -= min(n, maxSteps+1)
	return b.left >= 0
}

func (b *budget) visit(s *jsonschema.Schema, v any, above *chain) bool {
	if s == nil {
		return true
	}
	// The library looks for circles along the chain, and every error holds its place.
	if above.len() >= maxInPlace || !b.spend(1+above.len()/16+b.depth/16) {
		return false
	}
	if above.has(s) {
		return true // the validator stops here, with an error
	}
	if !b.spend(b.scalar(s, v)) {
		return false
	}
	here := &chain{schema: s, parent: above, length: above.len() + 1}
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
	}
	return true
}

// scalar is what a schema's own keywords cost on a value, its parts left out.
func (b *budget) scalar(s *jsonschema.Schema, v any) int {
	n := b.of.fixed[s]
	if s.Enum != nil || s.Const != nil {
		n = min(n, maxSteps) * b.heavy
	}
	switch v := v.(type) {
	case string:
		n += len(v) / 64
		if p, ok := s.Pattern.(pattern); ok {
			n += matching(p, v)
		}
		if s.Format != nil {
			n += len(v) / 16
		}
	case json.Number:
		n += 4 * numberWeight(string(v))
	}
	return n
}

// matching is what it takes to match a text, in steps.
func matching(p pattern, text string) int { return 1 + (len(text)+8)*p.size/64 }

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
	if !b.spend(b.members(len(obj))) {
		return false
	}
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
	b.depth++
	defer func() { b.depth-- }()
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
			p, ok := re.(pattern)
			if !ok || !b.spend(matching(p, name)) || re.MatchString(name) && !b.visit(c, child, nil) {
				return false
			}
		}
	}
	return true
}

// members is what a visit to a value with n members costs beside the visits to them.
func (b *budget) members(n int) int {
	if b.of.loose {
		return 2 * n
	}
	return n / 4
}

func (b *budget) array(s *jsonschema.Schema, arr []any) bool {
	if b.of.loose && !b.spend(2*len(arr)) || s.UniqueItems && !b.spend(comparing(arr)) {
		return false
	}
	items, _ := s.Items.(*jsonschema.Schema)
	tuple, _ := s.Items.([]*jsonschema.Schema)
	additional, _ := s.AdditionalItems.(*jsonschema.Schema)
	every := []*jsonschema.Schema{s.Contains, items, additional, s.Items2020, s.UnevaluatedItems}
	b.depth++
	defer func() { b.depth-- }()
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

// comparing is what it takes to find equal items. The library tells strings and plain
// integers apart by a hash that no other one has; for everything else an enemy finds as
// many values of one hash as he likes, and each is then compared with each.
func comparing(arr []any) int {
	all, others, odd := 0, 0, 0
	for _, e := range arr {
		w := weight(e)
		all = min(all+w, maxSteps)
		if !wellHashed(e) {
			others++
			odd = min(odd+w, maxSteps)
		}
	}
	if len(arr) <= 20 { // compared, every one with every one, without a hash
		return all * len(arr)
	}
	return all + odd*others/2
}

func wellHashed(v any) bool {
	switch v := v.(type) {
	case string, bool, nil:
		return true
	case json.Number:
		return len(v) < 19 && numberIsPlain(string(v))
	}
	return false
}

func numberIsPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
