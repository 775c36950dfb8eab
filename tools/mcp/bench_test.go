package mcp

import (
	"encoding/json"
	"testing"

	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
)

// BenchmarkCall is one call of a server behind pipes, there and back.
func BenchmarkCall(b *testing.B) {
	w := begin(b, mcptest.Options{})
	tool := w.tool("echo")
	in := tools.Invocation{Args: json.RawMessage(`{"v":1}`)}
	for b.Loop() {
		if _, err := tool.Run(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
