package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the conformance suite of the protocol reads beside tools. A node has none of it: a
// door shows it only where its node shows the fixtures among its tools, too.

const redDot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="

func dot() []byte {
	b, err := base64.StdEncoding.DecodeString(redDot)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	return b
}

// subscribed lets a client subscribe to a fixture, which never changes.
func subscribed(o *sdk.ServerOptions) {
	o.Capabilities.Resources.Subscribe = true
	o.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
	o.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
	o.CompletionHandler = func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
		values := []string{}
		for _, v := range []string{"paris", "park", "party"} {
			if strings.HasPrefix(v, r.Params.Argument.Value) {
				values = append(values, v)
			}
		}
		return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: values, Total: len(values)}}, nil
	}
}

// addFixtures adds the suite's resources and prompts.
func addFixtures(s *sdk.Server) {
	give := func(c sdk.ResourceContents) sdk.ResourceHandler {
		return func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			c.URI = r.Params.URI
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{&c}}, nil
		}
	}
	s.AddResource(&sdk.Resource{URI: "test://static-text", Name: "static text", MIMEType: "text/plain"},
		give(sdk.ResourceContents{MIMEType: "text/plain", Text: "This is the content of the static text resource."}))
	s.AddResource(&sdk.Resource{URI: "test://static-binary", Name: "static binary", MIMEType: "image/png"}, give(sdk.ResourceContents{MIMEType: "image/png", Blob: dot()}))
	s.AddResource(&sdk.Resource{URI: "test://watched-resource", Name: "watched", MIMEType: "text/plain"}, give(sdk.ResourceContents{MIMEType: "text/plain", Text: "It never changes."}))
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			text := fmt.Sprintf(`{"id":%q,"templateTest":true,"data":%q}`, id, "Data for ID: "+id)
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: text}}}, nil
		})
	addPrompts(s)
}

func addPrompts(s *sdk.Server) {
	says := func(contents func(args map[string]string) []sdk.Content) sdk.PromptHandler {
		return func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			out := &sdk.GetPromptResult{}
			for _, c := range contents(r.Params.Arguments) {
				out.Messages = append(out.Messages, &sdk.PromptMessage{Role: "user", Content: c})
			}
			return out, nil
		}
	}
	text := func(format string, args ...any) sdk.Content {
		return &sdk.TextContent{Text: fmt.Sprintf(format, args...)}
	}
	s.AddPrompt(&sdk.Prompt{Name: "test_simple_prompt", Description: "a text"}, says(func(map[string]string) []sdk.Content {
		return []sdk.Content{text("This is a simple prompt for testing.")}
	}))
	arg := func(name string) *sdk.PromptArgument { return &sdk.PromptArgument{Name: name, Required: true} }
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_arguments", Description: "a text with arguments", Arguments: []*sdk.PromptArgument{arg("arg1"), arg("arg2")}},
		says(func(args map[string]string) []sdk.Content {
			return []sdk.Content{text("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])}
		}))
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_embedded_resource", Description: "a resource", Arguments: []*sdk.PromptArgument{arg("resourceUri")}},
		says(func(args map[string]string) []sdk.Content {
			r := &sdk.ResourceContents{URI: args["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."}
			return []sdk.Content{&sdk.EmbeddedResource{Resource: r}, text("Please process the embedded resource above.")}
		}))
	s.AddPrompt(&sdk.Prompt{Name: "test_prompt_with_image", Description: "an image"}, says(func(map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.ImageContent{Data: dot(), MIMEType: "image/png"}, text("Please analyze the image above.")}
	}))
}
