package runner

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const termiosGet = unix.TCGETS

func decimal(n int) string { return strconv.Itoa(n) }

// detached starts a helper that neither the terminal nor the command's signals reach.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// openTerminal makes a terminal of the size of the real one that changes no byte: the real one does what terminals do with lines.
func openTerminal(real *os.File) (master, slave *os.File, size func(), err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = plain(slave, real)
	}
	if err != nil {
		master.Close()
		if slave != nil {
			slave.Close()
		}
		return nil, nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	size = func() {
		if now, err := unix.IoctlGetWinsize(int(real.Fd()), unix.TIOCGWINSZ); err == nil {
			_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, now)
		}
	}
	size()
	return master, slave, size, nil
}

// plain gives a terminal the settings of another, less the changes it makes to output.
func plain(slave, real *os.File) error {
	settings, err := unix.IoctlGetTermios(int(real.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	settings.Oflag &^= unix.OPOST
	settings.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, settings)
}
