package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp"
)

// serversSettings say which MCP servers' tools a node has.
type serversSettings struct {
	file string
}

// serversFlags say which MCP servers' tools a node has.
func (s *settings) serversFlags(f *pflag.FlagSet) {
	f.StringVar(&s.servers.file, "mcp-servers", "", "JSON `file` of MCP servers whose tools this node has, in the shape that coding agents use; SIGHUP reads it anew.\n"+
		"Left out: none. mcpservers check tries it")
}

// maxServersFile is the size in bytes of the largest file of servers.
const maxServersFile = 1 << 20

// mcpServers reads the file of servers; none where there is no such setting.
func (s *settings) mcpServers(log *slog.Logger) ([]mcp.Server, error) {
	if s.servers.file == "" {
		return nil, nil
	}
	const next = "docs/mcp.md has the format"
	body, err := readSmall(s.servers.file, maxServersFile)
	if err != nil {
		return nil, exit.Misused(fmt.Errorf("--mcp-servers: %w", err), next)
	}
	list, notes, err := mcp.ParseServers(body, os.LookupEnv)
	if err != nil {
		return nil, exit.Misused(fmt.Errorf("--mcp-servers %s: %w", s.servers.file, err), next)
	}
	for _, one := range list {
		if one.Open && s.box.require {
			return nil, exit.Misused(fmt.Errorf("--mcp-servers %s: server %s is not contained, and --require-sandbox is given", s.servers.file, one.Name), "take sandbox.off out of its entry")
		}
	}
	for _, note := range notes {
		log.Warn("of the file of MCP servers", "note", note)
	}
	return list, nil
}

// serversConfig is what servers are kept with.
func (s *settings) serversConfig(workspace string, provide func(string, []tools.Tool) error, version string, log *slog.Logger) mcp.Config {
	return mcp.Config{Provide: provide, Sandbox: s.box.policy, Workspace: workspace, Version: version, Log: log}
}

// serversWait is how long a node that starts waits for its servers: turns that wait for
// it may call their tools.
const serversWait = 10 * time.Second

// startServers begins to keep the servers, and gives them a moment to be there. own is
// their life, ctx that of the start.
func (n *node) startServers(ctx, own context.Context, list []mcp.Server, c mcp.Config) {
	n.servers = mcp.NewHost(own, c)
	n.servers.Apply(list)
	ctx, stop := context.WithTimeout(ctx, serversWait)
	defer stop()
	n.servers.Tried(ctx)
}

// heedServers reads the file of servers anew whenever the process gets SIGHUP, until ctx
// ends. One that cannot be read changes nothing.
func (s *serving) heedServers(ctx context.Context) {
	s.onHangup(ctx, func() {
		list, err := s.set.mcpServers(s.log)
		if err != nil {
			s.node.metrics.Count("reload_refused", 1)
			s.log.Error("the file of MCP servers was not read anew: what was read before counts", "err", err)
			return
		}
		s.node.servers.Apply(list)
		s.log.Info("the file of MCP servers was read anew", "servers", len(list))
	})
}
