package shell

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// opening are the calls that open files, and which argument holds the flags.
var opening = map[uint64]int{unix.SYS_OPENAT: 2}

// archCalls are those of writing that other machines do without.
var archCalls = map[uint64]call{unix.SYS_RENAMEAT: {"renameat", 1, 0}}
