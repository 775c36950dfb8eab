package family

import (
	"cmp"
	"math"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a keeper as its node has it: its child, or one of the nursery's.
type process interface {
	pid() int
	signal(sig syscall.Signal) error
	wait() // returns when it has ended; called once
}

// keeperEnv is all that a keeper is told by its environment. The last of it is for builds
// with the race detector, which would linger for a second at their end.
var keeperEnv = []string{"GOMAXPROCS=1", "GOTRACEBACK=none", "GORACE=atexit_sleep_ms=0"}

// keeperAttr is how a keeper is started, whatever contains its command. A signal to the
// node's group is not for it. The death of who started it, or of a thread of that, wakes
// one that its own command has stopped, and does nothing to any other.
func keeperAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGCONT}
}

// startKeeper starts a keeper with the streams of its command and its end of the socket.
func startKeeper(l Launch, stdout, control *os.File) (process, error) {
	stdin := l.Stdin
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer null.Close()
		stdin = null
	}
	stderr := cmp.Or(l.Stderr, stdout)
	if l.Contain.Use.Namespaces {
		pid, fd, err := theNursery.bear(l.Contain, stdin, stdout, stderr, control)
		if err != nil {
			return nil, err
		}
		return &ward{number: pid, fd: fd}, nil
	}
	keepPrivate()
	c := exec.Command("/proc/self/exe")
	c.Args, c.Env, c.SysProcAttr = []string{keeperName}, keeperEnv, keeperAttr()
	c.Stdin, c.Stdout, c.Stderr, c.ExtraFiles = stdin, stdout, stderr, []*os.File{control}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return child{c}, nil
}

// child is a keeper that this process started.
type child struct{ cmd *exec.Cmd }

func (c child) pid() int                        { return c.cmd.Process.Pid }
func (c child) signal(sig syscall.Signal) error { return c.cmd.Process.Signal(sig) }
func (c child) wait()                           { _ = c.cmd.Wait() }

// ward is a keeper that the nursery started. Its descriptor means it, whatever has its
// number by now.
type ward struct {
	number int
	mu     sync.Mutex
	fd     int // negative once it has ended
}

func (w *ward) pid() int { return w.number }

func (w *ward) signal(sig syscall.Signal) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd < 0 {
		return os.ErrProcessDone
	}
	return unix.PidfdSendSignal(w.fd, sig, nil, 0)
}

// wait waits until the process has ended, and with it all that is in its namespace.
func (w *ward) wait() {
	fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(fds, -1); n > 0 || err != unix.EINTR {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = unix.Close(w.fd)
	w.fd = -1
}

// keepPrivate sees to it that no descriptor of the node reaches a command: Go's
// own do not, but the node may have been started with others.
func keepPrivate() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // an old kernel does not know it
}
