package main

import "syscall"

// attributes have the kernel end a node with the thread that started it, and keep a
// terminal's Ctrl-C from it: the soak ends it in its turn.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
