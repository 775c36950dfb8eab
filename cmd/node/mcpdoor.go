package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/mcp"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
)

// mcpTools are the tools of a registry as clients of the protocol are told of them. To undo
// calls is for people.
func mcpTools(list []tools.Tool, open map[string]bool) []mcp.Tool {
	out := make([]mcp.Tool, 0, len(list))
	for _, t := range list {
		if t.Name == lifecycle.UndoTool {
			continue
		}
		out = append(out, mcp.Tool{
			Name: t.Name, Description: t.Description, Schema: t.Schema,
			Tier: cmp.Or(t.Tier, events.Irreversible), Varies: t.TierOf != nil, Keyed: t.Key != nil, Off: open[t.Name],
		})
	}
	return out
}

// mcpList is the list of a node in this process.
func (n *node) mcpList(c lifecycle.BreakerConfig) func(context.Context) ([]mcp.Tool, error) {
	return func(ctx context.Context) ([]mcp.Tool, error) {
		open, err := actors.OpenTools(ctx, n.ses.Bus.Cells(), c, n.ses.Now(), names(n.registry))
		if err != nil {
			return nil, err
		}
		return mcpTools(n.registry.List(), open), nil
	}
}

// mcpBackend is a node in this process, as the protocol's door stands before it.
func (n *node) mcpBackend(s *settings) mcp.Backend {
	return mcp.Backend{Desk: n.desk, Tools: n.mcpList(s.breaker()), Where: s.whereAsked()}
}

// whereAsked says where people answer what waits.
func (s *settings) whereAsked() string {
	place := ""
	if s.NATS == "" && s.from["data"] != "" {
		place = " --data " + s.Data
	}
	return fmt.Sprintf("sluice-node inbox%s shows it, and sluice-node approve%s and deny%s answer it", place, place, place)
}

// startMCP makes the protocol's door before a node in this process.
func (s *settings) startMCP(ctx context.Context, n *node, log *slog.Logger) (*mcp.Door, error) {
	allow, err := s.allowlists()
	if err != nil {
		return nil, err
	}
	c, err := s.mcpConfig(allow)
	if err != nil {
		return nil, err
	}
	c.Now, c.Log, c.Version = n.ses.Now, log, command.Version()
	d := mcp.New(ctx, c)
	if err := d.Use(ctx, n.mcpBackend(s)); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// formatMCP is the format of /v1/tools that programs ask for which stand before a node.
const formatMCP = "mcp"

// mcpJSON is the list as a node gives it to programs that stand before it.
func mcpJSON(list []mcp.Tool) (json.RawMessage, error) { return json.Marshal(list) }

// mcpHandler speaks the protocol at HTTP; nil where nobody does.
func (s *serving) mcpHandler() http.Handler {
	if s.mcp == nil {
		return nil
	}
	return s.mcp
}
