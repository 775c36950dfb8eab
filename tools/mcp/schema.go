package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/tools"
)

// mended is a schema without what libraries of servers write into it though it is none of
// JSON Schema, and every client overlooks: PHP's empty lists in the place of objects, null
// and other odd values of keywords, tuples of older drafts under the newest, a dialect
// that nobody knows. It is the same text where there is nothing to do, and what cannot be
// read stays for the registry to refuse.
func mended(schema json.RawMessage) json.RawMessage {
	if schema = bytes.TrimSpace(schema); noSchema(schema) {
		return anyObject
	}
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil {
		return schema
	}
	top, ok := doc.(map[string]any)
	if !ok {
		return schema
	}
	changed := false
	if list, ok := top["type"].([]any); ok && len(list) == 1 && list[0] == "object" {
		top["type"], changed = "object", true
	}
	tuples := top["$schema"] == nil
	if uri, ok := top["$schema"].(string); ok && !dialect(uri) {
		delete(top, "$schema")
		tuples, changed = true, true
	}
	tools.Subschemas(doc, func(s map[string]any) { changed = mend(s, tuples) || changed })
	if !changed {
		return schema
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return schema
	}
	return out
}

// noSchema says that there is none: any arguments will do.
func noSchema(schema []byte) bool {
	return slices.Contains([]string{"", "null", "[]", "true"}, string(schema))
}

// dialect says whether a $schema is one of JSON Schema's own.
func dialect(uri string) bool {
	_, rest, _ := strings.Cut(uri, "://")
	return strings.HasPrefix(rest, "json-schema.org/")
}

// mend is mended for the keywords of one schema.
func mend(s map[string]any, tuples bool) (changed bool) {
	for _, name := range []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependentRequired"} {
		if list, ok := s[name].([]any); ok && len(list) == 0 {
			s[name], changed = map[string]any{}, true
		}
	}
	for _, name := range []string{"additionalProperties", "items", "propertyNames", "not"} {
		if list, ok := s[name].([]any); ok && len(list) == 0 {
			delete(s, name)
			changed = true
		}
	}
	for name, v := range s {
		if v == nil && name != "const" && name != "default" {
			delete(s, name)
			changed = true
		}
	}
	for _, name := range []string{"properties", "$defs", "definitions", "patternProperties"} {
		named, _ := s[name].(map[string]any)
		for child, v := range named {
			if v == nil {
				named[child], changed = map[string]any{}, true
			}
		}
	}
	if word, ok := s["type"].(string); ok && !slices.Contains(types, word) {
		delete(s, "type")
		changed = true
	}
	if tuples {
		changed = mendLimit(s, "minimum", "exclusiveMinimum") || changed
		changed = mendLimit(s, "maximum", "exclusiveMaximum") || changed
	}
	if _, odd := s["required"].(bool); odd {
		delete(s, "required") // draft 3 had it in the property
		changed = true
	}
	if list, ok := s["items"].([]any); ok && tuples && s["prefixItems"] == nil {
		s["prefixItems"] = list
		delete(s, "items")
		if more, ok := s["additionalItems"]; ok {
			s["items"] = more
			delete(s, "additionalItems")
		}
		changed = true
	}
	return changed
}

// types are JSON Schema's.
var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

// mendLimit turns draft 4's limits, where exclusive was yes or no, into those of today.
func mendLimit(s map[string]any, limit, exclusive string) bool {
	yes, old := s[exclusive].(bool)
	if !old {
		return false
	}
	delete(s, exclusive)
	if v, ok := s[limit]; yes && ok {
		s[exclusive] = v
		delete(s, limit)
	}
	return true
}

// objects has {} for [] in the members of an object that are named, at its top: PHP has
// one empty array for both.
func objects(raw json.RawMessage, names ...string) json.RawMessage {
	var members map[string]json.RawMessage
	if !bytes.Contains(raw, []byte("[")) || json.Unmarshal(raw, &members) != nil {
		return raw
	}
	changed := false
	for _, name := range names {
		if v, ok := members[name]; ok && emptyList(v) {
			members[name], changed = json.RawMessage("{}"), true
		}
	}
	if !changed {
		return raw
	}
	out, err := json.Marshal(members)
	if err != nil {
		return raw
	}
	return out
}

// emptyList says that a value is [], whatever blanks are in it.
func emptyList(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) >= 2 && raw[0] == '[' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
}
