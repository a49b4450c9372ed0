package runner

import "syscall"

// dieWithParent makes the kernel end the child when plimsoll itself is killed: a job that a scheduler has killed
// must not go on holding its GPU.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
