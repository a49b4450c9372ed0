// Package cost estimates how long a training step takes on a card.
//
// It takes the stream of work of one step (package eager), a card's rates and the speed of its host and returns milliseconds of forward and
// backward of one micro-batch, of the optimizer, and of what several cards or a host's memory add. Two clocks walk the stream once: the
// host's, which launches, and the card's, which cannot begin a kernel before it is launched. No time is measured here; every constant
// names its source, and an estimate says how far it may be off. A card whose rates are not known is refused.
//
// Constants of kernels were read off the kernels of profiled steps of six models on one H200 with PyTorch 2.11 (testdata/kernels.jsonl.gz), those of the host off 72
// measured steps of three (testdata of package plan): read them as one card's and one host's. Those marked "joint" were set together so that these rows come out right.
package cost

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/gpu"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Rates is a card and its host as the model sees them.
type Rates struct {
	SMs       float64
	Bandwidth float64 // bytes/s that kernels reach together, reading and writing
	FP32      float64 // FLOP/s by type, dense
	TF32      float64
	Half      float64
	TF32On    bool    // fp32 matrix products run in TF32
	Link      float64 // bytes/s to the host's memory and from it
	Host      float64 // seconds of the host's unit of work
}

// Sustained bandwidth is 0.9 of the datasheet's: 4.3 of 4.8 TB/s measured on an H200 (device copy, reads and writes).
const sustained = 0.9

// HostUnit is what one unit of the host's weights takes on the machine of the measurements, which was slow; it is a property of CPU, Python and
// libraries, not of the card. Measured: steps that wait for launches.
const HostUnit = 3e-6

// Of gives a card's rates. tf32: torch.backends.cuda.matmul.allow_tf32. Cards without a rate for a type compute it in fp32.
func Of(c gpu.Card, tf32 bool) (Rates, error) {
	if c.Bandwidth == 0 || c.FP32 == 0 || c.SMs == 0 {
		return Rates{}, fmt.Errorf("the rates of %s are not known: no time can be estimated", c.Title)
	}
	r := Rates{SMs: float64(c.SMs), Bandwidth: sustained * c.Bandwidth, FP32: c.FP32, TF32: c.TF32, Half: max(c.BF16, c.FP16), TF32On: tf32, Host: HostUnit, Link: c.Host * linkShare}
	if r.TF32 == 0 {
		r.TF32 = c.FP32
	}
	if r.Half == 0 {
		r.Half = c.FP32
	}
	return r, nil
}

// matrix is the peak rate of matrix products of a type.
func (r Rates) matrix(d tensor.DType) float64 {
	switch {
	case d.Half():
		return r.Half
	case r.TF32On:
		return r.TF32
	}
	return r.FP32
}

// Step is the time of one micro-batch's forward and backward, in seconds.
type Step struct {
	Seconds float64 // until both clocks stand still
	GPU     float64 // sum of all kernels
	Host    float64 // sum of the host's work
	Ahead   float64 // how long the card is still busy when the host has launched everything
	FLOPs   float64 // of matrix products, attention and convolutions
	phases  [2]busy // forward, and backward with what it computes again
}

// busy is what a stretch of the stream asks of host and card.
type busy struct{ host, gpu float64 }

// Waits tells whether the step's time is the host's more than the card's.
func (s Step) Waits() bool { return s.Host > s.GPU }

// Clock walks a stream of work.
type Clock struct {
	rates     Rates
	host, gpu float64 // moments both have reached
	step      Step
}

// NewClock starts both clocks at zero.
func NewClock(r Rates) *Clock { return &Clock{rates: r} }

// See takes the next entry of the stream.
func (c *Clock) See(w eager.Work) {
	phase := &c.step.phases[0]
	if w.Phase != eager.PhaseForward {
		phase = &c.step.phases[1]
	}
	work := c.rates.Host * hostWeight(w)
	c.host += work
	c.step.Host += work
	phase.host += work
	if w.Kernels == 0 {
		return
	}
	kernel := c.rates.kernel(w)
	c.gpu = max(c.gpu, c.host) + kernel
	c.step.GPU += kernel
	phase.gpu += kernel
	if w.Kind == eager.ToHost { // it waits, and cannot run ahead in a deeper model either
		phase.host += c.gpu - c.host
		c.host = c.gpu
	}
	if w.Kind != eager.Pass && w.Kind != eager.Normalised {
		c.step.FLOPs += w.FLOPs
	}
}

// Step is what has been seen so far.
func (c *Clock) Step() Step {
	s := c.step
	s.Seconds = max(c.host, c.gpu)
	s.Ahead = s.Seconds - c.host
	return s
}

// Deepen is the step of a model with n more layers than one whose step is few, where more is that of a model with one layer more. Sums grow in a straight line;
// the clocks do not (a deep model's host falls behind where a shallow one's has not yet), so they walk the layers again, one entry a layer and phase.
func Deepen(few, more Step, layers, n int) Step {
	line := func(x, y float64) float64 { return x + float64(n)*(y-x) }
	s := Step{GPU: line(few.GPU, more.GPU), Host: line(few.Host, more.Host), FLOPs: line(few.FLOPs, more.FLOPs)}
	host, gpu := 0.0, 0.0
	walk := func(b busy) {
		gpu = max(max(gpu, host)+b.gpu, host+b.host)
		host += b.host
	}
	for i := range few.phases {
		layer := more.phases[i].less(few.phases[i], 1)
		rest := few.phases[i].less(layer, float64(layers))
		if i == 1 { // the head's backward comes first
			walk(rest)
		}
		for range layers + n {
			walk(layer)
		}
		if i == 0 {
			walk(rest)
		}
	}
	s.Seconds = max(host, gpu)
	s.Ahead = s.Seconds - host
	return s
}

func (b busy) less(other busy, times float64) busy {
	return busy{max(0, b.host-times*other.host), max(0, b.gpu-times*other.gpu)}
}
