package runner

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

// tap reads along what a command writes to stderr. On Windows it does so only where stderr is not a file, a pipe or a console of the system's: those
// are handed to the command as they are.
type tap struct{ size func() }

func newTap(c Command, cmd *exec.Cmd) *tap {
	_, isFile := c.Stderr.(*os.File)
	switch {
	case c.Errors == nil || isFile:
	case c.Stderr == nil:
		cmd.Stderr = c.Errors
	default:
		cmd.Stderr = io.MultiWriter(c.Stderr, c.Errors)
	}
	return &tap{}
}

func (*tap) start()  {}
func (*tap) finish() {}
func (*tap) close()  {}

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
