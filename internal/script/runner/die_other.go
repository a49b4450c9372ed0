//go:build !linux

package runner

import "syscall"

// dieWithParent has no counterpart outside Linux: a child outlives a plimsoll that is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
