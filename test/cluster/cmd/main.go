// Command cluster starts NATS servers and nodes on this machine, each a process of
// its own, says how to reach them and what to try, and ends them with Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

func main() {
	cluster.Main()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// settings are what the command line says.
type settings struct {
	dir, node, sync    string
	servers, nodes     int
	natsPort, httpPort int
}

// run runs the command and returns its exit code: 2 for a command line that is wrong.
func run(args []string, out, errw io.Writer) int {
	s, verb, err := parse(args, errw)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(errw, "cluster: error: %v\n", err)
		return 2
	}
	if verb == "stop" {
		err = s.stop(out)
	} else {
		err = s.serve(out)
	}
	if err != nil {
		fmt.Fprintf(errw, "cluster: error: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string, errw io.Writer) (s settings, verb string, err error) {
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	f.SetOutput(errw)
	f.Usage = func() {
		fmt.Fprint(errw, "cluster [flags]        starts servers and nodes, and ends them with Ctrl-C\n"+
			"cluster [flags] stop   ends those that run on -dir\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&s.dir, "dir", ".cluster", "`directory` that holds everything; what is there goes on")
	f.StringVar(&s.node, "node", "bin/sluice-node", "`path` of sluice-node")
	f.StringVar(&s.sync, "sync", "", "when the servers sync what they acknowledged: always, or a `duration`; left out: every two minutes")
	f.IntVar(&s.servers, "servers", 3, "NATS servers, 1 or 3; each stream has a replica on each")
	f.IntVar(&s.nodes, "nodes", 3, "nodes")
	f.IntVar(&s.natsPort, "nats-port", 4251, "first of the servers' `port`s; 0: any free ones")
	f.IntVar(&s.httpPort, "http-port", 8391, "first of the nodes' `port`s; 0: any free ones")
	if err := f.Parse(args); err != nil {
		return s, "", err
	}
	switch {
	case f.NArg() > 1 || f.NArg() == 1 && f.Arg(0) != "stop":
		return s, "", fmt.Errorf("%q: the only verb is stop; see -help", f.Args())
	case s.nodes < 0 || s.nodes > 100:
		return s, "", fmt.Errorf("-nodes %d: use 0 to 100", s.nodes)
	}
	return s, f.Arg(0), nil
}

// serve starts everything, and ends it at the first SIGINT or SIGTERM; a second one
// ends it at once.
func (s settings) serve(out io.Writer) error {
	ctx, restore := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer restore()
	if _, err := exec.LookPath(s.node); err != nil {
		return fmt.Errorf("no sluice-node at %s (%w): make build, or name one with -node", s.node, err)
	}
	unlock, err := lock(s.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.portsFree(); err != nil {
		return err
	}
	fmt.Fprintf(out, "starting %d NATS servers and %d nodes on %s …\n", s.servers, s.nodes, s.dir)
	c, err := cluster.Start(ctx, cluster.Config{Dir: s.dir, Servers: s.servers, Sync: s.sync, NATSPort: s.natsPort, Node: s.node})
	if err != nil {
		return explain(ctx, err)
	}
	for i := range s.nodes {
		port := 0
		if s.httpPort != 0 {
			port = s.httpPort + i
		}
		if _, err := c.StartNode(ctx, cluster.NodeConfig{Port: port}); err != nil {
			return errors.Join(explain(ctx, err), c.Close())
		}
	}
	s.greet(out, c)
	s.watch(ctx, out, c)
	restore() // from here on a signal ends this process, and with it all others
	fmt.Fprintln(out, "\nending: the nodes drain, then the servers close their stores; Ctrl-C again ends all at once")
	last, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Stop(last); err != nil {
		return err
	}
	fmt.Fprintf(out, "everything has ended; the log stays in %s\n", s.dir)
	return nil
}

// explain is the error, or that somebody interrupted the start.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("it was interrupted while it started: everything has ended")
	}
	return err
}

// portsFree sees that nobody listens where servers or nodes are to.
func (s settings) portsFree() error {
	look := func(first, n int, name string) error {
		for i := range n {
			if first == 0 {
				return nil
			}
			if err := cluster.PortFree(first + i); err != nil {
				return fmt.Errorf("%w: stop what listens there, or choose other ports with -%s (0: any free ones)", err, name)
			}
		}
		return nil
	}
	if err := look(s.natsPort, s.servers, "nats-port"); err != nil {
		return err
	}
	return look(s.httpPort, s.nodes, "http-port")
}

// watch tells of processes that come to an end, until ctx is done.
func (s settings) watch(ctx context.Context, out io.Writer, c *cluster.Cluster) {
	type end struct{ name, how string }
	ends := make(chan end)
	follow := func(p interface {
		Name() string
		Ended() <-chan struct{}
		ExitCode() int
		LogFile() string
	},
	) {
		select {
		case <-p.Ended():
			how := fmt.Sprintf("with status %d", p.ExitCode())
			if p.ExitCode() < 0 {
				how = "by a signal"
			}
			select {
			case ends <- end{p.Name(), how + "; its log: " + p.LogFile()}:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
	}
	for _, srv := range c.Servers {
		go follow(srv)
	}
	for _, n := range c.Nodes() {
		go follow(n)
	}
	for {
		select {
		case e := <-ends:
			fmt.Fprintf(out, "%s has ended %s\n", e.name, e.how)
		case <-ctx.Done():
			return
		}
	}
}

// greet says where everything is, and what to try.
func (s settings) greet(out io.Writer, c *cluster.Cluster) {
	for _, srv := range c.Servers {
		fmt.Fprintf(out, "  server %-3s pid %-8d %s   monitoring %s\n", srv.Name(), srv.PID(), srv.URL(), srv.Monitor())
	}
	for _, n := range c.Nodes() {
		fmt.Fprintf(out, "  node   %-3s pid %-8d %s   boot %s\n", n.Name(), n.PID(), n.URL(), n.Boot())
	}
	fmt.Fprintf(out, "  workspace %s, ledger of the fixtures %s, logs %s\n", c.Workspace(), c.Ledger(), filepath.Join(s.dir, "log"))
	if nodes := c.Nodes(); len(nodes) > 0 {
		s.suggest(out, c.URL(), nodes[0].URL(), nodes[len(nodes)-1].URL())
	}
	fmt.Fprintln(out, "\nCtrl-C ends everything. The same command goes on where this one ended.")
}

// suggest says what to try.
func (s settings) suggest(out io.Writer, nats, first, last string) {
	fmt.Fprintf(out, `
Try, in another terminal:
  %[1]s tail --nats %[2]s
      what happens in the log, as it does
  curl -s %[3]s/v1/turns -H 'Content-Type: application/json' -d '{"trace":"try","turn":"one","calls":[{"tool":"charge","args":{"order":"o1","amount":5,"stall_ms":20000}},{"tool":"sleep","args":{"ms":1000}}]}'
      a charge that stalls for 20 s, and a read behind it; the same again attaches to it
  kill -9 PID
      of the node whose boot the tail shows at turn_claimed: within 5 s another one takes the turn over, and charges nothing twice
  kill -9 PID
      of a server: the other two go on; kill -STOP and -CONT are worth a try, too
  curl -s %[4]s/v1/turns/try/one
      how it stands, asked of any node that runs
`, s.node, nats, first, last)
}
