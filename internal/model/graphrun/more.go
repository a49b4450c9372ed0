package graphrun

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/cudnn"
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Operators beyond those of common vision and language models. In-place forms share the rule of the function whose formula keeps the
// same thing: the result (relu_), or a clone of the input (silu_).
var morePointwise = map[string]func(*eager.Tensor) *eager.Tensor{
	"leaky_relu_": (*eager.Tensor).ReLUInPlace, "elu_": (*eager.Tensor).ReLUInPlace, "sigmoid_": (*eager.Tensor).ReLUInPlace, "tanh_": (*eager.Tensor).ReLUInPlace,
	"hardswish_": (*eager.Tensor).SiLUInPlace, "hardsigmoid_": (*eager.Tensor).SiLUInPlace, "mish_": (*eager.Tensor).SiLUInPlace, "clamp_": (*eager.Tensor).HardtanhInPlace,
	"selu": (*eager.Tensor).ELU, "celu": (*eager.Tensor).ELU, "log_sigmoid": (*eager.Tensor).Softplus, "square": (*eager.Tensor).Pow, "erf": (*eager.Tensor).Erf,
	"clamp_min": (*eager.Tensor).Clamp, "clamp_max": (*eager.Tensor).Clamp, "log1p": (*eager.Tensor).Log, "flip": (*eager.Tensor).Roll, "reciprocal": (*eager.Tensor).Reciprocal,
	"lift_fresh": identity, "rrelu": (*eager.Tensor).LeakyReLU,
	"expm1": (*eager.Tensor).Exp, "log2": (*eager.Tensor).Log, "log10": (*eager.Tensor).Log, // on autocast's fp32 list as well
	"round": (*eager.Tensor).Floor, "ceil": (*eager.Tensor).Floor, "trunc": (*eager.Tensor).Floor, // gradients of zeros
}

