package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-run/sluice/events"
)

func quick(t *testing.T, name string) Tool {
	t.Helper()
	tool, err := Quick(name, "says it again", func(_ context.Context, in string) (string, error) { return in, nil })
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestRegistryListsByNameAndRefusesCollisions(t *testing.T) {
	r, err := NewRegistry(quick(t, "b"), quick(t, "B"), quick(t, "a__x"), quick(t, "a-x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(quick(t, "a")); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range r.List() {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff([]string{"B", "a", "a-x", "a__x", "b"}, names); diff != "" {
		t.Error(diff)
	}
	if err := r.Add(quick(t, "a__x")); !errors.Is(err, ErrTool) || !strings.Contains(err.Error(), "registered already") {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := NewRegistry(quick(t, "a"), quick(t, "a")); !errors.Is(err, ErrTool) {
		t.Errorf("twice in one list: %v", err)
	}
	if _, ok := r.Lookup("A"); ok {
		t.Error("names differ in case")
	}
	if tool, ok := r.Lookup("a__x"); !ok || tool.Name != "a__x" {
		t.Error("a__x is not found")
	}
}

func TestNamesThatCannotBeRegistered(t *testing.T) {
	good := quick(t, "a")
	for _, name := range []string{
		"", "a b", "a/b", "é", "a\n", "a:b", "a.b", "a:b.c", "a\x00", strings.Repeat("x", 65),
	} {
		tool := good
		tool.Name = name
		if err := (&Registry{}).Add(tool); !errors.Is(err, ErrTool) {
			t.Errorf("%q: got %v", name, err)
		}
	}
	for _, name := range []string{"a", strings.Repeat("x", 64), "s__" + strings.Repeat("x", 61), "mcp-1__get_x", "-", "_"} {
		tool := good
		tool.Name = name
		if err := (&Registry{}).Add(tool); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestToolsThatCannotBeRegistered(t *testing.T) {
	for want, spoil := range map[string]func(*Tool){
		"no Run":            func(t *Tool) { t.Run = nil },
		"no schema":         func(t *Tool) { t.Schema = nil },
		"schema cannot be":  func(t *Tool) { t.Schema = []byte(`{"type":"object","$ref":"http://x/y"}`) },
		`no tier "harmless`: func(t *Tool) { t.Tier = "harmless" },
		"no JSON Pointer":   func(t *Tool) { t.Writes = []string{"path"} },
	} {
		tool := quick(t, "a")
		spoil(&tool)
		if err := (&Registry{}).Add(tool); !errors.Is(err, ErrTool) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestRegistryIsSafeForManyGoroutines(t *testing.T) {
	var r Registry
	var wg sync.WaitGroup
	for i := range 8 {
		tool := quick(t, fmt.Sprintf("t%d", i%4))
		wg.Go(func() {
			_ = r.Add(tool) // half of them collide
			r.List()
			r.Lookup(tool.Name)
		})
	}
	wg.Wait()
	if n := len(r.List()); n != 4 {
		t.Errorf("%d tools", n)
	}
}

func TestARegisteredToolHasOneName(t *testing.T) {
	for name, want := range map[string]string{"Read": "Read", "a__b": "a__b", "github:get_issue": "github__get_issue", "a.b": "a__b", "a:b:c": "a:b:c"} {
		if got := ProviderName(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "name")
		if checkTool(Tool{Spec: Spec{Name: name, Schema: []byte(`{"type":"object"}`)}, Run: emptyRun}) != nil {
			t.Fatalf("%s cannot be registered", name)
		}
		if p := ProviderName(name); p != name {
			t.Fatalf("%s is %s to providers", name, p)
		}
	})
}

func emptyRun(context.Context, Invocation) (events.Result, error) { return events.Result{}, nil }

func TestListsForProviders(t *testing.T) {
	tool := quick(t, "srv__say")
	tool.Schema = []byte(`{"type":"object"}`)
	tool.Description = "says <it>"
	for want, list := range map[string]func([]Tool) ([]byte, error){
		`[{"type":"function","function":{"name":"srv__say","description":"says <it>","parameters":{"type":"object"}}}]`:       func(l []Tool) ([]byte, error) { return OpenAI(l) },
		`[{"type":"function","name":"srv__say","description":"says <it>","parameters":{"type":"object"},"strict":false}]`:     func(l []Tool) ([]byte, error) { return OpenAIResponses(l) },
		`[{"name":"srv__say","description":"says <it>","input_schema":{"type":"object"}}]`:                                    func(l []Tool) ([]byte, error) { return Anthropic(l) },
		`[{"functionDeclarations":[{"name":"srv__say","description":"says <it>","parametersJsonSchema":{"type":"object"}}]}]`: func(l []Tool) ([]byte, error) { return Gemini(l) },
	} {
		got, err := list([]Tool{tool})
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
	if got, err := OpenAI(nil); err != nil || string(got) != "[]" {
		t.Errorf("no tools: %s, %v", got, err)
	}
}
