package sandbox_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attacks are what no shell can do by itself. This program does them where it is
// started as a command with ATTACK in its environment; nil means that it worked.
var attacks = map[string]func() error{
	"mount":     func() error { return unix.Mount("/", ".", "", unix.MS_BIND, "") },
	"remount":   func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"tmpfs":     func() error { return unix.Mount("x", ".", "tmpfs", 0, "") },
	"umount":    func() error { return unix.Unmount("/proc", unix.MNT_DETACH) },
	"chroot":    func() error { return unix.Chroot(".") },
	"pivot":     func() error { return unix.PivotRoot(".", ".") },
	"open_tree": func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err },
	"setattr": func() error {
		return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	},
	"fsopen":  func() error { _, err := unix.Fsopen("tmpfs", 0); return err },
	"unshare": func() error { return onThread(func() error { return unix.Unshare(unix.CLONE_NEWUTS) }) },
	"newuser": func() error { return started(unix.CLONE_NEWUSER) },
	"newnet":  func() error { return started(unix.CLONE_NEWUSER | unix.CLONE_NEWNET) },
	"setns":   setns,
	"clone3":  func() error { return raw(unix.SYS_CLONE3, 0, 0) },
	"openat2": func() error {
		_, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH})
		return err
	},
	"io_uring": func() error { return raw(unix.SYS_IO_URING_SETUP, 1, 0) },
	"keyctl": func() error {
		_, err := unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, unix.KEY_SPEC_SESSION_KEYRING, 1, 0, 0)
		return err
	},
	"add_key": func() error {
		_, err := unix.AddKey("user", "x", []byte("y"), unix.KEY_SPEC_SESSION_KEYRING)
		return err
	},
	"bpf":        func() error { return raw(unix.SYS_BPF, 0, 0) },
	"perf":       func() error { return raw(unix.SYS_PERF_EVENT_OPEN, 0, 0) },
	"userfault":  func() error { return raw(unix.SYS_USERFAULTFD, 0, 0) },
	"fanotify":   func() error { _, err := unix.FanotifyInit(0, 0); return err },
	"handle":     func() error { return raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0) },
	"module":     func() error { return unix.DeleteModule("nosuchmodule", 0) },
	"syslog":     func() error { _, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil); return err },
	"hostname":   func() error { return unix.Sethostname([]byte("owned")) },
	"clock":      func() error { return raw(unix.SYS_CLOCK_SETTIME, 99, 0) },
	"kcmp":       func() error { return raw(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getpid())) },
	"blockdev":   func() error { return unix.Mknod("d", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0))) },
	"chardev":    func() error { return unix.Mknod("c", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))) },
	"packet":     func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) },
	"vsock":      func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
	"alg":        func() error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },
	"netfilter":  func() error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER) },
	"rawip":      func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
	"suid":       func() error { return modes(unix.S_ISUID) },
	"sgid":       func() error { return modes(unix.S_ISGID) },
	"tiocsti":    tiocsti,
	"ptrace":     func() error { return onThread(func() error { return unix.PtraceSeize(number("VICTIM")) }) },
	"ptrace up":  func() error { return onThread(func() error { return unix.PtraceSeize(number("PARENT")) }) },
	"vm_readv":   readMemory,
	"pidfd":      pidfd,
	"signal":     func() error { return unix.Kill(number("VICTIM"), 0) },
	"tcp":        func() error { return dial("tcp", os.Getenv("TCP")) },
	"udp":        func() error { return dial("udp", os.Getenv("UDP")) },
	"abstract":   func() error { return dial("unix", os.Getenv("ABSTRACT")) },
	"unix":       func() error { return dial("unix", os.Getenv("SOCKET")) },
	"prlimit":    func() error { return limit(number("VICTIM")) },
	"prlimit up": func() error { return limit(number("PARENT")) },
	"priority":   func() error { return unix.Setpriority(unix.PRIO_PROCESS, number("VICTIM"), 19) },
	"processor":  func() error { return unix.SchedSetaffinity(number("VICTIM"), &unix.CPUSet{1}) },
	"own limits": func() error { return limit(0) },
	"descriptor": descriptors,
	"own net":    ownNet,
	"own pair":   func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
	"limits":     raise,
	"nofile":     openMany,
	"fork":       forkMany,
	"memory":     takeMemory,
}