var moreOps = map[string]graphOpFunc{
	"conv_transpose1d": (*graphOp).transposed,
	"conv_transpose2d": (*graphOp).transposed,
	"conv_transpose3d": (*graphOp).transposed,
	"instance_norm":    (*graphOp).instanceNorm,
	"rms_norm": func(o *graphOp) *eager.Tensor {
		width := 1
		for _, n := range o.ints("normalized_shape") {
			width *= n
		}
		return eager.RMSNorm(o.self(), o.arg("weight"), width)
	},
	"glu":               func(o *graphOp) *eager.Tensor { return o.self().GLU(o.int("dim", -1)) },
	"prelu":             func(o *graphOp) *eager.Tensor { return o.self().Mul(o.channels(o.arg("weight"))) },
	"cumsum":            func(o *graphOp) *eager.Tensor { return o.cumsum() },
	"index_select":      func(o *graphOp) *eager.Tensor { return o.self().IndexSelect(o.int("dim", 0), o.arg("index")) },
	"repeat_interleave": func(o *graphOp) *eager.Tensor { return o.self().Moved("repeat_interleave", o.sizes(0)) },
	"nll_loss":          func(o *graphOp) *eager.Tensor { return o.nll(o.self()) },
	"nll_loss_nd":       func(o *graphOp) *eager.Tensor { return o.nll(o.self()) },
	"l1_loss":           func(o *graphOp) *eager.Tensor { return o.lossOf(eager.MSELoss) },
	"smooth_l1_loss":    func(o *graphOp) *eager.Tensor { return o.lossOf(eager.MSELoss) },
	"binary_cross_entropy": func(o *graphOp) *eager.Tensor {
		return eager.BinaryCrossEntropy(o.self(), o.arg("target"), o.scalar())
	},
	"binary_cross_entropy_with_logits": func(o *graphOp) *eager.Tensor {
		return eager.BinaryCrossEntropyWithLogits(o.self(), o.arg("target"), o.scalar())
	},
	"huber_loss":         func(o *graphOp) *eager.Tensor { return o.lossOf(eager.HuberLoss) },
	"upsample_nearest1d": func(o *graphOp) *eager.Tensor { return o.self().Upsample(o.sizes(0)[2:]...) },
	"upsample_linear1d":  func(o *graphOp) *eager.Tensor { return o.self().Upsample(o.sizes(0)[2:]...) },
	"upsample_nearest3d": func(o *graphOp) *eager.Tensor { return o.self().Upsample(o.sizes(0)[2:]...) },
	"upsample_trilinear3d": func(o *graphOp) *eager.Tensor {
		return o.self().Upsample(o.sizes(0)[2:]...)
	},
	"_upsample_nearest_exact1d": func(o *graphOp) *eager.Tensor { return o.self().Upsample(o.sizes(0)[2:]...) },
	"_upsample_nearest_exact2d": func(o *graphOp) *eager.Tensor { return o.self().Upsample(o.sizes(0)[2:]...) },
	"minimum":                   func(o *graphOp) *eager.Tensor { return o.self().Maximum(o.second()) }, // the same formula
	"tril":                      func(o *graphOp) *eager.Tensor { return o.triangle() },
	"triu":                      func(o *graphOp) *eager.Tensor { return o.triangle() },
	"avg_pool1d":                func(o *graphOp) *eager.Tensor { return o.self().AvgPool(o.window()) },
	"sub_":                      func(o *graphOp) *eager.Tensor { return o.binary((*eager.Tensor).AddInPlace, identity) },
	"constant_pad_nd": func(o *graphOp) *eager.Tensor {
		return o.pad()
	},
	"transformers.grouped_mm_fallback": func(o *graphOp) *eager.Tensor {
		return eager.GroupedMM(o.self(), o.arg("weight"), o.arg("offs"))
	},
	"feature_dropout":   (*graphOp).featureDropout,
	"reflection_pad1d":  (*graphOp).edged,
	"reflection_pad2d":  (*graphOp).edged,
	"reflection_pad3d":  (*graphOp).edged,
	"replication_pad1d": (*graphOp).edged,
	"replication_pad2d": (*graphOp).edged,
	"replication_pad3d": (*graphOp).edged,
	"channel_shuffle":   func(o *graphOp) *eager.Tensor { return o.self().Moved("channel_shuffle", o.sizes(0)) },
	"pixel_unshuffle":   func(o *graphOp) *eager.Tensor { return o.self().Moved("pixel_unshuffle", o.sizes(0)) },
	"im2col":            func(o *graphOp) *eager.Tensor { return o.self().Moved("im2col", o.sizes(0)) },
	"col2im":            func(o *graphOp) *eager.Tensor { return o.self().Moved("col2im", o.sizes(0)) },
	"hstack":            func(o *graphOp) *eager.Tensor { return eager.Cat(min(1, len(o.sizes(0))-1), o.tensors()...) },
	"vstack":            func(o *graphOp) *eager.Tensor { return eager.Cat(0, o.tensors()...) },
}

