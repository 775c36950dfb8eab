package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
)

// deriveSchema makes the strict JSON Schema of a parameter struct. Everything
// is written in place; only a type that contains itself is referred to, inside
// the document.
func deriveSchema(t reflect.Type) (json.RawMessage, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("parameters must be a struct, not %s: give each argument a field", t)
	}
	w := typeWalk{on: map[reflect.Type]bool{}, done: map[reflect.Type]bool{}}
	if err := w.check(t, t.String()); err != nil {
		return nil, err
	}
	r := jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: !w.recursive, DoNotReference: !w.recursive,
		Namer: definitionName, LookupComment: plainDescription, Mapper: numbers,
	}
	s := r.ReflectFromType(t)
	s.Version = "" // providers do not want it, and the default is the same
	if w.recursive {
		if s = expandTop(s); s == nil {
			return nil, errors.New("no schema can be made of the parameters")
		}
	}
	return plainJSON(s)
}

// expandTop puts the definition that the top refers to in its place, since the
// top of a tool's schema must be an object.
func expandTop(s *jsonschema.Schema) *jsonschema.Schema {
	def := s.Definitions[strings.TrimPrefix(s.Ref, "#/$defs/")]
	if def == nil {
		return nil
	}
	top := *def
	top.Definitions = s.Definitions
	return &top
}

// numbers makes a json.Number, which is a string in Go, the number that it is.
func numbers(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[json.Number]() {
		return &jsonschema.Schema{Type: "number"}
	}
	return nil
}

var notName = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// definitionName keeps types of one name from different packages apart.
func definitionName(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	return notName.ReplaceAllString(t.PkgPath()+"_"+t.Name(), "_")
}

var keyword = regexp.MustCompile(`^[A-Za-z_]+(=|,|$)`)

// plainDescription is the field's jsonschema tag where that is prose and no
// list of keywords.
func plainDescription(t reflect.Type, field string) string {
	if t.Kind() != reflect.Struct || field == "" {
		return ""
	}
	f, ok := t.FieldByName(field)
	if tag := f.Tag.Get("jsonschema"); ok && tag != "-" && !keywordTag(tag) {
		return tag
	}
	return ""
}

func keywordTag(tag string) bool {
	m := keyword.FindString(tag)
	word := strings.TrimRight(m, "=,")
	return strings.HasSuffix(m, "=") || word == "required" || word == "nullable"
}

// typeWalk finds what the reflector would panic on, and whether a type contains itself.
type typeWalk struct {
	on, done  map[reflect.Type]bool
	recursive bool
}

var customSchema = reflect.TypeFor[interface{ JSONSchema() *jsonschema.Schema }]()

func (w *typeWalk) check(t reflect.Type, at string) error {
	switch {
	case w.on[t]:
		w.recursive = true
		return nil
	case w.done[t] || t.Implements(customSchema):
		return nil
	}
	w.on[t] = true
	defer func() { w.on[t], w.done[t] = false, true }()
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return w.check(t.Elem(), at)
	case reflect.Map:
		if k := t.Key().Kind(); k != reflect.String && (k < reflect.Int || k > reflect.Uint64) {
			return fmt.Errorf("%s: a map's key must be a string or an integer, not %s", at, t.Key())
		}
		return w.check(t.Elem(), at)
	case reflect.Struct:
		return w.fields(t, at)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr, reflect.Invalid:
		return fmt.Errorf("%s: a %s has no JSON: leave the field out with json:\"-\"", at, t)
	}
	return nil
}

func (w *typeWalk) fields(t reflect.Type, at string) error {
	for i := range t.NumField() {
		f := t.Field(i)
		if tag := f.Tag.Get("json"); tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if err := w.check(f.Type, at+"."+f.Name); err != nil {
			return err
		}
	}
	return nil
}
