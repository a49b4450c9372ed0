package cudnn

import (
	_ "embed"
	"sync"

	"github.com/plimsoll/plimsoll/internal/units"
)

//go:embed sm90.table
var sm90 []byte

// For gives the table of a compute capability; nil where nothing was measured. The one of 9.0 is an H200 with cuDNN 9.19 under PyTorch 2.11.0+cu130.
func For(major, minor int) *Table {
	if major == 9 && minor == 0 {
		return hopper()
	}
	return nil
}

var hopper = sync.OnceValue(func() *Table {
	t, err := Decode(sm90)
	if err != nil {
		panic(err) // the embedded file is written by grow and read by a test
	}
	return t
})

// Need is what a pass of a convolution takes in a mode. Without a table Takes is nothing and High what copies of all operands take:
// the two ends between which cuDNN's plans lie.
func (t *Table) Need(c Conv, p Pass, m Mode) Need {
	if !c.valid() {
		return Need{}
	}
	role := c.Role(p)
	if t == nil {
		one := newTerms(c, role, 1)
		return Need{High: units.Bytes(one.base(int(both)*8 + 7))}
	}
	own := newTerms(c, role, t.Card.SMs)
	v := features(c, role, &own)
	f := &t.forests[m][role]
	if len(f.trees) == 0 { // nothing was measured in this mode: what the heuristic takes, or any copy
		n := t.Need(c, p, Heuristic)
		n.High, n.Sure = max(n.High, units.Bytes(own.base(int(both)*8+7))), 0
		return n
	}
	takes, low, high, sure := f.answer(&v, &own)
	if m == Trial {
		high = max(high, own.tried(c))
	}
	return Need{Takes: units.Bytes(takes), Low: units.Bytes(low), High: units.Bytes(high), Sure: sure}
}

// tried is the largest workspace of a trial that is known to come up: the FFT of fp32 planes without strides, beside copies of all operands.
func (t *terms) tried(c Conv) int64 {
	copied := t.base(int(both)*8 + 7)
	if c.Width != 4 || c.Stride != 1 || c.Groups > 1 {
		return copied
	}
	side := max(c.P, c.Q) + max(c.R, c.S) - 1
	switch {
	case side <= 16:
		return copied + t.fft[0]
	case side <= 32:
		return copied + t.fft[1]
	}
	return copied + t.fft[2]
}