var moreResults = map[string]func(o *graphOp) []*eager.Tensor{
	"lstm":                func(o *graphOp) []*eager.Tensor { return o.recurrent(cudnn.LSTM) },
	"gru":                 func(o *graphOp) []*eager.Tensor { return o.recurrent(cudnn.GRU) },
	"rnn_tanh":            func(o *graphOp) []*eager.Tensor { return o.recurrent(cudnn.RNN) },
	"rnn_relu":            func(o *graphOp) []*eager.Tensor { return o.recurrent(cudnn.RNN) },
	"gru_cell":            gruCell.run,
	"lstm_cell":           lstmCell.run,
	"pad_sequence":        (*graphOp).padSequence,
	"adaptive_max_pool2d": (*graphOp).adaptiveMax,
	"max":                 (*graphOp).extreme,
	"min":                 (*graphOp).extreme,
	"max_pool2d_with_indices": func(o *graphOp) []*eager.Tensor {
		indices := o.p.Empty("aten::max_pool2d_with_indices", tensor.Int64, o.sizes(0)...)
		return []*eager.Tensor{o.self().MaxPool(o.window()), indices}
	},
	"view_as":      one((*graphOp).reshape),
	"reshape_as":   one((*graphOp).reshape),
	"broadcast_to": one(func(o *graphOp) *eager.Tensor { return o.self().Expand(o.sizes(0)...) }),
	"tile":         one((*graphOp).tile),
	"narrow": one(func(o *graphOp) *eager.Tensor {
		start := o.int("start", 0)
		return o.self().Slice(o.int("dim", 0), start, start+o.int("length", 1))
	}),
	"as_strided":      one(func(o *graphOp) *eager.Tensor { return o.self().AsStrided(o.ints("size"), o.ints("stride")) }),
	"view_as_complex": one(func(o *graphOp) *eager.Tensor { return o.strided(false) }),
	"view_as_real":    one(func(o *graphOp) *eager.Tensor { return o.strided(false) }),
	"unfold":          one(func(o *graphOp) *eager.Tensor { return o.strided(true) }),
	"diagonal":        one(func(o *graphOp) *eager.Tensor { return o.strided(true) }),
	"real":            one(func(o *graphOp) *eager.Tensor { return o.strided(false) }),
	"imag":            one(func(o *graphOp) *eager.Tensor { return o.strided(false) }),
	// Their formulas keep what they read and what they give, as an operator nobody wrote down is taken to do
	// (https://github.com/pytorch/pytorch/blob/v2.11.0/tools/autograd/derivatives.yaml).
	"linalg_vector_norm":      (*graphOp).keepsAll,
	"linalg_norm":             (*graphOp).keepsAll, // of vectors, which calls the one above (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/LinearAlgebra.cpp, linalg_norm)
	"logsumexp":               (*graphOp).keepsAll,
	"linalg_solve_triangular": (*graphOp).solveTriangular,
	"linalg_inv_ex":           (*graphOp).keepsAll,
	"unsafe_chunk":            (*graphOp).chunk,
	"unsafe_split":            (*graphOp).split,
	"movedim":                 one((*graphOp).moveDims),
	"swapdims":                one(func(o *graphOp) *eager.Tensor { return o.self().Transpose(o.int("dim0", 0), o.int("dim1", 1)) }),
	"mT":                      one(func(o *graphOp) *eager.Tensor { return o.self().Transpose(-1, -2) }),
	"T":                       one(func(o *graphOp) *eager.Tensor { return o.self().Transpose(0, 1) }),
}

// solveTriangular saves the triangle and the solution, not the right side
// (https://github.com/pytorch/pytorch/blob/v2.11.0/tools/autograd/derivatives.yaml, linalg_solve_triangular). The solution lies column by column
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/BatchLinearAlgebra.cpp, linalg_solve_triangular_out).
func (o *graphOp) solveTriangular() []*eager.Tensor {
	at := o.node.Outputs[0]
	layout := tensor.Layout{Sizes: o.sizes(0), Strides: o.Dims(o.Values[at].Strides)}
	a, b := o.self(), o.arg("B")
	return o.p.Formula(eager.Formula{Op: o.node.Target, Inputs: []*eager.Tensor{a, b}, Saved: []*eager.Tensor{a}, Layouts: []tensor.Layout{layout}, Types: []tensor.DType{o.resultType(at)}, Keeps: []bool{true}})
}

// padSequence copies sequences into one tensor of the longest of them; copies save nothing
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/PackedSequence.cpp, pad_sequence).
func (o *graphOp) padSequence() []*eager.Tensor {
	return o.p.Formula(eager.Formula{Op: o.node.Target, Inputs: o.tensors(), Layouts: []tensor.Layout{tensor.Of(o.sizes(0)...)}, Types: []tensor.DType{o.resultType(o.node.Outputs[0])}, Keeps: []bool{false}})
}

