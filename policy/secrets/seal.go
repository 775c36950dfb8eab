package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-run/sluice/events"
)

// Bounds of what is sealed.
const (
	MaxValue  = 64 << 10  // bytes of one value
	MaxValues = 256       // values of one call
	MaxSealed = 512 << 10 // bytes of all values of one call
	maxPath   = 512       // bytes of the JSON Pointer to a placeholder
)

// Value is a secret as it is kept outside the log: what it was in JSON, and its text.
type Value string

// Text is the secret itself.
func (v Value) Text() string {
	if len(v) < 2 {
		return ""
	}
	return string(v[2:])
}

// StringValue is the value of a string.
func StringValue(text string) Value { return Value(ofString + text) }

const (
	ofString = "s:"
	ofNumber = "n:"
)

// Sealed are arguments whose secrets were taken out.
type Sealed struct {
	Args   string // as they were, but with placeholders
	Refs   []events.SecretRef
	Values []Value // those of Refs; "" for one that was kept
	// Refused says why the call must not start; nil: it may. Args then holds marks,
	// and nothing was sealed.
	Refused *events.Refusal
}

// Sealing says what else than what looks like a secret is one.
type Sealing struct {
	// ID names a value: the same for the same value. It is required.
	ID func(Value) string
	// Declared are JSON Pointers to strings, numbers, or what holds some, that are
	// secrets whatever they look like.
	Declared []string
	// Keep are placeholders that may stand in the arguments already: those of a call
	// whose arguments a person has changed.
	Keep []events.SecretRef
}

// Seal takes the secrets out of a call's arguments: those that look like one, those
// whose member's name says so, and those that are declared.
//
// The gates judge what is left, and the tool gets the values. So no argument that
// says what the call does is sealed whole, and a secret within one may only be made
// of characters that change nothing about how it is read. Otherwise the call is
// refused, and so it is where the arguments hold a placeholder or a mark already:
// nobody would mean that to be taken for the value.
//
// Arguments that are no JSON object are redacted, and can never become one by that.
// Where something in them was declared nobody can tell where it is: nothing is left of
// them then.
func Seal(args string, o Sealing) Sealed {
	if !isObject(args) {
		return malformed(args, o.Declared)
	}
	root := tree(args)
	s := sealer{text: args, Sealing: o}
	each(args, root, "", s.leaf)
	if known := s.values(); s.refused == nil && !known.Empty() { // the same value may stand elsewhere, and look like nothing there
		s = sealer{text: args, Sealing: o, known: known}
		each(args, root, "", s.leaf)
	}
	if s.refused != nil {
		for _, v := range declaredTexts(args, o.Declared) { // a member may have that name
			s.refused.Reason = strings.NewReplacer(v, Mark(Secret), pointer.Replace(v), Mark(Secret)).Replace(s.refused.Reason)
		}
		return Sealed{Args: RedactArgs(args, o.Declared...), Refused: s.refused}
	}
	s.out.Args = s.write.String() + args[s.done:]
	return s.out
}

// isObject says whether arguments are a JSON object that is looked into to its depth.
// What is deeper is run by nobody.
func isObject(args string) bool {
	return strings.HasPrefix(strings.TrimLeft(args, " \t\r\n"), "{") && json.Valid([]byte(args)) && !deep(args)
}

func malformed(args string, declared []string) Sealed {
	out := Sealed{Args: RedactArgs(args, declared...)}
	if len(declared) > 0 && out.Args != args {
		out.Refused = refuse(events.InvalidParam, "the arguments are not a JSON object, and were not stored, since some of them are secrets: send one JSON object")
		return out
	}
	if out.Args != args && json.Valid([]byte(out.Args)) {
		out.Refused = refuse(events.InvalidParam, "the arguments are not a JSON object, and held a secret, which was not stored: send one JSON object")
	}
	return out
}

// sealer takes the secrets out of one call's arguments.
type sealer struct {
	Sealing
	text  string
	known *Literals // values that are secrets wherever they stand

	write   strings.Builder // what is done of the new text
	done    int             // how much of the old one
	bytes   int             // of the values
	out     Sealed
	refused *events.Refusal
}

