//go:build unix

package main

import (
	"io/fs"
	"strconv"
	"syscall"
)

// ownerOf names the user whose file it is.
func ownerOf(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return userNamed(strconv.FormatUint(uint64(st.Uid), 10))
	}
	return "unknown"
}
