package mcp

import (
	"testing"

	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp/mcptest"
	"github.com/sluice-run/sluice/tools/tooltest"
)

// A server's tools pass the suite that every tool passes.
func TestToolsOfAServerPassTheSuite(t *testing.T) {
	both(t, func(t *testing.T, revision string) {
		w := begin(t, mcptest.Options{Revision: revision}, func(_ *world, s *Server, _ *Config) {
			s.Tiers = map[string]events.Tier{"echo": events.Readonly, "sleep": events.Readonly}
			s.HonoursKey = []string{"charge"}
		})
		tooltest.Run(t, w.tool("echo"), tooltest.Example{Args: `{"v":1}`})
		tooltest.Run(t, w.tool("sleep"), tooltest.Example{Args: `{"ms":1}`}, tooltest.Example{Args: `{"ms":600000}`, Blocks: true})
		tooltest.Run(t, w.tool("charge"), tooltest.Example{Args: `{}`, Count: func(string) int { return len(mcptest.Lines(w.o.Ledger)) }})
	})
}

// What a server says is a stranger's: whatever it is, it becomes an answer.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"content":[{"type":"text","text":"a"},7,null,{"type":"image","data":"AA=="}],"isError":true}`,
		`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"https://e/"}}},"requestState":"s"}`,
		`{"resultType":"input_required"}`, `{"structuredContent":{"n":1e400},"content":[]}`, `{"resultType":"x"}`, `[`,
		`{"content":[{"type":"resource","resource":{"uri":"a","blob":"!"}},{"type":"resource_link","uri":"\u001b"}]}`,
	} {
		f.Add([]byte(s), []byte(`{"type":"object","required":["n"]}`))
	}
	f.Fuzz(func(t *testing.T, raw, schema []byte) {
		d := definition{Name: "x"}
		if tools.CheckSchema(schema) == nil {
			d.OutputSchema = schema
		}
		r, err := d.resultOf(t.Context(), raw)
		if err == nil && r.Status != events.Success {
			t.Errorf("%s: %+v", raw, r)
		}
		if e, ok := err.(*tools.Error); ok && (e.Code == "" || e.Message == "") {
			t.Errorf("%s: %+v", raw, e)
		}
	})
}
