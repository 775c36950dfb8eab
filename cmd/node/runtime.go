package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sluice-run/sluice/actors"
	"github.com/sluice-run/sluice/bus"
	"github.com/sluice-run/sluice/cmd/internal/command"
	"github.com/sluice-run/sluice/cmd/internal/exit"
	"github.com/sluice-run/sluice/cmd/internal/session"
	"github.com/sluice-run/sluice/events"
	"github.com/sluice-run/sluice/gateway"
	"github.com/sluice-run/sluice/lifecycle"
	"github.com/sluice-run/sluice/tools"
	"github.com/sluice-run/sluice/tools/mcp"
	"github.com/sluice-run/sluice/tools/remote"
)

// logger writes the node's log to w.
func (s *settings) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(s.logLevel, "warn"))); err != nil {
		return nil, exit.Misused(fmt.Errorf("log-level %q", s.logLevel), "use debug, info, warn or error")
	}
	o := &slog.HandlerOptions{Level: level}
	switch cmp.Or(s.logFormat, "text") {
	case "text":
		return slog.New(discreet(logNames{slog.NewTextHandler(w, o)})), nil
	case "json":
		return slog.New(discreet(logNames{slog.NewJSONHandler(w, o)})), nil
	}
	return nil, exit.Misused(fmt.Errorf("log-format %q", s.logFormat), "use text or json")
}

// directory is the workspace, absolute, and there.
func (s *settings) directory() (string, error) {
	dir, err := filepath.Abs(s.workspace)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return "", exit.Misused(fmt.Errorf("workspace %s: %w", dir, err), "name a directory that exists with --workspace")
	}
	return filepath.EvalSymlinks(dir)
}

// breaker are the numbers of the circuit breakers.
func (s *settings) breaker() lifecycle.BreakerConfig {
	return lifecycle.BreakerConfig{Failures: s.breakerFailures, Window: s.breakerWindow}
}

// node is a running node, with its desk.
type node struct {
	ses      *session.Session
	registry *tools.Registry
	judge    *judge
	limits   *limitState
	servers  *mcp.Host // BEFORE the actors, and until AFTER them
	metrics  *gateway.Metrics
	unlike   gateway.Differences // between the nodes of the log
	actors   *actors.Node
	desk     *gateway.Desk
	gates    actors.Gates   // as the actors have them, but for the policy; for calls that are not made
	remote   *remote.Roster // nil: workers are not asked
	boot     string
}