// attack is this program's life as a command.
func attack(name string) {
	f := attacks[name]
	if f == nil {
		fmt.Println("there is no attack", name)
		os.Exit(2)
	}
	if err := f(); err != nil {
		fmt.Println("held:", err)
		os.Exit(1)
	}
	fmt.Println("ESCAPED")
}

func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		n = os.Getppid()
	}
	return n
}

func raw(nr, a, b uintptr) error {
	if _, _, errno := unix.RawSyscall(nr, a, b, 0); errno != 0 {
		return errno
	}
	return nil
}

// onThread calls f on a thread that ends with it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// started starts a program in namespaces.
func started(flags uintptr) error {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: flags}})
	if err == nil {
		_, err = syscall.Wait4(pid, nil, 0, nil)
	}
	return err
}

func setns() error {
	fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return onThread(func() error { return unix.Setns(fd, 0) })
}

func socket(family, kind, proto int) error {
	fd, err := unix.Socket(family, kind, proto)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// modes tries every way to make a file with bits of its mode; nil where one works.
func modes(bits uint32) error {
	if err := os.WriteFile("plain", nil, 0o755); err != nil {
		return err
	}
	f, err := unix.Open("plain", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	for _, way := range []func() error{
		func() error { return unix.Fchmodat(unix.AT_FDCWD, "plain", 0o755|bits, 0) },
		func() error { return unix.Fchmodat(unix.AT_FDCWD, "plain", 0o755|bits, unix.AT_SYMLINK_NOFOLLOW) },
		func() error { return unix.Fchmod(f, 0o755|bits) },
		func() error { return unix.Chmod("plain", 0o755|bits) },
		func() error { return opened("made", unix.O_CREAT|unix.O_WRONLY, 0o755|bits) },
		func() error { return opened(".", unix.O_TMPFILE|unix.O_WRONLY, 0o755|bits) },
		func() error { return unix.Mknod("node", unix.S_IFREG|0o755|bits, 0) },
		func() error { return unix.Mkdirat(unix.AT_FDCWD, "dir", 0o755|bits) },
	} {
		if err = way(); err == nil {
			return nil
		}
	}
	return err
}

func opened(path string, flags int, mode uint32) error {
	fd, err := unix.Openat(unix.AT_FDCWD, path, flags, mode)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// tiocsti types into a terminal.
func tiocsti() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	c := byte('x')
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	if errno == unix.EIO || errno == unix.ENOTTY { // the kernel itself has judged it
		return nil
	}
	if errno != 0 {
		return errno
	}
	return nil
}

func readMemory() error {
	var b [1]byte
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(1)
	_, err := unix.ProcessVMReadv(number("VICTIM"), local, []unix.RemoteIovec{{Base: uintptr(1 << 16), Len: 1}}, 0)
	if err == unix.EFAULT { // nothing is there, but it may be looked at
		return nil
	}
	return err
}

// pidfd takes a descriptor out of another process.
func pidfd() error {
	fd, err := unix.PidfdOpen(number("VICTIM"), 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = c.Write([]byte("ping")); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err = c.Read(make([]byte, 4))
	return err
}

// descriptors looks for one that the node had open.
func descriptors() error {
	var st unix.Stat_t
	if err := unix.Fstat(leak, &st); err != nil {
		return err
	}
	return nil
}

// leak is the descriptor that a test leaves open.
const leak = 170

// ownNet serves and asks on loopback: what a command does for itself works.
func ownNet() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Read(make([]byte, 4))
			_, _ = c.Write([]byte("pong"))
		}
	}()
	return dial("tcp", l.Addr().String())
}

// raise raises a limit.
func raise() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
}

// limit lowers a limit of a process, and asks for another one.
func limit(pid int) error {
	if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &unix.Rlimit{}); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
}

// openMany opens more than a command may.
func openMany() error {
	for range 200 {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return err
		}
	}
	return nil
}

// forkMany starts more than a command may.
func forkMany() error {
	for range 600 {
		if _, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "30"}, nil); err != nil {
			return err
		}
	}
	return nil
}

// takeMemory takes more than a command may, and uses none of it.
func takeMemory() error {
	for range 64 {
		if _, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return err
		}
	}
	return nil
}
