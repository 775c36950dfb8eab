package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Confined calls f, which starts the command, on a thread that has nothing any more
// which the policy does not grant. The thread ends with f, so that the process itself
// keeps what it needs to watch over the command.
func (r *Room) Confined(f func() error) error {
	if !r.p.Use.Any() {
		return f()
	}
	if r.p.Use.Namespaces {
		// Nobody looks into who watches, though it has the command's identity.
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fmt.Errorf("close the keeper to others: %w", err)
		}
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		err := r.confine()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// confine takes from the calling thread what the command must not have.
func (r *Room) confine() error {
	if r.p.Use.Limits || r.p.Use.Landlock > 0 || r.p.Use.Seccomp {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("give up new privileges: %w", err)
		}
	}
	if r.p.Use.Landlock > 0 {
		if err := r.landlock(); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if r.p.Use.Seccomp {
		if err := install(filterFor(r.p)); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
	}
	return nil
}

// maxCapability is above every capability that there is or will be.
const maxCapability = 63

// dropCapabilities leaves the thread none, and none to be had by starting a program.
func dropCapabilities() error {
	for c := range maxCapability {
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err {
		case nil, unix.EPERM: // who must not drop it has none to lose, and starting a program gives none any more
		case unix.EINVAL:
			return clearCapabilities() // that was the last one
		default:
			return err
		}
	}
	return clearCapabilities()
}

func clearCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&h, &none[0])
}

// What Landlock tells apart. Devices are never made.
const (
	mayRead  = landlock.AccessFSSet(ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir)
	mayWrite = mayRead | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSResolveUnix
	mayUse  = landlock.AccessFSSet(ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev)
	ofFiles = landlock.AccessFSSet(ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix)
	ofAll   = mayWrite | mayUse | ll.AccessFSMakeChar | ll.AccessFSMakeBlock
)

// landlock restricts the calling thread, and what it starts, as far as the kernel's
// version of it goes.
func (r *Room) landlock() error {
	c := landlock.Config{HandledAccessFS: ofAll, Scoped: ll.ScopeAbstractUnixSocket | ll.ScopeSignal}
	if !r.p.Network && !r.p.Use.Namespaces { // with a network of its own the command may use all of that
		c.HandledAccessNet = ll.AccessNetBindTCP | ll.AccessNetConnectTCP | ll.AccessNetBindUDP | ll.AccessNetConnectSendUDP
	}
	rules, err := r.grants()
	if err != nil {
		return err
	}
	fd, flags, err := c.BestEffort().NewRulesetFD(rules...)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ll.LandlockRestrictSelf(fd, flags)
}

// grants are the paths that the command may use. In a house of its own everything
// that is there may be read.
func (r *Room) grants() ([]landlock.Rule, error) {
	var rules []landlock.Rule
	grant := func(rights landlock.AccessFSSet, must bool, paths ...string) error {
		for _, path := range paths {
			info, err := os.Stat(path)
			switch {
			case err != nil && must:
				return err
			case err != nil:
				continue
			case !info.IsDir():
				rules = append(rules, landlock.PathAccess(rights&ofFiles, path))
			default:
				rules = append(rules, landlock.PathAccess(rights, path))
			}
		}
		return nil
	}
	inWorkspace := mayRead
	if r.p.Write {
		inWorkspace = mayWrite
	}
	err := grant(inWorkspace, true, r.p.Workspace)
	_ = grant(mayWrite, false, r.p.Writable...)
	for _, name := range devices {
		_ = grant(mayUse, false, "/dev/"+name)
	}
	if r.p.Use.Namespaces {
		_ = grant(mayRead, false, "/")
		_ = grant(mayWrite, false, "/tmp", "/dev/shm")
		_ = grant(mayUse|ll.AccessFSReadDir, false, "/dev/pts")
		return rules, err
	}
	_ = grant(mayRead, false, slices.Concat(system, r.p.searched(), r.p.Read)...)
	for _, name := range settings {
		_ = grant(mayRead, false, "/etc/"+name)
	}
	for _, name := range tables {
		_ = grant(mayRead, false, "/proc/"+name)
	}
	if r.temp != "" {
		_ = grant(mayWrite, false, r.temp)
	}
	return rules, err
}

// tables are the files of /proc that say something of the machine and nothing of its
// processes.
var tables = []string{
	"cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version",
	"sys/kernel/osrelease", "sys/kernel/ostype", "sys/kernel/version", "sys/kernel/cap_last_cap", "sys/kernel/pid_max", "sys/kernel/threads-max",
	"sys/vm/overcommit_memory", "sys/vm/max_map_count", "sys/fs/file-max", "sys/fs/nr_open", "sys/kernel/random/uuid", "sys/kernel/ngroups_max",
}

// install has the kernel judge each system call of the calling thread, and of what it
// starts, by a program.
func install(prog []unix.SockFilter) error {
	f := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&f)))
	runtime.KeepAlive(prog)
	if errno != 0 {
		return errno
	}
	return nil
}
