package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-run/sluice/test/leaks"
)

// parentEnv makes this program one that starts a server, says its process, and waits.
const parentEnv = "CLUSTER_TEST_PARENT"

func TestMain(m *testing.M) {
	Main()
	if dir := os.Getenv(parentEnv); dir != "" {
		parent(dir)
	}
	leaks.Main(m)
}

func begin(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	cfg.Dir = t.TempDir()
	c, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestServersComeBack: a stream on three servers outlives whatever happens to one of them.
func TestServersComeBack(t *testing.T) {
	c := begin(t, Config{})
	ctx := t.Context()
	js := stream(t, c)
	sent := 0
	send := func(what string) {
		t.Helper()
		must(t, poll(ctx, what, func(ctx context.Context) error {
			_, err := js.Publish(ctx, "try.one", []byte("x"))
			return err
		}))
		sent++
	}
	send("at first")
	was, err := c.StepDown(ctx, "TRY")
	must(t, err)
	send("after " + was.Name() + " stepped down")

	lead, err := c.Leader(ctx, "TRY")
	must(t, err)
	lead.Kill()
	if lead.Running() || lead.ExitCode() != -1 {
		t.Errorf("after a SIGKILL: running %v, status %d", lead.Running(), lead.ExitCode())
	}
	send("without " + lead.Name())
	must(t, lead.Start(ctx))
	must(t, c.AwaitReady(ctx))

	lead, err = c.Leader(ctx, "TRY")
	must(t, err)
	must(t, lead.Pause())
	send("while " + lead.Name() + " is stopped")
	must(t, lead.Resume())
	must(t, c.AwaitReady(ctx))

	must(t, lead.Stop(ctx))
	if lead.ExitCode() != 0 {
		t.Errorf("after a SIGTERM: status %d", lead.ExitCode())
	}
	must(t, lead.Start(ctx))
	must(t, c.AwaitReady(ctx))
	s, err := js.Stream(ctx, "TRY")
	must(t, err)
	if n := s.CachedInfo().State.Msgs; n < uint64(sent) {
		t.Errorf("%d messages, %d were acknowledged", n, sent)
	}
}

func stream(t *testing.T, c *Cluster) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(c.URL(), nats.MaxReconnects(-1), nats.PingInterval(time.Second)) // a server that is stopped keeps its connections
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "TRY", Subjects: []string{"try.>"}, Replicas: len(c.Servers)})
	must(t, err)
	return js
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheSameDirectory goes on where an earlier cluster was killed.
func TestTheSameDirectory(t *testing.T) {
	c := begin(t, Config{Servers: 1, Sync: "always"})
	js := stream(t, c)
	if _, err := js.Publish(t.Context(), "try.one", []byte("x")); err != nil {
		t.Fatal(err)
	}
	must(t, c.Close())
	again, err := Start(t.Context(), Config{Dir: c.cfg.Dir, Servers: 1})
	must(t, err)
	defer func() { must(t, again.Close()) }()
	nc, err := again.Connect()
	must(t, err)
	defer nc.Close()
	js, err = jetstream.New(nc)
	must(t, err)
	s, err := js.Stream(t.Context(), "TRY")
	must(t, err)
	if n := s.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages", n)
	}
}

// TestAPortThatIsTaken is named, and nothing is left running.
func TestAPortThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	c, err := Start(t.Context(), Config{Dir: t.TempDir(), Servers: 1, NATSPort: port})
	if err == nil {
		must(t, c.Close())
	}
	if !errors.Is(err, errPort) || !strings.Contains(fmt.Sprint(err), strconv.Itoa(port)) {
		t.Errorf("%v", err)
	}
}

// TestWhatIsWrongIsSaid before anything is started.
func TestWhatIsWrongIsSaid(t *testing.T) {
	for want, cfg := range map[string]Config{
		"directory":  {},
		"2 servers":  {Dir: "x", Servers: 2},
		"port 70000": {Dir: "x", NATSPort: 70_000},
		"sync":       {Dir: "x", Sync: "sometimes"},
	} {
		if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// parent starts a server, tells its process id, and waits to be killed.
func parent(dir string) {
	c, err := Start(context.Background(), Config{Dir: dir, Servers: 1})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Servers[0].PID())
	_, _ = io.Copy(io.Discard, os.Stdin) // for ever
	os.Exit(0)
}

// TestNothingOutlivesItsParent, even one that is killed while a server stands still.
func TestNothingOutlivesItsParent(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	in, err := cmd.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n') // what it is says what is wrong
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Errorf("the parent says %q", line)
	}
	if pid > 0 && runtime.GOOS == "linux" { // elsewhere it sees by itself that its parent is gone, and must run for that
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	if pid > 0 {
		ctx, stop := limited(t.Context())
		defer stop()
		must(t, poll(ctx, "the server is gone", func(context.Context) error {
			if gone(pid) {
				return nil
			}
			return errors.New("it is there")
		}))
	}
}

// gone says whether a process has ended, also where nobody has asked how.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(b), ") ")
	return err == nil && ok && strings.HasPrefix(state, "Z")
}

// TestTheProxy passes bytes on, holds them back, and ends connections.
func TestTheProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c) // an echo
			_ = c.Close()
		}
	}()
	defer func() { must(t, l.Close()); <-done }()
	p, err := NewProxy(l.Addr().String())
	must(t, err)
	defer func() { must(t, p.Close()) }()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "nats://"))
		must(t, err)
		return c
	}
	c := dial()
	defer c.Close()
	if got := said(t, c, "one", time.Minute); got != "one" {
		t.Errorf("%q", got)
	}
	p.Silence()
	if got := said(t, c, "two", 100*time.Millisecond); got != "" {
		t.Errorf("%q came through the silence", got)
	}
	p.Restore()
	if got := said(t, c, "", time.Minute); got != "two" {
		t.Errorf("%q after the silence", got)
	}
	p.Cut()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived the cut")
	}
	refused := dial()
	defer refused.Close()
	if _, err := refused.Read(make([]byte, 1)); err == nil {
		t.Error("a connection was made through the cut")
	}
	p.Restore()
	again := dial()
	defer again.Close()
	if got := said(t, again, "three", time.Minute); got != "three" {
		t.Errorf("%q", got)
	}
}

// said is what comes back within a time.
func said(t *testing.T, c net.Conn, words string, within time.Duration) string {
	t.Helper()
	if _, err := io.WriteString(c, words); err != nil {
		t.Fatal(err)
	}
	must(t, c.SetReadDeadline(time.Now().Add(within)))
	b := make([]byte, 64)
	n, err := c.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return string(b[:n])
}
