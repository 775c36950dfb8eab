//go:build !unix

package family

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// Containment is what a family is known by: its process tree, its process group, or
// its first process alone. It is no sandbox.
const Containment = "process"

// Family is the command alone: this system has no groups that could be ended together.
// What the command leaves behind is noticed by the output that it holds.
type Family struct {
	cmd    *exec.Cmd
	exited chan struct{}
	output *Pipe
}

// Start starts a command whose output goes to stdout, which output reads; nil: somebody
// else reads it.
// Its errors mean that nothing ran.
func Start(_ context.Context, l Launch, stdout *os.File, output *Pipe) (*Family, error) {
	cmd := exec.Command(l.Path)
	cmd.Args, cmd.Env, cmd.Dir = l.Args, l.Env, l.Dir
	cmd.Stdout, cmd.Stderr = stdout, stdout // one pipe: the order is the commands' own
	l.streams(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f := &Family{cmd: cmd, exited: make(chan struct{}), output: output}
	go func() { // ends with the command
		defer close(f.exited)
		_ = cmd.Wait() // the state is what counts, and it is in cmd
	}()
	return f, nil
}

// First is the command's own pid.
func (f *Family) First() int { return f.cmd.Process.Pid }

// Terminate kills: nothing gentler exists here.
func (f *Family) Terminate(patience time.Duration) {
	_ = f.cmd.Process.Kill()
	Within(patience, f.exited)
}

// Sweep kills what is left until nothing is, or the time is up. It returns what had
// to be ended beside the command, and the pids of what may still run.
func (f *Family) Sweep(patience time.Duration) (s Swept, left []int) {
	if !Within(0, f.exited) {
		_ = f.cmd.Process.Kill()
	}
	if !Within(patience, f.exited) || !f.Linger(settle) {
		return s, []int{f.First()} // its number is all that is known of what was left
	}
	return s, nil
}

// Exited is closed once the command itself has ended, or nobody can tell any more.
func (f *Family) Exited() <-chan struct{} { return f.exited }

// Linger waits until nothing holds the output, for what ends by itself in that time.
func (f *Family) Linger(patience time.Duration) bool {
	return f.output == nil || Within(patience, f.output.eof)
}

// Lost is for systems where somebody watches over a family.
func (f *Family) Lost() bool { return false }

// Release waits for the command's end, but no longer than patience.
func (f *Family) Release(patience time.Duration) { Within(patience, f.exited) }

// Ending is how the command ended: its exit status; nil where that is not known.
func (f *Family) Ending() (exit *int, signal string) {
	if !Within(0, f.exited) {
		return nil, ""
	}
	return new(f.cmd.ProcessState.ExitCode()), ""
}
