package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-run/sluice/events"
)

func provided(name, about string) Tool {
	return Tool{
		Spec: Spec{Name: name, Description: about, Schema: json.RawMessage(`{"type":"object"}`)},
		Run:  func(context.Context, Invocation) (events.Result, error) { return events.Result{}, nil },
	}
}

func TestProvideReplacesWhatASourceGave(t *testing.T) {
	r, err := NewRegistry(provided("Read", "added"))
	if err != nil {
		t.Fatal(err)
	}
	changed := r.Changed()
	if err := r.Provide("one", []Tool{provided("one__a", "1"), provided("one__b", "1")}); err != nil {
		t.Fatal(err)
	}
	<-changed
	if err := r.Provide("two", []Tool{provided("two__a", "2")}); err != nil {
		t.Fatal(err)
	}
	if err := r.Provide("one", []Tool{provided("one__b", "again"), provided("one__c", "1")}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tool := range r.List() {
		got = append(got, tool.Name+" "+tool.Description+" "+r.Source(tool.Name))
	}
	if want := "Read added ,one__b again one,one__c 1 one,two__a 2 two"; strings.Join(got, ",") != want {
		t.Errorf("tools are %q, want %q", strings.Join(got, ","), want)
	}
	if err := r.Provide("one", nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Lookup("one__b"); ok {
		t.Error("a tool is there whose source gives none")
	}
}

func TestProvideRefusesWhatIsTaken(t *testing.T) {
	r, err := NewRegistry(provided("Bash", "ours"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Provide("one", []Tool{provided("x", "1")}); err != nil {
		t.Fatal(err)
	}
	err = r.Provide("two", []Tool{provided("Bash", "theirs"), provided("x", "2"), provided("y", "2"), provided("y", "3"), provided("no good", "2")})
	if !errors.Is(err, ErrTool) {
		t.Fatalf("got %v, want an error that wraps ErrTool", err)
	}
	for _, name := range []string{"Bash", "x is registered already by one", "y is registered already by two", "no good"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %q: %v", name, err)
		}
	}
	for name, about := range map[string]string{"Bash": "ours", "x": "1", "y": "2"} {
		if tool, _ := r.Lookup(name); tool.Description != about {
			t.Errorf("%s is %q, want %q", name, tool.Description, about)
		}
	}
	if err := r.Provide("", nil); !errors.Is(err, ErrTool) {
		t.Errorf("a source without a name: %v", err)
	}
}

func TestProvideFromMany(t *testing.T) {
	var r Registry
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				source := fmt.Sprint("s", i)
				if err := r.Provide(source, []Tool{provided(fmt.Sprintf("%s__%d", source, n), "")}); err != nil {
					t.Error(err)
				}
				r.List()
				r.Source(source)
				r.Changed()
			}
		})
	}
	wg.Wait()
	if got := len(r.List()); got != 8 {
		t.Errorf("%d tools, want the last one of each source", got)
	}
}
