//go:build !faults

package jetlog

import "os"

// flushFile makes durable what was written to a file. Only a build with the tag faults
// writes down how far that went.
func flushFile(f *os.File) error { return datasync(f) }
