package pickle

import "io"

// window reads a stream through a buffer and hands out slices of it without copying.
type window struct {
	r          io.Reader
	buf        []byte
	start, end int   // unread bytes are buf[start:end]
	consumed   int64 // bytes of the stream before buf[0]
	err        error // what ended the stream
}

const windowSize = 256 << 10

func newWindow(r io.Reader) *window { return &window{r: r, buf: make([]byte, windowSize)} }

func (w *window) offset() int64 { return w.consumed + int64(w.start) }

func (w *window) byte() (byte, error) {
	if w.start == w.end {
		if err := w.more(1); err != nil {
			return 0, err
		}
	}
	b := w.buf[w.start]
	w.start++
	return b, nil
}

// take returns the next n bytes; they stay valid until the next call.
func (w *window) take(n int) ([]byte, error) {
	if w.end-w.start < n {
		if err := w.more(n); err != nil {
			return nil, err
		}
	}
	b := w.buf[w.start : w.start+n]
	w.start += n
	return b, nil
}

// peek returns up to n bytes without consuming them.
func (w *window) peek(n int) []byte {
	_ = w.more(n) // a shorter peek is fine
	return w.buf[w.start:min(w.end, w.start+n)]
}

func (w *window) skip(n uint64) error {
	for n > 0 {
		if w.start == w.end {
			if err := w.more(1); err != nil {
				return err
			}
		}
		k := min(n, uint64(w.end-w.start))
		w.start += int(k)
		n -= k
	}
	return nil
}

// more makes at least n unread bytes available. The buffer grows only as bytes arrive, so a length that the
// file does not honour costs nothing.
func (w *window) more(n int) error {
	w.consumed += int64(w.start)
	copy(w.buf, w.buf[w.start:w.end])
	w.end -= w.start
	w.start = 0
	for w.end < n {
		if w.err != nil {
			return w.err
		}
		if w.end == len(w.buf) {
			w.buf = append(w.buf, make([]byte, len(w.buf))...)
		}
		k, err := w.r.Read(w.buf[w.end:])
		w.end += k
		if err != nil {
			w.err = err
		}
	}
	return nil
}
