package mcp

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkCall is a readonly call over HTTP, in memory but for the network, of the revision
// without sessions.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b, making{})
	hc := &http.Client{Transport: &http.Transport{}}
	defer hc.CloseIdleConnections()
	const body = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"v":%d},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+w.at+"/mcp", strings.NewReader(fmt.Sprintf(body, n, n)))
		must(b, err)
		for name, v := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", versionHeader: "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
		} {
			r.Header.Set(name, v)
		}
		resp, err := hc.Do(r)
		must(b, err)
		answer, err := io.ReadAll(resp.Body)
		must(b, err)
		_ = resp.Body.Close()
		if !strings.Contains(string(answer), `"resultType":"complete"`) {
			b.Fatalf("%s", answer)
		}
	}
}
