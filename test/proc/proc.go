// Package proc runs programs for tests and tools: no program outlives who started it.
package proc

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Program is a program that was started.
type Program struct {
	Cmd   *exec.Cmd
	Ended <-chan struct{} // closed once it has ended, and Cmd's state says how

	err error
}

// Start starts a program. On Linux the kernel ends it with SIGKILL when this process ends,
// however that happens; elsewhere nobody does. Whoever starts it must not call Cmd.Wait:
// that is done here, also where nobody asks how it ended. It returns an error of Cmd.Start.
func Start(cmd *exec.Cmd) (*Program, error) {
	withParent(cmd)
	ended := make(chan struct{})
	p := &Program{Cmd: cmd, Ended: ended}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the kernel counts this thread as the parent
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Wait waits until the program has ended, and returns Cmd.Wait's error. Any number of
// goroutines may call it.
func (p *Program) Wait() error {
	<-p.Ended
	return p.err
}

// Over says whether the program has ended.
func (p *Program) Over() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Kill ends the program as a crash would, also one that is stopped, and waits until it is
// gone. One that has ended needs none.
func (p *Program) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Ended
}

// Text is what a program writes, which can be read while it does.
type Text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write is io.Writer's. It never fails.
func (t *Text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(b)
}

// String is all that was written until now.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// Env is this process's environment without settings of a developer's own for Sluice, and
// more behind it.
func Env(more ...string) []string {
	own := func(e string) bool { return strings.HasPrefix(e, "SLUICE_") || strings.HasPrefix(e, "XDG_DATA_HOME=") }
	return append(slices.DeleteFunc(os.Environ(), own), more...)
}
