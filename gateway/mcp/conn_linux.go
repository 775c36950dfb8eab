package mcp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const established = 1 // TCP_ESTABLISHED: neither side has closed it

// standing is how what was written to a connection stands.
func standing(raw syscall.RawConn) int {
	out := lost // it is closed here already
	err := raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil:
			out = untold // it is no TCP connection
		case info.State != established:
			out = lost
		case info.Unacked > 0 || info.Notsent_bytes > 0:
			out = underWay
		default:
			out = taken
		}
	})
	if err != nil {
		return lost
	}
	return out
}
