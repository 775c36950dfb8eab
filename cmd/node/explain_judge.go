package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/nodehttp"
	"github.com/sluice-run/sluice/cmd/internal/policyfile"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/policy"
	"github.com/sluice-run/sluice/policy/cedar"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp"
)

// otherNode are the settings with which a verb asks about another node than the one that
// runs.
var otherNode = []string{"policy", "principals", "fixtures", "network", "mcp-servers"}

// maxExplained is the size in bytes of the largest answer that is believed.
const maxExplained = 16 << 20

// askExplain asks the node on the data directory; false: there is none to ask, or another
// one is meant.
func (s *settings) askExplain(ctx context.Context, q asking) (x gateway.Explained, answered bool, err error) {
	if s.NATS != "" || slices.ContainsFunc(otherNode, func(name string) bool { return s.from[name] != "" }) {
		return x, false, nil
	}
	running, found, err := jetlog.Find(s.Data)
	switch {
	case err != nil:
		return x, false, exit.Unusable(err, "")
	case !found || running.HTTP == "":
		return x, false, nil
	}
	if s.from["workspace"] != "" {
		if q.Workspace, err = filepath.Abs(s.workspace); err != nil {
			return x, false, err
		}
	}
	q.Principal.ID = cmp.Or(q.Principal.ID, gateway.DefaultPrincipal)
	body, err := json.Marshal(q.Supposition)
	if err != nil {
		return x, false, err
	}
	return x, true, postExplain(ctx, running, body, &x)
}

// postExplain asks a running node.
func postExplain(ctx context.Context, running jetlog.Running, body []byte, into *gateway.Explained) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, running.HTTP+"/v1/explain", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := nodehttp.Client(running).Do(req)
	if err != nil {
		return exit.Unusable(fmt.Errorf("ask the node at %s: %w", running.HTTP, err), "")
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxExplained))
	switch {
	case err != nil:
		return fmt.Errorf("the answer of the node at %s: %w", running.HTTP, err)
	case resp.StatusCode != http.StatusOK:
		return refused(bus.Answer{Status: resp.StatusCode, Body: answer, Error: string(answer)})
	}
	return json.Unmarshal(answer, into)
}

// gatesHere are the gates of this process, and the policy that its settings name.
func (s *settings) gatesHere() (*cedar.Set, actors.Gates, error) {
	set, err := policyfile.Load(s.policy)
	if err != nil {
		return nil, actors.Gates{}, err
	}
	gates, err := s.gates(set)
	return set, gates, err
}

// explain judges in this process, by the gates that need no state.
func (s *settings) explain(ctx context.Context, q asking) (gateway.Explained, *cedar.Set, error) {
	var none gateway.Explained
	set, gates, err := s.gatesHere()
	if err != nil {
		return none, nil, err
	}
	if q.Workspace, err = s.directory(); err != nil {
		return none, set, err
	}
	x, err := q.Read(events.Principal(q.Principal))
	if err != nil {
		return none, set, err
	}
	stop, err := s.learnServer(ctx, gates.Registry, x.Turn.Calls[0].Tool)
	if err != nil {
		return none, set, err
	}
	defer stop()
	return explainSupposed(gates, set, time.Now(), x), set, nil
}

// learnServer starts the MCP server of --mcp-servers that a tool's name tells of, and has
// its tools registered until stop. No tool is called.
func (s *settings) learnServer(ctx context.Context, r *tools.Registry, tool string) (stop func(), err error) {
	name, _, foreign := strings.Cut(tool, "__")
	if s.servers.file == "" || !foreign {
		return func() {}, nil
	}
	list, err := s.mcpServers(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(one mcp.Server) bool { return one.Name != name })
	if len(list) == 0 {
		return func() {}, nil
	}
	host, err := s.tryServers(ctx, list, r)
	if err != nil {
		return nil, err
	}
	if one := host.Status()[0]; one.State != mcp.Up {
		host.Stop()
		return nil, exit.Unusable(fmt.Errorf("what tools the server %s has is not known: it is %s: %s", name, one.State, one.Why), "sluice-node mcpservers check says more")
	}
	return host.Stop, nil
}

