package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

// greeter is a server made with the official SDK.
func greeter() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "greeter", Version: "2"}, nil)
	type in struct {
		Name string `json:"name" jsonschema:"whom to greet"`
	}
	type out struct {
		Greeting string `json:"greeting"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "greet", Description: "Greets.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, r *sdk.CallToolRequest, a in) (*sdk.CallToolResult, out, error) {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Message: "half"})
			return nil, out{"Hello, " + a.Name}, nil
		})
	s.AddTool(&sdk.Tool{Name: "who", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if a, ok := r.Params.InputResponses["you"].(*sdk.ElicitResult); ok {
			name, _ := a.Content["name"].(string)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Action + " " + name + " " + r.Params.RequestState}}}, nil
		}
		return &sdk.CallToolResult{RequestState: "s1", InputRequests: sdk.InputRequestMap{"you": &sdk.ElicitParams{
			Message: "Who are you?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		}}}, nil
	})
	return s
}

// The official SDK's servers are understood, in both revisions.
func TestServersOfTheOfficialSDK(t *testing.T) {
	for revision, stateless := range map[string]bool{mcptest.Old: false, mcptest.New: true} {
		t.Run(revision, func(t *testing.T) {
			server := greeter()
			h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless})
			at := httptest.NewServer(h)
			defer at.Close()
			w := begin(t, mcptest.Options{}, func(_ *world, s *Server, _ *Config) {
				*s = Server{Name: "srv", URL: at.URL, Tiers: map[string]events.Tier{"greet": events.Readonly}}
			})
			defer w.host.Stop()
			st := w.state()
			if st.State != Up || st.Name != "greeter 2" || len(st.Tools) != 2 {
				t.Fatalf("%+v", st)
			}
			t.Log(st.Revision)
			if r := w.call("greet", `{"name":"Ada"}`); r.Class != events.ClassOK || string(r.Result.Data) != `{"greeting":"Hello, Ada"}` || r.Result.Text.Text != "" {
				t.Errorf("%+v", r)
			}
			if st.Revision != mcptest.New {
				return
			}
			r := w.call("who", `{}`)
			if r.Class != events.ClassInput || r.Input.State != "s1" || r.Input.Requests[0].Message != "Who are you?" {
				t.Fatalf("%+v", r)
			}
			r = w.call("who", `{}`, func(in *tools.Invocation) {
				in.Given = &events.Given{State: "s1", Answers: []events.InputAnswer{{ID: "you", Action: events.InputAccept, Content: json.RawMessage(`{"name":"Ada"}`)}}}
			})
			if r.Class != events.ClassOK || r.Result.Text.Text != "accept Ada s1" {
				t.Errorf("%+v", r)
			}
		})
	}
}
