package proc

import (
	"os/exec"
	"syscall"
)

// withParent has the kernel end the program with the thread that starts it.
func withParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
