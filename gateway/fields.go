package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-run/sluice/events/near"
)

// decodeStrict reads JSON of our own into v: a field that is not ours is an error that
// names it, at whatever depth, and so is anything behind the value.
func decodeStrict(body []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(wholeText(string(body))))
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return BadRequest(readable(err), "send one JSON object with the fields of the documentation")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return BadRequest(fmt.Sprintf("something stands behind the object, at byte %d", d.InputOffset()), "send one JSON object")
	}
	if err := checkFields(value, reflect.TypeOf(v), ""); err != nil {
		return err
	}
	if err := json.Unmarshal(value, v); err != nil {
		return BadRequest(readable(err), "send one JSON object with the fields of the documentation")
	}
	return nil
}

// maxFieldPath is how much of a field's path an answer repeats, in bytes.
const maxFieldPath = 120

// checkFields refuses what a decoder would let pass in JSON that is read into a type: a field
// that the type does not have, or in other letters than ours, and a field twice. It goes as
// deep as the type's own fields do: what is somebody else's, as a provider's message, it
// leaves alone. path is where the value stands, "" for the whole.
func checkFields(value json.RawMessage, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[Who]() {
		t = reflect.TypeFor[whoSaid]()
	}
	value = bytes.TrimSpace(value)
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()), len(value) == 0:
		return nil
	case value[0] == '{' && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		return checkMembers(value, t, path)
	case value[0] == '[' && t.Kind() == reflect.Slice:
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return BadRequest(readable(err), "send one JSON object")
		}
		for i, one := range list {
			if err := checkFields(one, t.Elem(), inside(path, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMembers is checkFields for an object.
func checkMembers(object json.RawMessage, t reflect.Type, path string) error {
	d := json.NewDecoder(bytes.NewReader(object))
	_, err := d.Token() // its brace
	seen := make(map[string]bool)
	for err == nil && d.More() {
		var token json.Token
		if token, err = d.Token(); err != nil {
			break
		}
		name, _ := token.(string) // a name always is one
		of, known := fieldOf(t, name)
		switch {
		case known != nil:
			return unknownField(name, path, known)
		case seen[name]:
			return BadRequest(fmt.Sprintf("field %q stands twice", inside(path, name)), "send each field once")
		}
		seen[name] = true
		var value json.RawMessage
		if err = d.Decode(&value); err == nil {
			if err := checkFields(value, of, inside(path, name)); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return BadRequest(readable(err), "send one JSON object")
	}
	return nil
}

// fieldOf is the type of a member: of a map any. Where a struct has no such field, known are
// the names of those that it has.
func fieldOf(t reflect.Type, name string) (of reflect.Type, known []string) {
	if t.Kind() == reflect.Map {
		return t.Elem(), nil
	}
	known = []string{} // one without fields knows none
	for _, f := range reflect.VisibleFields(t) {
		own, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case own == name && own != "":
			return f.Type, nil
		case own != "" && own != "-":
			known = append(known, own)
		}
	}
	return nil, known
}

// unknownField is the problem of a field that there is not: where it stands, which one may be
// meant, and which there are.
func unknownField(name, path string, known []string) error {
	detail := fmt.Sprintf("unknown field %q", inside(path, name))
	if len(known) == 0 {
		return BadRequest(detail, "there are none here")
	}
	next := "known here: "
	if path != "" {
		next = "known in " + path + ": "
	}
	return BadRequest(detail, meant(name, known)+next+strings.Join(known, ", "))
}

// meant asks whether one of the known names is what a misspelt one should be, with a blank
// behind; "" where none is near.
func meant(name string, known []string) string {
	if word := near.Word(name, known); word != "" {
		return "did you mean " + word + "? "
	}
	return ""
}

// inside is the path of a member, cut to what an answer repeats.
func inside(path, name string) string {
	if path != "" {
		name = path + "." + name
	}
	if len(name) > maxFieldPath {
		name = strings.ToValidUTF8(name[:maxFieldPath], "") + "…"
	}
	return name
}

// readable is a decoder's error in words.
func readable(err error) string {
	var typed *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return "the body is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON ends too early"
	case errors.As(err, &typed):
		if name := memberOf(typed.Field); name != "" {
			return fmt.Sprintf("field %q cannot be %s", name, withArticle(typed.Value))
		}
		return "the body is no object: " + typed.Value
	case errors.As(err, &syntax):
		return fmt.Sprintf("no JSON at byte %d: %s", syntax.Offset, syntax)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// withArticle is a kind of JSON value with its article.
func withArticle(kind string) string {
	if kind == "array" || kind == "object" {
		return "an " + kind
	}
	return "a " + kind
}

// memberOf is the path of a member without the names of Go's types, which a decoder puts
// into it: members are written small.
func memberOf(path string) string {
	parts := strings.Split(path, ".")
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p != strings.ToLower(p) }), ".")
}
