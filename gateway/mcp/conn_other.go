//go:build !linux

package mcp

import "syscall"

// standing is how what was written to a connection stands: here nobody can tell.
func standing(syscall.RawConn) int { return untold }
