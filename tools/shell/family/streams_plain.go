//go:build !linux

package family

import "os/exec"

// streams gives a command the input and the standard errors that its launch names.
func (l Launch) streams(cmd *exec.Cmd) {
	if l.Stdin != nil {
		cmd.Stdin = l.Stdin
	}
	if l.Stderr != nil {
		cmd.Stderr = l.Stderr
	}
}
