package shell

import (
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

const containment = "process-group"

// beat is how often the table of processes is read while one is waited for.
const beat = 4 * time.Millisecond

// family is bash and everything that descends from it, whatever session,
// group or parent it has by now.
type family struct {
	root   proc
	marker string
	pipes  []*pipe       // held by what descends from bash
	exited chan struct{} // bash has ended; its entry is kept, so that no number of it is used again
	known  map[ident]bool
	free   chan struct{} // closed by release: the entry may go
	gone   chan struct{} // it has gone
}

// newFamily watches a bash that has just been started.
func newFamily(cmd *exec.Cmd, marker string, pipes ...*pipe) *family {
	pid := cmd.Process.Pid
	root, ok := readStat(pid)
	if !ok {
		root = proc{ident: ident{pid: pid}}
	}
	f := &family{
		root: root, marker: Marker + "=" + marker, pipes: pipes, known: map[ident]bool{root.ident: true},
		exited: make(chan struct{}), free: make(chan struct{}), gone: make(chan struct{}),
	}
	go func() { // joined by release, or by the end of a bash that nothing can stop
		defer close(f.gone)
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		close(f.exited)
		<-f.free
		_ = cmd.Wait() // the state is what counts, and it is in cmd
	}()
	return f
}

// release lets bash's entry go once it has ended, and says whether it has, by
// the time that patience is over: only then is there a state of it.
func (f *family) release(patience time.Duration) bool {
	close(f.free)
	if within(patience, f.exited) {
		<-f.gone
		return true
	}
	return false
}

// terminate asks everything to end, and waits until it has or the time is up.
func (f *family) terminate(patience time.Duration) {
	_ = unix.Kill(-f.root.pid, unix.SIGTERM) // the group, at one moment
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	asked := map[ident]bool{}
	for {
		alive := f.alive()
		for _, p := range alive {
			if !asked[p.ident] && p.group != f.root.pid {
				send(p, unix.SIGTERM)
			}
			asked[p.ident] = true
		}
		if len(alive) == 0 {
			return
		}
		select {
		case <-late.C:
			return
		case <-tick.C:
		}
	}
}

// sweep kills what is left until nothing is, or the time is up, and says how
// many processes it killed and which still run. Where nothing is found but a
// pipe is still held, its holders are ours too, whatever they look like.
func (f *family) sweep(patience time.Duration) (swept int, left []int) {
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	killed := map[ident]bool{}
	for calm, looked := false, false; ; {
		alive := f.alive()
		switch {
		case len(alive) == 0 && !looked && !f.closed(settle/4):
			looked = true
			f.adopt()
			continue
		case len(alive) == 0 && (calm || len(killed) == 0):
			if looked && !f.closed(patience) {
				return len(killed), []int{f.root.pid} // somebody holds a pipe whom nobody can see: this number is all there is
			}
			return len(killed), nil
		}
		calm = len(alive) == 0 // after a kill one clean look is not enough: a child may have been between two parents
		_ = unix.Kill(-f.root.pid, unix.SIGKILL)
		for _, p := range alive {
			killed[p.ident] = true
			send(p, unix.SIGKILL)
		}
		select {
		case <-late.C:
			return len(killed), pids(f.alive())
		case <-tick.C:
		}
	}
}

// closed says whether nothing holds any of the pipes, waiting a moment for it.
func (f *family) closed(patience time.Duration) bool {
	for _, p := range f.pipes {
		if !within(patience, p.eof) {
			return false
		}
	}
	return true
}

// send signals one process, and never another that has its number by now.
func send(p proc, sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if err == unix.ENOSYS && same(p) {
			_ = unix.Kill(p.pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if same(p) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

func same(p proc) bool {
	now, ok := readStat(p.pid)
	return ok && now.ident == p.ident
}

func pids(ps []proc) []int {
	out := make([]int, len(ps))
	for i, p := range ps {
		out[i] = p.pid
	}
	return out
}
