package traced

import (
	"encoding/json"
	"slices"

	"github.com/plimsoll/plimsoll/internal/memory/tape"
	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Work is an operator that takes memory of a library's beside its results.
type Work struct {
	Op           string `json:"op"` // mm, addmm, convolution, convolution_backward, rnn_reserve, rnn, rnn_backward, reduce
	DType        string `json:"dtype"`
	X            []int  `json:"x"`
	W            []int  `json:"w"`
	Y            []int  `json:"y"`
	Stride       []int  `json:"stride"`
	Padding      []int  `json:"padding"`
	Dilation     []int  `json:"dilation"`
	Transposed   bool   `json:"transposed"`
	Groups       int    `json:"groups"`
	Wants        []bool `json:"wants"` // of backward: the gradients of input, weight and bias
	ChannelsLast bool   `json:"channels_last"`
	Benchmark    bool   `json:"benchmark"` // torch.backends.cudnn.benchmark was True
}

// elastic workspaces are done without where they are refused.
func (w *Work) elastic() bool { return w.Op == "convolution" || w.Op == "convolution_backward" }

// Library is what cuBLAS and cuDNN take on a card while a history is written: workspaces of cuBLAS, one for each thread and never given back, and those of convolutions.
type Library struct {
	device   eager.Device
	backward bool
	blas, lt *[2]bool
	seen     map[string][]units.Bytes
	observe  func(eager.Work)
	reserve  units.Bytes // of the recurrent layer that runs: the next storage that is one has this size
	dropout  *bool       // the state of dropout between recurrent layers was made
	trials   *eager.Benchmark
	tried    map[string]bool // convolutions that have had their trial
	plans    eager.Plans
}

// NewLibrary begins on a card where nothing has run yet; observe is told of every distinct convolution.
func NewLibrary(d eager.Device, observe func(eager.Work)) Library {
	return Library{device: d, blas: new([2]bool), lt: new([2]bool), seen: map[string][]units.Bytes{}, observe: observe, dropout: new(bool), trials: &eager.Benchmark{}, tried: map[string]bool{}}
}

// Settled is the library without the trials of cudnn.benchmark: every convolution runs the plan that was chosen.
func (l Library) Settled() Library {
	l.trials.Settled = true
	return l
}

// Most is the library with every trial of cudnn.benchmark taking the most it may.
func (l Library) Most() Library {
	l.trials.Most = true
	return l
}

// With is the library with other plans of cuDNN's.
func (l Library) With(p eager.Plans) Library {
	l.plans = p
	return l
}

// take is what an operator takes and keeps, and what it takes for its own duration.
func (l *Library) take(w *Work) (kept, scratch []units.Bytes) {
	switch w.Op {
	case "convolution", "convolution_backward":
		return nil, l.convolution(w)
	case "rnn_reserve", "rnn", "rnn_backward":
		if drops := len(w.W) >= 6 && w.W[4] != 0 && w.W[2] > 1; drops && !*l.dropout {
			*l.dropout = true
			kept = append(kept, cudnn.DropoutState(l.device.SMs))
		}
		return kept, l.recurrent(w)
	case "reduce":
		return nil, l.reduction(w)
	}
	thread := 0
	if l.backward {
		thread = 1
	}
	if !l.blas[thread] {
		l.blas[thread] = true
		kept = append(kept, l.device.BlasWorkspace)
	}
	if w.Op == "addmm" && !l.lt[thread] {
		l.lt[thread] = true
		kept = append(kept, l.device.BlasLtWorkspace)
	}
	return kept, nil
}

var types = map[string]tensor.DType{"float32": tensor.Float32, "float16": tensor.Float16, "bfloat16": tensor.BFloat16, "float64": tensor.Float64}

// recurrent is what cuDNN takes for an LSTM, GRU or RNN: x has steps, batch and features, w the gates, hidden size, layers, directions, whether there is dropout,
// the number of weights, and in files written since whether it is training, the rows of a packed sequence (0: not packed) and the size that is projected to (0: none).
func (l *Library) recurrent(w *Work) []units.Bytes {
	dtype, ok := types[w.DType]
	if !ok || len(w.X) != 3 || len(w.W) != 6 && len(w.W) != 9 || slices.Min(w.X) < 1 || slices.Min(w.W[:4]) < 1 || slices.Max(w.X) > maxSize || slices.Max(w.W[:5]) > maxSize {
		return nil
	}
	r := cudnn.Recurrent{
		Gates: cudnn.Gates(w.W[0]), Input: w.X[2], Hidden: w.W[1], Layers: w.W[2], Bidirectional: w.W[3] == 2, Dropout: w.W[4] != 0,
		Steps: w.X[0], Batch: w.X[1], Width: int(dtype.Width()), BF16: dtype == tensor.BFloat16, Weights: units.Bytes(w.W[5]) * dtype.Width(),
	}
	if len(w.W) == 9 {
		r.Inference, r.Rows, r.Projected = w.W[6] == 0, min(max(w.W[7], 0), r.Steps*r.Batch), min(max(w.W[8], 0), maxSize)
	}
	switch w.Op {
	case "rnn_reserve":
		l.reserve = believable(r.Reserve())
		return nil
	case "rnn":
		return []units.Bytes{believable(r.Workspace())}
	}
	return []units.Bytes{believable(r.BackwardWorkspace())}
}

// reduction is what a sum, mean or norm takes where thread blocks share a result: x has the sizes, stride the strides, w the dimensions that are reduced, and padding, in files written since, the
// bytes of a partial result.
func (l *Library) reduction(w *Work) []units.Bytes {
	dtype, ok := types[w.DType]
	width := max(1, dtype.Width())
	summed := max(4, width)
	if len(w.Padding) == 1 {
		summed, ok = units.Bytes(min(max(w.Padding[0], 1), maxPartial)), true
	}
	if !ok || len(w.X) == 0 || len(w.X) > 16 || len(w.Stride) != len(w.X) || len(w.W) > len(w.X) {
		return nil
	}
	count := 1
	for i, n := range w.X {
		if n < 1 || w.Stride[i] < 0 || w.Stride[i] > maxBytes || n > maxBytes/count {
			return nil
		}
		count *= n
	}
	for _, d := range w.W {
		if d < 0 || d >= len(w.X) {
			return nil
		}
	}
	buffer, _ := l.device.Reduction(tensor.Layout{Sizes: w.X, Strides: w.Stride}, w.W, width, summed)
	if buffer <= 0 {
		return nil
	}
	return []units.Bytes{believable(buffer)}
}

// maxPartial is more than a partial result of any reduction has.
const maxPartial = 64

// maxSize is more than any dimension of a recurrent layer has.
const maxSize = 1 << 20

// believable bounds what was computed from a file's numbers.
func believable(size units.Bytes) units.Bytes { return min(max(size, 1), maxBytes) }

// convolution asks package eager: one convolution runs there by itself, and what it had in workspaces is read from its tape.
func (l *Library) convolution(w *Work) []units.Bytes {
	key, err := json.Marshal(struct {
		*Work
		Plans eager.Plans
	}{w, l.plans})
	if err != nil || len(w.X) < 3 || len(w.X) != len(w.W) {
		return nil
	}
	if known, ok := l.seen[string(key)]; ok {
		return known
	}
	p := eager.NewProcess(l.device)
	p.Observe, p.Plans = l.observe, l.plans
	if w.Benchmark {
		p.Benchmark = l.trials
	}
	dtype, ok := types[w.DType]
	if !ok {
		dtype = tensor.Float32
	}
	input := func(sizes []int, grad bool) *eager.Tensor {
		t := p.Input("", dtype, sizes...).Retain()
		if w.ChannelsLast && len(sizes) == 4 {
			t.Layout = tensor.ChannelsLast(sizes...)
		}
		if grad {
			t.RequireGrad()
		}
		return t
	}
	back := w.Op == "convolution_backward"
	from := 0
	// A shape that contradicts itself, or that no rule is written for, takes no workspace: nothing is known of it.
	_ = p.Guard(func() {
		wants := func(i int) bool { return back && i < len(w.Wants) && w.Wants[i] }
		x, weight := input(w.X, wants(0)), input(w.W, wants(1))
		y := eager.Convolution(x, weight, nil, eager.Conv{
			Window: eager.Window{Stride: w.Stride, Padding: w.Padding, Dilation: w.Dilation}, Groups: w.Groups, Transposed: w.Transposed,
		}).Retain()
		if back {
			from = len(p.Tape().Events)
			p.Backward(y)
		}
	})
	var sizes []units.Bytes
	for _, e := range p.Tape().Events[from:] {
		if e.Kind == tape.Alloc && p.Tape().Owners[e.Owner].Category == tape.Workspace {
			sizes = append(sizes, e.Size)
		}
	}
	if first := w.Benchmark && !l.trials.Settled && !l.tried[string(key)]; first {
		l.tried[string(key)] = true // the next time it takes what was chosen
		return sizes
	}
	l.seen[string(key)] = sizes
	return sizes
}
