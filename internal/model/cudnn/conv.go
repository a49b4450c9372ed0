package cudnn

import (
	_ "embed"
	"sync"

	"github.com/plimsoll/plimsoll/internal/units"
)

//go:embed sm90.table
var sm90 []byte

//go:embed sm90.seen
var sm90Seen []byte

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
	if err := t.recall(sm90Seen); err != nil {
		panic(err) // and so is this one
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
		if planes := own.transformed(c, role); c.Width == 4 && planes < mostMeasured {
			takes = max(takes, planes)
		}
		bound := own.tried(c, role)
		takes, low, high = min(takes, bound), min(low, bound), bound
	}
	bound := max(high, own.seldom(c, role, sure))
	if m == Heuristic {
		if said, ok := t.seen.find(c, role, f.labels); ok {
			if said >= 0 {
				takes = own.value(said)
			}
			low, high, bound, sure = takes, takes, takes, 1
		}
	}
	return Need{Takes: units.Bytes(takes), Low: units.Bytes(low), High: units.Bytes(high), Bound: units.Bytes(bound), Sure: sure, Tried: m == Trial}
}

// seldom is the most that a plan takes which no tree names for a shape, trials apart: partial sums beside copies of all operands, which channels last does without where its channels need no padding; and in
// fp32 transformed planes where a weight gradient has nine taps or more and the trees do not all agree. Of 24,000 passes that no table was grown from, TestWorkspacesStayBelowTheirBound counts how many took more.
func (t *terms) seldom(c Conv, p Pass, sure float64) int64 {
	most := int64(partialSums)
	if !c.Last || c.Groups > 1 || t.base(int(both)*8+7) != t.base(7) {
		most += max(t.base(int(both)*8+7), t.base(int(byGroups)*8+7)*flag(c.Groups > 1))
	}
	if sure < 1 && p == WeightGrad && c.Width == 4 && !c.Last && c.Groups == 1 && c.Stride == 1 && c.R*c.S >= 9 && c.R > 1 && c.S > 1 {
		most = max(most, t.transformed(c, p)+t.y[asIs])
	}
	return most
}

// partialSums are the largest that follow from no count we know (constants).
const partialSums = 17 << 20

// mostMeasured is what the processes had that measured trials; of larger ones only the bound is told.
const mostMeasured = 24 << 30

// largestFFT is the number of points a side of the largest transform that was seen.
const largestFFT = 256

// fftPlane is one transformed plane: a complex number for half of the points and a column more, twice.
func fftPlane(points int64) int64 { return 2 * 8 * points * (points/2 + 1) }

// tried is a bound on the largest workspace of a trial. PyTorch asks for the largest of all plans that cuDNN names, however many of them it times (generate_and_filter_plans,
// https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cudnn/Conv_v8.cpp): the largest of the plans that were asked is what the first call took in 450 of 450 measured passes.
// Plans work on copies of all operands, for weight gradients up to two of them, on sums of the whole output in tiles of 128, on weights once for each multiprocessor, or by FFT.
func (t *terms) tried(c Conv, p Pass) int64 {
	rows, cols := matrix(c, p)
	copied := t.base(int(both)*8 + 7)
	if c.Groups > 1 {
		copied = max(copied, t.base(int(byGroups)*8+7))
	}
	bound := copied + 2*int64(c.Groups)*roundUp(rows, 128)*roundUp(cols, 128)*4 + 17<<20
	if p == WeightGrad {
		bound += copied + 34<<20 + t.sms*t.weight
		if c.R*c.S == 1 {
			bound += min(t.image, 2<<30)
		}
	}
	bound = bound * 6 / 5
	if planes := t.transformed(c, p); planes > 0 {
		bound = max(bound, (planes+2*copied)*21/20)
	}
	return bound
}

// transformed is what the FFT of a pass takes, and 0 where cuDNN has none: of 3,147 convolutions whose plans were asked, those in bfloat16 or with planes of more than 256 points never had one, those with dilation in seven passes.
func (t *terms) transformed(c Conv, p Pass) int64 {
	taps := c.R * c.S
	if c.BF16 || c.Depth > 0 || c.Dilation > 1 && taps > 1 {
		return 0
	}
	if p == InputGrad {
		if taps == 1 {
			return 0
		}
		return t.tiledFFT
	}
	side := max(c.P, c.Q) + max(c.R, c.S) - 1
	if c.Stride > 1 || side > largestFFT || c.Width == 2 && p == WeightGrad {
		return max(0, t.winograd*flag(p == WeightGrad && c.Width == 4 && taps == 9))
	}
	for i := range t.fft {
		if side <= 16<<i {
			return t.fft[i]
		}
	}
	return 0
}

// Transformed is what a forward pass or an input gradient takes at most where cuDNN works by FFT on its own accord, without trials; 0 where it was never seen to: with fewer than 5×5 taps, strides, groups,
// channels last, 16 bits. Measured: [1000,16,14,14] by 32 filters of 5×5 forward, 278,579,200 bytes, the planes of all outputs at 32 points a side and a copy of the weight.
func (c Conv) Transformed() units.Bytes {
	if !c.valid() || c.Width != 4 || c.Last || c.Groups > 1 || c.Depth > 0 || c.Stride > 1 || c.Dilation > 1 || c.R*c.S < 25 || c.R == 1 || c.S == 1 {
		return 0
	}
	most, side := tiledFFT(c), max(c.P, c.Q)+max(c.R, c.S)-1
	t := newTerms(c, Forward, 1)
	for i, planes := range t.fft {
		if side <= 16<<i {
			most = max(most, planes)
			break
		}
	}
	return units.Bytes(most * 21 / 20)
}

// planes are the planes of the input, of the output, and of filters between the channels of each group.
func (c Conv) planes() (ins, outs, filters int64) {
	return int64(c.N) * int64(c.C), int64(c.N) * int64(c.K), int64(c.channels()) * int64(c.K)
}
