package client_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-run/sluice/client"
)

// leftOut are members of answers that the client does not give on.
var leftOut = map[string][]string{
	"Approval": {}, "Turn": {}, "Node": {"time_ms", "clock_error_ms"},
	"NodeStatus": {"boot", "name", "now", "machine", "ack_wait_ms", "presence_ms", "key_ms", "breaker_open", "breaker_ms", "in_memory", "running"},
	"Nodes":      {"waiting", "turns"},
}

// document is what the tests read of the OpenAPI document.
type document struct {
	Paths      map[string]map[string]any
	Components struct {
		Schemas map[string]struct {
			Properties map[string]any
		}
	}
}

func described(t *testing.T) (doc document) {
	t.Helper()
	text, err := os.ReadFile("../schemas/openapi.json")
	must(t, err)
	must(t, json.Unmarshal(text, &doc))
	return doc
}

// TestTypesAreThoseOfTheDocument: what the client reads and sends has the members that the
// OpenAPI document gives the node's own types.
func TestTypesAreThoseOfTheDocument(t *testing.T) {
	doc := described(t)
	for name, v := range map[string]any{
		"Turn": client.Turn{}, "Call": client.CallState{}, "Compensated": client.Compensated{}, "Messages": client.Messages{},
		"Replied": client.Cancelled{}, "Resolution": client.Resolved{}, "Undone": client.Undone{}, "Approval": client.Approval{},
		"ApprovalEnd": client.ApprovalEnd{}, "InputShown": client.InputRequest{}, "Field": client.Field{}, "Choice": client.Choice{},
		"Decided": client.Decided{}, "Answered": client.Answered{}, "Trace": client.Trace{}, "Moment": client.Moment{}, "Usage": client.Use{},
		"Whoami": client.Whoami{}, "Node": client.Node{}, "NodeStatus": client.NodeSays{}, "Count": client.Count{}, "Nodes": client.Crew{},
		"Circuit": client.Breaker{}, "Switched": client.Switched{}, "Problem": client.Problem{}, "FieldProblem": client.FieldProblem{},
		"Streamed": client.Submitted{}, "StreamPreview": client.Preview{}, "Limit": client.Limit{}, "LimitBucket": client.LimitBucket{},
		"LimitHolder": client.LimitHolder{}, "WorkerTools": client.RemoteTools{}, "WorkerView": client.RemoteTool{}, "WorkerSeat": client.RemoteWorker{}, "WorkerCounts": client.RemoteCounts{},
		"ReadStore": client.ReadStore{}, "Supposition": client.Supposition{}, "Explained": client.Explained{}, "PolicyText": client.PolicyText{},
	} {
		schema, ok := doc.Components.Schemas[name]
		if !ok {
			t.Errorf("the document has no %s", name)
			continue
		}
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(schema.Properties)), func(p string) bool {
			return slices.Contains(leftOut[name], p) || name == "StreamPreview" && p == "preview"
		})
		if got := members(reflect.TypeOf(v)); !slices.Equal(got, want) {
			t.Errorf("%T reads\n %v, and %s has\n %v", v, got, name, want)
		}
	}
	sent := slices.Sorted(maps.Keys(doc.Components.Schemas["Submission"].Properties))
	sent = slices.DeleteFunc(sent, func(p string) bool { return p == "wait_ms" || p == "stream" }) // Submission.Wait, and SubmitStream
	if got := members(reflect.TypeFor[client.Submission]()); !slices.Equal(got, sent) {
		t.Errorf("Submission has\n %v, and the node takes\n %v", got, sent)
	}
}

// members are the names of a struct's members in JSON, sorted.
func members(t reflect.Type) []string {
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, members(f.Type)...)
		case name != "-" && name != "":
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
