package sandbox

import "golang.org/x/sys/unix"

// nativeArch is what programs of this machine are. Those of the older 32-bit kind have
// other numbers for everything, and are told that there is no such system call.
const nativeArch = unix.AUDIT_ARCH_X86_64

// foreign refuses the numbers of x32, which are the same calls once more.
var foreign = []unix.SockFilter{jump(unix.BPF_JGE, 0x40000000, 0, 1), ret(none)}

// refusedHere are the calls of this architecture that are refused, too.
var refusedHere = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_CREATE_MODULE, unix.SYS__SYSCTL}

// modes are the calls that set a file's mode, and which argument that is.
var modes = map[uint32]uint32{
	unix.SYS_CHMOD: 1, unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2, unix.SYS_MKDIR: 1, unix.SYS_MKDIRAT: 2,
	unix.SYS_MKNOD: 1, unix.SYS_MKNODAT: 2, unix.SYS_CREAT: 1,
}

// opens are the calls that may make a file, and which argument has the flags; the
// mode is the next one.
var opens = map[uint32]uint32{unix.SYS_OPEN: 1, unix.SYS_OPENAT: 2}
