//go:build unix

package proc

import "syscall"

// asksSignal is the signal by which the probe is asked who holds memory.
const asksSignal = int(syscall.SIGUSR2)
