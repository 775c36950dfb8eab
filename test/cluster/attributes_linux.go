package cluster

import "syscall"

// attributes have the kernel end a process with the thread that started it, and
// keep a terminal's Ctrl-C from it: it is told to end in its turn.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