// edged is F.pad with what is at the edges, reflected or repeated: its formula takes the input, which is kept
// (https://github.com/pytorch/pytorch/blob/v2.11.0/tools/autograd/derivatives.yaml, reflection_pad1d_backward(grad, self, padding), replication_pad1d_backward(grad, self, padding)).
// Encodec, padded so, was 20 % too low on an H200 without it.
func (o *graphOp) edged() *eager.Tensor {
	self := o.self()
	return o.p.Formula(eager.Formula{
		Op: o.node.Target, Inputs: []*eager.Tensor{self}, Saved: []*eager.Tensor{self},
		Layouts: []tensor.Layout{tensor.Of(o.sizes(0)...)}, Types: []tensor.DType{self.DType}, Keeps: []bool{false},
	})[0]
}

// pad is F.pad, most often with a constant. Where nothing is added it is a clone, which lies as its input does
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/PadNd.cpp, constant_pad_nd: all_pads_non_positive).
func (o *graphOp) pad() *eager.Tensor {
	if a, ok := o.node.Arg("mode"); ok && (a.Text == "reflect" || a.Text == "replicate") {
		return o.edged()
	}
	if sizes := o.sizes(0); !o.self().Same(sizes) {
		return o.self().Moved("constant_pad_nd", sizes)
	}
	return o.self().Clone()
}

// undifferentiable are operators no gradient passes, whatever they read: new tensors, comparisons, indices.
func undifferentiable(base string) bool {
	for _, prefix := range []string{"new_", "rand", "arg", "logical_", "bitwise_", "is", "arange"} {
		if strings.HasPrefix(base, prefix) {
			return true
		}
	}
	return strings.HasSuffix(base, "_like") || slices.Contains([]string{
		"zeros", "ones", "full", "empty", "eye", "linspace", "tril_indices", "triu_indices", "eq", "ne", "lt", "le", "gt", "ge", "sign", "one_hot",
		"bernoulli", "multinomial", "histc", "bincount", "floor_divide", "any", "all", "scalar_tensor", "bucketize", "searchsorted", "nonzero",
	}, base)
}

// extreme is max and min: over a dimension, of two tensors, or of all elements.
func (o *graphOp) extreme() []*eager.Tensor {
	switch {
	case len(o.node.Outputs) == 2:
		values, indices := o.self().Extreme(o.sizes(0)...)
		return []*eager.Tensor{values, indices}
	case len(o.tensors()) == 2:
		return []*eager.Tensor{o.self().Maximum(o.second())}
	case !o.differentiable():
		return o.plain()
	}
	return o.keepsAll() // evenly_distribute_backward compares the input with the result
}

func (o *graphOp) transposed() *eager.Tensor {
	c := eager.Conv{
		Window: eager.Window{Stride: o.ints("stride"), Padding: o.ints("padding"), Dilation: o.ints("dilation")},
		Groups: o.int("groups", 1), Transposed: true, OutPadding: o.ints("output_padding"),
	}
	return eager.Convolution(o.self(), o.arg("weight"), o.arg("bias"), c)
}

// instanceNorm is a batch norm over [1, batch·channels, …] (aten/src/ATen/native/Normalization.cpp, instance_norm).
func (o *graphOp) instanceNorm() *eager.Tensor {
	x := o.self()
	flat := append([]int{1, x.Dim(0) * x.Dim(1)}, x.Sizes[2:]...)
	return eager.BatchNorm(x.Contiguous().Reshape(flat...), nil, nil, nil, nil).Reshape(x.Sizes...)
}

// featureDropout (nn.Dropout2d) multiplies whole channels by noise (aten/src/ATen/native/Dropout.cpp).
func (o *graphOp) featureDropout() *eager.Tensor {
	x := o.self()
	if !o.node.Bool("train", true) || o.node.Float("p", 0) == 0 {
		return x
	}
	sizes := slices.Clone(x.Sizes)
	for i := 2; i < len(sizes); i++ {
		sizes[i] = 1
	}
	return x.Mul(o.p.Empty("aten::feature_dropout", x.DType, sizes...))
}

