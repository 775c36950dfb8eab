package tools_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
)

// A tool with typed parameters: its schema comes from the Go type.
func ExampleTyped() {
	type addIn struct {
		A int `json:"a" jsonschema:"the first number"`
		B int `json:"b,omitempty" jsonschema:"the second one; 0 if left out"`
	}
	add, err := tools.Typed(
		tools.Spec{Name: "add", Description: "Adds two numbers.", Tier: events.Readonly},
		func(_ context.Context, _ tools.Invocation, in addIn) (string, error) {
			return fmt.Sprint(in.A + in.B), nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(add.Schema))
	for _, v := range tools.Validate(add, []byte(`{"b":"2","c":3}`)) {
		fmt.Println(v.Path, v.Message)
	}
	r, err := add.Run(context.Background(), tools.Invocation{Args: []byte(`{"a":9007199254740992,"b":1e0}`)})
	fmt.Println(r.Text.Text, err)
	// Output:
	// {"properties":{"a":{"type":"integer","description":"the first number"},"b":{"type":"integer","description":"the second one; 0 if left out"}},"additionalProperties":false,"type":"object","required":["a"]}
	// /a "a" is required and missing
	// /b must be integer, not string
	// /c "c" is no argument here: leave it out
	// 9007199254740993 <nil>
}

// A quick tool is a function of one string.
func ExampleQuick() {
	shout, err := tools.Quick("shout", "Says it louder.", func(_ context.Context, input string) (string, error) {
		return strings.ToUpper(input), nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := shout.Run(context.Background(), tools.Invocation{Args: []byte(`{"input":"hello"}`)})
	fmt.Println(r.Text.Text, err)
	// Output: HELLO <nil>
}

// What a model is told of the tools, for one of the providers.
func ExampleAnthropic() {
	say, _ := tools.Quick("office__say", "Says it.", func(_ context.Context, in string) (string, error) { return in, nil })
	registry, err := tools.NewRegistry(say)
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := tools.Anthropic(registry.List())
	fmt.Println(string(list), err)
	fmt.Println(tools.ProviderName("office:say")) // as some agents write it
	// Output:
	// [{"name":"office__say","description":"Says it.","input_schema":{"properties":{"input":{"type":"string","description":"what the tool works on"}},"additionalProperties":false,"type":"object","required":["input"]}}] <nil>
	// office__say
}
