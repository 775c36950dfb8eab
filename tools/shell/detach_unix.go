//go:build unix

package shell

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// lifeline is the number of the pipe that tells whether descendants still run:
// out of the way of what scripts use.
const lifeline = 99

// detach gives a command a session, and so a group and no terminal, of its own,
// and the pipe that all its descendants hold.
func detach(cmd *exec.Cmd, held *os.File) {
	keepPrivate()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.ExtraFiles = make([]*os.File, lifeline-2) // nil ones are closed in the command
	cmd.ExtraFiles[lifeline-3] = held
}

// signalName is the signal that ended a process, or "".
func signalName(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return unix.SignalName(w.Signal())
	}
	return ""
}
