package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools/remote/wire"
)

// WorkerTool is a tool that a worker serves. Whether a node believes Tier and HonoursKey
// is its operator's to say: where they are not believed, the tool is irreversible.
type WorkerTool struct {
	Name        string // 1 to 64 of A-Za-z0-9_-, the first a letter or a digit, without "__"
	Description string // for the model
	Version     string // for people; "" means none
	// Schema is the JSON Schema of the arguments; nil means any object. Handle derives it.
	Schema json.RawMessage
	Tier   events.Tier // how effects behave; "" means irreversible
	// HonoursKey says that the tool does one effect for one Task.Key: it may then be started again.
	HonoursKey bool
	// Key is a JSON Pointer to the argument that makes the idempotency key where the
	// caller gives none; "" means none.
	Key    string
	Limits WorkerLimits

	// Run does the call. An error that is a *ToolError is the tool's failure, for the model;
	// one that is an *InputNeeded asks a person; any other is a failure with its text. It
	// returns soon after ctx ends. Required.
	Run func(ctx context.Context, t Task) (Output, error)
	// Probe finds out whether the effect of an earlier attempt of the call happened; nil
	// means that nobody can tell.
	Probe func(ctx context.Context, t Task) (found bool, out Output, err error)
	// Compensate undoes a completed call; nil means that nothing can. Reversible tools only.
	Compensate func(ctx context.Context, t Task, done Output) (Output, error)
}

// WorkerLimits bound one attempt; zero fields mean the node's defaults (docs/tools.md).
type WorkerLimits struct {
	Wall    time.Duration // how long an attempt may take; 0 means 120 s
	Output  int           // bytes of text kept; 0 means 16 MiB
	Lines   int           // lines of text in the answer; 0 means 2 000
	Text    int           // bytes of text in the answer; 0 means 51 200
	Keep    string        // which end of a long text stays: head (the meaning of ""), tail or both
	Retries int           // most attempts after the first, where the tier allows any; 0 means 2, negative none
}

// Task is one attempt of a call, as its tool sees it.
type Task struct {
	Call     string // trace/turn/offset
	Tool     string
	Attempt  int             // from 1
	Key      string          // idempotency key, the same for all attempts of the call; "" means none
	Mode     string          // read_only or write
	Args     json.RawMessage // a JSON object that the schema accepts
	Deadline time.Time       // by the node's clock; ctx ends by this machine's
	Given    *events.Given   // a person's answers to the InputNeeded of an earlier attempt; nil: none was asked
	// Traceparent is the W3C trace context of the attempt; "" means none.
	Traceparent string
	// Progress tells how far the attempt is; nodes show a few a second. Zero numbers say
	// nothing. It may be called from any goroutine.
	Progress func(text string, done, total float64)
}

// Output is what a tool answers.
type Output struct {
	Status events.Status   // success or partial; "" means success
	Text   string          // for the model
	Data   json.RawMessage // any JSON; nil means none
	Undo   json.RawMessage // JSON that Compensate needs, and no model sees; nil means none
}

func (o Output) wire() *wire.Result {
	return &wire.Result{Status: o.Status, Text: o.Text, Data: o.Data, Undo: o.Undo}
}

// ToolError is a tool's own failure, for the model to read.
type ToolError struct {
	Code    events.Code    // "" means EXECUTION_ERROR
	Class   events.Class   // tool (the meaning of ""), invalid, conflict, unavailable, timeout or cancelled
	Message string         // what is wrong, and what to do
	Path    string         // JSON Pointer to the argument to blame; "" means none
	Effects events.Effects // "" means none for readonly tools, and where the class is invalid or conflict; else possible
	After   time.Duration  // the other side's Retry-After; 0 means none
	Output  *Output        // to keep beside the error; nil means none
}

func (e *ToolError) Error() string { return e.Message }

// InputNeeded asks a person before the tool can go on: the call waits, and is made again
// with the answers in Task.Given. See events.CheckInput for the bounds.
type InputNeeded struct {
	Requests []events.InputRequest
	State    string // comes back with the answers
}

func (e *InputNeeded) Error() string {
	return fmt.Sprintf("the tool asks a person for %d things", len(e.Requests))
}

