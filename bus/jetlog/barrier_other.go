//go:build !linux

package jetlog

import "os"

// datasync makes a file durable.
func datasync(f *os.File) error { return f.Sync() }
