//go:build !unix

package shell

import (
	"os"
	"os/exec"
	"time"
)

const containment = "process"

// family is bash alone: this system has no groups that could be ended together.
// What bash leaves behind is noticed by the output that it holds.
type family struct {
	cmd    *exec.Cmd
	exited chan struct{}
	pipes  []*pipe
}

func detach(*exec.Cmd, *os.File) {}

func newFamily(cmd *exec.Cmd, _ string, pipes ...*pipe) *family {
	f := &family{cmd: cmd, exited: make(chan struct{}), pipes: pipes}
	go func() { // ends with bash
		defer close(f.exited)
		_ = cmd.Wait() // the state is what counts, and it is in cmd
	}()
	return f
}

// terminate kills: nothing gentler exists here.
func (f *family) terminate(patience time.Duration) {
	_ = f.cmd.Process.Kill()
	within(patience, f.exited)
}

func (f *family) sweep(patience time.Duration) (swept int, left []int) {
	if !within(0, f.exited) {
		_ = f.cmd.Process.Kill()
	}
	if !within(patience, f.exited) {
		return 0, []int{f.cmd.Process.Pid}
	}
	for _, p := range f.pipes {
		if !within(settle, p.eof) {
			return 0, []int{f.cmd.Process.Pid} // its number is all that is known of what was left
		}
	}
	return 0, nil
}

// release says whether bash has ended by the time that patience is over: only
// then is there a state of it.
func (f *family) release(patience time.Duration) bool { return within(patience, f.exited) }

func signalName(*os.ProcessState) string { return "" }
