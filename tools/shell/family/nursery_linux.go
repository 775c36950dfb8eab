package family

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluice-run/sluice/tools/sandbox"
)

// nurseryName is what the process is called that starts keepers in namespaces.
const nurseryName = "sluice-nursery"

func init() {
	if len(os.Args) > 0 && os.Args[0] == nurseryName {
		os.Exit(nurse())
	}
}

// nursery starts keepers in namespaces: a small process that lives as long as this
// one, from its first use on. A process in a new user namespace cannot share its
// parent's memory while it is started, and to copy the tables of a node's memory takes
// longer than all else that a command costs; those of the nursery are next to nothing.
type nursery struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	conn int // the socket to it; valid where cmd is not nil
}

// theNursery is this process's own: like the process itself there is one.
var theNursery nursery

// birth is what a nursery is asked for, with the descriptors of a keeper's input,
// output, errors and control.
type birth struct {
	Contain sandbox.Policy // of which Attr counts
}

// born is its answer, with a descriptor of the process.
type born struct {
	Pid   int
	Errno int
}

// bear starts a keeper. Where the nursery has been ended by somebody, another one is
// started, once. What it returns is the keeper's number, and a descriptor of it.
func (n *nursery) bear(p sandbox.Policy, files ...*os.File) (pid, fd int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range 2 {
		if n.cmd == nil {
			if err = n.open(); err != nil {
				break
			}
		}
		if pid, fd, err = n.ask(p, files); !errors.Is(err, errGone) {
			break
		}
		n.close()
	}
	return pid, fd, err
}

// errGone says that there is no nursery any more.
var errGone = errors.New("what starts keepers has gone")

func (n *nursery) open() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(fds[1]), "nursery")
	defer theirs.Close()
	keepPrivate()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Env = []string{nurseryName}, keeperEnv
	cmd.ExtraFiles, cmd.SysProcAttr = []*os.File{theirs}, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = unix.Close(fds[0])
		return err
	}
	n.cmd, n.conn = cmd, fds[0]
	return nil
}

// close gives up a nursery that does not answer.
func (n *nursery) close() {
	_ = unix.Close(n.conn)
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
	n.cmd = nil
}

// patience is how many seconds a nursery may take to answer.
const patience = 30

// ask asks for one keeper. An error that is no errGone is the answer.
func (n *nursery) ask(p sandbox.Policy, files []*os.File) (pid, fd int, err error) {
	body, err := json.Marshal(birth{Contain: sandbox.Policy{Use: p.Use, Network: p.Network}})
	if err != nil {
		return 0, 0, err
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	limit := unix.Timeval{Sec: patience}
	if err := unix.SetsockoptTimeval(n.conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return 0, 0, err
	}
	if err := unix.Sendmsg(n.conn, body, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errGone, err)
	}
	answer, got, err := receive(n.conn)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errGone, err)
	}
	var b born
	switch err := json.Unmarshal(answer, &b); {
	case err != nil:
		return 0, 0, err
	case b.Errno != 0:
		return 0, 0, &os.SyscallError{Syscall: "clone", Err: syscall.Errno(b.Errno)}
	case len(got) != 1:
		return 0, 0, errors.New("the kernel gives no descriptors of processes")
	}
	return b.Pid, got[0], nil
}

// receive reads one message with its descriptors. It fails at the end.
func receive(conn int) (body []byte, fds []int, err error) {
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(8*4))
	n, m := 0, 0
	for err = error(unix.EINTR); err == unix.EINTR; {
		n, m, _, _, err = unix.Recvmsg(conn, buf, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err == nil && n == 0 {
		err = unix.EPIPE
	}
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil {
		return nil, nil, err
	}
	for i := range messages {
		more, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, nil, err
		}
		fds = append(fds, more...)
	}
	return buf[:n], fds, nil
}

// nurse is a nursery's life: it ends with the process that started it.
func nurse() int {
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, unix.SIGCHLD)
	go func() { // ends with the process
		for range deaths {
			for pid := 1; pid > 0; {
				pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil)
			}
		}
	}()
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	unix.CloseOnExec(controlFD)
	for {
		body, fds, err := receive(controlFD)
		if err != nil {
			return 0
		}
		out, pidfd := bearOne(body, fds)
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		if err := tell(out, pidfd); err != nil {
			return 0
		}
	}
}

// bearOne starts one keeper.
func bearOne(body []byte, fds []int) (out born, pidfd int) {
	var b birth
	if json.Unmarshal(body, &b) != nil || len(fds) != controlFD+1 {
		return born{Errno: int(unix.EINVAL)}, -1
	}
	pidfd = -1
	attr := keeperAttr()
	attr.PidFD = &pidfd
	b.Contain.Attr(attr)
	files := make([]uintptr, len(fds))
	for i, fd := range fds {
		files[i] = uintptr(fd)
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{keeperName}, &syscall.ProcAttr{Env: keeperEnv, Files: files, Sys: attr})
	if err != nil {
		errno := unix.EIO
		_ = errors.As(err, &errno)
		return born{Errno: int(max(errno, 1))}, -1
	}
	return born{Pid: pid}, pidfd
}

// tell sends the answer, with the descriptor where there is one, and closes that.
func tell(out born, pidfd int) error {
	answer, err := json.Marshal(out)
	if err != nil {
		return err
	}
	var rights []byte
	if pidfd >= 0 {
		rights = unix.UnixRights(pidfd)
		defer unix.Close(pidfd)
	}
	return unix.Sendmsg(controlFD, answer, rights, nil, unix.MSG_NOSIGNAL)
}
