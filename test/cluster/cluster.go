// Package cluster runs Sluice as an installation would, on one machine: NATS
// servers that keep the log together, and nodes that share it, each a process of
// its own. Any of them can be killed, stopped for a while, cut off and started
// again, as machines are. Nothing of it outlives the program that started it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-run/sluice/test/ports"
)

// Config is what a cluster is made of. Dir is required; zero elsewhere means what
// stands beside the field.
type Config struct {
	// Dir holds everything: the servers' stores, the workspace, the ledger of the
	// fixtures, and every process's log. What is there already goes on.
	Dir string
	// Servers is how many NATS servers keep the log: 1 or 3; 0 means 3.
	Servers int
	// Sync is when the servers sync what they acknowledged: "always", or a
	// duration; "" means the server's own default, two minutes.
	Sync string
	// Program runs as a NATS server when it is started by this package. "" means
	// the program that runs now, whose main or TestMain MUST begin with Main.
	Program string
	// NATSPort and the ports behind it are the servers' for clients; 0 means any free ones.
	NATSPort int
	// StoreOf is the folder of a server's store, by its number from 0, where it is
	// not to be below Dir; nil, or "" of it, means that it is.
	StoreOf func(i int) string
	// Node is the path of the sluice-node that nodes run which name none themselves.
	Node string
}

// startLimit is how long anything may take to be ready where the caller's ctx sets
// no deadline.
const startLimit = 60 * time.Second

// Cluster is a number of servers, and the nodes that were started on them. Its
// methods, and those of its servers and nodes, may be used from many goroutines.
type Cluster struct {
	Servers []*Server // as many as Config says, in the order of their names s1, s2, s3

	cfg   Config
	mu    sync.Mutex
	nodes []*Node
}

// Start starts the servers, and returns once they can make streams. An error says
// what stands in the way; nothing runs then.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	ctx, stop := limited(ctx)
	defer stop()
	var err error
	for range 5 { // others may take a port between the look at it and its use
		var c *Cluster
		if c, err = start(ctx, cfg); err == nil {
			return c, nil
		}
		if cfg.NATSPort != 0 || !errors.Is(err, errPort) || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func start(ctx context.Context, cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.each(func(s *Server) error { return s.Start(ctx) }); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c Config) check() error {
	switch {
	case c.Dir == "":
		return errors.New("a cluster needs a directory: set Dir")
	case c.Servers != 0 && c.Servers != 1 && c.Servers != 3:
		return fmt.Errorf("%d servers: use 1 or 3", c.Servers)
	case c.NATSPort < 0 || c.NATSPort > 65_000:
		return fmt.Errorf("port %d: use 1 to 65000, or 0 for any free one", c.NATSPort)
	}
	if c.Sync != "" && c.Sync != syncAlways {
		if d, err := time.ParseDuration(c.Sync); err != nil || d <= 0 {
			return fmt.Errorf("sync %q: use %s, or a duration such as 1s", c.Sync, syncAlways)
		}
	}
	return nil
}

func (c Config) servers() int {
	if c.Servers == 0 {
		return 3
	}
	return c.Servers
}

// prepare makes the folders, and the servers that are to be started.
func (c *Cluster) prepare() error {
	dir, err := filepath.Abs(c.cfg.Dir)
	if err != nil {
		return err
	}
	c.cfg.Dir = dir
	for _, d := range []string{c.Workspace(), c.path("log")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if c.cfg.Program == "" {
		if c.cfg.Program, err = os.Executable(); err != nil {
			return err
		}
	}
	n := c.cfg.servers()
	clients, err := portsFor(c.cfg.NATSPort, n)
	if err != nil {
		return err
	}
	routes, err := ports.Free(n)
	if err != nil {
		return err
	}
	for i := range n {
		c.Servers = append(c.Servers, c.newServer(i, clients[i], routes))
	}
	return nil
}

func (c *Cluster) path(name ...string) string {
	return filepath.Join(append([]string{c.cfg.Dir}, name...)...)
}

// Workspace is the folder where the nodes' calls run.
func (c *Cluster) Workspace() string { return c.path("work") }

// Ledger is the file that the fixtures write their effects to, whatever node they run on.
func (c *Cluster) Ledger() string { return c.path("ledger.jsonl") }

// URL is the addresses of all servers, with commas between them.
func (c *Cluster) URL() string {
	var all []string
	for _, s := range c.Servers {
		all = append(all, s.URL())
	}
	return strings.Join(all, ",")
}

// Nodes are the nodes that were made, running or not, in that order.
func (c *Cluster) Nodes() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// each does something with all servers at once, and returns the errors.
func (c *Cluster) each(do func(*Server) error) error {
	errs := make([]error, len(c.Servers))
	var wg sync.WaitGroup
	for i, s := range c.Servers {
		wg.Go(func() { errs[i] = do(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Stop ends everything in order: the nodes drain, then the servers close their
// stores. What has not ended when ctx is done is killed; that is an error.
func (c *Cluster) Stop(ctx context.Context) error {
	nodes := c.Nodes()
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			if n.Running() {
				_, errs[i] = n.Drain(ctx)
			}
		})
	}
	wg.Wait()
	errs = append(errs, c.each(func(s *Server) error { return s.Stop(ctx) }), c.Close())
	return errors.Join(errs...)
}

// Close ends everything at once, as a power failure would, and waits until nothing
// of it runs any more. The files stay. Closing twice is no error.
func (c *Cluster) Close() error {
	for _, n := range c.Nodes() {
		n.Kill()
	}
	for _, s := range c.Servers {
		s.Kill()
	}
	return nil
}

// limited gives ctx a deadline where it has none.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, startLimit)
}

// poll waits until fact is there; its last error says why it is not.
func poll(ctx context.Context, what string, fact func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		one, stop := context.WithTimeout(ctx, 2*time.Second)
		err := fact(one)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w (%w)", what, err, ctx.Err())
		}
	}
}
