//go:build unix && !linux

package shell

import (
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

const containment = "process-group"

// beat is how often a group is asked whether it still exists.
const beat = 5 * time.Millisecond

// family is bash and its group. What leaves the group is noticed only by the
// pipes that it holds, and cannot be ended.
type family struct {
	pid    int
	exited chan struct{}
	pipes  []*pipe
}

func newFamily(cmd *exec.Cmd, _ string, pipes ...*pipe) *family {
	f := &family{pid: cmd.Process.Pid, exited: make(chan struct{}), pipes: pipes}
	go func() { // ends with bash
		defer close(f.exited)
		_ = cmd.Wait() // the state is what counts, and it is in cmd
	}()
	return f
}

// keepPrivate does nothing: this system has no call for it.
func keepPrivate() {}

func (f *family) alive() bool { return unix.Kill(-f.pid, 0) == nil }

func (f *family) terminate(patience time.Duration) { f.signal(unix.SIGTERM, patience) }

func (f *family) sweep(patience time.Duration) (swept int, left []int) {
	if f.alive() {
		swept = 1 // at least
	}
	if f.signal(unix.SIGKILL, patience) {
		return swept, []int{f.pid}
	}
	for _, p := range f.pipes {
		if !within(settle, p.eof) {
			return swept, []int{f.pid} // its number is all that is known of the one that left
		}
	}
	return swept, nil
}

// signal sends sig to the group until it is gone or the time is up, and says
// whether anything is left.
func (f *family) signal(sig unix.Signal, patience time.Duration) (left bool) {
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

// release says whether bash has ended by the time that patience is over: only
// then is there a state of it.
func (f *family) release(patience time.Duration) bool { return within(patience, f.exited) }
