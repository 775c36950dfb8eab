package jettest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/bus/jetlog"
	"github.com/sluice-run/sluice/test/ports"
)

// clusterSize is how many servers a cluster has.
const clusterSize = 3

// Cluster is three servers with JetStream that replicate to each other.
type Cluster struct {
	t     testing.TB
	Nodes []*Server // never more or fewer than three; stop and start them at will
}

// StartCluster starts a cluster and waits until it can make streams.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	return StartClusterWith(t, server.Options{})
}

// StartClusterWith starts a cluster of servers with users, and waits until it can
// make streams. Of the options only Users and Nkeys count.
func StartClusterWith(t testing.TB, o server.Options) *Cluster {
	t.Helper()
	places, err := ports.Free(clusterSize)
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, p := range places {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	c := &Cluster{t: t}
	for i, port := range places {
		c.Nodes = append(c.Nodes, StartWith(t, server.Options{
			ServerName: fmt.Sprintf("n%d", i), JetStream: true, StoreDir: t.TempDir(), Users: o.Users, Nkeys: o.Nkeys,
			Cluster: server.ClusterOpts{Name: "jettest", Host: "127.0.0.1", Port: port},
			Routes:  parseAll(t, routes),
		}))
	}
	c.AwaitReady()
	return c
}

func parseAll(t testing.TB, addresses []string) []*url.URL {
	t.Helper()
	var out []*url.URL
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

// AwaitReady waits until the cluster has a leader that sees all its members.
func (c *Cluster) AwaitReady() {
	c.t.Helper()
	c.await("the cluster is ready", func() bool {
		for _, n := range c.Nodes {
			if n.srv == nil || !n.srv.JetStreamIsCurrent() {
				return false
			}
		}
		for _, n := range c.Nodes {
			if n.srv.JetStreamIsLeader() {
				return len(n.srv.JetStreamClusterPeers()) == clusterSize
			}
		}
		return false
	})
}

// await polls a condition.
func (c *Cluster) await(what string, ready func() bool) {
	c.t.Helper()
	late := time.NewTimer(startLimit)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-late.C:
			c.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// URL is the addresses of all servers, with commas between them.
func (c *Cluster) URL() string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, n.URL())
	}
	return strings.Join(all, ",")
}

// Dial connects to one of the servers, for jetlog.Config.Connect, and to
// another one when that is lost.
func (c *Cluster) Dial(name string) (*nats.Conn, error) {
	return nats.Connect(c.URL(), jetlog.Options(name, nil)...)
}

// Open opens a bus with three replicas, and closes it when the test ends.
func (c *Cluster) Open(cfg jetlog.Config) *jetlog.Bus {
	c.t.Helper()
	if cfg.Connect == nil {
		cfg.Connect = c.Dial
	}
	if cfg.Replicas == 0 {
		cfg.Replicas = clusterSize
	}
	return open(c.t, cfg)
}

// Leader is the server that leads a stream, nil while there is none.
func (c *Cluster) Leader(stream string) *Server {
	for _, n := range c.Nodes {
		if n.srv != nil && n.srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			return n
		}
	}
	return nil
}

// StepDown makes the leader of a stream give up its office. It returns the
// server's refusal, if there was one.
func (c *Cluster) StepDown(ctx context.Context, stream string) error {
	nc, err := c.Dial("step-down")
	if err != nil {
		return err
	}
	defer nc.Close()
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
	if err != nil {
		return err
	}
	if strings.Contains(string(m.Data), `"error"`) {
		return fmt.Errorf("step down: %s", m.Data)
	}
	return nil
}

// JetStream is a client of its own, for tests that look behind the bus.
func (c *Cluster) JetStream() jetstream.JetStream {
	c.t.Helper()
	nc, err := c.Dial("test")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	return js
}