func refuse(code events.Code, format string, args ...any) *events.Refusal {
	return &events.Refusal{Code: code, Reason: fmt.Sprintf(format, args...)}
}

func (s *sealer) leaf(l leaf) {
	if s.refused != nil {
		return
	}
	if l.kind != '0' && (Marked(l.text) || !s.kept(l)) {
		s.refused = refuse(events.InvalidParam,
			"the argument at %s holds a mark that stands for a secret which this runtime took out of a text or of other arguments: it is not the secret, and would be used in its place; send the value itself, or leave that part as it is",
			shown(l.path))
		return
	}
	if l.kind == 'k' {
		if spans := s.spans(l.text, false); len(spans) > 0 {
			s.refused = refuse(events.AccessDenied, "the name of a member at %s is a secret (%s): names are stored and shown; send it as a value", shown(l.path[:strings.LastIndexByte(l.path, '/')]), spans[0].Kind)
		}
		return
	}
	declared := covered(s.Declared, l.path)
	place := PlaceOf(l.name)
	switch {
	case l.kind == '"' && isPlaceholder(l.text): // kept
	case declared && l.text != "" && (l.kind == '"' || l.kind == '0'):
		if place != Free {
			s.refused = refuse(events.AccessDenied,
				"the argument at %s says what the call would do, so it cannot be a secret as a whole: policy and people must see it; put the secret into an argument of its own",
				shown(l.path))
			return
		}
		s.whole(l, Secret)
	case l.named != "" && l.kind == '"' && place == Free && !blankSecret(l.text):
		s.whole(l, l.named)
	case l.named == Password && l.kind == '0':
		s.whole(l, l.named)
	case l.kind == '"':
		s.within(l, place)
	}
}

// kept says whether the placeholders of a string, if there are any, are those of the
// call itself and stand where they stood. They go on to be opened.
func (s *sealer) kept(l leaf) bool {
	for _, id := range Placeholders(l.text) {
		ref := events.SecretRef{ID: id, Path: l.path}
		if l.kind == 'k' || !slices.Contains(s.Keep, ref) {
			return false
		}
		if !slices.Contains(s.out.Refs, ref) {
			s.out.Refs = append(s.out.Refs, ref)
			s.out.Values = append(s.out.Values, "")
		}
	}
	return true
}

func isPlaceholder(text string) bool {
	return len(text) == PlaceholderLength && len(Placeholders(text)) == 1
}

// blankSecret says whether a member that is named as a secret holds none: nothing, or
// what stands for a value that is elsewhere.
func blankSecret(s string) bool {
	if strings.TrimSpace(s) == "" {
		return true
	}
	if strings.HasPrefix(s, "${") && strings.HasSuffix(s, "}") || strings.HasPrefix(s, "{{") && strings.HasSuffix(s, "}}") {
		return !strings.Contains(s[2:len(s)-1], "${")
	}
	return len(s) > 1 && s[0] == '$' && variable.run(s, 1) == len(s)-1 || strings.Trim(s, "*") == "" ||
		strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">")
}

// whole seals a string or a number.
func (s *sealer) whole(l leaf, _ Kind) {
	form := ofString
	if l.kind == '0' {
		form = ofNumber
	}
	p, ok := s.seal(l.path, Value(form+l.text))
	if !ok {
		return
	}
	s.write.WriteString(s.text[s.done:l.from])
	s.write.WriteString(quote(p))
	s.done = l.to
}

// leastKnown is the length in bytes of the shortest value that is looked for in other
// arguments.
const leastKnown = 8

// values are those that were sealed and are long enough to be looked for.
func (s *sealer) values() *Literals {
	var out []string
	for _, v := range s.out.Values {
		if t := v.Text(); len(t) >= leastKnown {
			out = append(out, t)
		}
	}
	return newLiterals(false, out)
}

// spans are the secrets in a text: those that are found, and those that are known.
func (s *sealer) spans(text string, bold bool) []Span {
	out := find(text, bold)
	known := s.known.spans(text)
	if len(known) == 0 {
		return out
	}
	out = append(out, known...)
	slices.SortStableFunc(out, func(a, b Span) int { return a.Start - b.Start })
	return merged(out)
}

