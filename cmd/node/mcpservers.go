package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
			"it has that, and what cannot be registered; then end them. No tool is called. The workspace of the node that runs on\n" +
			"--data counts where none is given.\n\n" +
			"Exit codes:\n  0  all servers are there\n  1  one is not, or lacks a tool that its entry names; other tools that cannot be had are only told\n  2  the command line or the file is wrong",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.set.asNode(); err != nil {
				return err
			}
			list, err := a.serversOf()
			if err != nil {
				return err
			}
			if at, err := a.set.directory(); err == nil && !a.json {
				a.note("the servers run in %s", show.Short(at, 300))
			}
			found, err := a.checked(cmd.Context(), list)
			if err != nil {
				return err
			}
			if err := a.printChecked(found); err != nil {
				return err
			}
			return wanting(list, found)
		},
	}
	a.set.toolFlags(cmd.Flags())
	a.set.sandboxFlags(cmd.Flags())
	return cmd
}

// wanting returns an error that names all servers which are not all that their entries say.
func wanting(list []mcp.Server, found []checkedServer) error {
	var bad []string
	for _, s := range found {
		i := slices.IndexFunc(list, func(e mcp.Server) bool { return e.Name == s.Server })
		if s.State != mcp.Up || i < 0 || lacks(list[i], s.Refused) {
			bad = append(bad, s.Server)
		}
	}
	switch len(bad) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("server %s is not all that its entry says", bad[0])
	}
	return fmt.Errorf("servers %s are not all that their entries say", strings.Join(bad, ", "))
}

// lacks says whether an entry names a tool that is refused, or is not there. Others are
// the server's own affair: nobody has asked for them. One that the entry keeps out may be
// refused, but must be there, or a misspelt name would keep out nothing.
func lacks(e mcp.Server, refused []string) bool {
	of := func(own string) (n int) {
		for _, why := range refused {
			if strings.HasPrefix(why, events.Visible(own)+": ") || strings.Contains(why, " "+e.Name+"__"+own+" ") {
				n++
			}
		}
		return n
	}
	wanted := slices.Concat(e.Allow, e.HonoursKey, slices.Collect(maps.Keys(e.Tiers)))
	return slices.ContainsFunc(wanted, func(own string) bool { return own != "*" && of(own) > 0 }) ||
		slices.ContainsFunc(e.Deny, func(own string) bool { return own != "*" && of(own) == 1 })
}

// checked starts the servers, looks at them, and ends them.
func (a *app) checked(ctx context.Context, list []mcp.Server) ([]checkedServer, error) {
	host, err := a.set.tryServers(ctx, list, &tools.Registry{})
	if err != nil {
		return nil, err
	}
	defer host.Stop()
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
		a.print("%s  %s\n", s.Server, strings.TrimSpace(fmt.Sprintf("%s  %s  %s%s", s.State, s.Name, s.Revision, show.Short(s.Why, 1000))))
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
