package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-run/sluice/events"
)

// Bounds of a form that a tool asks a person to fill in.
const (
	MaxFields  = 64  // of one form
	MaxChoices = 256 // of one field
	maxField   = 128 // bytes of a field's name
	maxPattern = 512 // bytes of a pattern
)

// Types of a form's fields.
const (
	FieldString  = "string"
	FieldNumber  = "number"
	FieldInteger = "integer"
	FieldBoolean = "boolean"
	FieldChoices = "choices" // any number of Field.Choices, as an array of strings
)

// Field is one field of a form. Names, titles and descriptions are the tool's words:
// who shows them escapes control characters.
type Field struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"` // see FieldString
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Secret      bool            `json:"secret,omitempty"` // a password or its kind: what is given is sealed, and never shown
	Format      string          `json:"format,omitempty"` // of a string: email, uri, date, date-time, or any other word
	Pattern     string          `json:"pattern,omitempty"`
	Choices     []Choice        `json:"choices,omitempty"` // of a string or of FieldChoices: nothing else may be said
	Least       *int            `json:"least,omitempty"`   // characters of a string, or choices
	Most        *int            `json:"most,omitempty"`
	Minimum     json.RawMessage `json:"minimum,omitempty"` // of a number: a number; nil means none
	Maximum     json.RawMessage `json:"maximum,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`

	pattern *regexp.Regexp // nil: there is none, or it is in no language that is read here
}

// Choice is one thing that may be chosen.
type Choice struct {
	Value string `json:"value"`
	Title string `json:"title,omitempty"` // "" means Value
}

// Form is what a tool asks a person to fill in.
type Form struct{ Fields []Field }

// ErrForm says that a schema is none of a form: an object of strings, numbers, booleans
// and choices, with nothing inside one another.
var ErrForm = errors.New("its schema is no flat form")

// property is a form's field as its schema has it.
type property struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Format      string          `json:"format"`
	Pattern     string          `json:"pattern"`
	WriteOnly   bool            `json:"writeOnly"`
	Enum        []string        `json:"enum"`
	EnumNames   []string        `json:"enumNames"`
	OneOf       []titled        `json:"oneOf"`
	MinLength   *int            `json:"minLength"`
	MaxLength   *int            `json:"maxLength"`
	MinItems    *int            `json:"minItems"`
	MaxItems    *int            `json:"maxItems"`
	Minimum     json.Number     `json:"minimum"`
	Maximum     json.Number     `json:"maximum"`
	Default     json.RawMessage `json:"default"`
	Items       *struct {
		Type  string   `json:"type"`
		Enum  []string `json:"enum"`
		AnyOf []titled `json:"anyOf"`
		OneOf []titled `json:"oneOf"`
	} `json:"items"`
}

type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// ReadForm reads the schema of a form, in the order in which it names its fields. It
// returns an ErrForm that says what is no form about it. What a schema says beyond its
// fields' types, bounds and choices is passed over: the tool looks at the answers, too.
func ReadForm(schema json.RawMessage) (Form, error) {
	var s struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return Form{}, fmt.Errorf("%w: it is no JSON object of the kind", ErrForm)
	}
	if s.Type != "object" && s.Type != "" {
		return Form{}, fmt.Errorf("%w: it is of type %.40q, want object", ErrForm, events.Visible(s.Type))
	}
	names, bodies, err := members(s.Properties)
	if err != nil {
		return Form{}, err
	}
	var f Form
	for i, name := range names {
		field, err := readField(name, bodies[i])
		if err != nil {
			return Form{}, err
		}
		field.Required = slices.Contains(s.Required, name)
		f.Fields = append(f.Fields, field)
	}
	for _, name := range s.Required {
		if !slices.Contains(names, name) {
			return Form{}, fmt.Errorf("%w: it requires %.80q, which is no field of it", ErrForm, events.Visible(name))
		}
	}
	return f, nil
}

