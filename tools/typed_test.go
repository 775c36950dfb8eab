package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-run/sluice/events"
)

type grepIn struct {
	Pattern string         `json:"pattern" jsonschema:"RE2 syntax, one line"`
	Dir     string         `json:"dir,omitempty" jsonschema:"description=empty means the workspace,maxLength=9"`
	Limit   int            `json:"limit,omitzero" jsonschema:"minimum=1"`
	Mode    string         `json:"mode,omitempty" jsonschema:"enum=a,enum=b"`
	Big     json.Number    `json:"big,omitempty" jsonschema:"any number"`
	Sub     []sub          `json:"sub,omitempty"`
	Free    map[string]any `json:"free,omitempty"`
	Hidden  func()         `json:"-"`
}

type sub struct {
	When time.Time `json:"when"`
	Ok   *bool     `json:"ok,omitempty"`
}

func typed[In, Out any](t *testing.T, fn func(context.Context, Invocation, In) (Out, error)) Tool {
	t.Helper()
	tool, err := Typed(Spec{Name: "t"}, fn)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestTypedSchemaSaysEverything(t *testing.T) {
	tool := typed(t, func(context.Context, Invocation, grepIn) (string, error) { return "", nil })
	want := `{"properties":{` +
		`"pattern":{"type":"string","description":"RE2 syntax, one line"},` +
		`"dir":{"type":"string","maxLength":9,"description":"empty means the workspace"},` +
		`"limit":{"type":"integer","minimum":1},` +
		`"mode":{"type":"string","enum":["a","b"]},` +
		`"big":{"type":"number","description":"any number"},` +
		`"sub":{"items":{"properties":{"when":{"type":"string","format":"date-time"},"ok":{"type":"boolean"}},"additionalProperties":false,"type":"object","required":["when"]},"type":"array"},` +
		`"free":{"type":"object"}` +
		`},"additionalProperties":false,"type":"object","required":["pattern"]}`
	if diff := cmp.Diff(want, string(tool.Schema)); diff != "" {
		t.Error(diff)
	}
}

type tree struct {
	Name string `json:"name"`
	Kids []tree `json:"kids,omitempty"`
}

func TestTypedSchemaOfATypeThatContainsItself(t *testing.T) {
	tool := typed(t, func(_ context.Context, _ Invocation, in tree) (int, error) { return len(in.Kids), nil })
	if vs := Validate(tool, json.RawMessage(`{"name":"a","kids":[{"name":"b","kids":[{"nam":"c"}]}]}`)); len(vs) != 2 || vs[0].Path != "/kids/0/kids/0/nam" {
		t.Errorf("got %v in %s", vs, tool.Schema)
	}
	got, err := tool.Run(t.Context(), Invocation{Args: json.RawMessage(`{"name":"a","kids":[{"name":"b"}]}`)})
	if err != nil || got.Text.Text != "1" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestTypedRefusesWhatHasNoSchema(t *testing.T) {
	if _, err := Typed(Spec{Name: "t"}, func(context.Context, Invocation, string) (string, error) { return "", nil }); err == nil {
		t.Error("a string is no parameter struct")
	}
	_, err := Typed(Spec{Name: "t"}, func(context.Context, Invocation, struct{ C []chan int }) (string, error) { return "", nil })
	if err == nil || !strings.Contains(err.Error(), ".C") {
		t.Errorf("a channel: %v", err)
	}
	if _, err := Typed(Spec{Name: "bad name"}, func(context.Context, Invocation, struct{}) (string, error) { return "", nil }); !errors.Is(err, ErrTool) {
		t.Errorf("a bad name: %v", err)
	}
}

func TestTypedDecodesExactly(t *testing.T) {
	type in struct {
		ID   int64          `json:"id,omitempty"`
		U    uint64         `json:"u,omitempty"`
		Any  any            `json:"any,omitempty"`
		Raw  json.Number    `json:"raw,omitempty"`
		Free map[string]any `json:"free,omitempty"`
	}
	var got in
	tool := typed(t, func(_ context.Context, _ Invocation, v in) (string, error) { got = v; return "", nil })
	for args, want := range map[string]in{
		`{"id":9007199254740993}`:            {ID: 9007199254740993},
		`{"id":1e3}`:                         {ID: 1000},
		`{"id":1.0,"raw":1.0}`:               {ID: 1, Raw: "1"},
		`{"u":18446744073709551615}`:         {U: 18446744073709551615},
		`{"any":10000000000000001}`:          {Any: json.Number("10000000000000001")},
		`{"any":1.0,"raw":1.50}`:             {Any: json.Number("1.0"), Raw: "1.50"},
		`{"free":{"x":1234567890123456789}}`: {Free: map[string]any{"x": json.Number("1234567890123456789")}},
		``:                                   {},
	} {
		if _, err := tool.Run(t.Context(), Invocation{Args: json.RawMessage(args)}); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

func TestTypedRefusesArgumentsThatDoNotFit(t *testing.T) {
	type in struct {
		ID int8 `json:"id"`
	}
	tool := typed(t, func(context.Context, Invocation, in) (string, error) { t.Error("it ran"); return "", nil })
	for args, path := range map[string]string{
		`{"id":1,"x":2}`: "/x", `{"id":"1"}`: "/id", `{"id":1.5}`: "/id", `{"id":1000}`: "", `{"id":1}{}`: "",
	} {
		_, err := tool.Run(t.Context(), Invocation{Args: json.RawMessage(args)})
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != events.InvalidParam || e.Class != events.ClassInvalid || e.Effects != events.EffectsNone || e.Path != path {
			t.Errorf("%s: got %+v", args, err)
		}
	}
}

type area struct {
	W int `json:"w"`
}

func (area) String() string { return "an area" }

func TestTypedResults(t *testing.T) {
	ok := events.Success
	text := func(s string) events.Body { return events.Body{Text: s} }
	run := func(tool Tool) events.Result {
		t.Helper()
		r, err := tool.Run(t.Context(), Invocation{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	type none struct{}
	for name, c := range map[string]struct {
		tool Tool
		want events.Result
	}{
		"string": {
			typed(t, func(context.Context, Invocation, none) (string, error) { return "<hi>", nil }),
			events.Result{Status: ok, Text: text("<hi>")},
		},
		"struct": {
			typed(t, func(context.Context, Invocation, none) (struct{ A string }, error) {
				return struct{ A string }{"<b>"}, nil
			}),
			events.Result{Status: ok, Text: text(`{"A":"<b>"}`), Data: json.RawMessage(`{"A":"<b>"}`)},
		},
		"stringer": {
			typed(t, func(context.Context, Invocation, none) (area, error) { return area{2}, nil }),
			events.Result{Status: ok, Text: text("an area"), Data: json.RawMessage(`{"w":2}`)},
		},
		"nil pointer": {
			typed(t, func(context.Context, Invocation, none) (*area, error) { return nil, nil }),
			events.Result{Status: ok, Text: text("null"), Data: json.RawMessage(`null`)},
		},
		"nothing": {
			typed(t, func(context.Context, Invocation, none) (any, error) { return nil, nil }),
			events.Result{Status: ok},
		},
		"result": {
			typed(t, func(context.Context, Invocation, none) (events.Result, error) {
				return events.Result{Status: events.Partial, Text: text("x")}, nil
			}),
			events.Result{Status: events.Partial, Text: text("x")},
		},
		"no result": {
			typed(t, func(context.Context, Invocation, none) (*events.Result, error) { return nil, nil }),
			events.Result{Status: ok},
		},
	} {
		if diff := cmp.Diff(c.want, run(c.tool)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestErrorsTakeTheirRoads(t *testing.T) {
	ours := errors.New("disk gone")
	tool := typed(t, func(context.Context, Invocation, struct{}) (string, error) { return "", ours })
	if _, err := tool.Run(t.Context(), Invocation{}); !errors.Is(err, ours) {
		t.Errorf("typed: an error that is ours became %v", err)
	}
	run := func(ctx context.Context, given error) error {
		tool, err := Quick("q", "fails", func(context.Context, string) (string, error) { return "", given })
		if err != nil {
			t.Fatal(err)
		}
		_, err = tool.Run(ctx, Invocation{Args: json.RawMessage(`{"input":"x"}`)})
		return err
	}
	if e, ok := errors.AsType[*Error](run(t.Context(), ours)); !ok || e.Code != events.ExecutionError || e.Message != "disk gone" {
		t.Errorf("quick: %v", e)
	}
	if e, ok := errors.AsType[*Error](run(t.Context(), &Error{Code: events.NotFound})); !ok || e.Code != events.NotFound {
		t.Errorf("quick, with a code: %v", e)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(over, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("quick, cancelled: %v", err)
	}
}
