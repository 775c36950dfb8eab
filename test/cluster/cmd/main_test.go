package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-run/sluice/test/cluster"
	"github.com/sluice-run/sluice/test/leaks"
)

func TestMain(m *testing.M) {
	cluster.Main()
	leaks.Main(m)
}

// words are what a command has said so far.
type words struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// TestOneDirectoryOneCommand: a second one is refused and told which process has the
// directory; stop ends the first, and then it starts again.
func TestOneDirectoryOneCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"-dir", dir, "-servers", "1", "-nodes", "0", "-nats-port", "0", "-node", self}
	if code, said := end(append(args, "stop")); code != 1 || !strings.Contains(said, "nothing was ever started") {
		t.Errorf("stop before the first start: %d, %s", code, said)
	}
	for range 2 {
		var out words
		code := make(chan int, 1)
		go func() { code <- run(args, &out, &out) }()
		until(t, &out, "Ctrl-C ends everything", "server s1")
		if code, said := end(args); code != 1 || !strings.Contains(said, fmt.Sprintf("in use by process %d", os.Getpid())) {
			t.Errorf("a second one: %d, %s", code, said)
		}
		if code, said := end(append(args, "stop")); code != 0 || !strings.Contains(said, "everything has ended") {
			t.Errorf("stop: %d, %s", code, said)
		}
		if c := <-code; c != 0 || !strings.Contains(out.String(), "everything has ended") {
			t.Errorf("status %d: %s", c, out.String())
		}
	}
	if code, said := end(append(args, "stop")); code != 0 || !strings.Contains(said, "nothing runs") {
		t.Errorf("stop again: %d, %s", code, said)
	}
}

// end runs the command to its end.
func end(args []string) (int, string) {
	var out words
	code := run(args, &out, &out)
	return code, out.String()
}

// until waits for all of the words.
func until(t *testing.T, out *words, want ...string) {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, w := range want {
		for !strings.Contains(out.String(), w) {
			select {
			case <-tick.C:
			case <-late.C:
				t.Fatalf("it never says %q: %s", w, out.String())
			}
		}
	}
}

// TestWrongCommandLines say what is wrong.
func TestWrongCommandLines(t *testing.T) {
	for want, args := range map[string][]string{
		"the only verb is stop": {"start"},
		"-nodes 1000":           {"-nodes", "1000"},
		"make build":            {"-node", t.TempDir() + "/none"},
	} {
		if code, said := end(append([]string{"-dir", t.TempDir()}, args...)); code == 0 || !strings.Contains(said, want) {
			t.Errorf("%q: %d, %s", args, code, said)
		}
	}
}
