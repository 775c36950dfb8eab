//go:build linux && (amd64 || arm64)

package shell

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	mem "unsafe" // the package has a function of that name

	"golang.org/x/sys/unix"
)

// call is a system call that no reading command makes. path is the argument that
// holds a path, or -1; dir the one that holds the folder it starts from, or here.
type call struct {
	name string
	path int
	dir  int
}

const here = -1

// calls are the system calls that the kernel stops a traced process at.
var calls = func() map[uint64]call {
	m := map[uint64]call{
		unix.SYS_OPENAT2: {"openat2", 1, 0}, unix.SYS_UNLINKAT: {"unlinkat", 1, 0}, unix.SYS_MKDIRAT: {"mkdirat", 1, 0},
		unix.SYS_MKNODAT: {"mknodat", 1, 0}, unix.SYS_LINKAT: {"linkat", 3, 2}, unix.SYS_SYMLINKAT: {"symlinkat", 2, 1},
		unix.SYS_RENAMEAT2: {"renameat2", 1, 0}, unix.SYS_FCHMODAT: {"fchmodat", 1, 0}, unix.SYS_FCHMODAT2: {"fchmodat2", 1, 0},
		unix.SYS_FCHOWNAT: {"fchownat", 1, 0}, unix.SYS_UTIMENSAT: {"utimensat", 1, 0}, unix.SYS_TRUNCATE: {"truncate", 0, here},
		unix.SYS_SETXATTR: {"setxattr", 0, here}, unix.SYS_LSETXATTR: {"lsetxattr", 0, here}, unix.SYS_REMOVEXATTR: {"removexattr", 0, here},
		unix.SYS_LREMOVEXATTR: {"lremovexattr", 0, here}, unix.SYS_MOUNT: {"mount", 1, here}, unix.SYS_UMOUNT2: {"umount2", 0, here},
		unix.SYS_CHROOT: {"chroot", 0, here}, unix.SYS_SWAPON: {"swapon", 0, here}, unix.SYS_SWAPOFF: {"swapoff", 0, here},
		unix.SYS_SOCKET: {"socket", -1, here}, unix.SYS_CONNECT: {"connect", -1, here}, unix.SYS_KILL: {"kill", -1, here},
	}
	for nr, name := range map[uint64]string{
		unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHOWN: "fchown", unix.SYS_FSETXATTR: "fsetxattr", unix.SYS_FREMOVEXATTR: "fremovexattr",
		unix.SYS_BIND: "bind", unix.SYS_LISTEN: "listen", unix.SYS_PROCESS_VM_WRITEV: "process_vm_writev",
		unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal", unix.SYS_PIDFD_GETFD: "pidfd_getfd", unix.SYS_REBOOT: "reboot",
		unix.SYS_INIT_MODULE: "init_module", unix.SYS_FINIT_MODULE: "finit_module", unix.SYS_DELETE_MODULE: "delete_module", unix.SYS_BPF: "bpf",
		unix.SYS_SETUID: "setuid", unix.SYS_SETGID: "setgid", unix.SYS_SETREUID: "setreuid", unix.SYS_SETREGID: "setregid",
		unix.SYS_SETRESUID: "setresuid", unix.SYS_SETRESGID: "setresgid", unix.SYS_SETGROUPS: "setgroups", unix.SYS_CAPSET: "capset",
		unix.SYS_SETHOSTNAME: "sethostname", unix.SYS_SETDOMAINNAME: "setdomainname", unix.SYS_SETTIMEOFDAY: "settimeofday",
		unix.SYS_CLOCK_SETTIME: "clock_settime", unix.SYS_UNSHARE: "unshare", unix.SYS_SETNS: "setns", unix.SYS_PIVOT_ROOT: "pivot_root",
		unix.SYS_KEXEC_LOAD: "kexec_load", unix.SYS_ACCT: "acct", unix.SYS_QUOTACTL: "quotactl", unix.SYS_IO_URING_SETUP: "io_uring_setup",
		unix.SYS_IO_SETUP: "io_setup", unix.SYS_ADD_KEY: "add_key", unix.SYS_KEYCTL: "keyctl", unix.SYS_MQ_OPEN: "mq_open",
		unix.SYS_SHMGET: "shmget", unix.SYS_SEMGET: "semget", unix.SYS_MSGGET: "msgget", unix.SYS_OPEN_BY_HANDLE_AT: "open_by_handle_at",
		unix.SYS_MOVE_MOUNT: "move_mount", unix.SYS_OPEN_TREE: "open_tree", unix.SYS_FSOPEN: "fsopen", unix.SYS_MOUNT_SETATTR: "mount_setattr",
		unix.SYS_EXECVEAT: "execveat",
	} {
		m[nr] = call{name, -1, here}
	}
	for nr, c := range archCalls {
		m[nr] = c
	}
	return m
}()

const writeFlags = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_APPEND

