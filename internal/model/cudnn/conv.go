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

// Need is what a pass of a convolution takes in a mode, looked up once: a step runs the same shapes again and again. Without a table Takes is nothing and High what copies of all operands take:
// the two ends between which cuDNN's plans lie.
func (t *Table) Need(c Conv, p Pass, m Mode) Need {
	if !c.valid() {
		return Need{}
	}
	if t == nil {
		one := newTerms(c, c.Role(p), 1)
		return Need{High: units.Bytes(one.base(int(both)*8 + 7))}
	}
	key := asked{c, p, m}
	t.lock.Lock()
	known, ok := t.known[key]
	t.lock.Unlock()
	if ok {
		return known
	}
	known = t.find(c, p, m)
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.known == nil || len(t.known) > mostKnown {
		t.known = map[asked]Need{}
	}
	t.known[key] = known
	return known
}

// asked is a question to a table; mostKnown is how many answers are kept, those of many models at once.
type asked struct {
	conv Conv
	pass Pass
	mode Mode
}

const mostKnown = 1 << 14

func (t *Table) find(c Conv, p Pass, m Mode) Need {
	role := c.Role(p)
	own := newTerms(c, role, t.Card.SMs)
	v := features(c, role, &own)
	f := &t.forests[m][role]
	if len(f.starts) == 0 { // nothing was measured in this mode: what the heuristic takes, or any copy
		n := t.find(c, p, Heuristic)
		n.High, n.Sure = max(n.High, units.Bytes(own.base(int(both)*8+7))), 0
		return n
	}
	takes, low, high, sure := t.answer(f, &v, &own)
	if m == Trial {
		takes = max(takes, transformed(c, role))
		high = max(high, takes, own.tried(c, role))
	}
	return Need{Takes: units.Bytes(takes), Low: units.Bytes(low), High: units.Bytes(high), Sure: sure}
}

// largestFFT is the number of points a side of the largest transform that was seen.
const largestFFT = 256

// fftSide is the number of points a side that the planes of a pass take, and whether there is such a transform.
func fftSide(c Conv, p Pass) (points int64, ok bool) {
	side := max(c.P, c.Q)
	if p == InputGrad {
		side = max(c.H, c.W)
	}
	side += max(c.R, c.S) - 1
	return powerOfTwo(int64(min(side, largestFFT)), 16), side <= largestFFT
}

// fftPlane is one transformed plane: a complex number for half of the points and a column more, twice.
func fftPlane(points int64) int64 { return 2 * 8 * points * (points/2 + 1) }

// transformed is the largest workspace of the trials of an fp32 convolution without strides, forward and for its weight: that of the FFT. It was within 1 % of this in
// 374 of 440 measured passes, planes of 16 to 256 points.
func transformed(c Conv, p Pass) int64 {
	points, ok := fftSide(c, p)
	if !ok || c.Width != 4 || c.Stride != 1 || c.Dilation != 1 || c.Groups != 1 || p == InputGrad {
		return 0
	}
	ins, outs, filters := c.planes()
	planes := ins + filters
	if p == WeightGrad {
		planes = max(ins+outs, filters)
	}
	if size := fftPlane(points) * planes; size <= mostMeasured {
		return size
	}
	return 0 // perhaps more than there is: such a plan is passed over
}

// mostMeasured is what the processes had that measured trials; of larger ones only the bound is told.
const mostMeasured = 24 << 30

// tried is a bound on the largest workspace of a trial: copies of all operands twice, transforms by Winograd, and where kernels of that kind are tried (fp32, groups, input
// gradients) of all planes by FFT, for input gradients twice; a fifth more for what is not known.
func (t *terms) tried(c Conv, p Pass) int64 {
	bound := 2*t.base(int(both)*8+7) + 16<<20 + t.winograd*11/10
	points, _ := fftSide(c, p)
	ins, outs, filters := c.planes()
	all := fftPlane(points) * (ins + outs + filters)
	switch {
	case p == InputGrad:
		bound += all * 11 / 5
	case c.Width == 4 || c.Groups > 1:
		bound += all
	}
	if p == WeightGrad && c.R*c.S == 1 {
		bound += t.image
	}
	return bound * 6 / 5
}

// planes are the planes of the input, of the output, and of filters between all channels.
func (c Conv) planes() (ins, outs, filters int64) {
	return int64(c.N) * int64(c.C), int64(c.N) * int64(c.K), int64(c.C) * int64(c.K)
}
