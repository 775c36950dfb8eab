package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-run/sluice/test/cluster"
	"github.com/sluice-run/sluice/test/ports"
)

// body is a process that faults can be put into.
type body interface {
	Start(ctx context.Context) error
	Kill()
	Pause() error
	Resume() error
	Drain(ctx context.Context) (int, error)
}

// member is one node of the house.
type member struct {
	name  string
	url   string // of its HTTP door; the same over restarts
	body  body
	roads []*cluster.Proxy // its ways to the servers; none where the log is in the node
}

// house is everything that is looked at: nodes, and what keeps their log.
type house struct {
	members []*member
	cluster *cluster.Cluster // nil where the log is in the one node
	nats    string           // where the log can be looked at
	ledger  string
	where   []string // the flags of sluice-replay that name the log
}

// nodeArgs are flags of every node. Who is asked has approval to answer.
func nodeArgs(approval time.Duration) []string {
	return []string{
		"--approval", approval.String(), "--breaker-failures", "6", "--breaker-window", "10s", "--drain", "3s", "--log-level", "warn",
	}
}

// keepers are the processes that keep the log.
func (h *house) keepers() []string {
	if h.cluster == nil {
		return []string{h.members[0].name}
	}
	var out []string
	for _, s := range h.cluster.Servers {
		out = append(out, s.Name())
	}
	return out
}

// connect is a connection to the log's servers, for looking at them.
func (h *house) connect() (*nats.Conn, error) {
	return nats.Connect(h.nats, nats.Name("soak"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(200*time.Millisecond))
}

// close ends everything at once.
func (h *house) close() error {
	var errs []error
	for _, m := range h.members {
		m.body.Kill()
		for _, p := range m.roads {
			errs = append(errs, p.Close())
		}
	}
	if h.cluster != nil {
		errs = append(errs, h.cluster.Close())
	}
	return errors.Join(errs...)
}

// program is the path of one of our programs, which is built where none is named.
func program(ctx context.Context, named, dir, name string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	path := filepath.Join(dir, "sluice-"+name)
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/sluice-run/sluice/cmd/"+name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build sluice-%s: %w\n%s", name, err, out)
	}
	return path, nil
}

// together starts servers, and nodes that reach them by roads of their own.
func together(ctx context.Context, dir, node string, servers, nodes int, args []string) (*house, error) {
	c, err := cluster.Start(ctx, cluster.Config{Dir: dir, Servers: servers, Node: node})
	if err != nil {
		return nil, err
	}
	h := &house{cluster: c, nats: c.URL(), ledger: c.Ledger(), where: []string{"--nats", c.URL()}}
	for range nodes {
		if err := h.join(ctx, args); err != nil {
			return nil, errors.Join(err, h.close())
		}
	}
	return h, nil
}

// join adds a node behind a proxy for each server.
func (h *house) join(ctx context.Context, args []string) error {
	m := &member{}
	url := ""
	for _, s := range h.cluster.Servers {
		p, err := cluster.NewProxy(s.Address())
		if err != nil {
			return err
		}
		m.roads = append(m.roads, p)
		if url != "" {
			url += ","
		}
		url += p.URL()
	}
	n, err := h.cluster.Node(cluster.NodeConfig{NATS: url, Args: args})
	if err != nil {
		return err
	}
	m.name, m.url, m.body = n.Name(), n.URL(), n
	h.members = append(h.members, m)
	return h.start(ctx, m)
}

// startTries is how often a node is started that does not get up: one whose log
// has no leader just then ends with a status that says so.
const startTries = 5

// start starts a node, as a service manager would.
func (h *house) start(ctx context.Context, m *member) error {
	var err error
	for range startTries {
		if err = m.body.Start(ctx); err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, time.Second)
	}
	return fmt.Errorf("%s does not start, tried %d times: %w", m.name, startTries, err)
}

// pause waits, and says whether ctx still stands.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// alone starts one node with the log in it.
func alone(ctx context.Context, dir, node string, args []string) (*house, error) {
	free, err := ports.Free(2)
	if err != nil {
		return nil, err
	}
	data, work := filepath.Join(dir, "data"), filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	h := &house{
		nats: "nats://soak@" + ports.Loopback(free[1]), ledger: filepath.Join(dir, "ledger.jsonl"), where: []string{"--data", data},
	}
	p := newLone(node, filepath.Join(dir, "node.log"), append([]string{
		"serve", "--json", "--name", "node", "--data", data, "--workspace", work, "--ledger", h.ledger, "--fixtures",
		"--http", ports.Loopback(free[0]), "--listen-nats", ports.Loopback(free[1]), "--nats-token", "soak",
	}, args...))
	h.members = []*member{{name: "node", url: "http://" + ports.Loopback(free[0]), body: p}}
	if err := h.start(ctx, h.members[0]); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}
