package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plimsoll/plimsoll/internal/show/screen"
	"github.com/plimsoll/plimsoll/internal/units"
)

// patience is how long a person waits without asking whether anything happens.
const patience = time.Second

// progress says on stderr what is being done, from the second second on and only where a person waits there. The returned
// function ends it and wipes the line.
func progress(env Env, say func() string) (stop func()) {
	if !env.StderrIsTerminal {
		return func() {}
	}
	done := make(chan struct{})
	var line sync.WaitGroup
	line.Go(func() {
		tick := time.NewTicker(patience)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-tick.C:
				shown = true
				fmt.Fprintf(env.Stderr, "\r\x1b[K%s", screen.Fit("plimsoll: "+say(), 78))
			case <-done:
				if shown {
					fmt.Fprint(env.Stderr, "\r\x1b[K")
				}
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		line.Wait()
	})
}

// counted counts what is read through it.
type counted struct {
	io.Reader
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// reading is progress for a file: how far of how much.
func reading(env Env, name string, c *counted, size int64) (stop func()) {
	return progress(env, func() string {
		text := fmt.Sprintf("reading %s: %s", screen.Clean(name), units.Bytes(c.n.Load()).Short())
		if size > 0 {
			text += " of " + units.Bytes(size).Short()
		}
		return strings.TrimSpace(text)
	})
}