// within seals the secrets that are a part of a string.
func (s *sealer) within(l leaf, place Place) {
	spans := s.spans(l.text, place == Command)
	if whole := l.behindFlag(place == Command); whole != nil {
		spans = whole
	}
	if len(spans) == 0 {
		return
	}
	for _, span := range spans {
		switch {
		case place == Path:
			s.refused = refuse(events.AccessDenied, "the name at %s holds a secret (%s): names are stored and shown; use another one", shown(l.path), span.Kind)
		case place != Free && !inert(l.text, span):
			s.refused = refuse(events.AccessDenied,
				"the argument at %s holds a secret (%s) with characters that could change what it means, and policy must see that: put the secret into a file or a variable of the environment, and name that",
				shown(l.path), span.Kind)
		}
		if s.refused != nil {
			return
		}
	}
	text := replace(l.text, spans, func(span Span) string {
		p, _ := s.seal(l.path, Value(ofString+l.text[span.Start:span.End]))
		return p
	})
	if s.refused != nil {
		return
	}
	s.write.WriteString(s.text[s.done:l.from])
	s.write.WriteString(quote(text))
	s.done = l.to
}

// seal notes a value, and returns its placeholder.
func (s *sealer) seal(path string, v Value) (string, bool) {
	ref := events.SecretRef{ID: s.ID(v), Path: path}
	if !slices.Contains(s.out.Refs, ref) {
		s.bytes += len(v)
		if len(path) > maxPath || len(v) > MaxValue || s.bytes > MaxSealed || len(s.out.Refs) == MaxValues {
			s.refused = refuse(events.TooLarge, "the secrets of the call are too many or too long: at most %d of %d bytes each, and %d bytes of all", MaxValues, MaxValue, MaxSealed)
			return "", false
		}
		s.out.Refs, s.out.Values = append(s.out.Refs, ref), append(s.out.Values, v)
	}
	return Placeholder(ref.ID), true
}

// shown is a path that a sentence can hold.
func shown(path string) string {
	const most = 100
	if path == "" {
		return "/"
	}
	path = Redact(path)
	if len(path) > most {
		path = strings.ToValidUTF8(path[:most], "") + "…"
	}
	return path
}

// inertBytes change nothing about how a shell, a URL or a host's name is read, within
// a word.
var inertBytes = setOf("azAZ09__..~~++==--//%%")

// inert says whether a secret that is a part of a text can be replaced by a
// placeholder, and that by the secret, without a change in how the text is read.
func inert(text string, s Span) bool {
	v := text[s.Start:s.End]
	if v == "" || inertBytes.run(v, 0) != len(v) || strings.Contains(v, "..") || strings.Contains(v, "//") {
		return false
	}
	if s.Kind == Password && strings.ContainsAny(v, "/%") && strings.Contains(text[:s.Start], "://") {
		return false // it may end the user part of a URL, or be read as something else there
	}
	if word[v[0]] && v[0] != '-' {
		return true
	}
	return s.Start > 0 && v[0] != '~' && (alnum[text[s.Start-1]] || text[s.Start-1] == '=' || text[s.Start-1] == ':')
}

// ErrUnsealed says that arguments do not hold the placeholders that they should.
var ErrUnsealed = errors.New("the arguments do not hold the sealed values that they are said to hold")

// Open puts the values of refs into arguments that Seal has made. Only the
// placeholders that refs list are opened, each at its own path; any other text stays
// as it is. It returns ErrUnsealed where one of them is not there, or has no value.
func Open(args []byte, refs []events.SecretRef, values map[string]Value) ([]byte, error) {
	text := string(args)
	if !isObject(text) {
		return nil, ErrUnsealed
	}
	o := opener{text: text, values: values, at: make(map[string][]string), opened: make(map[events.SecretRef]bool)}
	for _, r := range refs {
		if _, ok := values[r.ID]; !ok {
			return nil, ErrUnsealed
		}
		o.at[r.Path] = append(o.at[r.Path], r.ID)
	}
	each(text, tree(text), "", o.leaf)
	for _, r := range refs {
		if !o.opened[r] {
			return nil, ErrUnsealed
		}
	}
	return []byte(o.write.String() + text[o.done:]), nil
}

