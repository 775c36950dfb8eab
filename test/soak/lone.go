package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/sluice-run/sluice/test/proc"
)

// lone is a node that keeps its log itself. It can be ended in every way, and
// started again.
type lone struct {
	path, log string
	args      []string

	mu  sync.Mutex
	run *proc.Program // nil BEFORE the first start
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
	cmd.Stdout, cmd.Stderr, cmd.Env = w, log, proc.Env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is not for it: the soak ends it in its turn
	run, err := proc.Start(cmd)
	_ = w.Close() // the node has its own
	if err != nil {
		return errors.Join(err, out.Close())
	}
	l.mu.Lock()
	l.run = run
	l.mu.Unlock()
	return l.await(ctx, run, out)
}

// await reads the node's first line, and leaves its output to be drained.
func (l *lone) await(ctx context.Context, run *proc.Program, out *os.File) error {
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
		<-run.Ended
		return fmt.Errorf("the node ended with status %d before it was ready; its log is %s", run.Cmd.ProcessState.ExitCode(), l.log)
	case <-ctx.Done():
		l.Kill()
		return fmt.Errorf("the node was not ready: %w; its log is %s", ctx.Err(), l.log)
	}
}

func (l *lone) life() *proc.Program {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// Kill ends the node by SIGKILL, and waits until it is gone.
func (l *lone) Kill() {
	if r := l.life(); r != nil {
		r.Kill()
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
	return r.Cmd.Process.Signal(s)
}

// Drain asks the node to end and returns its exit code; it is killed where it has
// not ended when ctx is done.
func (l *lone) Drain(ctx context.Context) (int, error) {
	r := l.life()
	if err := l.signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case <-r.Ended:
		return r.Cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		l.Kill()
		return -1, fmt.Errorf("the node did not drain: %w", ctx.Err())
	}
}
