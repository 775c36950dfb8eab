// Command soak puts a steady load and faults on real nodes for as long as one
// likes, measures them all the while, and judges what it has measured: whether
// every call has ended once, nothing irreversible happened twice, and nothing
// grows that should not. It leaves a picture, a table of all samples, and an exit
// status of 1 where something is not right.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
)

func main() {
	cluster.Main() // this program is also the servers'
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// command runs the command line and returns its exit code: 2 for one that is wrong.
func command(args []string, out, errw io.Writer) int {
	c, err := parse(args, errw)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(errw, "soak: error: %v\n", err)
		return 2
	}
	c.say = out
	ctx, restore := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer restore()
	go func() {
		<-ctx.Done()
		restore() // a second signal ends this process, and with it all others
	}()
	ok, err := c.soak(ctx)
	if err != nil {
		fmt.Fprintf(errw, "soak: error: %v\n", err)
		return 1
	}
	if !ok {
		return 1
	}
	return 0
}

func parse(args []string, errw io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(errw)
	f.DurationVar(&c.duration, "duration", 10*time.Minute, "how long load and faults last; before and behind them is a quiet time. SIGINT ends them earlier")
	f.Uint64Var(&c.seed, "seed", 0, "`seed` of load and faults; 0: a new one")
	f.StringVar(&c.out, "out", ".soak", "`directory` for the picture, the table and the house; the house is made anew")
	f.BoolVar(&c.embedded, "embedded", false, "one node that keeps its log itself")
	f.IntVar(&c.servers, "servers", 3, "else: NATS servers, 1 or 3; each stream has a replica on each")
	f.IntVar(&c.nodes, "nodes", 3, "else: nodes. The first one is never ended, so that its memory is that of one life")
	f.Float64Var(&c.rate, "rate", 8, "turns a second")
	f.DurationVar(&c.pace, "faults", 20*time.Second, "time between two faults")
	f.DurationVar(&c.every, "every", 0, "time between two samples; 0: by the duration, 1 s to 30 s")
	f.StringVar(&c.node, "node", "", "`path` of sluice-node; left out: it is built")
	f.StringVar(&c.replay, "replay", "", "`path` of sluice-replay; left out: it is built")
	f.StringVar(&c.commit, "commit", "", "`name` of what is soaked, for the title; left out: what git says")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	switch {
	case f.NArg() > 0:
		return c, fmt.Errorf("%q: soak takes flags alone; see -help", f.Args())
	case c.duration < 5*time.Second:
		return c, fmt.Errorf("-duration %s: use 5s or more", c.duration)
	case c.servers != 1 && c.servers != 3:
		return c, fmt.Errorf("-servers %d: use 1 or 3", c.servers)
	case c.nodes < 2 || c.nodes > 20:
		return c, fmt.Errorf("-nodes %d: use 2 to 20; for one use -embedded", c.nodes)
	case c.rate <= 0 || c.rate > 1000:
		return c, fmt.Errorf("-rate %g: use more than 0, and at most 1000", c.rate)
	case c.pace < time.Second:
		return c, fmt.Errorf("-faults %s: use 1s or more", c.pace)
	}
	if c.seed == 0 {
		c.seed = rand.Uint64() >> 16 // short enough to be typed again
	}
	if c.commit == "" {
		c.commit = head()
	}
	return c, nil
}

// head is the commit that git says is checked out.
func head() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// soak runs, writes picture and table, and says whether everything is right.
func (c config) soak(ctx context.Context) (bool, error) {
	if err := os.RemoveAll(filepath.Join(c.out, "house")); err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Join(c.out, "house"), 0o755); err != nil {
		return false, err
	}
	fmt.Fprintln(c.say, c.title())
	r, o, keepers, err := run(ctx, c)
	if err != nil {
		return false, err
	}
	all := slices.Concat(o.account(), r.emptied(), []finding{r.still()}, r.judge(keepers))
	bad := failed(all)
	verdict := fmt.Sprintf("PASS: %d calls, one end each; no irreversible effect twice; laws hold; %d figures flat; %d faults", len(o.calls), len(all), len(r.marks))
	if len(bad) > 0 {
		verdict = "FAIL: " + strings.Join(bad, ", ")
	}
	fmt.Fprintln(c.say)
	for _, f := range all {
		fmt.Fprintln(c.say, f)
	}
	for _, line := range r.costs(keepers) {
		fmt.Fprintln(c.say, line)
	}
	paths, err := c.leave(r, verdict, len(bad) == 0)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(c.say, "\n%s\n%s\n", verdict, paths)
	if len(bad) > 0 {
		fmt.Fprintf(c.say, "the house stays in %s; the same load and faults again: -seed %d\n", filepath.Join(c.out, "house"), c.seed)
	}
	return len(bad) == 0, nil
}

// leave writes the table and the picture, and says where they are.
func (c config) leave(r *record, verdict string, ok bool) (string, error) {
	png, table := filepath.Join(c.out, "soak.png"), filepath.Join(c.out, "soak.csv")
	err := errors.Join(
		file(table, r.table),
		file(png, func(w io.Writer) error { return r.picture(w, verdict, ok) }),
	)
	return "picture " + png + ", samples " + table, err
}

// file writes a file anew.
func file(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
