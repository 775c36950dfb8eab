// Command incident records the incident of docs/replay.md: a real node is killed
// between a charge's start and its result, and what is in its log afterwards is
// exported.
//
// An agent takes two orders. For A-16 all goes well. While it charges A-17, the
// node is killed: the line is in the payment provider's ledger, the answer is not
// in the log. The node that takes the turn over asks the provider, whose list does
// not have the charge yet, and so says that the outcome is unknown. The agent asks
// for the same charge again, which the idempotency key stops, and then tells the
// customer that the payment has failed. Days later a person looks at the
// provider's list, and settles what was unknown.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bin := flag.String("bin", "bin", "`folder` of sluice-node and sluice-replay")
	out := flag.String("o", "docs/replay/incident.sluice", "archive that is written")
	keep := flag.String("dir", "", "new `folder` for the log and all files, which is kept; left out: a temporary one")
	flag.Parse()
	if err := run(ctx, *bin, *out, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "incident:", err)
		os.Exit(1)
	}
}

// patience is how long anything may take that has to come about by itself.
const patience = 5 * time.Minute

// slow is how long the provider takes for A-17: longer than the node lives.
const slow = 30 * time.Second

// shop is the place where it happens.
type shop struct {
	node, replay string
	data, work   string
	ledger       string // the provider's, where charges end up
	list         string // what the provider's list has of it: nothing yet
}

func run(ctx context.Context, bin, out, dir string) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if dir == "" {
		made, err := os.MkdirTemp("", "sluice-incident-")
		if err != nil {
			return err
		}
		dir = made
		defer os.RemoveAll(dir)
	}
	s := shop{
		node: filepath.Join(bin, "sluice-node"), replay: filepath.Join(bin, "sluice-replay"),
		data: filepath.Join(dir, "data"), work: filepath.Join(dir, "shop"),
		ledger: filepath.Join(dir, "ledger.jsonl"), list: filepath.Join(dir, "list.jsonl"),
	}
	if err := s.furnish(); err != nil {
		return err
	}
	if err := s.before(ctx); err != nil {
		return err
	}
	if err := s.after(ctx); err != nil {
		return err
	}
	return s.do(ctx, s.replay, "export", "--data", s.data, "shop-A16", "shop-A17", "-o", out)
}

// furnish makes the files that the agent reads.
func (s shop) furnish() error {
	for name, text := range map[string]string{
		"orders/A-16.json":     `{"order":"A-16","customer":"c-81","amount":45,"currency":"EUR"}`,
		"orders/A-17.json":     `{"order":"A-17","customer":"c-204","amount":120,"currency":"EUR"}`,
		"customers/c-81.json":  `{"customer":"c-81","name":"Ines","language":"pt"}`,
		"customers/c-204.json": `{"customer":"c-204","name":"Tomas","language":"en"}`,
	} {
		path := filepath.Join(s.work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// before is what the node did that was killed.
func (s shop) before(ctx context.Context) error {
	n, err := s.serve(ctx, "till-1", s.ledger)
	if err != nil {
		return err
	}
	defer n.kill()
	for _, t := range []turn{
		look("shop-A16", "A-16", "c-81"), charge("shop-A16", "t2", "A-16", 45, time.Second), reply("shop-A16", "t3", "A-16", "Dear Ines, your payment of 45 EUR was received. Thank you!"),
		look("shop-A17", "A-17", "c-204"),
	} {
		if err := s.submit(ctx, t, true); err != nil {
			return err
		}
	}
	if err := s.submit(ctx, charge("shop-A17", "t2", "A-17", 120, slow), false); err != nil {
		return err
	}
	return s.charged(ctx, 2)
}

// charged waits until the provider has so many charges.
func (s shop) charged(ctx context.Context, n int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(s.ledger)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		lines := 0
		for _, c := range b {
			if c == '\n' {
				lines++
			}
		}
		if lines >= n {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the ledger has %d charges, %d are wanted: %w", lines, n, ctx.Err())
		}
	}
}

// after is what its successor did, the agent, and at last a person.
func (s shop) after(ctx context.Context) error {
	n, err := s.serve(ctx, "till-2", s.list)
	if err != nil {
		return err
	}
	defer n.kill()
	// Submitting it again attaches to the turn that is there, and waits for its end.
	for _, t := range []turn{
		charge("shop-A17", "t2", "A-17", 120, slow), charge("shop-A17", "t3", "A-17", 120, slow),
		reply("shop-A17", "t4", "A-17", "Dear Tomas, your payment of 120 EUR has failed. You have not been charged. Please try again."),
	} {
		if err := s.submit(ctx, t, true); err != nil {
			return err
		}
	}
	if err := s.do(ctx, s.node, "resolve", "--data", s.data, "shop-A17/t2/0", "done", "--by", "nora", "--note", "the provider's list shows the charge"); err != nil {
		return err
	}
	return n.stop(ctx)
}

// process is a node that serves.
type process struct {
	cmd   *exec.Cmd
	ended chan error
}

// serve starts a node and waits until it is ready.
func (s shop) serve(ctx context.Context, name, ledger string) (*process, error) {
	cmd := exec.Command(s.node, "serve", "--json", "--data", s.data, "--workspace", s.work, "--fixtures", "--ledger", ledger,
		"--name", name, "--http", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan error, 1)}
	ready := make(chan error, 1)
	go func() {
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			var line struct{ Event string }
			if json.Unmarshal(sc.Bytes(), &line) == nil && line.Event == "ready" {
				ready <- nil
			}
		}
		p.ended <- cmd.Wait()
		close(p.ended)
	}()
	select {
	case <-ready:
		return p, nil
	case err := <-p.ended:
		return nil, fmt.Errorf("%s did not become ready: %w", name, errors.Join(err, errors.New("see what it says")))
	case <-ctx.Done():
		p.kill()
		return nil, fmt.Errorf("%s did not become ready: %w", name, ctx.Err())
	}
}

// kill ends it as a crash would; one that has ended stays so.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	for range p.ended {
	}
}

// stop ends it in order.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the node does not stop: %w", ctx.Err())
	}
}
