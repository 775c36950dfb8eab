// Command takeover measures how long a turn stands still whose node is killed: from
// the SIGKILL of its owner, while that runs a call, to the commit in which another
// node claims it. Every process is real: servers and nodes as `make cluster` has them.
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
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

func main() {
	cluster.Main()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// settings are what the command line says.
type settings struct {
	node, dir, only string
	times           int
	ackWait         time.Duration
	each, keep      bool
}

// scene is one way for a node to die.
type scene struct {
	name    string
	servers int
	leader  bool          // the server that leads the log dies at the same moment
	args    []string      // of the nodes
	bound   time.Duration // of the worst time
}

func (s settings) scenes() []scene {
	off := []string{"--presence", "off", "--ack-wait", s.ackWait.String()}
	return []scene{
		{name: "R1", servers: 1, bound: 5 * time.Second},
		{name: "R3", servers: 3, bound: 5 * time.Second},
		{name: "R3, and the log's leader dies with it", servers: 3, leader: true, bound: 15 * time.Second},
		{name: fmt.Sprintf("R1, presence off, AckWait %v", s.ackWait), servers: 1, args: off, bound: s.ackWait + time.Second},
		{name: fmt.Sprintf("R3, presence off, AckWait %v", s.ackWait), servers: 3, args: off, bound: s.ackWait + time.Second},
	}
}

// run runs the command and returns its exit code: 1 where something took longer than
// it may, 2 for a command line that is wrong.
func run(args []string, out, errw io.Writer) int {
	var s settings
	f := flag.NewFlagSet("takeover", flag.ContinueOnError)
	f.SetOutput(errw)
	f.StringVar(&s.node, "node", "bin/sluice-node", "`path` of sluice-node")
	f.StringVar(&s.dir, "dir", "", "where the stores are made; left out: a temporary folder")
	f.StringVar(&s.only, "only", "", "only the scenes whose name begins so")
	f.IntVar(&s.times, "times", 20, "how often each scene is played")
	f.DurationVar(&s.ackWait, "ack-wait", 5*time.Second, "AckWait of the scenes without presence")
	f.BoolVar(&s.each, "v", false, "print each of them as it comes")
	f.BoolVar(&s.keep, "keep", false, "leave the stores and logs where they are")
	if err := f.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := s.measure(ctx, out); err != nil {
		fmt.Fprintf(errw, "takeover: error: %v\n", err)
		return 1
	}
	return 0
}

func (s settings) measure(ctx context.Context, out io.Writer) error {
	if _, err := exec.LookPath(s.node); err != nil {
		return fmt.Errorf("no sluice-node at %s (%w): make build, or name one with -node", s.node, err)
	}
	if s.times < 1 {
		return errors.New("-times: at least one")
	}
	fmt.Fprintf(out, "%s %s/%s, %d processors; each scene %d times\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.times)
	fmt.Fprintln(out, "| SIGKILL of a turn's owner, until another node's claim | median | worst | at most |\n|---|---|---|---|")
	var late []string
	for _, x := range s.scenes() {
		if !strings.HasPrefix(x.name, s.only) {
			continue
		}
		took, err := s.play(ctx, x, out)
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		slices.Sort(took)
		worst := took[len(took)-1]
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", x.name, seconds(took[len(took)/2]), seconds(worst), seconds(x.bound))
		if worst > x.bound {
			late = append(late, x.name)
		}
	}
	if late != nil {
		return fmt.Errorf("it took too long: %s", strings.Join(late, "; "))
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// play plays a scene, and returns how long each take-over took.
func (s settings) play(ctx context.Context, x scene, out io.Writer) (took []time.Duration, err error) {
	dir, err := os.MkdirTemp(s.dir, "takeover-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if !s.keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	c, err := cluster.Start(ctx, cluster.Config{Dir: dir, Servers: x.servers, Node: s.node})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	st := &stage{Cluster: c, scene: x}
	for range 2 {
		n, err := c.Node(cluster.NodeConfig{Args: x.args})
		if err != nil {
			return nil, err
		}
		if err := st.started(ctx, n); err != nil {
			return nil, err
		}
	}
	for i := range s.times {
		d, err := st.death(ctx, fmt.Sprintf("turn-%d", i))
		if err != nil {
			return nil, fmt.Errorf("the %d. time: %w", i+1, err)
		}
		took = append(took, d)
		if s.each {
			fmt.Fprintf(out, "%s: %s\n", x.name, seconds(d))
		}
	}
	return took, nil
}
