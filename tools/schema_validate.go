package tools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxViolations is how many violations are told apart; a last one counts the rest.
const maxViolations = 100

// Violation is one thing that is wrong with a call's arguments.
type Violation struct {
	Path    string // JSON Pointer to the field, which may be one that is missing; "" means the whole
	Message string // for the model: what is wrong, and what would be right
}

// Validate says what is wrong with the arguments of a call of t, sorted by
// path; nil means nothing. Blank arguments and null are {}. Numbers are
// compared by their exact digits: 1e3 and 1.0 are integers. Its work is bounded
// whatever the arguments and the schema are; it may be called from many
// goroutines.
func Validate(t Tool, args json.RawMessage) []Violation {
	if len(args) > maxArgsBytes {
		return []Violation{{Message: fmt.Sprintf("the arguments have %d bytes, and at most %d are taken: send less", len(args), maxArgsBytes)}}
	}
	if blank(args) {
		args = json.RawMessage("{}")
	}
	v, bad := parseJSON(args, maxArgsDepth)
	if bad != nil {
		return []Violation{*bad}
	}
	if _, ok := v.(map[string]any); !ok {
		return []Violation{{Message: "arguments must be one JSON object"}}
	}
	s, err := compiledSchema(t.Schema)
	if err != nil {
		return []Violation{{Message: fmt.Sprintf("the tool %s cannot be called: %v", t.Name, err)}}
	}
	if !affordable(s, v) {
		return []Violation{{Message: "the arguments take too long to check against the tool's schema: send fewer or flatter ones"}}
	}
	err = s.Validate(v)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Violation{{Message: shorten(err.Error(), 300)}}
	}
	return tidy(violations(invalid, nil))
}

// tidy sorts violations, drops repeated ones and bounds how many there are.
func tidy(vs []Violation) []Violation {
	slices.SortFunc(vs, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	vs = slices.Compact(vs)
	if more := len(vs) - maxViolations; more > 0 {
		vs = append(vs[:maxViolations:maxViolations], Violation{Message: fmt.Sprintf("and %d more", more)})
	}
	return vs
}

// violations appends what e and its causes say.
func violations(e *jsonschema.ValidationError, out []Violation) []Violation {
	at := e.InstanceLocation
	each := func(names []string, format string) []Violation {
		for _, n := range names {
			out = append(out, Violation{pointer(append(slices.Clip(at), n)), fmt.Sprintf(format, n)})
		}
		return out
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return each(k.Missing, "%q is required and missing")
	case *kind.Dependency:
		return each(k.Missing, "%q is required where "+quoteVerb(k.Prop)+" is given")
	case *kind.DependentRequired:
		return each(k.Missing, "%q is required where "+quoteVerb(k.Prop)+" is given")
	case *kind.AdditionalProperties:
		return each(k.Properties, "%q is no argument here: leave it out")
	case *kind.PropertyNames:
		return each([]string{k.Property}, "%q is not allowed as a name here")
	case *kind.AnyOf:
		return append(out, Violation{pointer(at), alternatives(e)})
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return append(out, Violation{pointer(at), alternatives(e)})
		}
	}
	if len(e.Causes) == 0 {
		return append(out, Violation{pointer(at), sentence(e)})
	}
	for _, c := range e.Causes {
		out = violations(c, out)
	}
	return out
}

// quoteVerb quotes s for use inside a format.
func quoteVerb(s string) string { return strings.ReplaceAll(fmt.Sprintf("%q", s), "%", "%%") }

// alternatives is one sentence for a value that fits none of several forms.
func alternatives(e *jsonschema.ValidationError) string {
	if m := typeMessage(e); m != "" {
		return m
	}
	const most = 6
	var forms []string
	for i, c := range e.Causes {
		if i == most {
			forms = append(forms, "…")
			break
		}
		var parts []string
		for _, v := range tidy(violations(c, nil)) {
			m := v.Message
			if rel := strings.TrimPrefix(v.Path, pointer(e.InstanceLocation)); rel != "" {
				m = rel + ": " + m
			}
			parts = append(parts, m)
		}
		forms = append(forms, fmt.Sprintf("(%d) %s", i+1, strings.Join(parts, ", ")))
	}
	return shorten("none of the forms that are allowed here fits: "+strings.Join(forms, "; "), 600)
}

// typeMessage is a short sentence where every form only wanted another type.
func typeMessage(e *jsonschema.ValidationError) string {
	var want []string
	got := ""
	for _, c := range e.Causes {
		t, ok := c.ErrorKind.(*kind.Type)
		if !ok || len(c.InstanceLocation) != len(e.InstanceLocation) {
			return ""
		}
		got, want = t.Got, append(want, t.Want...)
	}
	if got == "" {
		return ""
	}
	return wrongType(got, want)
}

func wrongType(got string, want []string) string {
	return fmt.Sprintf("must be %s, not %s", strings.Join(want, " or "), got)
}

// sentence says what a leaf is about.
func sentence(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return wrongType(k.Got, k.Want)
	case *kind.OneOf:
		return fmt.Sprintf("fits forms %d and %d of those that exclude each other: leave out what belongs to one of them", k.Subschemas[0]+1, k.Subschemas[1]+1)
	case *kind.FalseSchema:
		return "nothing is allowed here: leave it out"
	case *kind.Not:
		return "has a form that is forbidden here"
	case *kind.Pattern:
		return shorten(fmt.Sprintf("must match the regular expression %s", k.Want), 300)
	case *kind.Format:
		return shorten(fmt.Sprintf("must be a valid %s", k.Want), 300)
	}
	unit := (&jsonschema.ValidationError{
		SchemaURL: e.SchemaURL, InstanceLocation: e.InstanceLocation, ErrorKind: e.ErrorKind,
	}).BasicOutput()
	if unit.Error == nil {
		return "is not allowed by the schema"
	}
	return shorten(unit.Error.String(), 300)
}

// shorten cuts s to n bytes, never inside a rune.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
