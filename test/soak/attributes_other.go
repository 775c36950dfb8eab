//go:build !linux

package main

import "syscall"

// attributes keep a terminal's Ctrl-C from a node: the soak ends it in its turn.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
