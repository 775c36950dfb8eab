package tools

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckSchema returns nil for a JSON Schema of any value that is within the bounds, or an
// error that wraps ErrSchema.
func CheckSchema(schema json.RawMessage) error {
	_, err := compiledValue(schema)
	return err
}

// ValidateValue says what is wrong with a JSON value by a JSON Schema, as Validate does of
// arguments; nil means nothing. The value may be of any type.
func ValidateValue(schema, value json.RawMessage) []Violation {
	s, err := compiledValue(schema)
	if err != nil {
		return []Violation{{Message: shorten(err.Error(), 700)}}
	}
	v, bad := parseJSON(value, maxArgsDepth)
	if bad != nil {
		return []Violation{*bad}
	}
	if !affordable(s, v) {
		return []Violation{{Message: "the value takes too long to check against its schema"}}
	}
	err = s.Validate(v)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []Violation{{Message: shorten(fmt.Sprint(err), 300)}}
	}
	return violations(invalid)
}
