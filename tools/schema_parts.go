package tools

import (
	"errors"
	"regexp/syntax"
	"slices"
)

// Keywords of JSON Schema that hold schemas, in all of its revisions.
var (
	schemaOne  = []string{"items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains", "propertyNames", "not", "if", "then", "else", "contentSchema"}
	schemaList = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	schemaMap  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

// Subschemas visits the object of each schema in a schema's document, the outermost first.
// What is no schema, such as the values of const, enum and default, is not visited. visit
// may change the object; what it holds then is what is looked into. Documents deeper than
// any schema that a tool may have are not looked through to their ends.
func Subschemas(doc any, visit func(schema map[string]any)) { subschemas(doc, 0, visit) }

func subschemas(doc any, depth int, visit func(map[string]any)) {
	s, ok := doc.(map[string]any)
	if !ok || depth > maxSchemaDepth {
		return
	}
	visit(s)
	for _, name := range schemaOne {
		subschemas(s[name], depth+1, visit)
	}
	for _, name := range schemaList {
		list, _ := s[name].([]any)
		for _, child := range list {
			subschemas(child, depth+1, visit)
		}
	}
	for _, name := range schemaMap {
		named, _ := s[name].(map[string]any)
		for _, child := range named {
			subschemas(child, depth+1, visit)
		}
	}
}

// leaveForeign takes out of a document the regular expressions that are none of RE2 and
// may well be ECMAScript's, with what is said relative to them: the tool judges those
// itself. Many a library writes them into its schemas, of an e-mail address for one.
func leaveForeign(doc any) {
	Subschemas(doc, func(s map[string]any) {
		if expr, ok := s["pattern"].(string); ok && foreign(expr) {
			delete(s, "pattern")
		}
		named, _ := s["patternProperties"].(map[string]any)
		for expr := range named {
			if foreign(expr) {
				delete(named, expr)
				delete(s, "additionalProperties")
				delete(s, "unevaluatedProperties")
			}
		}
	})
}

// foreign says that an expression is within bounds, none of RE2, and looks like one that
// ECMAScript knows: with what is around it, with its escapes, repeated more often, or with
// a class in its looser notation.
func foreign(expr string) bool {
	if len(expr) > maxPattern {
		return false
	}
	_, err := syntax.Parse(expr, syntax.Perl)
	e, bad := errors.AsType[*syntax.Error](err)
	return bad && slices.Contains([]syntax.ErrorCode{
		syntax.ErrInvalidPerlOp, syntax.ErrInvalidNamedCapture, syntax.ErrInvalidEscape, syntax.ErrInvalidRepeatSize, syntax.ErrInvalidCharRange, syntax.ErrInvalidUTF8,
	}, e.Code)
}
