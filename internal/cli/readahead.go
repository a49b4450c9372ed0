package cli

import "io"

// ahead reads in a goroutine of its own, so that decompressing goes on while what came before is being understood.
type ahead struct {
	blocks chan []byte // filled, in order; closed after the last
	empty  chan []byte // to be filled
	done   chan struct{}
	now    []byte // what is left of the block being read
	whole  []byte // that block
	err    error  // why there are no more; set before blocks is closed
}

const (
	aheadBlocks = 4
	aheadSize   = 256 << 10
)

// readAhead begins at once. Close ends it, also in the middle.
func readAhead(r io.Reader) *ahead {
	a := &ahead{blocks: make(chan []byte, aheadBlocks), empty: make(chan []byte, aheadBlocks), done: make(chan struct{})}
	for range aheadBlocks {
		a.empty <- make([]byte, aheadSize)
	}
	go a.fill(r)
	return a
}

func (a *ahead) fill(r io.Reader) {
	defer close(a.blocks)
	for {
		select {
		case <-a.done:
			return
		case b := <-a.empty:
			n, err := io.ReadFull(r, b)
			if n > 0 {
				a.blocks <- b[:n] // there is room for every block there is
			}
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			if err != nil {
				a.err = err
				return
			}
		}
	}
}

// Read gives what has been read so far.
func (a *ahead) Read(p []byte) (int, error) {
	if len(a.now) == 0 {
		if a.whole != nil {
			a.empty <- a.whole[:aheadSize]
			a.whole = nil
		}
		b, ok := <-a.blocks
		if !ok {
			return 0, a.err
		}
		a.now, a.whole = b, b
	}
	n := copy(p, a.now)
	a.now = a.now[n:]
	return n, nil
}

// Close lets the goroutine end.
func (a *ahead) Close() { close(a.done) }
