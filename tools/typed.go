package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/sluice-run/sluice/events"
)

// Typed makes a tool of a function with typed parameters. In is a struct; where
// spec has no schema, it is derived from In: json tags give names and, without
// omitempty or omitzero, the required flag; a jsonschema tag gives either a
// plain description or keywords (description=…,enum=…,minimum=…). Properties
// that In does not have are refused, by the schema and again when decoding.
//
// Out becomes the result: an events.Result is taken as it is, a string is the
// text, and anything else is both JSON data and text (its String method's, if
// it has one). An error that is an *Error is the tool's failure, for the model;
// any other is ours.
//
// Typed fails where the name cannot be used, or no schema can be made of In.
func Typed[In, Out any](spec Spec, fn func(context.Context, Invocation, In) (Out, error)) (Tool, error) {
	if len(spec.Schema) == 0 {
		schema, err := deriveSchema(reflect.TypeFor[In]())
		if err != nil {
			return Tool{}, fmt.Errorf("tool %s: %w", spec.Name, err)
		}
		spec.Schema = schema
	}
	t := Tool{Spec: spec}
	t.Run = func(ctx context.Context, in Invocation) (events.Result, error) {
		var args In
		if err := decodeArgs(in.Args, &args); err != nil {
			return events.Result{}, invalidArgs(t, in.Args, err)
		}
		out, err := fn(ctx, in, args)
		if err != nil {
			return events.Result{}, err
		}
		return resultOf(out)
	}
	return t, checkTool(t)
}

// Quick makes a tool of a plain function. Its one argument is the string
// "input", and an error of fn is the tool's failure, for the model. It is
// irreversible, since nothing is known of what fn does.
func Quick(name, description string, fn func(ctx context.Context, input string) (string, error)) (Tool, error) {
	type quickIn struct {
		Input string `json:"input" jsonschema:"what the tool works on"`
	}
	spec := Spec{Name: name, Description: description, Tier: events.Irreversible}
	return Typed(spec, func(ctx context.Context, _ Invocation, in quickIn) (string, error) {
		out, err := fn(ctx, in.Input)
		_, told := errors.AsType[*Error](err)
		if err == nil || told || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return out, err
		}
		return "", &Error{Code: events.ExecutionError, Message: err.Error()}
	})
}

// decodeArgs reads args into v, with exact digits and no unknown names.
func decodeArgs(args json.RawMessage, v any) error {
	if blank(args) {
		args = json.RawMessage("{}")
	}
	err := decodeStrictly(args, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && isNumber(wrong.Value) {
		// 1e3 and 1.0 are integers for JSON Schema and not for encoding/json.
		if plain := plainIntegers(args); !bytes.Equal(plain, args) {
			return decodeStrictly(plain, v)
		}
	}
	return err
}

func isNumber(value string) bool { return bytes.HasPrefix([]byte(value), []byte("number")) }

func decodeStrictly(args json.RawMessage, v any) error {
	reflect.ValueOf(v).Elem().SetZero() // a second try must not build on half of the first
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the arguments")
	}
	return nil
}

// invalidArgs is the tool's answer to arguments that it cannot take.
func invalidArgs(t Tool, args json.RawMessage, err error) *Error {
	e := &Error{
		Code: events.InvalidParam, Class: events.ClassInvalid, Effects: events.EffectsNone,
		Message: "the arguments do not fit: " + err.Error(),
	}
	if vs := Validate(t, args); len(vs) > 0 {
		e.Path, e.Message = vs[0].Path, vs[0].Message
	}
	return e
}

// resultOf makes a result of what a typed function returned.
func resultOf(out any) (events.Result, error) {
	switch out := out.(type) {
	case events.Result:
		if out.Status == "" {
			out.Status = events.Success
		}
		return out, nil
	case *events.Result:
		if out == nil {
			return events.Result{Status: events.Success}, nil
		}
		return resultOf(*out)
	case string:
		return events.Result{Status: events.Success, Text: events.Body{Text: out}}, nil
	case nil:
		return events.Result{Status: events.Success}, nil
	}
	data, err := plainJSON(out)
	if err != nil {
		return events.Result{}, fmt.Errorf("the tool's answer is no JSON: %w", err)
	}
	text := string(data)
	if s, ok := out.(fmt.Stringer); ok && !isNil(out) {
		text = s.String()
	}
	return events.Result{Status: events.Success, Text: events.Body{Text: text}, Data: data}, nil
}

func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// plainJSON is the JSON of v, without the escapes that are for HTML.
func plainJSON(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