// filter is the program by which the kernel picks the calls to stop at: the ones
// of the table, and opening a file for anything but reading.
func filter() []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		is   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		has  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		from = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	stop := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_TRACE}
	pass := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}
	f := []unix.SockFilter{
		{Code: load, K: 4},
		{Code: is, K: auditArch, Jt: 1},
		stop,
		{Code: load, K: 0},
		{Code: from, K: 1 << 30, Jf: 1},
		stop,
	}
	for nr, arg := range opening {
		f = append(f, unix.SockFilter{Code: is, K: uint32(nr), Jf: 4}, unix.SockFilter{Code: load, K: uint32(16 + 8*arg)},
			unix.SockFilter{Code: has, K: writeFlags, Jf: 1}, stop, pass)
	}
	for nr := range calls {
		f = append(f, unix.SockFilter{Code: is, K: uint32(nr), Jf: 1}, stop)
	}
	return append(f, pass)
}

// errNoTracing says that this machine does not let a process watch its children.
var errNoTracing = errors.New("this machine lets no process trace its children")

// job is a line for the tracer.
type job struct {
	dir, line string
	env       []string
	tmp       string                            // where the shell may keep what it passes on
	may       func(program, script string) bool // which programs may run
	done      chan<- seen                       // takes what was seen
	limit     time.Duration                     // after which the line is ended
}

// seen is what a line did.
type seen struct {
	found []string // what it must not do; it was ended at the first, before it happened
	ran   []string // programs
	cut   bool     // it was ended at its limit
	err   error    // it did not run
}

// tracer runs lines in bash on a thread of its own, which watches all that they start.
type tracer struct {
	jobs chan job
	gone chan struct{}
	bash string

	mu   sync.Mutex
	pids map[int]bool // true once it has begun to run
	late bool
}

func startTracer(bash string) *tracer {
	tr := &tracer{jobs: make(chan job), gone: make(chan struct{}), bash: bash, pids: map[int]bool{}}
	go tr.loop()
	return tr
}

func (tr *tracer) stop() {
	close(tr.jobs)
	<-tr.gone
}

// run gives a line to the tracer and waits for what it did.
func (tr *tracer) run(j job) seen {
	done := make(chan seen, 1)
	j.done = done
	tr.jobs <- j
	return <-done
}

// loop never unlocks its thread, which ends with it: the filter stays on a thread.
func (tr *tracer) loop() {
	defer close(tr.gone)
	runtime.LockOSThread()
	err := confine()
	for j := range tr.jobs {
		if err != nil {
			j.done <- seen{err: errors.Join(errNoTracing, err)}
			continue
		}
		j.done <- tr.trace(j)
	}
}

// confine puts the filter on this thread, for what it starts: the thread itself
// makes none of these calls.
func confine() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	f := filter()
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(mem.Pointer(&prog)), 0, 0); err != nil {
		return err
	}
	runtime.KeepAlive(f)
	return nil
}

const traceOptions = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL

func (tr *tracer) trace(j job) (out seen) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return seen{err: err}
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return seen{err: err}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		buf := make([]byte, 4096)
		for {
			if _, err := r.Read(buf); err != nil {
				return
			}
		}
	}()
	pid, err := syscall.ForkExec(tr.bash, []string{"bash", "-c", j.line}, &syscall.ProcAttr{
		Dir: j.dir, Env: j.env, Files: []uintptr{null.Fd(), w.Fd(), w.Fd()}, Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	w.Close()
	if err == nil {
		err = tr.begin(pid)
	}
	if err == nil {
		limit := time.AfterFunc(j.limit, tr.endAll)
		tr.watch(j, &out)
		limit.Stop()
	}
	r.Close()
	<-drained
	out.err = err
	tr.mu.Lock()
	out.cut = tr.late
	tr.mu.Unlock()
	return out
}

// begin waits for bash to stand at its start.
func (tr *tracer) begin(pid int) error {
	tr.mu.Lock()
	tr.pids, tr.late = map[int]bool{pid: true}, false
	tr.mu.Unlock()
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL|unix.WNOTHREAD, nil); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(pid, traceOptions); err != nil {
		end(pid) // it has not run
		return errors.Join(errNoTracing, err)
	}
	return unix.PtraceCont(pid, 0)
}

// endAll ends all that runs, at the limit.
func (tr *tracer) endAll() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.late = true
	tr.kill()
}

func (tr *tracer) kill() {
	for pid := range tr.pids {
		end(pid)
	}
}

// end ends a thread's process, which may have ended before. The call is not kill,
// which the filter keeps this thread from.
func end(pid int) {
	_, _, _ = unix.Syscall(unix.SYS_TKILL, uintptr(pid), uintptr(unix.SIGKILL), 0)
}

// watch goes on until nothing is left of the line.
func (tr *tracer) watch(j job, out *seen) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return // no children left
		}
		tr.mu.Lock()
		tr.one(j, pid, ws, out)
		tr.mu.Unlock()
	}
}

