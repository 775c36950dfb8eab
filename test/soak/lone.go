package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// lone is a node that keeps its log itself. It can be ended in every way, and
// started again.
type lone struct {
	path, log string
	args      []string

	mu  sync.Mutex
	run *life // nil BEFORE the first start
}

// life is one start of the node.
type life struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func newLone(path, log string, args []string) *lone { return &lone{path: path, log: log, args: args} }

// Start starts the node and waits for the line that says it is ready.
func (l *lone) Start(ctx context.Context) error {
	log, err := os.OpenFile(l.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	out, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(l.path, l.args...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = w, log, clean(os.Environ()), attributes()
	run, err := begin(cmd)
	_ = w.Close() // the node has its own
	if err != nil {
		return errors.Join(err, out.Close())
	}
	l.mu.Lock()
	l.run = run
	l.mu.Unlock()
	return l.await(ctx, run, out)
}

// begin starts a program on a thread that stays until it has ended: the kernel ends
// it with that thread.
func begin(cmd *exec.Cmd) (*life, error) {
	run := &life{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its state
		}
		close(run.ended)
	}()
	return run, <-started
}

// await reads the node's first line, and leaves its output to be drained.
func (l *lone) await(ctx context.Context, run *life, out *os.File) error {
	first := make(chan error, 1)
	go func() {
		defer out.Close()
		in := bufio.NewReader(out)
		_, err := in.ReadBytes('\n')
		first <- err
		_, _ = io.Copy(io.Discard, in) // until it ends: it must not wait for a reader
	}()
	select {
	case err := <-first:
		if err == nil {
			return nil
		}
		<-run.ended
		return fmt.Errorf("the node ended with status %d before it was ready; its log is %s", run.cmd.ProcessState.ExitCode(), l.log)
	case <-ctx.Done():
		l.Kill()
		return fmt.Errorf("the node was not ready: %w; its log is %s", ctx.Err(), l.log)
	}
}

func (l *lone) life() *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// Kill ends the node by SIGKILL, and waits until it is gone.
func (l *lone) Kill() {
	if r := l.life(); r != nil {
		_ = r.cmd.Process.Kill() // one that has ended needs none
		<-r.ended
	}
}

// Pause stops the node where it stands.
func (l *lone) Pause() error { return l.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (l *lone) Resume() error { return l.signal(syscall.SIGCONT) }

func (l *lone) signal(s syscall.Signal) error {
	r := l.life()
	if r == nil {
		return errors.New("the node was never started")
	}
	return r.cmd.Process.Signal(s)
}

// Drain asks the node to end and returns its exit code; it is killed where it has
// not ended when ctx is done.
func (l *lone) Drain(ctx context.Context) (int, error) {
	r := l.life()
	if err := l.signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case <-r.ended:
		return r.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		l.Kill()
		return -1, fmt.Errorf("the node did not drain: %w", ctx.Err())
	}
}

// clean is an environment without settings of the developer's own.
func clean(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "SLUICE_") && !strings.HasPrefix(e, "XDG_DATA_HOME=") {
			out = append(out, e)
		}
	}
	return out
}