// startNode starts a node on the session's log. ctx bounds the start only.
func (s *settings) startNode(ctx context.Context, ses *session.Session, log *slog.Logger) (*node, error) {
	workspace, err := s.directory()
	if err != nil {
		return nil, err
	}
	if err := s.boxIn(ctx, log); err != nil {
		return nil, err
	}
	var seen later
	registry, err := s.registry(actors.UndoConfig{Bus: ses.Bus, Workspace: workspace, Now: ses.Now, Log: log, Seen: &seen})
	if err != nil {
		return nil, err
	}
	kept, registry, err := hooked(ses.Bus, registry) // as they are, but in a build for tests
	if err != nil {
		return nil, err
	}
	servers, err := s.mcpServers(log)
	if err != nil {
		return nil, err
	}
	allow, err := s.allowlists()
	if err != nil {
		return nil, err
	}
	limits, err := s.limits()
	if err != nil {
		return nil, err
	}
	judge, err := newJudge(s.policy)
	if err != nil {
		return nil, err
	}
	values, err := s.vault(ses, true, log)
	if err != nil {
		return nil, err
	}
	n := &node{ses: ses, registry: registry, judge: judge, limits: newLimitState(limits), boot: ulid.Make().String()}
	setup, err := s.setup(n)
	if err != nil {
		return nil, err
	}
	n.gates = actors.Gates{Registry: registry, Allow: allow, Network: s.network, Workspace: workspace}
	n.metrics = s.measures(n)
	seen.Observer, kept = n.metrics, n.metrics.Around(kept)
	n.actors, err = actors.New(actors.Config{
		Bus: kept, Registry: registry, Authorizer: judge, Boot: n.boot, Name: s.nodeName(), Version: command.Version(), Workspace: workspace,
		Placements: s.placements, Allow: allow, Network: s.network, Room: s.room, Drain: s.drain, Approval: s.approval,
		Limits: n.limits.get, Breaker: s.breaker(), Now: ses.Now, Steady: session.Steady, Log: log, Seen: n.metrics,
		Heartbeat: s.ackWait / 3, Presence: s.presence.ttl(), Keys: s.keyRetention, Retention: ses.Bus.Retention(), Setup: setup,
		Vault: opener(values), ShowSecrets: s.secret.shown(), Traced: s.spans.on(), Closed: append(s.ownFiles(), "/proc", "/sys", "/dev"),
	})
	if err != nil {
		return nil, err
	}
	own := context.WithoutCancel(ctx) // the node ends by Stop, in order
	if n.remote, err = s.startRemote(ctx, ses, registry, n.boot, log); err != nil {
		return nil, err
	}
	n.startServers(ctx, own, servers, s.serversConfig(workspace, registry.Provide, command.Version(), log))
	if err := n.actors.Start(own); err != nil {
		n.servers.Stop()
		n.forgoWorkers()
		return nil, err
	}
	n.desk = gateway.NewDesk(gateway.DeskConfig{Bus: kept, Boot: n.boot, Local: localEnds{n.actors}, Now: ses.Now, Log: log, Workspace: workspace, Vault: values, Declared: declaredBy(registry), Refuses: n.actors.Refuses, Seen: n.metrics.Committed})
	n.desk.Start(own)
	ses.KeepTime(own, log)
	return n, nil
}

// later is an observer that is known only after who tells it: BEFORE anything runs.
type later struct{ actors.Observer }

func (s *settings) nodeName() string {
	if s.name != "" {
		return s.name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// stop drains the node. ctx bounds the drain, beside --drain.
func (n *node) stop(ctx context.Context) error {
	err := n.actors.Stop(ctx)
	n.servers.Stop()
	n.forgoWorkers()
	n.desk.Stop()
	return err
}

// workers shows who serves tools over NATS; nil where they are not heard.
func (n *node) workers() func() bus.WorkerTools {
	if n.remote == nil {
		return nil
	}
	return n.remote.View
}

// workerTools are the tools of workers; none where they are not heard.
func (n *node) workerTools() (none bus.WorkerTools) {
	if n.remote == nil {
		return none
	}
	return n.remote.View()
}

// forgoWorkers ends what is said to workers: BEHIND the last attempt.
func (n *node) forgoWorkers() {
	if n.remote != nil {
		n.remote.Stop()
	}
}

// circuits are the tools whose circuit is not closed.
func (n *node) circuits(c lifecycle.BreakerConfig) (map[string]string, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	open, err := actors.OpenTools(ctx, n.ses.Bus.Cells(), c, n.ses.Now(), names(n.registry))
	out := make(map[string]string)
	for tool := range open {
		out[tool] = string(lifecycle.BreakerOpen)
	}
	return out, err
}

func names(r *tools.Registry) []string {
	var out []string
	for _, t := range r.List() {
		out = append(out, t.Name)
	}
	return out
}

// list is the tool list for a provider, without the tools whose circuit is open.
func (n *node) list(c lifecycle.BreakerConfig) func(context.Context, string) (json.RawMessage, error) {
	return func(ctx context.Context, format string) (json.RawMessage, error) {
		open, err := actors.OpenTools(ctx, n.ses.Bus.Cells(), c, n.ses.Now(), names(n.registry))
		if err != nil {
			return nil, err
		}
		return toolList(n.registry, open, format)
	}
}

// localEnds tells the desk of turns that end in this process.
type localEnds struct{ node *actors.Node }

// Watch is gateway.Watcher's.
func (l localEnds) Watch(key events.TurnKey, ended func(gateway.View)) func() {
	return l.node.OnEnd(key, func(f actors.Finished) { ended(gateway.View{Turn: f.Turn, Commits: f.Commits}) })
}
