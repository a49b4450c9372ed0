//go:build unix && !linux

package runner

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const termiosGet = unix.TIOCGETA

func decimal(n int) string { return strconv.Itoa(n) }

func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// openTerminal is only done on Linux; elsewhere a terminal's errors are not read along.
func openTerminal(*os.File) (master, slave *os.File, size func(), err error) {
	return nil, nil, nil, errors.ErrUnsupported
}
