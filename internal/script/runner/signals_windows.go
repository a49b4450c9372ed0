package runner

import (
	"os"
	"syscall"
)

// Windows has neither of these signals.
const (
	resized   = syscall.Signal(-1)
	suspended = syscall.Signal(-2)
)

// heard are the signals that Go knows on Windows: Ctrl-C and Ctrl-Break, and the closing of the console.
func heard() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// terminalSentIt is always so: a console tells every process that is attached to it.
func terminalSentIt() bool { return true }

func stopHere() {}

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