// tryServers starts servers as serve would, and returns once each is there or has failed,
// or is too slow. Stop it: that takes its tools away.
func (s *settings) tryServers(ctx context.Context, list []mcp.Server, r *tools.Registry) (*mcp.Host, error) {
	workspace, err := s.directory()
	if err != nil {
		return nil, err
	}
	if err := s.boxIn(ctx, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	host := mcp.NewHost(ctx, s.serversConfig(workspace, r.Provide, command.Version(), nil))
	host.Apply(list)
	wait, stop := context.WithTimeout(ctx, checkWait)
	defer stop()
	host.Tried(wait)
	return host, nil
}

// gates are those of a node with these settings and that policy.
func (s *settings) gates(set *cedar.Set) (actors.Gates, error) {
	registry, err := s.plainRegistry()
	if err != nil {
		return actors.Gates{}, err
	}
	allow, err := s.allowlists()
	return actors.Gates{Registry: registry, Authorizer: set, Allow: allow, Network: s.network}, err
}

// explain judges a call that is not made, by what the node has at this moment.
func (n *node) explain(_ context.Context, x gateway.Supposed) (gateway.Explained, error) {
	return explainSupposed(n.gates, n.judge.set.Load(), n.ses.Now(), x), nil
}

// explainSupposed asks gates about a call, by one set of policies, and finds their texts.
func explainSupposed(gates actors.Gates, set *cedar.Set, now time.Time, x gateway.Supposed) gateway.Explained {
	at := x.At
	if at.IsZero() {
		at = now.UTC()
	}
	gates.Authorizer, gates.Now = set, func() time.Time { return at }
	call := x.Turn.Calls[0]
	args, fault := lifecycle.Parse(call.Args.Text)
	out := explainAsked(gates, &actors.Asked{Tool: call.Tool, Args: args, Fault: fault, Raw: &call, Turn: &x.Turn, Key: x.Key})
	out.Texts = texts(set, out.Policies)
	return out
}

// explainBy asks gates about a call.
func explainBy(gates actors.Gates, turn events.TurnSubmitted, key events.TurnKey, tool, raw string) gateway.Explained {
	asked := &actors.Asked{Tool: tool, Turn: &turn, Key: key}
	asked.Args, asked.Fault = lifecycle.Parse(strings.ToValidUTF8(raw, "\uFFFD"))
	return explainAsked(gates, asked)
}

func explainAsked(gates actors.Gates, asked *actors.Asked) gateway.Explained {
	findings, verdict := gates.Static(asked)
	last := findings[len(findings)-1]
	out := gateway.Explained{
		Decision: policy.Allow, Gate: string(last.Gate), Code: last.Code, Reason: last.Reason, Policies: last.Policies,
		Path: last.Path, Policy: last.Policy,
	}
	if out.Policies == nil {
		out.Policies = []string{}
	}
	switch {
	case last.Ruling == lifecycle.Deny:
		out.Decision = policy.Deny
		return out
	case last.Ruling == lifecycle.Ask:
		out.Decision = policy.Ask
	case verdict.Tier == events.Approval && asked.Turn.CanAsk:
		out.Decision, out.Gate = policy.Ask, string(lifecycle.GateApprove)
		out.Reason = "A call of this tool always needs a person's approval."
	case verdict.Tier == events.Approval:
		out.Decision, out.Gate, out.Code = policy.Deny, string(lifecycle.GateApprove), events.PermissionDenied
		out.Reason = "A call of this tool always needs a person's approval, and nobody can be asked."
	}
	out.Tier, out.Operation = verdict.Tier, &verdict.Operation
	return out
}