// members are the members of an object, in its own order. None is no error.
func members(object json.RawMessage) (names []string, bodies []json.RawMessage, err error) {
	if len(object) == 0 || string(object) == "null" {
		return nil, nil, nil
	}
	dec := json.NewDecoder(strings.NewReader(string(object)))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, nil, fmt.Errorf("%w: its properties are no object", ErrForm)
	}
	for dec.More() {
		tok, err := dec.Token()
		name, ok := tok.(string)
		var body json.RawMessage
		if err == nil && ok {
			err = dec.Decode(&body)
		}
		switch {
		case err != nil || !ok:
			return nil, nil, fmt.Errorf("%w: its properties are no object", ErrForm)
		case name == "" || len(name) > maxField:
			return nil, nil, fmt.Errorf("%w: a field's name has %d bytes, want 1 to %d", ErrForm, len(name), maxField)
		case slices.Contains(names, name):
			return nil, nil, fmt.Errorf("%w: two fields are named %q", ErrForm, events.Visible(name))
		case len(names) == MaxFields:
			return nil, nil, fmt.Errorf("%w: more than %d fields", ErrForm, MaxFields)
		}
		names, bodies = append(names, name), append(bodies, body)
	}
	return names, bodies, nil
}

func readField(name string, body json.RawMessage) (Field, error) {
	bad := func(format string, args ...any) (Field, error) {
		return Field{}, fmt.Errorf("%w: the field %q %s", ErrForm, events.Visible(name), fmt.Sprintf(format, args...))
	}
	var p property
	if err := json.Unmarshal(body, &p); err != nil {
		return bad("is not one of a form")
	}
	f := Field{
		Name: name, Type: p.Type, Title: p.Title, Description: p.Description, Format: p.Format, Pattern: p.Pattern,
		Secret: p.Format == "password" || p.WriteOnly, Least: p.MinLength, Most: p.MaxLength, Minimum: json.RawMessage(p.Minimum), Maximum: json.RawMessage(p.Maximum), Default: p.Default,
	}
	switch p.Type {
	case FieldString, "":
		f.Type = FieldString
		f.Choices = choices(p.Enum, p.EnumNames, p.OneOf)
	case FieldNumber, FieldInteger, FieldBoolean:
	case "array":
		if p.Items == nil || p.Items.Type != FieldString && p.Items.Type != "" {
			return bad("is a list of what is no choice")
		}
		f.Type, f.Least, f.Most = FieldChoices, p.MinItems, p.MaxItems
		f.Choices = choices(p.Items.Enum, nil, append(p.Items.AnyOf, p.Items.OneOf...))
		if len(f.Choices) == 0 {
			return bad("is a list with nothing to choose from")
		}
	default:
		return bad("is of type %.40q: want string, number, integer, boolean, or a list of choices", events.Visible(p.Type))
	}
	if len(f.Choices) > MaxChoices {
		return bad("has %d choices, at most %d", len(f.Choices), MaxChoices)
	}
	if f.Pattern != "" && len(f.Pattern) <= maxPattern {
		f.pattern, _ = regexp.Compile(f.Pattern) // one of another language is left to the tool
	}
	return f, nil
}

func choices(enum, names []string, list []titled) []Choice {
	var out []Choice
	for i, v := range enum {
		c := Choice{Value: v}
		if i < len(names) {
			c.Title = names[i]
		}
		out = append(out, c)
	}
	for _, t := range list {
		out = append(out, Choice{t.Const, t.Title})
	}
	return out
}

// Check says what is wrong with what somebody has filled in: a sentence for each field,
// by its name, in the order of the form; none where it fits. Fields that the form does
// not have are wrong, too. content is a JSON object.
func (f Form) Check(content json.RawMessage) []FieldError {
	var out []FieldError
	var given map[string]json.RawMessage
	if err := json.Unmarshal(content, &given); err != nil || given == nil {
		return []FieldError{{"", "what is filled in is no JSON object"}}
	}
	for _, field := range f.Fields {
		v, ok := given[field.Name]
		switch {
		case !ok && field.Required:
			out = append(out, FieldError{field.Name, "it is required"})
		case ok:
			if why := field.check(v); why != "" {
				out = append(out, FieldError{field.Name, why})
			}
		}
		delete(given, field.Name)
	}
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, FieldError{name, "the form has no such field"})
	}
	return out
}

// FieldError is what is wrong with one field of a form.
type FieldError struct {
	Field string `json:"field"`
	Why   string `json:"why"`
}

func (e FieldError) String() string {
	if e.Field == "" {
		return e.Why
	}
	return events.Visible(e.Field) + ": " + e.Why
}

