//lint:file-ignore SA1019 see older.go

package mcp

import (
	"context"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestSampling: a tool that wants a text of the client's model gets it, where the client
// lends its model.
func TestSampling(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := newWorld(t, making{door: asksClients})
		o := &sdk.ClientOptions{CreateMessageHandler: func(_ context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: "hello"}}, nil
		}}
		r := call(t, w.client(revision, o, nil), "test_sampling", map[string]any{"prompt": "say hello"})
		if r.IsError || !strings.Contains(say(r), "hello") {
			t.Errorf("%q", say(r))
		}
	})
}
