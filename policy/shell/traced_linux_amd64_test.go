package shell

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// opening are the calls that open files, and which argument holds the flags.
var opening = map[uint64]int{unix.SYS_OPEN: 1, unix.SYS_OPENAT: 2}

// archCalls are those of writing that newer machines do without.
var archCalls = map[uint64]call{
	unix.SYS_CREAT: {"creat", 0, here}, unix.SYS_UNLINK: {"unlink", 0, here}, unix.SYS_RMDIR: {"rmdir", 0, here},
	unix.SYS_MKDIR: {"mkdir", 0, here}, unix.SYS_MKNOD: {"mknod", 0, here}, unix.SYS_LINK: {"link", 1, here},
	unix.SYS_SYMLINK: {"symlink", 1, here}, unix.SYS_RENAME: {"rename", 0, here}, unix.SYS_CHMOD: {"chmod", 0, here},
	unix.SYS_CHOWN: {"chown", 0, here}, unix.SYS_LCHOWN: {"lchown", 0, here}, unix.SYS_UTIME: {"utime", 0, here},
	unix.SYS_UTIMES: {"utimes", 0, here}, unix.SYS_FUTIMESAT: {"futimesat", 1, 0}, unix.SYS_RENAMEAT: {"renameat", 1, 0},
	unix.SYS_IOPL: {"iopl", -1, here}, unix.SYS_IOPERM: {"ioperm", -1, here}, unix.SYS_USELIB: {"uselib", 0, here},
}
