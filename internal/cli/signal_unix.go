//go:build unix

package cli

import "syscall"

// sendSignal sends a signal to a process that asked for it; it may have ended in this moment.
func sendSignal(pid, number int) { _ = syscall.Kill(pid, syscall.Signal(number)) }
