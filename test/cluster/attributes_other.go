//go:build !linux

package cluster

import "syscall"

// attributes keep a terminal's Ctrl-C from a process: it is told to end in its turn.
// Here nothing ends a node whose parent was killed; servers see it by themselves.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
