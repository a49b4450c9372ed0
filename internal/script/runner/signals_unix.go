//go:build unix

package runner

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signals that mean something beside being handed on.
const (
	resized   = syscall.SIGWINCH
	suspended = syscall.SIGTSTP
)

var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// heard are the signals to hand on: not those that were ignored when plimsoll started, as under nohup; the command inherits that it ignores them. Ctrl-Z
// stops plimsoll and the command without anyone's help, so that the shell sees what it sees without plimsoll; elsewhere a stop is handed on.
func heard() []os.Signal {
	all := append(slices.Clone(forwarded), syscall.SIGCONT)
	if !terminalSentIt() {
		all = append(all, syscall.SIGTSTP)
	}
	return slices.DeleteFunc(all, signal.Ignored)
}

// terminalSentIt tells whether Ctrl-C reaches this process group from a terminal, and so the child too.
func terminalSentIt() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

func stopHere() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
