package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

// three is a cluster of real processes: three NATS servers, and nodes that share
// nothing but them and a disk.
type three struct {
	*cluster.Cluster
	t     *testing.T
	place *place
}

// member is a node of a cluster.
type member struct {
	*cluster.Node
	*api
}

// clusterBuilt builds the program that runs as a NATS server, once, without the
// race detector.
var clusterBuilt = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", filepath.Join(bin, "cluster"), "../cluster/cmd")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ../cluster/cmd: %w\n%s", err, out)
	}
	return nil
})

// newCluster starts the servers. Everything ends with the test; where that has
// failed, all logs are shown.
func newCluster(t *testing.T, cfg cluster.Config) *three {
	t.Helper()
	if err := clusterBuilt(); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir, cfg.Program = dir, filepath.Join(bin, "cluster")
	if cfg.Node == "" {
		cfg.Node = filepath.Join(bin, "sluice-node")
	}
	c, err := cluster.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := &three{Cluster: c, t: t, place: &place{t: t, work: c.Workspace(), ledger: c.Ledger()}}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			out.showLogs()
		}
	})
	alsoReplayed(t, c.URL())
	return out
}

func (c *three) showLogs() {
	for _, n := range c.Nodes() {
		c.t.Logf("the log of node %s:\n%s", n.Name(), tail(n.Log(), 8_000))
	}
	for _, s := range c.Servers {
		c.t.Logf("the log of server %s:\n%s", s.Name(), tail(s.Log(), 3_000))
	}
}

// node starts a node.
func (c *three) node(cfg cluster.NodeConfig) *member {
	c.t.Helper()
	n, err := c.Node(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	poll(c.t, n.Name()+" starts", func() bool { // a service manager would try again, too
		err := n.Start(c.t.Context())
		if err != nil {
			c.t.Logf("%.400s", err)
		}
		return err == nil
	})
	return &member{n, &api{t: c.t, base: n.URL()}}
}

// nodes starts some nodes that are all alike.
func (c *three) nodes(n int, more ...string) []*member {
	c.t.Helper()
	var out []*member
	for range n {
		out = append(out, c.node(cluster.NodeConfig{Args: more}))
	}
	return out
}

// doors are the addresses of all nodes.
func doors(nodes []*member) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.base)
	}
	return out
}

// must fails the test if an act of the cluster did not succeed.
func (c *three) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// traffic submits turns, one behind the other, each until a door has accepted it.
type traffic struct {
	t     *testing.T
	doors []string
	make  func(i int) turn
	pause func(i int) time.Duration // between the turns i and i+1

	mu   sync.Mutex
	sent []turn // accepted
	next int    // the door that is asked next
}

// begin submits turns until stop is called, which returns those that were accepted.
func (l *traffic) begin() (stop func() []turn) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			l.submit(l.t.Context(), l.make(i))
			wait(ctx, l.pause(i))
		}
	})
	return func() []turn {
		cancel()
		wg.Wait()
		return l.all()
	}
}

// submit asks one door after the other until one has accepted the turn.
func (l *traffic) submit(ctx context.Context, tu turn) {
	for ctx.Err() == nil {
		l.mu.Lock()
		l.next++
		at := l.doors[l.next%len(l.doors)]
		l.mu.Unlock()
		status, body, err := soon(ctx, at, http.MethodPost, "/v1/turns", tu)
		switch {
		case err == nil && status < 300:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.sent = append(l.sent, tu)
			return
		case err == nil && status < 500:
			l.t.Errorf("submit %s/%s: %d %s", tu.Trace, tu.Turn, status, body)
			return
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// all are the turns that were accepted so far.
func (l *traffic) all() []turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]turn(nil), l.sent...)
}

// accepted waits until so many more turns have been accepted.
func (l *traffic) accepted(more int) {
	l.t.Helper()
	want := len(l.all()) + more
	poll(l.t, fmt.Sprint(more, " more turns are accepted"), func() bool { return len(l.all()) >= want })
}

// wait lets so much time pass, or less where ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// soon sends a request to a node that may hang: it gives up after some seconds.
func soon(ctx context.Context, base, method, path string, body any) (int, []byte, error) {
	ctx, stop := context.WithTimeout(ctx, 8*time.Second)
	defer stop()
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, in)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, out, err
}
