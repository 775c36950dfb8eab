//go:build unix

package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openPipe opens a pipe to read once somebody writes it. It gives up where ctx ends.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	for err == nil {
		written := false
		ask := raw.Control(func(fd uintptr) {
			const patience = 100 // milliseconds until ctx is looked at
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if _, err = unix.Poll(poll, patience); errors.Is(err, unix.EINTR) {
				err = nil
			}
			written = poll[0].Revents != 0
		})
		if err = errors.Join(err, ask); err == nil && written {
			return f, nil
		}
		if err == nil {
			err = ctx.Err()
		}
	}
	return nil, errors.Join(err, f.Close())
}