func (f Field) check(v json.RawMessage) string {
	switch f.Type {
	case FieldBoolean:
		if s := string(v); s != "true" && s != "false" {
			return "say true or false"
		}
	case FieldNumber, FieldInteger:
		return f.checkNumber(v)
	case FieldChoices:
		return f.checkChoices(v)
	default:
		var s string
		if len(v) == 0 || v[0] != '"' || json.Unmarshal(v, &s) != nil {
			return "it must be a text"
		}
		return f.checkText(s)
	}
	return ""
}

func (f Field) checkText(s string) string {
	n := utf8.RuneCountInString(s)
	switch {
	case len(f.Choices) > 0 && !f.offers(s):
		return "choose " + f.offered()
	case f.Least != nil && n < *f.Least:
		return fmt.Sprintf("%d characters, at least %d are wanted", n, *f.Least)
	case f.Most != nil && n > *f.Most:
		return fmt.Sprintf("%d characters, at most %d are wanted", n, *f.Most)
	case f.pattern != nil && !f.pattern.MatchString(s):
		return "it does not match the pattern " + events.Visible(f.Pattern)
	}
	return checkFormat(f.Format, s)
}

// address is what an e-mail address looks like, as far as a form can tell.
var address = regexp.MustCompile(`^[^\s@<>"(),;:\\]{1,64}@[^\s@<>"(),;:\\]{1,255}$`)

func checkFormat(format, s string) string {
	switch format {
	case "email":
		if !address.MatchString(s) {
			return "it is no e-mail address"
		}
	case "uri":
		if u, err := url.Parse(s); err != nil || !u.IsAbs() {
			return "it is no absolute URI"
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return "it is no date: write it as 2006-01-02"
		}
	case "date-time":
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return "it is no time with its date: write it as 2006-01-02T15:04:05Z"
		}
	}
	return ""
}

// rational is a JSON number by its value. One with a huge exponent is none here.
func rational(n json.Number) (*big.Rat, bool) {
	if _, e, ok := strings.Cut(strings.ToLower(string(n)), "e"); ok {
		if exp, err := strconv.Atoi(e); err != nil || exp > maxExp || exp < -maxExp {
			return nil, false
		}
	}
	return new(big.Rat).SetString(string(n))
}

func (f Field) checkNumber(v json.RawMessage) string {
	var n json.Number
	if len(v) == 0 || v[0] == '"' || json.Unmarshal(v, &n) != nil || n == "" {
		return "it must be a number"
	}
	value, ok := rational(n)
	if !ok {
		return "it is too large or too small"
	}
	if f.Type == FieldInteger && !value.IsInt() {
		return "it must be a whole number"
	}
	if least, ok := rational(json.Number(f.Minimum)); ok && value.Cmp(least) < 0 {
		return "it must be at least " + string(f.Minimum)
	}
	if most, ok := rational(json.Number(f.Maximum)); ok && value.Cmp(most) > 0 {
		return "it must be at most " + string(f.Maximum)
	}
	return ""
}

func (f Field) checkChoices(v json.RawMessage) string {
	var list []string
	if len(v) == 0 || v[0] != '[' || json.Unmarshal(v, &list) != nil {
		return "it must be a list of texts"
	}
	for i, s := range list {
		switch {
		case f.Secret && (!f.offers(s) || slices.Contains(list[:i], s)):
			return "one of them is not offered, or stands twice"
		case !f.offers(s):
			return fmt.Sprintf("%.80q is not offered: choose %s", events.Visible(s), f.offered())
		case slices.Contains(list[:i], s):
			return fmt.Sprintf("%.80q stands twice", events.Visible(s))
		}
	}
	switch n := len(list); {
	case f.Least != nil && n < *f.Least:
		return fmt.Sprintf("%d are chosen, at least %d are wanted", n, *f.Least)
	case f.Most != nil && n > *f.Most:
		return fmt.Sprintf("%d are chosen, at most %d are wanted", n, *f.Most)
	}
	return ""
}

func (f Field) offers(s string) bool {
	return slices.ContainsFunc(f.Choices, func(c Choice) bool { return c.Value == s })
}

// offered are the choices for a sentence, the first of them where they are many.
func (f Field) offered() string {
	const most = 12
	var out []string
	for i, c := range f.Choices {
		if i == most {
			out = append(out, fmt.Sprintf("or one of %d more", len(f.Choices)-most))
			break
		}
		out = append(out, strconv.Quote(events.Visible(c.Value)))
	}
	return "one of " + strings.Join(out, ", ")
}
