//go:build unix

package listener

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// pending tells whether bytes of a client wait to be read.
func pending(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	waiting := false
	// Control, not Read: the server itself is waiting in a read.
	err = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		waiting = err == nil && n > 0
	})
	return err == nil && waiting
}
