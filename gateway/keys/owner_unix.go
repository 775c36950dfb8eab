//go:build unix

package keys

import (
	"io/fs"
	"os"
	"syscall"
)

// modes says that a file's mode tells who can write it.
const modes = true

// mine says whether a file belongs to this user, or to root.
func mine(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Uid == 0 || int(s.Uid) == os.Geteuid())
}