type opener struct {
	text   string
	values map[string]Value
	at     map[string][]string // ids by path
	opened map[events.SecretRef]bool
	write  strings.Builder
	done   int
}

func (o *opener) leaf(l leaf) {
	ids := o.at[l.path]
	if l.kind != '"' || len(ids) == 0 {
		return
	}
	literal := ""
	for _, id := range ids {
		if l.text == Placeholder(id) && strings.HasPrefix(string(o.values[id]), ofNumber) {
			literal = o.values[id].Text()
			o.opened[events.SecretRef{ID: id, Path: l.path}] = true
		}
	}
	if literal == "" {
		literal = quote(substitute(l.text, func(id string) (string, bool) {
			if !slices.Contains(ids, id) {
				return "", false
			}
			o.opened[events.SecretRef{ID: id, Path: l.path}] = true
			return o.values[id].Text(), true
		}))
	}
	o.write.WriteString(o.text[o.done:l.from])
	o.write.WriteString(literal)
	o.done = l.to
}

// substitute is a text with the placeholders replaced that by knows.
func substitute(text string, by func(id string) (string, bool)) string {
	var b strings.Builder
	done := 0
	placeholders(text, func(at int, id string) bool {
		if v, ok := by(id); ok {
			b.WriteString(text[done:at])
			b.WriteString(v)
			done = at + PlaceholderLength
		}
		return true
	})
	return b.String() + text[done:]
}

// Substitute is a text with the placeholders of values replaced by them, wherever
// they stand. It is for comparing, never for what a tool is given: see Open.
func Substitute(text string, values map[string]Value) string {
	return substitute(text, func(id string) (string, bool) {
		v, ok := values[id]
		return v.Text(), ok
	})
}

// RedactArgs is a call's arguments with a mark for each secret: what looks like one, and
// what stands at the declared JSON Pointers. What is no JSON object is redacted as a
// text; where something in it was declared a mark is all that is left, and of each text
// where more than MaxValues were.
func RedactArgs(args string, declared ...string) string {
	if !isObject(args) {
		if len(declared) > 0 && !empty(args) {
			return Mark(Secret)
		}
		return redact(args, true)
	}
	texts := declaredTexts(args, declared)
	if len(texts) > MaxValues { // too many to look for elsewhere: any text may hold one
		return redactTree(args, func(leaf) (string, bool) { return Mark(Secret), true })
	}
	known := newLiterals(false, texts)
	return redactTree(args, func(l leaf) (string, bool) {
		was := l.text
		l.text = known.Redact(l.text) // it may stand elsewhere, too
		switch {
		case l.kind != 'k' && was != "" && covered(declared, l.path):
			return Mark(Secret), true
		case was != l.text:
			return Redact(l.text), true
		case l.kind == '0':
			return Mark(l.named), l.named == Password
		case l.kind == 'k':
			text := Redact(l.text)
			return text, text != l.text
		case l.named != "" && PlaceOf(l.name) == Free && !blankSecret(l.text) && markAt(l.text) != len(l.text):
			return Mark(l.named), true
		}
		if whole := l.behindFlag(PlaceOf(l.name) == Command); whole != nil && markAt(l.text) != len(l.text) {
			return Mark(whole[0].Kind), true
		}
		text := redact(l.text, PlaceOf(l.name) == Command)
		return text, text != l.text
	})
}

// redactTree replaces the names, strings and numbers for which by says true.
func redactTree(text string, by func(leaf) (string, bool)) string {
	var b strings.Builder
	done := 0
	each(text, tree(text), "", func(l leaf) {
		if s, changed := by(l); changed {
			b.WriteString(text[done:l.from])
			b.WriteString(quote(s))
			done = l.to
		}
	})
	if done == 0 {
		return text
	}
	return b.String() + text[done:]
}

// SealedPaths are the JSON Pointers to the strings of a call's arguments that hold
// placeholders.
func SealedPaths(args []byte) []string {
	if !bytes.Contains(args, []byte(placeholderOpen)) || !isObject(string(args)) {
		return nil
	}
	var out []string
	text := string(args)
	each(text, tree(text), "", func(l leaf) {
		if l.kind == '"' && len(Placeholders(l.text)) > 0 {
			out = append(out, l.path)
		}
	})
	return out
}
