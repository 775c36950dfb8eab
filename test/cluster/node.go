package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/sluice-run/sluice/test/ports"
)

// NodeConfig is how a node runs. Zero means what stands beside the field.
type NodeConfig struct {
	Name string   // for people and the log's name; "" means n1, n2 … by the order of making
	Path string   // of sluice-node; "" means Config.Node
	NATS string   // what it is told of the servers; "" means Cluster.URL
	Port int      // of its HTTP door; 0 means any free one, which stays the same over restarts
	Args []string // more flags of serve; they come last, and win
	Env  []string // more of its environment, as NAME=value
}

// Node is one sluice-node that serves, in a process of its own.
type Node struct {
	process
	c   *Cluster
	cfg NodeConfig

	about sync.Mutex
	boot  string // "" BEFORE the first start
}

// Node makes a node; it is not started.
func (c *Cluster) Node(cfg NodeConfig) (*Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg.Name = cmp.Or(cfg.Name, fmt.Sprintf("n%d", len(c.nodes)+1))
	cfg.Path = cmp.Or(cfg.Path, c.cfg.Node)
	if cfg.Path == "" {
		return nil, fmt.Errorf("node %s: set Config.Node, or NodeConfig.Path, to a sluice-node", cfg.Name)
	}
	if cfg.Port == 0 {
		free, err := ports.Free(1)
		if err != nil {
			return nil, err
		}
		cfg.Port = free[0]
	}
	n := &Node{process: process{name: cfg.Name, log: c.path("log", cfg.Name+".log")}, c: c, cfg: cfg}
	c.nodes = append(c.nodes, n)
	return n, nil
}

// StartNode makes a node and starts it.
func (c *Cluster) StartNode(ctx context.Context, cfg NodeConfig) (*Node, error) {
	n, err := c.Node(cfg)
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}

// Start starts a node that does not run, also one that was killed or drained, and
// returns once it takes turns. It has a new boot id then.
func (n *Node) Start(ctx context.Context) error {
	ctx, stop := limited(ctx)
	defer stop()
	args := append([]string{
		"serve", "--json", "--name", n.cfg.Name, "--nats", cmp.Or(n.cfg.NATS, n.c.URL()), "--replicas", strconv.Itoa(len(n.c.Servers)),
		"--http", ports.Loopback(n.cfg.Port), "--workspace", n.c.Workspace(), "--ledger", n.c.Ledger(), "--fixtures",
	}, n.cfg.Args...)
	line, err := n.start(ctx, n.cfg.Path, args, n.cfg.Env)
	if err != nil {
		return err
	}
	var g struct{ Event, Boot string }
	if err := json.Unmarshal(line, &g); err != nil || g.Event != "ready" {
		n.Kill()
		return fmt.Errorf("start %s: it says %q: is %s a sluice-node?", n.name, line, n.cfg.Path)
	}
	n.about.Lock()
	n.boot = g.Boot
	n.about.Unlock()
	return poll(ctx, n.name+" is ready", n.Ready)
}

// Restart kills the node and starts it again.
func (n *Node) Restart(ctx context.Context) error {
	n.Kill()
	return n.Start(ctx)
}

// URL is the address of the node's HTTP door. It stays the same over restarts.
func (n *Node) URL() string { return "http://" + ports.Loopback(n.cfg.Port) }

// Boot is the boot id of the last start: the owner of turns, in the log.
func (n *Node) Boot() string {
	n.about.Lock()
	defer n.about.Unlock()
	return n.boot
}

// Ready returns why the node would run no turn now; nil if it would.
func (n *Node) Ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := monitors.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: /readyz: %s", n.name, resp.Status)
	}
	_ = resp.Body.Close() // its status says all
	return err
}

// Drain asks the node to end, by SIGTERM, and returns its exit code. It is killed
// if it has not ended when ctx is done, which is an error.
func (n *Node) Drain(ctx context.Context) (int, error) {
	ctx, stop := limited(ctx)
	defer stop()
	return n.end(ctx)
}
