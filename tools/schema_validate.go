package tools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
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
		return []Violation{{Message: shorten(fmt.Sprintf("the tool %s cannot be called: %v", t.Name, err), 700)}}
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
	return violations(invalid)
}

// tidy sorts violations, drops repeated ones and bounds how many there are. more is how
// many there are beside them.
func tidy(vs []Violation, more int) []Violation {
	slices.SortFunc(vs, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	vs = slices.Compact(vs)
	if more > 0 {
		vs = append(vs, Violation{Message: fmt.Sprintf("and %d more", more)})
	}
	return vs
}

// fault is a thing that is wrong, before anything is said of it: there may be hundreds
// of thousands, of which a few are told.
type fault struct {
	e    *jsonschema.ValidationError
	name string // of a member, where it is one that is wrong
	form int    // index in forms; 0: e says it itself
}

// forms are the sentences for members.
var forms = []string{
	"", "%q is required and missing", "%q is required where %q is given", "%q is no argument here: leave it out", "%q is not allowed as a name here",
}

// violations are what e and its causes say: the first by their places, and how many more.
func violations(e *jsonschema.ValidationError) []Violation {
	var f foremost
	f.faults(e)
	f.cut()
	out := make([]Violation, 0, len(f.first)+1)
	for _, one := range f.first {
		out = append(out, one.violation())
	}
	return tidy(out, f.found-len(f.first))
}

// foremost keeps the first faults by their places, of however many there are.
type foremost struct {
	found int
	first []fault
	full  bool // first has been cut: what stands behind its last one is of no use
}

func (f *foremost) add(one fault) {
	f.found++
	if f.full && compareFaults(one, f.first[maxViolations-1]) > 0 {
		return
	}
	if f.first = append(f.first, one); len(f.first) >= 4*maxViolations {
		f.cut()
	}
}

func (f *foremost) cut() {
	if len(f.first) <= maxViolations {
		return
	}
	slices.SortFunc(f.first, compareFaults)
	f.first, f.full = f.first[:maxViolations], true
}

// compareFaults orders faults by their places, and as the schema has them.
func compareFaults(a, b fault) int {
	return cmp.Or(
		slices.Compare(a.e.InstanceLocation, b.e.InstanceLocation), strings.Compare(a.name, b.name),
		strings.Compare(a.e.SchemaURL, b.e.SchemaURL), cmp.Compare(a.form, b.form), strings.Compare(lastKeyword(a.e), lastKeyword(b.e)))
}

// lastKeyword is the keyword that an error is about: a schema has one of each.
func lastKeyword(e *jsonschema.ValidationError) string {
	if p := e.ErrorKind.KeywordPath(); len(p) > 0 {
		return p[len(p)-1]
	}
	return ""
}

func (f fault) violation() Violation {
	at, say := f.e.InstanceLocation, ""
	switch k := f.e.ErrorKind.(type) {
	case *kind.AnyOf:
		return Violation{pointer(at), alternatives(f.e)}
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return Violation{pointer(at), alternatives(f.e)}
		}
	case *kind.Dependency:
		say = k.Prop
	case *kind.DependentRequired:
		say = k.Prop
	}
	if f.form == 0 {
		return Violation{pointer(at), sentence(f.e)}
	}
	words := []any{shorten(f.name, 100)}
	if say != "" || f.form == 2 {
		words = append(words, shorten(say, 100))
	}
	return Violation{pointer(append(slices.Clip(at), f.name)), fmt.Sprintf(forms[f.form], words...)}
}

// faults adds what e and its causes are about.
func (f *foremost) faults(e *jsonschema.ValidationError) {
	each := func(form int, names []string) {
		for _, n := range names {
			f.add(fault{e, n, form})
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		each(1, k.Missing)
		return
	case *kind.Dependency:
		each(2, k.Missing)
		return
	case *kind.DependentRequired:
		each(2, k.Missing)
		return
	case *kind.AdditionalProperties:
		each(3, k.Properties)
		return
	case *kind.PropertyNames:
		each(4, []string{k.Property})
		return
	case *kind.AnyOf, *kind.OneOf:
		f.add(fault{e: e})
		return
	}
	if len(e.Causes) == 0 {
		f.add(fault{e: e})
	}
	for _, c := range e.Causes {
		f.faults(c)
	}
}

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
		for _, v := range violations(c) {
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
	return shorten(fmt.Sprintf("must be %s, not %s", strings.Join(want, " or "), got), 300)
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
	case *kind.Minimum:
		return compared("at least", k.Want, k.Got)
	case *kind.Maximum:
		return compared("at most", k.Want, k.Got)
	case *kind.ExclusiveMinimum:
		return compared("more than", k.Want, k.Got)
	case *kind.ExclusiveMaximum:
		return compared("less than", k.Want, k.Got)
	case *kind.MultipleOf:
		return compared("a multiple of", k.Want, k.Got)
	}
	if text := counted(e.ErrorKind); text != "" {
		return text
	}
	unit := (&jsonschema.ValidationError{
		SchemaURL: e.SchemaURL, InstanceLocation: e.InstanceLocation, ErrorKind: e.ErrorKind,
	}).BasicOutput()
	if unit.Error == nil {
		return "is not allowed by the schema"
	}
	return shorten(unit.Error.String(), 300)
}

// compared says what a number must be, to the last digit: what is rounded says nothing
// of two that are close.
func compared(how string, want, got *big.Rat) string {
	return fmt.Sprintf("must be %s %s, not %s", how, decimal(want), decimal(got))
}

func decimal(r *big.Rat) string {
	const most = 40 // places behind the point
	n, _ := r.FloatPrec()
	return shorten(r.FloatString(min(n, most)), 60)
}

// counted says how many of something there may be; "" for a keyword that is about
// something else.
func counted(k jsonschema.ErrorKind) string {
	say := func(how string, want int, what string, got int) string {
		return fmt.Sprintf("must have %s %d %s, and has %d", how, want, what, got)
	}
	switch k := k.(type) {
	case *kind.MinLength:
		return say("at least", k.Want, "characters", k.Got)
	case *kind.MaxLength:
		return say("at most", k.Want, "characters", k.Got)
	case *kind.MinItems:
		return say("at least", k.Want, "entries", k.Got)
	case *kind.MaxItems:
		return say("at most", k.Want, "entries", k.Got)
	case *kind.MinProperties:
		return say("at least", k.Want, "members", k.Got)
	case *kind.MaxProperties:
		return say("at most", k.Want, "members", k.Got)
	}
	return ""
}

// shorten cuts s to n bytes, never inside a rune.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
