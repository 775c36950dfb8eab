//go:build !linux

package npm_test

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

func spawn(start func() error) error { return start() }
