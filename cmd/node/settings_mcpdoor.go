package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway/mcp"
	"github.com/sluice-run/sluice/policy/access"
)

// mcpDoorSettings say what clients of the Model Context Protocol are let do.
type mcpDoorSettings struct {
	open             bool // at HTTP
	tools            []string
	approvers        []string
	askClients       bool // tools' own questions also go to clients at which nobody is known to sit
	inbox            bool // tools' own questions go to the inbox alone
	patience, linger time.Duration
}

// mcpDoorFlags are those of mcpDoorSettings.
func (s *settings) mcpDoorFlags(f *pflag.FlagSet) {
	f.BoolVar(&s.mcpDoor.open, "mcp-door", true, "answer clients of the Model Context Protocol over HTTP, at /mcp")
	f.StringSliceVar(&s.mcpDoor.tools, "mcp-tools", nil, "`patterns` for the names of the tools that such clients are shown, with * and ?; left out: all of them")
	f.StringSliceVar(&s.mcpDoor.approvers, "mcp-approver", nil, "`agent=person`: what is said at that agent's client to a question counts as that person's word.\n"+
		"Left out: nothing counts that comes from a client, and people answer at the inbox")
	f.BoolVar(&s.mcpDoor.askClients, "mcp-ask-clients", false, "what a tool itself asks is also put before clients for which --mcp-approver names nobody, and their answers count:\n"+
		"where an agent answers for its client, it answers what it has caused. Left out: it waits at the inbox")
	f.BoolVar(&s.mcpDoor.inbox, "mcp-inbox", false, "what a tool itself asks goes to the inbox alone. Left out: it is also put before the person whom --mcp-approver names, where the client can ask")
	f.DurationVar(&s.mcpDoor.patience, "mcp-patience", 50*time.Second, "how long such a client is kept waiting for a call that waits for a person, before it is told so")
	f.DurationVar(&s.mcpDoor.linger, "mcp-linger", 2*time.Second, "how long a call goes on whose client has closed the stream of its request, in case the same request comes again; then it is cancelled")
}

// approversOf are the persons at the clients of agents.
func (m mcpDoorSettings) approversOf() (map[string]string, error) {
	out := make(map[string]string)
	for _, pair := range m.approvers {
		agent, person, ok := strings.Cut(pair, "=")
		switch {
		case !ok || access.CheckID(agent) != nil || access.CheckID(person) != nil:
			return nil, exit.Misused(fmt.Errorf("--mcp-approver %q: want agent=person", pair), "for example --mcp-approver coder=ada: both are ids of principals")
		case agent == person:
			return nil, exit.Misused(fmt.Errorf("--mcp-approver %q: nobody agrees to their own calls", pair), "name the person who sits at that agent's client")
		case out[agent] != "" && out[agent] != person:
			return nil, exit.Misused(fmt.Errorf("--mcp-approver names two persons for %s", agent), "name one")
		}
		out[agent] = person
	}
	return out, nil
}

// mcpConfig is how the protocol's door behaves, or what is wrong with its settings.
func (s *settings) mcpConfig(allow func(principal string) []string) (mcp.Config, error) {
	m := s.mcpDoor
	persons, err := m.approversOf()
	if err != nil {
		return mcp.Config{}, err
	}
	if err := mcp.CheckTools(m.tools); err != nil {
		return mcp.Config{}, exit.Misused(fmt.Errorf("--mcp-tools: %w", err), "for example --mcp-tools 'Read,G*,github__*'")
	}
	linger := m.linger
	if linger == 0 {
		linger = -1
	}
	return mcp.Config{
		Tools: m.tools, Allow: allow, AskClients: m.askClients, Inbox: m.inbox, Fixtures: s.fixtures, Patience: m.patience, Linger: linger,
		Approver: func(asker events.Principal) string { return persons[asker.ID] },
	}, nil
}