// one handles one report of the kernel.
func (tr *tracer) one(j job, pid int, ws unix.WaitStatus, out *seen) {
	if !ws.Stopped() {
		delete(tr.pids, pid)
		return
	}
	begun := tr.pids[pid]
	tr.pids[pid] = true
	signal := 0
	switch int(ws) >> 16 {
	case unix.PTRACE_EVENT_SECCOMP:
		if what := tr.deed(j, pid); what != "" {
			out.found = append(out.found, what)
		}
	case unix.PTRACE_EVENT_EXEC:
		program, script := running(pid)
		out.ran = append(out.ran, program)
		if !j.may(program, script) {
			out.found = append(out.found, fmt.Sprintf("execute %s %s", program, script))
		}
	case unix.PTRACE_EVENT_CLONE, unix.PTRACE_EVENT_FORK, unix.PTRACE_EVENT_VFORK:
	default:
		signal = int(ws.StopSignal())
		if signal == int(unix.SIGTRAP) || !begun && signal == int(unix.SIGSTOP) {
			signal = 0
		}
	}
	if len(out.found) > 0 || tr.late {
		tr.kill() // it stands before the call, or before the program's first step
		return
	}
	_ = unix.PtraceCont(pid, signal) // it may have ended
}

// running is the program of a process, and its first argument.
func running(pid int) (program, script string) {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return "a program that ended", ""
	}
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if parts := strings.Split(string(args), "\x00"); len(parts) > 1 {
		script = parts[1]
	}
	return program, script
}

// syscallInfo is the kernel's struct ptrace_syscall_info, for a stop of seccomp.
type syscallInfo struct {
	op   uint8
	_    [3]uint8
	arch uint32
	_    [2]uint64
	nr   uint64
	args [6]uint64
	_    uint64
}

// deed says what a call would do that no reading command does, or "".
func (tr *tracer) deed(j job, pid int) string {
	var info syscallInfo
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(pid), mem.Sizeof(info), uintptr(mem.Pointer(&info)), 0, 0)
	if errno == unix.ESRCH {
		return "" // ended by the limit
	}
	if errno != 0 {
		return "a call that cannot be read: " + errno.Error()
	}
	if info.arch != auditArch || info.nr >= 1<<30 {
		return "a call of another architecture"
	}
	if arg, ok := opening[info.nr]; ok {
		return opened(j, pid, info, arg)
	}
	c := calls[info.nr]
	switch info.nr {
	case unix.SYS_SOCKET:
		if info.args[0] == unix.AF_UNIX {
			return ""
		}
		return fmt.Sprintf("open a socket of family %d", info.args[0])
	case unix.SYS_CONNECT:
		address := stringAt(pid, info.args[1]+2)
		if address == "/var/run/nscd/socket" { // the C library asks it for names of users
			return ""
		}
		return fmt.Sprintf("connect to %q", address)
	case unix.SYS_KILL:
		to := int(int32(info.args[0]))
		if to == 0 || tr.has(max(to, -to)) {
			return ""
		}
		return fmt.Sprintf("signal process %d", to)
	}
	if c.path < 0 {
		return c.name
	}
	p := pathOf(pid, c.dir, c.path, info)
	if scratch(j, p) {
		return ""
	}
	return c.name + " " + p
}

func (tr *tracer) has(pid int) bool { _, ok := tr.pids[pid]; return ok }

func opened(j job, pid int, info syscallInfo, arg int) string {
	dir := here
	if arg == 2 {
		dir = 0
	}
	p := pathOf(pid, dir, arg-1, info)
	const look = unix.O_RDWR | unix.O_NONBLOCK // a shell looks at its start whether there is a terminal
	if p == os.DevNull || scratch(j, p) || p == "/dev/tty" && info.args[arg] == look {
		return ""
	}
	return fmt.Sprintf("open %s for writing, flags %#x", p, info.args[arg])
}

// scratch are files that the shell and sort and tac make for themselves, in the
// folder for such, under names that no line chooses, and remove again.
func scratch(j job, p string) bool {
	base := filepath.Base(p)
	return filepath.Dir(p) == j.tmp && slices.ContainsFunc([]string{"sh-thd.", "sort", "tac"}, func(s string) bool { return strings.HasPrefix(base, s) })
}

func pathOf(pid, dir, arg int, info syscallInfo) string {
	p := stringAt(pid, info.args[arg])
	if filepath.IsAbs(p) {
		return p
	}
	from := fmt.Sprintf("/proc/%d/cwd", pid)
	if dir != here && int32(info.args[dir]) != unix.AT_FDCWD {
		from = fmt.Sprintf("/proc/%d/fd/%d", pid, int32(info.args[dir]))
	}
	base, err := os.Readlink(from)
	if err != nil {
		return p
	}
	return filepath.Join(base, p)
}

// stringAt is a string in the memory of a process, as far as it can be read.
func stringAt(pid int, at uint64) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return "?"
	}
	defer f.Close()
	buf := make([]byte, 4096)
	n := 0
	for n < len(buf) { // it may end at a page that cannot be read
		step := min(4096-int((at+uint64(n))%4096), len(buf)-n)
		m, err := f.ReadAt(buf[n:n+step], int64(at)+int64(n))
		n += max(m, 0)
		if err != nil || slices.Contains(buf[:n], 0) {
			break
		}
	}
	s, _, _ := strings.Cut(string(buf[:n]), "\x00")
	return s
}
