//go:build amd64 || arm64

package sandbox

import (
	"golang.org/x/sys/unix"
)

// refused are the system calls that no command needs, and that reach into the kernel
// or out of the sandbox: what they would do is refused as it would be to anybody
// without rights.
var refused = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE_ATTR, unix.SYS_SETNS,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_SYSLOG, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_NFSSERVCTL,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
}

// unknown are the system calls that cannot be judged, since what counts of their
// arguments is in memory, or that do what others do past all judging. Programs that
// hear that the kernel does not know them do without.
var unknown = []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// newSpaces are the flags of clone and unshare that make namespaces.
const newSpaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// setID are the bits of a file's mode that give its runner another identity. A file
// that a command makes belongs to the node's user, on a file system that knows such
// bits outside.
const setID = unix.S_ISUID | unix.S_ISGID

const (
	allow = unix.SECCOMP_RET_ALLOW
	no    = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	none  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	never = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
)

// filterFor is the program that judges a command's system calls.
func filterFor(p Policy) []unix.SockFilter {
	f := filter{load(offArch), jump(unix.BPF_JEQ, nativeArch, 1, 0), ret(none), load(offNumber)}
	f = append(f, foreign...)
	for _, nr := range append(refused[:len(refused):len(refused)], refusedHere...) {
		f.rule(nr, ret(no))
	}
	for _, nr := range unknown {
		f.rule(nr, ret(none))
	}
	if !p.Use.Namespaces && p.Use.Landlock == 0 { // otherwise a command sees its own processes only
		for _, nr := range []uint32{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV} {
			f.rule(nr, ret(no))
		}
	}
	if !p.Use.Namespaces {
		f.priorities()
	}
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		f.rule(nr, load(arg(0)), jump(unix.BPF_JSET, newSpaces, 0, 1), ret(no), ret(allow))
	}
	// The limits of another process, its keeper's or the node's, would end it.
	f.rule(unix.SYS_PRLIMIT64, load(arg(0)), jump(unix.BPF_JEQ, 0, 4, 0), load(arg(2)), jump(unix.BPF_JEQ, 0, 0, 3), load(arg(2)+4), jump(unix.BPF_JEQ, 0, 0, 1), ret(allow), ret(no))
	f.rule(unix.SYS_IOCTL, load(arg(1)), jump(unix.BPF_JEQ, unix.TIOCSTI, 1, 0), jump(unix.BPF_JEQ, unix.TIOCLINUX, 0, 1), ret(no), ret(allow))
	for nr, n := range modes {
		f.rule(nr, load(arg(n)), jump(unix.BPF_JSET, setID, 0, 1), ret(no), ret(allow))
	}
	for nr, n := range opens { // the mode counts only where a file is made
		f.rule(nr, load(arg(n)), jump(unix.BPF_JSET, unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY, 0, 3),
			load(arg(n+1)), jump(unix.BPF_JSET, setID, 0, 1), ret(no), ret(allow))
	}
	f.sockets(p)
	return append(f, ret(allow))
}

// priorities refuses to set when and where other processes run: those of the node's user
// could be made to wait for ever. A thread sets its own.
func (f *filter) priorities() {
	for _, nr := range []uint32{unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
		f.rule(nr, load(arg(0)), jump(unix.BPF_JEQ, 0, 0, 1), ret(allow), ret(no))
	}
	for nr, all := range map[uint32]uint32{unix.SYS_SETPRIORITY: unix.PRIO_USER, unix.SYS_IOPRIO_SET: ioprioUser} {
		f.rule(nr, load(arg(1)), jump(unix.BPF_JEQ, 0, 0, 3), load(arg(0)), jump(unix.BPF_JEQ, all, 1, 0), ret(allow), ret(no))
	}
}

// ioprioUser says to ioprio_set that all processes of a user are meant.
const ioprioUser = 3

// filter is a program while it is written. The number of the system call is loaded
// where a rule begins.
type filter []unix.SockFilter

// rule judges one system call by code that returns in any case.
func (f *filter) rule(nr uint32, code ...unix.SockFilter) {
	*f = append(*f, jump(unix.BPF_JEQ, nr, 0, uint8(len(code))))
	*f = append(*f, code...)
}

// sockets allows the families of sockets that the policy has room for: the network's
// where there is one, or one of the command's own; those of this machine where paths
// and names of others' are out of reach.
func (f *filter) sockets(p Policy) {
	families := []uint32{}
	if p.Use.Namespaces || p.Network {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	if p.Use.Namespaces || p.Use.Landlock >= resolvesUnix || p.Network && !p.Use.files() {
		families = append(families, unix.AF_UNIX)
	}
	code := []unix.SockFilter{load(arg(0))}
	for _, family := range families {
		code = append(code, jump(unix.BPF_JEQ, family, 0, 1), ret(allow))
	}
	if p.Use.Namespaces || p.Network { // which addresses there are is asked over one of these
		code = append(code, jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3), load(arg(2)), jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 0, 1), ret(allow))
	}
	f.rule(unix.SYS_SOCKET, append(code, ret(never))...)
}

// resolvesUnix is the version of Landlock that judges the sockets at a path.
const resolvesUnix = 9

// Where the kernel puts what a filter judges: struct seccomp_data. Of each argument
// the low half is looked at, which is all that the kernel looks at in these.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

func arg(n uint32) uint32 { return offArgs + 8*n }

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | how, K: k, Jt: yes, Jf: no}
}

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