// Handle makes a tool of a function with typed parameters. In is a struct: json tags give
// the arguments' names and, without omitempty, which are required; a jsonschema_description
// tag describes one. Out is an Output, a string (the text), or what becomes JSON data. It
// panics where no schema can be made of In, which is a fault of the program: a type that
// contains itself needs a WorkerTool with a Schema of its own.
func Handle[In, Out any](name, description string, tier events.Tier, fn func(ctx context.Context, t Task, in In) (Out, error)) WorkerTool {
	schema, err := schemaOf(reflect.TypeFor[In]())
	if err != nil {
		panic(fmt.Sprintf("client.Handle %s: %v", name, err))
	}
	return WorkerTool{
		Name: name, Description: description, Tier: tier, Schema: schema,
		Run: func(ctx context.Context, t Task) (Output, error) {
			var in In
			dec := json.NewDecoder(bytes.NewReader(t.Args))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&in); err != nil {
				return Output{}, &ToolError{
					Code: events.InvalidParam, Class: events.ClassInvalid, Effects: events.EffectsNone, Message: "the arguments do not fit: " + err.Error(),
				}
			}
			out, err := fn(ctx, t, in)
			if err != nil {
				return Output{}, err
			}
			return outputOf(out)
		},
	}
}

// outputOf makes an Output of what a typed function returned.
func outputOf(v any) (Output, error) {
	switch v := v.(type) {
	case Output:
		return v, nil
	case string:
		return Output{Text: v}, nil
	}
	data, err := wire.Encode(v)
	if err != nil {
		return Output{}, fmt.Errorf("the tool's answer is no JSON: %w", err)
	}
	return Output{Text: string(data), Data: data}, nil
}

// schemaOf is the strict JSON Schema of a struct, everything in its place.
func schemaOf(t reflect.Type) (json.RawMessage, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the parameters must be a struct, and are %s", t)
	}
	if err := acyclic(t, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	r := jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, DoNotReference: true}
	s := r.ReflectFromType(t)
	s.Version = ""
	return wire.Encode(s)
}

// acyclic refuses what the reflector would walk for ever, or has no JSON.
func acyclic(t reflect.Type, on map[reflect.Type]bool) error {
	if on[t] {
		return fmt.Errorf("%s contains itself: write its schema by hand", t)
	}
	on[t] = true
	defer delete(on, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return acyclic(t.Elem(), on)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if err := acyclic(f.Type, on); err != nil {
				return err
			}
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("a %s has no JSON", t)
	}
	return nil
}

// can says whether the tool can do what a verb asks.
func (s *served) can(verb string) bool {
	switch verb {
	case wire.VerbRun:
		return true
	case wire.VerbProbe:
		return s.Probe != nil
	case wire.VerbCompensate:
		return s.Compensate != nil
	}
	return false
}

// served is the tool as it is announced, or an error that says what to mend.
func (t WorkerTool) served() (*served, error) {
	if t.Run == nil {
		return nil, errors.New("it has no Run")
	}
	if len(t.Schema) == 0 {
		t.Schema = json.RawMessage(`{"type":"object"}`)
	}
	if !plain(strings.ReplaceAll(t.Name, "_", "-"), events.MaxToolName) || strings.Contains(t.Name, "__") || strings.IndexAny(t.Name, "_-") == 0 {
		return nil, fmt.Errorf("a name is 1 to %d of A-Za-z0-9_-, the first a letter or a digit, without __", events.MaxToolName)
	}
	d := wire.Definition{
		Description: t.Description, Version: t.Version, Schema: t.Schema, Tier: t.Tier, HonoursKey: t.HonoursKey, Key: t.Key,
		Probe: t.Probe != nil, Compensate: t.Compensate != nil,
	}
	if t.Limits != (WorkerLimits{}) {
		d.Limits = &wire.Limits{
			WallMS: t.Limits.Wall.Milliseconds(), Output: t.Limits.Output, Lines: t.Limits.Lines, Text: t.Limits.Text, Keep: t.Limits.Keep, Retries: t.Limits.Retries,
		}
	}
	if err := d.Check(); err != nil {
		return nil, err
	}
	return &served{WorkerTool: t, def: d, revision: d.Digest(), told: map[string]bool{}}, nil
}