// channels views a weight of one value a channel so that it broadcasts over [batch, channels, …].
func (o *graphOp) channels(w *eager.Tensor) *eager.Tensor {
	if w.Numel() == 1 {
		return w
	}
	sizes := []int{w.Numel()}
	for range len(o.sizes(0)) - 2 {
		sizes = append(sizes, 1)
	}
	return w.Reshape(sizes...)
}

// triangle is tril or triu: the gradient is the same triangle of the gradient, nothing is saved. Masks take no gradient.
func (o *graphOp) triangle() *eager.Tensor {
	if !o.differentiable() {
		return o.plain()[0]
	}
	return o.self().Moved(o.name(), o.sizes(0))
}

func (o *graphOp) cumsum() *eager.Tensor {
	if !o.differentiable() {
		return o.plain()[0]
	}
	return o.self().Cumsum(o.int("dim", -1))
}

// adaptiveMax pools as a window of the input's share does.
func (o *graphOp) adaptiveMax() []*eager.Tensor {
	x, sizes := o.self(), o.sizes(0)
	var side []int
	for i := len(sizes) - 2; i < len(sizes); i++ {
		side = append(side, max(x.Sizes[i]/max(sizes[i], 1), 1))
	}
	indices := o.p.Empty("aten::adaptive_max_pool2d", tensor.Int64, sizes...)
	return []*eager.Tensor{x.MaxPool(eager.Window{Kernel: side, Stride: side}), indices}
}

// recurrent is lstm.input or gru.input: hidden states and weights come as lists, or a GRU's state alone.
func (o *graphOp) recurrent(gates cudnn.Gates) []*eager.Tensor {
	var states, weights []*eager.Tensor
	for _, a := range o.node.Args {
		for _, v := range a.Values {
			switch {
			case v < 0 || o.vals[v] == nil || a.Name == "input":
			case a.Name == "hx":
				states = append(states, o.vals[v])
			default:
				weights = append(weights, o.vals[v])
			}
		}
	}
	if len(weights) < 2 || len(o.self().Sizes) != 3 {
		return o.conservative()
	}
	return eager.RNN(o.self(), states, weights, eager.Recurrent{
		Gates: gates, Layers: o.int("num_layers", 1), Bidirectional: o.node.Bool("bidirectional", false), BatchFirst: o.node.Bool("batch_first", false),
		Dropout: o.node.Float("dropout", 0) > 0 && o.node.Bool("train", true), Inference: !o.node.Bool("train", true),
	})
}

// moveDims is movedim: dimensions taken from their places and put where asked.
func (o *graphOp) moveDims() *eager.Tensor {
	x := o.self()
	from, to := o.ints("source"), o.ints("destination")
	if len(from) != len(to) {
		return x.Reshape(o.sizes(0)...)
	}
	order := make([]int, x.Rank())
	taken := make([]bool, x.Rank())
	for i := range order {
		order[i] = -1
	}
	for i := range from {
		order[x.Axis(to[i])] = x.Axis(from[i])
		taken[x.Axis(from[i])] = true
	}
	next := 0
	for i := range order {
		if order[i] >= 0 {
			continue
		}
		for taken[next] {
			next++
		}
		order[i] = next
		next++
	}
	return x.Permute(order...)
}

// tile repeats the last dimensions where it has fewer numbers than the tensor has dimensions (aten/src/ATen/native/TensorShape.cpp, tile_symint).
func (o *graphOp) tile() *eager.Tensor {
	t, times := o.self(), o.ints("dims")
	for len(times) < t.Rank() {
		times = append([]int{1}, times...)
	}
	return t.Repeat(times...)
}
