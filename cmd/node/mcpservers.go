package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/show"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp"
)

// mcpservers are the verbs about the file of MCP servers.
func (a *app) mcpservers() *cobra.Command {
	cmd := &cobra.Command{Use: "mcpservers", Short: "Show and try the MCP servers whose tools a node would have", Args: command.Args(0, 0, "list or check")}
	cmd.AddCommand(a.listServers(), a.checkServers())
	return cmd
}

// listedServer is a server of the file. Its JSON is for programs, and grows only.
type listedServer struct {
	Server    string                 `json:"server"`
	Transport string                 `json:"transport"` // stdio or http
	Where     string                 `json:"where"`     // the command without its arguments, or the address
	Tiers     map[string]events.Tier `json:"tiers,omitempty"`
}

func (a *app) listServers() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "Show the servers of --mcp-servers, without starting or reaching any", Args: command.Args(0, 0, "none"),
		RunE: func(*cobra.Command, []string) error {
			list, err := a.serversOf()
			if err != nil {
				return err
			}
			out := make([]listedServer, 0, len(list))
			for _, s := range list {
				one := listedServer{Server: s.Name, Transport: "stdio", Where: s.Command, Tiers: s.Tiers}
				if s.URL != "" {
					one.Transport, one.Where = "http", s.URL
				}
				out = append(out, one)
			}
			if a.json {
				return a.printJSON(map[string]any{"servers": out})
			}
			for _, s := range out {
				a.print("%-32s  %-5s  %s\n", s.Server, s.Transport, show.Short(s.Where, 200))
			}
			return nil
		},
	}
	a.set.toolFlags(cmd.Flags())
	return cmd
}

// serversOf are the servers of the file, which there must be.
func (a *app) serversOf() ([]mcp.Server, error) {
	if a.set.servers.file == "" {
		return nil, exit.Misused(errors.New("there is no file of servers"), "name it with --mcp-servers")
	}
	log, err := a.set.logger(a.err)
	if err != nil {
		return nil, err
	}
	return a.set.mcpServers(log)
}

// checkedServer is what a check found. Its JSON is for programs, and grows only.
type checkedServer struct {
	Server   string        `json:"server"`
	State    mcp.State     `json:"state"`
	Why      string        `json:"why,omitempty"`
	Name     string        `json:"name,omitempty"`
	Revision string        `json:"revision,omitempty"`
	Tools    []checkedTool `json:"tools"`
	Refused  []string      `json:"refused,omitempty"`
}

type checkedTool struct {
	Name    string      `json:"name"`
	Own     string      `json:"own"`
	Tier    events.Tier `json:"tier"`
	Why     string      `json:"why"`
	Version string      `json:"version"`
}

// checkWait bounds a check.
const checkWait = 2 * time.Minute

func (a *app) checkServers() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Start and reach each server of --mcp-servers, and show its tools, their tiers and why", Args: command.Args(0, 0, "none"),
		Long: "Start and reach each server of --mcp-servers as serve would, sandbox included, show its tools, each with its tier and why\n" +
			"it has that, and what cannot be registered; then end them. No tool is called.\n\n" +
			"Exit codes:\n  0  all servers are there\n  1  one is not, or has tools that cannot be registered\n  2  the command line or the file is wrong",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.serversOf()
			if err != nil {
				return err
			}
			found, err := a.checked(cmd.Context(), list)
			if err != nil {
				return err
			}
			if err := a.printChecked(found); err != nil {
				return err
			}
			for _, s := range found {
				if s.State != mcp.Up || len(s.Refused) > 0 {
					return fmt.Errorf("server %s is not all that its entry says", s.Server)
				}
			}
			return nil
		},
	}
	a.set.toolFlags(cmd.Flags())
	a.set.sandboxFlags(cmd.Flags())
	return cmd
}

// checked starts the servers, looks at them, and ends them.
func (a *app) checked(ctx context.Context, list []mcp.Server) ([]checkedServer, error) {
	workspace, err := a.set.directory()
	if err != nil {
		return nil, err
	}
	if err := a.set.boxIn(ctx, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	registry := &tools.Registry{}
	host := mcp.NewHost(ctx, a.set.serversConfig(workspace, registry.Provide, command.Version(), nil))
	defer host.Stop()
	host.Apply(list)
	wait, stop := context.WithTimeout(ctx, checkWait)
	defer stop()
	host.Tried(wait)
	var out []checkedServer
	for _, st := range host.Status() {
		s := checkedServer{Server: st.Server, State: st.State, Why: st.Why, Name: st.Name, Revision: st.Revision, Tools: []checkedTool{}, Refused: st.Refused}
		for _, t := range st.Tools {
			s.Tools = append(s.Tools, checkedTool(t))
		}
		out = append(out, s)
	}
	return out, nil
}

func (a *app) printChecked(list []checkedServer) error {
	if a.json {
		return a.printJSON(map[string]any{"servers": list})
	}
	for _, s := range list {
		a.print("%s  %s\n", s.Server, strings.TrimSpace(fmt.Sprintf("%s  %s  %s%s", s.State, s.Name, s.Revision, show.Short(s.Why, 500))))
		for _, t := range s.Tools {
			own := ""
			if s.Server+"__"+t.Own != t.Name {
				own = "  (" + show.Short(t.Own, 80) + ")"
			}
			a.print("  %-12s  %s%s: %s\n", t.Tier, t.Name, own, t.Why)
		}
		for _, why := range s.Refused {
			a.print("  not there: %s\n", show.Short(why, 500))
		}
	}
	return nil
}
