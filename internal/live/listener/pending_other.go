//go:build !unix

package listener

import "net"

// pending tells whether bytes of a client wait to be read; here nobody can tell.
func pending(net.Conn) bool { return false }
