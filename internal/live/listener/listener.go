// Package listener bounds how many clients a server talks to at once.
//
// It takes a listener and returns one with room for so many connections. Where there is no room left, a connection that is doing nothing makes place: one that waits
// between two requests, or one that has connected and said nothing for a while. Where all are busy, new clients wait in the system's queue. So
// clients that connect and are silent can neither keep others out nor fill the memory, and nobody is sent away in the middle of an answer.
package listener

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// patience is how long a new connection may be silent while others wait.
const patience = 300 * time.Millisecond

// InTurn answers so many requests at a time, each within the given time from when its turn comes; the others wait. A scraper that is sent away instead has a
// hole in its data.
func InTurn(most int, within time.Duration, next http.Handler) http.Handler {
	turns := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)) // waiting does not count; a recorder in a test has no deadline
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// Limited is a listener with room for so many connections at a time. State must be told what they do (http.Server.ConnState).
type Limited struct {
	net.Listener
	room int

	mu   sync.Mutex
	open []*conn // oldest first
	free chan struct{}
}

// Limit gives a listener room for so many connections at a time.
func Limit(l net.Listener, room int) *Limited {
	return &Limited{Listener: l, room: room, free: make(chan struct{}, 1)}
}

// Accept waits for a client, and for room.
func (l *Limited) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, of: l, since: time.Now()}
	for !l.enter(c) {
		select {
		case <-l.free:
		case <-time.After(patience / 4):
		}
	}
	return c, nil
}

// enter takes a connection in, where there is room or one that makes room.
func (l *Limited) enter(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.room {
		at := slices.IndexFunc(l.open, (*conn).spare)
		if at < 0 {
			return false
		}
		spare := l.open[at]
		l.open = slices.Delete(l.open, at, at+1)
		_ = spare.Conn.Close()
	}
	l.open = append(l.open, c)
	return true
}

// State notes what a connection does.
func (l *Limited) State(c net.Conn, s http.ConnState) {
	mine, ok := c.(*conn)
	if !ok {
		return
	}
	l.mu.Lock()
	mine.state, mine.since = s, time.Now()
	l.mu.Unlock()
	if s == http.StateIdle {
		l.signal()
	}
}

func (l *Limited) signal() {
	select {
	case l.free <- struct{}{}:
	default:
	}
}

// conn leaves the list when it is closed.
type conn struct {
	net.Conn
	of    *Limited
	state http.ConnState
	since time.Time
	spoke bool // its first bytes were read
}

// Read notes when a client first says something: from then on it has some time to finish its request.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.spoke { // only the server's one reader of the connection comes here
		c.spoke = true
		c.of.mu.Lock()
		c.since = time.Now()
		c.of.mu.Unlock()
	}
	return n, err
}

// spare tells whether a connection does nothing. On a busy machine a request may have arrived that nobody has had the time to read: such a client is not
// sent away. The listener's lock is held.
func (c *conn) spare() bool {
	quiet := c.state == http.StateIdle || c.state == http.StateNew && time.Since(c.since) > patience
	return quiet && !pending(c.Conn)
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.open = slices.DeleteFunc(c.of.open, func(other *conn) bool { return other == c })
	c.of.mu.Unlock()
	c.of.signal()
	return c.Conn.Close()
}
