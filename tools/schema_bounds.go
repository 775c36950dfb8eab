package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on what a schema is made of. Compiling one takes time that grows with the
// square of its parts, and cannot be stopped.
const (
	maxSchemaParts  = 4096    // objects and booleans of the document
	maxSchemaWays   = 4 << 20 // bytes of the JSON Pointers to all of them
	maxEnumParts    = 1000    // objects and lists in one enum, which some drafts compare with each other
	maxPattern      = 4096    // bytes of one regular expression
	maxInstructions = 2000    // of one regular expression, compiled
	maxInPlace      = 256     // schemas that judge one value, each because of the one before
)

// survey looks at a schema's document before it is compiled: its size, and references
// whose cost cannot be told. It looks at every object of the document, the names of
// properties included, which is stricter than it need be and never less.
type survey struct {
	parts, ways int
	names       bool   // a part has a name of its own, which references may be relative to
	away        string // a reference that is no place in the document; "" there is none
}

// outside is an error where a reference leads out of the document. Without $id there is
// nothing that one could be relative to; the library would take it for the document.
func (s *survey) outside() error {
	if s.away == "" || s.names {
		return nil // what is not in the document then is not loaded: see noLoader
	}
	return fmt.Errorf("%s is outside of the schema: copy it into $defs", shorten(s.away, 100))
}

func (s *survey) look(doc any, way int) error {
	switch v := doc.(type) {
	case bool:
		return s.count(way)
	case map[string]any:
		if err := s.count(way); err != nil {
			return err
		}
		for name, child := range v {
			if err := s.member(name, child); err != nil {
				return err
			}
			if err := s.look(child, way+len(name)+1); err != nil {
				return err
			}
		}
	case []any:
		for _, child := range v {
			if err := s.look(child, way+6); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *survey) count(way int) error {
	if s.parts++; s.parts > maxSchemaParts {
		return fmt.Errorf("it has more than %d parts", maxSchemaParts)
	}
	if s.ways += way; s.ways > maxSchemaWays {
		return errors.New("its names are too long where they are nested: shorten them")
	}
	return nil
}

func (s *survey) member(name string, child any) error {
	switch v := child.(type) {
	case string:
		// The target of these depends on the way by which they were reached.
		if name == "$dynamicRef" || name == "$recursiveRef" {
			return fmt.Errorf("%s %q is not supported: use $ref", name, shorten(v, 100))
		}
		s.names = s.names || name == "$id" || name == "id"
		if name == "$ref" && !strings.HasPrefix(v, "#") {
			s.away = max(s.away, v) // one of them, the same every time
		}
	case []any:
		lists := 0
		for _, e := range v {
			switch e.(type) {
			case map[string]any, []any:
				lists++
			}
		}
		if name == "enum" && lists > maxEnumParts {
			return fmt.Errorf("an enum has more than %d objects and lists", maxEnumParts)
		}
	}
	return nil
}

// pattern is a regular expression that knows how much work it is.
type pattern struct {
	*regexp.Regexp
	size int // instructions
}

// compilePattern compiles a regular expression that stays small. (a{1000}){1000}
// takes a few bytes to write, and more memory than a node has.
func compilePattern(s string) (jsonschema.Regexp, error) {
	if len(s) > maxPattern {
		return nil, fmt.Errorf("a regular expression has %d bytes, and at most %d are taken", len(s), maxPattern)
	}
	size, err := RegexpSize(s)
	if err != nil {
		return nil, err
	}
	if size > maxInstructions {
		return nil, fmt.Errorf("the regular expression %q repeats too much: it comes to more than %d steps", shorten(s, 100), maxInstructions)
	}
	re, err := regexp.Compile(s)
	return pattern{re, size}, err
}

// RegexpSize is about how many instructions a regular expression (RE2) has when it is
// compiled, without compiling it; more than a million are not counted out. Matching takes at most
// that many steps for each byte, and cannot be stopped. It returns an error of
// regexp/syntax for what is no regular expression.
func RegexpSize(expr string) (int, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return instructions(re), nil
}

func instructions(re *syntax.Regexp) int {
	const most = 1_000_000
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n = min(n+instructions(sub), most)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, most)
}

// compiled is a schema with what its validation costs.
type compiled struct {
	*jsonschema.Schema
	fixed map[*jsonschema.Schema]int // steps of enum, const and lists of names, for each visit
	loose bool                       // some part speaks of unevaluated members: each visit then copies a value's names
}

// measure looks at every part of a compiled schema. It refuses parts from elsewhere: the
// library knows the schemas of JSON Schema itself.
func measure(top *jsonschema.Schema) (*compiled, error) {
	c := &compiled{Schema: top, fixed: make(map[*jsonschema.Schema]int)}
	todo := []*jsonschema.Schema{top}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, seen := c.fixed[s]; s == nil || seen {
			continue
		}
		if !strings.HasPrefix(s.Location, schemaAt+"#") {
			return nil, fmt.Errorf("%s is outside of the schema: copy it into $defs", shorten(s.Location, 100))
		}
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return nil, errors.New("$dynamicRef and $recursiveRef are not supported: use $ref")
		}
		c.fixed[s] = fixedCost(s)
		c.loose = c.loose || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
		todo = append(todo, parts(s)...)
	}
	return c, nil
}

// fixedCost is what the lists of a schema cost each time, in steps.
func fixedCost(s *jsonschema.Schema) int {
	n := len(s.Required) + len(s.Dependencies) + len(s.DependentSchemas)
	for _, d := range s.DependentRequired {
		n += 1 + len(d)
	}
	for _, d := range s.Dependencies {
		if names, ok := d.([]string); ok {
			n += len(names)
		}
	}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			n += weight(v)
		}
	}
	if s.Const != nil {
		n += weight(*s.Const)
	}
	return n
}

// weight is what it costs to compare with a value, in steps.
func weight(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / 64
	case json.Number:
		n += numberWeight(string(v))
	case []any:
		for _, e := range v {
			n += weight(e)
		}
	case map[string]any:
		for name, e := range v {
			n += len(name)/64 + weight(e)
		}
	}
	return n
}

// numberWeight is what it costs to write a number out: 1e1000 is short, and has a
// thousand digits.
func numberWeight(s string) int {
	n := len(s)
	for i := range len(s) {
		if s[i]|0x20 == 'e' {
			exp := 0
			for _, c := range strings.TrimLeft(s[i+1:], "+-0") {
				exp = min(exp*10+int(c-'0'), maxExponent)
			}
			n += exp
		}
	}
	return n / 16
}

// parts are the schemas that a schema is made of.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	out := inPlace(s)
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	items, _ := s.Items.(*jsonschema.Schema)
	tuple, _ := s.Items.([]*jsonschema.Schema)
	more, _ := s.AdditionalItems.(*jsonschema.Schema)
	out = append(out, additional, items, more, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	out = append(append(out, tuple...), s.PrefixItems...)
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, c := range m {
			out = append(out, c)
		}
	}
	for _, c := range s.PatternProperties {
		out = append(out, c)
	}
	for _, d := range s.Dependencies {
		c, _ := d.(*jsonschema.Schema)
		out = append(out, c)
	}
	return out
}
