//go:build unix && !linux

package family

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Containment is what a family is known by: its process tree, its process group, or
// its first process alone. It is no sandbox.
const Containment = "process-group"

// beat is how often a group is asked whether it still exists.
const beat = 5 * time.Millisecond

// lifeline is the number of the pipe that tells whether descendants still run:
// out of the way of what scripts use.
const lifeline = 99

// Family is the command and its group. What leaves the group is noticed only by the
// pipes that it holds, and cannot be ended.
type Family struct {
	cmd    *exec.Cmd
	pid    int
	exited chan struct{}
	pipes  []*Pipe // held open by all that descends from the command and does not close what it was not told of
}

// Start starts a command whose output goes to stdout, which output reads; nil: somebody
// else reads it.
// Its errors mean that nothing ran.
func Start(_ context.Context, l Launch, stdout *os.File, output *Pipe) (*Family, error) {
	life, held, err := NewPipe()
	if err != nil {
		return nil, err
	}
	defer held.Close()
	cmd := exec.Command(l.Path)
	cmd.Args, cmd.Env, cmd.Dir = l.Args, l.Env, l.Dir
	cmd.Stdout, cmd.Stderr = stdout, stdout // one pipe: the order is the commands' own
	l.streams(cmd)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.ExtraFiles = make([]*os.File, lifeline-2) // nil ones are closed in the command
	cmd.ExtraFiles[lifeline-3] = held
	if err := cmd.Start(); err != nil {
		life.Close()
		return nil, err
	}
	f := &Family{cmd: cmd, pid: cmd.Process.Pid, exited: make(chan struct{}), pipes: []*Pipe{life}}
	if output != nil {
		f.pipes = append(f.pipes, output)
	}
	go life.Read(func([]byte) {}) // joined by release
	go func() {                   // ends with the command
		defer close(f.exited)
		_ = cmd.Wait() // the state is what counts, and it is in cmd
	}()
	return f, nil
}

// First is the command's own pid.
func (f *Family) First() int { return f.pid }

func (f *Family) alive() bool { return unix.Kill(-f.pid, 0) == nil }

// Terminate asks the group to end, and waits until it has or the time is up.
func (f *Family) Terminate(patience time.Duration) { f.signal(unix.SIGTERM, patience) }

// Sweep kills what is left until nothing is, or the time is up. It returns what had
// to be ended beside the command, and the pids of what may still run.
func (f *Family) Sweep(patience time.Duration) (s Swept, left []int) {
	if f.alive() {
		s.N = 1 // at least
	}
	if f.signal(unix.SIGKILL, patience) {
		return s, []int{f.pid}
	}
	for _, p := range f.pipes {
		if !Within(settle, p.eof) {
			return s, []int{f.pid} // its number is all that is known of the one that left
		}
	}
	return s, nil
}

// Exited is closed once the command itself has ended, or nobody can tell any more.
func (f *Family) Exited() <-chan struct{} { return f.exited }

// Linger waits until nothing holds the pipes, for what ends by itself in that time.
func (f *Family) Linger(patience time.Duration) bool {
	for _, p := range f.pipes {
		if !Within(patience, p.eof) {
			return false
		}
	}
	return !f.alive()
}

// signal sends sig to the group until it is gone or the time is up, and says
// whether anything is left.
func (f *Family) signal(sig unix.Signal, patience time.Duration) (left bool) {
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for f.alive() {
		_ = unix.Kill(-f.pid, sig)
		select {
		case <-late.C:
			return f.alive()
		case <-tick.C:
		}
	}
	return false
}

// Lost is for systems where somebody watches over a family.
func (f *Family) Lost() bool { return false }

// Release waits for the command's end, but no longer than patience.
func (f *Family) Release(patience time.Duration) {
	for _, p := range f.pipes[:1] {
		p.Release()
	}
	Within(patience, f.exited)
}

// Ending is how the command ended: its exit status or the signal that ended it. Neither
// is there where that is not known.
func (f *Family) Ending() (exit *int, signal string) {
	if !Within(0, f.exited) {
		return nil, ""
	}
	if w, ok := f.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return nil, unix.SignalName(w.Signal())
	}
	return new(f.cmd.ProcessState.ExitCode()), ""
}
