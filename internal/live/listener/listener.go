// Package listener bounds how many clients a server talks to at once.
//
// It takes a listener and returns one with room for so many connections: a new one sends the oldest away, so that clients which connect and say
// nothing, or never read the answer, can neither keep others out nor fill the memory.
package listener

import (
	"net"
	"slices"
	"sync"
)

// Limit gives a listener room for so many connections at a time.
func Limit(l net.Listener, room int) net.Listener { return &limited{Listener: l, room: room} }

type limited struct {
	net.Listener
	room int
	mu   sync.Mutex
	open []*conn // oldest first
}

func (l *limited) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, of: l}
	l.mu.Lock()
	l.open = append(l.open, c)
	var oldest *conn
	if len(l.open) > l.room {
		oldest = l.open[0]
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

// conn leaves the list when it is closed.
type conn struct {
	net.Conn
	of *limited
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.open = slices.DeleteFunc(c.of.open, func(other *conn) bool { return other == c })
	c.of.mu.Unlock()
	return c.Conn.Close()
}
