package jetlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes a file's content durable, and what of its description is
// needed to find it.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
