package graphrun

import (
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/exported"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// graphOp is one operator about to run.
type graphOp struct {
	*graphRun
	node *planNode
}

type graphOpFunc func(o *graphOp) *eager.Tensor

// run finds what the operator does: a function of this file, something without gradient, or an unknown.
func (o *graphOp) run() []*eager.Tensor {
	base := o.name()
	if undifferentiable(base) || len(o.tensors()) == 0 {
		return o.plain()
	}
	for _, table := range []map[string]func(*graphOp) []*eager.Tensor{manyResults, moreResults} {
		if f, ok := table[base]; ok {
			return f(o)
		}
	}
	for _, table := range []map[string]graphOpFunc{graphOps, moreOps} {
		if f, ok := table[base]; ok {
			return []*eager.Tensor{f(o)}
		}
	}
	for _, table := range []map[string]func(*eager.Tensor) *eager.Tensor{pointwise, morePointwise} {
		if f, ok := table[base]; ok && len(o.tensors()) == 1 {
			return []*eager.Tensor{f(o.self())}
		}
	}
	if !o.differentiable() {
		return o.plain()
	}
	return o.conservative()
}

// name is the operator's name without overload; operators of other libraries than PyTorch keep the library's.
func (o *graphOp) name() string {
	target := strings.TrimPrefix(o.node.Target, "aten.")
	if i := strings.LastIndexByte(target, '.'); i > 0 {
		target = target[:i]
	}
	if usual, ok := synonyms[target]; ok {
		return usual
	}
	return target
}

// synonyms are other names of operators (aten/src/ATen/native/native_functions.yaml: each calls the one it is an alias of).
var synonyms = map[string]string{
	"multiply": "mul", "multiply_": "mul_", "subtract": "sub", "divide": "div", "divide_": "div_", "true_divide": "div", "absolute": "abs", "negative": "neg",
	"concatenate": "cat", "clip": "clamp", "row_stack": "vstack",
	"arccos": "acos", "arctan": "atan", "special_softmax": "softmax", "special_log_softmax": "log_softmax", "special_expit": "sigmoid",
}

// self is the operator's first tensor.
func (o *graphOp) self() *eager.Tensor {
	for _, a := range o.node.Args {
		if a.Kind == exported.Tensor {
			return o.vals[a.Values[0]]
		}
	}
	panic(eager.Fault(o.node.Target + " without a tensor"))
}

// arg is a tensor argument, nil where it is absent.
func (o *graphOp) arg(name string) *eager.Tensor {
	v := o.node.Tensor(name)
	if v < 0 {
		return nil
	}
	return o.vals[v]
}

func (o *graphOp) int(name string, standard int) int { return o.Int(&o.node.Node, name, standard) }
func (o *graphOp) ints(name string) []int            { return o.Ints(&o.node.Node, name) }

// sizes is the shape the graph states for a result.
func (o *graphOp) sizes(i int) []int { return o.Dims(o.Values[o.node.Outputs[i]].Sizes) }

// tensors are all tensor arguments.
func (o *graphOp) tensors() []*eager.Tensor {
	var all []*eager.Tensor
	for _, a := range o.node.Args {
		for _, v := range a.Values {
			if v >= 0 && o.vals[v] != nil {
				all = append(all, o.vals[v])
			}
		}
	}
	return all
}

func (o *graphOp) differentiable() bool {
	if o.node.NoGrad {
		return false
	}
	for _, t := range o.tensors() {
		if t.RequiresGrad() {
			return true
		}
	}
	return false
}

// plain allocates the results of an operator that no gradient passes: masks, positions, random numbers. In-place
// forms (a name that ends in _) give their argument back.
func (o *graphOp) plain() []*eager.Tensor {
	base := o.name()
	if strings.HasSuffix(base, "_") && !strings.HasSuffix(base, "__") {
		return []*eager.Tensor{o.self()}
	}
	outs := make([]*eager.Tensor, len(o.node.Outputs))
	for i, v := range o.node.Outputs {
		if v >= 0 {
			outs[i] = o.p.Empty("aten::"+base, o.resultType(v), o.sizes(i)...)
		}
	}
	return outs
}

// resultType is the type of a result whose operator does not decide it: integers as stated; floating ones follow the
// tensors read or, for new tensors, the input of the running module: modules make them "like the input".
func (o *graphOp) resultType(v int) tensor.DType {
	d := graphType(o.Values[v].DType)
	if !d.Floating() || o.Trace != nil {
		return d
	}
	wide, found := tensor.Bool, false
	for _, t := range o.tensors() {
		if t.DType.Floating() {
			wide, found = tensor.Promote(wide, t.DType), true
		}
	}
	if found {
		return wide
	}
	return o.moduleType()
}

// moduleType is the type of the running module's input.
func (o *graphOp) moduleType() tensor.DType {
	for i := len(o.node.calls) - 1; i >= 0; i-- {
		v := o.plan.first[o.node.calls[i]]
		if v >= 0 && o.vals[v] != nil && o.vals[v].DType.Floating() {
			return o.vals[v].DType
		}
	}
	return o.spec.DType
}

// conservative runs an operator that has no function here: by what autograd's node for it saves, or, where there is no such node, as one that keeps everything,
// whose name is remembered.
func (o *graphOp) conservative() []*eager.Tensor {
	if outs, ok := o.byFormula(); ok {
		return outs
	}
	o.unknown[o.node.Target]++
	return o.keepsAll()
}

// keepsAll runs an operator whose formula keeps what it reads and what it gives.
func (o *graphOp) keepsAll() []*eager.Tensor {
	var layouts []tensor.Layout
	var types []tensor.DType
	for i, v := range o.node.Outputs {
		if v < 0 {
			continue
		}
		layouts = append(layouts, tensor.Of(o.sizes(i)...))
		types = append(types, o.resultType(v))
	}
	return o.p.Opaque(o.node.Target, layouts, types, o.tensors()...)
}

// pointwise are functions of one tensor.
var pointwise = map[string]func(*eager.Tensor) *eager.Tensor{
	"relu": (*eager.Tensor).ReLU, "relu_": (*eager.Tensor).ReLUInPlace,
	"silu": (*eager.Tensor).SiLU, "silu_": (*eager.Tensor).SiLUInPlace,
	"hardtanh": (*eager.Tensor).Hardtanh, "hardtanh_": (*eager.Tensor).HardtanhInPlace,
	"relu6": (*eager.Tensor).Hardtanh, "relu6_": (*eager.Tensor).HardtanhInPlace,
	"hardswish": (*eager.Tensor).Hardswish, "hardsigmoid": (*eager.Tensor).Hardsigmoid,
	"leaky_relu": (*eager.Tensor).LeakyReLU, "elu": (*eager.Tensor).ELU, "mish": (*eager.Tensor).Mish, "softplus": (*eager.Tensor).Softplus,
	"gelu": (*eager.Tensor).GELU, "tanh": (*eager.Tensor).Tanh, "sigmoid": (*eager.Tensor).Sigmoid, "neg": (*eager.Tensor).Neg,
	"abs": (*eager.Tensor).Abs, "sqrt": (*eager.Tensor).Sqrt, "rsqrt": (*eager.Tensor).Rsqrt, "exp": (*eager.Tensor).Exp, "log": (*eager.Tensor).Log,
	"sin": (*eager.Tensor).Sin, "cos": (*eager.Tensor).Cos, "pow": (*eager.Tensor).Pow, "floor": (*eager.Tensor).Floor, "clamp": (*eager.Tensor).Clamp,
	"roll": (*eager.Tensor).Roll, "clone": (*eager.Tensor).Clone, "detach": (*eager.Tensor).Detach, "alias": identity, "lift_fresh_copy": identity,
}

func identity(t *eager.Tensor) *eager.Tensor { return t }

// graphOps are operators with one result.
var graphOps = map[string]graphOpFunc{
	"linear": (*graphOp).linear,
	"matmul": func(o *graphOp) *eager.Tensor { return eager.Matmul(o.self(), o.second()) },
	"mm":     func(o *graphOp) *eager.Tensor { return eager.Matmul(o.self(), o.second()) },
	"_grouped_mm": func(o *graphOp) *eager.Tensor {
		return eager.GroupedMM(o.self(), o.arg("mat2"), o.arg("offs"))
	},
	"bmm":        func(o *graphOp) *eager.Tensor { return eager.Bmm(o.self(), o.second()) },
	"addmm":      (*graphOp).addmm,
	"baddbmm":    func(o *graphOp) *eager.Tensor { return eager.Bmm(o.arg("batch1"), o.arg("batch2")) },
	"einsum":     (*graphOp).einsum,
	"conv1d":     (*graphOp).convolution,
	"conv2d":     (*graphOp).convolution,
	"conv3d":     (*graphOp).convolution,
	"batch_norm": (*graphOp).batchNorm,
	"layer_norm": func(o *graphOp) *eager.Tensor {
		width := 1
		for _, n := range o.ints("normalized_shape") {
			width *= n
		}
		return eager.LayerNorm(o.self(), o.arg("weight"), o.arg("bias"), width)
	},
	"group_norm": func(o *graphOp) *eager.Tensor {
		return eager.GroupNorm(o.self(), o.arg("weight"), o.arg("bias"), o.int("num_groups", 1))
	},
	"embedding": (*graphOp).embedding,
	"dropout":   (*graphOp).dropout,
	"dropout_":  (*graphOp).dropout,
	"softmax":   (*graphOp).softmax,
	"log_softmax": func(o *graphOp) *eager.Tensor {
		return o.self().LogSoftmax(o.int("dim", -1))
	},
	"cross_entropy_loss":  (*graphOp).crossEntropy,
	"mse_loss":            func(o *graphOp) *eager.Tensor { return o.lossOf(eager.MSELoss) },
	"max_pool2d":          func(o *graphOp) *eager.Tensor { return o.self().MaxPool(o.window()) },
	"max_pool1d":          func(o *graphOp) *eager.Tensor { return o.self().MaxPool(o.window()) },
	"max_pool3d":          func(o *graphOp) *eager.Tensor { return o.self().MaxPool(o.window()) },
	"avg_pool2d":          func(o *graphOp) *eager.Tensor { return o.self().AvgPool(o.window()) },
	"avg_pool3d":          func(o *graphOp) *eager.Tensor { return o.self().AvgPool(o.window()) },
	"adaptive_avg_pool1d": func(o *graphOp) *eager.Tensor { return o.adaptive(1) },
	"adaptive_avg_pool2d": func(o *graphOp) *eager.Tensor { return o.adaptive(2) },
	"adaptive_avg_pool3d": func(o *graphOp) *eager.Tensor { return o.adaptive(3) },
	"upsample_bilinear2d": func(o *graphOp) *eager.Tensor { return o.self().Upsample(o.sizes(0)[2:]...) },
	"upsample_nearest2d":  func(o *graphOp) *eager.Tensor { return o.self().Upsample(o.sizes(0)[2:]...) },
	"upsample_bicubic2d":  func(o *graphOp) *eager.Tensor { return o.self().Upsample(o.sizes(0)[2:]...) },
	"mean":                func(o *graphOp) *eager.Tensor { return o.reduce((*eager.Tensor).Mean) },
	"sum":                 func(o *graphOp) *eager.Tensor { return o.reduce((*eager.Tensor).Sum) },
	"cat":                 (*graphOp).cat,
	"copy_":               (*graphOp).assign,
	"concat":              (*graphOp).cat,
	"stack":               func(o *graphOp) *eager.Tensor { return eager.Stack(o.int("dim", 0), o.tensors()...) },
	"index":               (*graphOp).index,
	"gather":              func(o *graphOp) *eager.Tensor { return o.self().Gather(o.arg("index")) },
	"where":               (*graphOp).where,
	"pad":                 (*graphOp).pad,
	"add":                 func(o *graphOp) *eager.Tensor { return o.binary((*eager.Tensor).Add, (*eager.Tensor).AddScalar) },
	"sub":                 func(o *graphOp) *eager.Tensor { return o.binary((*eager.Tensor).Sub, (*eager.Tensor).AddScalar) },
	"rsub":                func(o *graphOp) *eager.Tensor { return o.binary((*eager.Tensor).Sub, (*eager.Tensor).Neg) },
	"mul":                 func(o *graphOp) *eager.Tensor { return o.binary((*eager.Tensor).Mul, (*eager.Tensor).MulScalar) },
	"div":                 func(o *graphOp) *eager.Tensor { return o.binary((*eager.Tensor).Div, (*eager.Tensor).DivScalar) },
	"maximum":             func(o *graphOp) *eager.Tensor { return o.self().Maximum(o.second()) },
	"add_":                func(o *graphOp) *eager.Tensor { return o.binary((*eager.Tensor).AddInPlace, identity) },
	"mul_": func(o *graphOp) *eager.Tensor {
		return o.binary((*eager.Tensor).MulInPlace, (*eager.Tensor).MulScalarInPlace)
	},
	"div_": func(o *graphOp) *eager.Tensor {
		return o.binary((*eager.Tensor).MulInPlace, (*eager.Tensor).MulScalarInPlace)
	},
	"masked_fill":                  func(o *graphOp) *eager.Tensor { return o.self().MaskedFill(o.arg("mask")) },
	"masked_fill_":                 func(o *graphOp) *eager.Tensor { return o.self().MaskedFillInPlace(o.arg("mask")) },
	"to":                           (*graphOp).convert,
	"type_as":                      func(o *graphOp) *eager.Tensor { return o.self().To(o.second().DType) },
	"scaled_dot_product_attention": (*graphOp).attention,
	"plimsoll.flash_attention":     (*graphOp).flash,
	"plimsoll.function":            (*graphOp).function,
}

// scalar tells whether the operator's result is one number, as losses are that are not told reduction="none".
func (o *graphOp) scalar() bool { return len(o.sizes(0)) == 0 }

// lossOf runs a loss of two tensors: one number, or one for each element.
func (o *graphOp) lossOf(reduced func(a, b *eager.Tensor) *eager.Tensor) *eager.Tensor {
	if !o.scalar() {
		return eager.EachLoss(o.self(), o.arg("target"))
	}
	return reduced(o.self(), o.arg("target"))
}

// nll runs nll_loss: one number, or one for each target.
func (o *graphOp) nll(logp *eager.Tensor) *eager.Tensor {
	if target := o.arg("target"); !o.scalar() && target.Rank() > 0 {
		return eager.NLLEach(logp, target)
	}
	return eager.NLLLoss(logp, o.arg("target"))
}

func (o *graphOp) crossEntropy() *eager.Tensor {
	logits, target := o.self(), o.arg("target")
	switch {
	case target.DType.Floating() && target.Rank() == logits.Rank() && logits.Rank() > 1:
		return eager.SoftCrossEntropy(logits, target, o.scalar())
	case o.scalar():
		return eager.CrossEntropy(logits, target)
	}
	return o.nll(logits.LogSoftmax(1))
}

// second is the operator's second tensor.
func (o *graphOp) second() *eager.Tensor {
	all := o.tensors()
	if len(all) < 2 {
		panic(eager.Fault(o.node.Target + " without a second tensor"))
	}
	return all[1]
}

func (o *graphOp) convolution() *eager.Tensor {
	c := eager.Conv{Window: eager.Window{Stride: o.ints("stride"), Padding: o.ints("padding"), Dilation: o.ints("dilation")}, Groups: o.int("groups", 1)}
	x := o.self()
	if a, ok := o.node.Arg("padding"); ok && a.Kind == exported.String && a.Text == "same" {
		sizes, odd := slices.Clone(x.Sizes), false
		for i, k := range o.arg("weight").Sizes[2:] {
			dilation := 1
			if i < len(c.Dilation) {
				dilation = c.Dilation[i]
			}
			total := dilation * (k - 1)
			c.Padding = append(c.Padding, total/2)
			if at := len(sizes) - len(o.arg("weight").Sizes[2:]) + i; total%2 == 1 {
				sizes[at]++
				odd = true
			}
		}
		if odd { // one more on one side: https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/Convolution.cpp, _convolution_same
			x = x.PadTo(sizes...)
		}
	}
	return o.convolve(x, c)
}

func (o *graphOp) batchNorm() *eager.Tensor {
	if !o.node.Bool("training", true) {
		o.unknown["aten.batch_norm in evaluation"]++
	}
	return eager.BatchNorm(o.self(), o.arg("weight"), o.arg("bias"), o.arg("running_mean"), o.arg("running_var"))
}

func (o *graphOp) window() eager.Window {
	w := eager.Window{Kernel: o.ints("kernel_size"), Stride: o.ints("stride"), Padding: o.ints("padding"), Dilation: o.ints("dilation"), CeilMode: o.node.Bool("ceil_mode", false)}
	if len(w.Stride) == 0 {
		w.Stride = w.Kernel
	}
	return w
}

func (o *graphOp) adaptive(rank int) *eager.Tensor {
	sizes := o.sizes(0)
	return o.self().AdaptiveAvgPool(sizes[len(sizes)-rank:]...)
}

func (o *graphOp) dropout() *eager.Tensor {
	p := o.node.Float("p", 0)
	switch {
	case !o.node.Bool("train", true):
		return o.self()
	case strings.HasPrefix(o.node.Target, "aten.dropout_"):
		return o.self().DropoutInPlace(p)
	}
	return o.self().Dropout(p)
}

func (o *graphOp) softmax() *eager.Tensor {
	dim := o.int("dim", -1)
	if a, ok := o.node.Arg("dtype"); ok && a.Kind == exported.Scalar {
		return o.self().SoftmaxTo(dim, graphType(a.DType))
	}
	return o.self().Softmax(dim)
}

func (o *graphOp) reduce(f func(t *eager.Tensor, keep bool, dims ...int) *eager.Tensor) *eager.Tensor {
	return f(o.self(), o.node.Bool("keepdim", false), o.ints("dim")...)
}

// binary runs an operator on two tensors, or on a tensor and a number.
func (o *graphOp) binary(two func(a, b *eager.Tensor) *eager.Tensor, scalar func(*eager.Tensor) *eager.Tensor) *eager.Tensor {
	all := o.tensors()
	if len(all) == 2 {
		return two(all[0], all[1])
	}
	return scalar(o.self())
}

// cat leaves out what torch.cat leaves out: tensors of shape [0], which caches begin with.
func (o *graphOp) cat() *eager.Tensor {
	all := o.tensors()
	some := slices.DeleteFunc(slices.Clone(all), func(t *eager.Tensor) bool { return len(t.Sizes) == 1 && t.Sizes[0] == 0 })
	if len(some) == 0 {
		return o.plain()[0]
	}
	return eager.Cat(o.int("dim", 0), some...)
}

// assign writes into a tensor or a part of one: history is that of the tensor the part belongs to.
func (o *graphOp) assign() *eager.Tensor {
	all, part := o.tensors(), o.self()
	if len(all) < 2 {
		return part
	}
	whole, parts := o.whole()
	whole.AssignInPlace(all[1])
	o.written(whole, parts)
	return part
}

// viewing tells whether an operator gives a part of its input, without memory of its own.
func viewing(target string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(target, "aten."), ".")
	return slices.Contains([]string{"select", "slice", "view", "unsqueeze", "squeeze", "transpose", "permute", "expand", "alias", "narrow", "t", "diagonal", "as_strided"}, name)
}

func (o *graphOp) where() *eager.Tensor {
	all := o.tensors()
	switch len(all) {
	case 3:
		return eager.Where(all[0], all[1], all[2])
	case 2: // the other is a number, of which where makes a tensor: https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/TensorCompare.cpp, where
		return eager.Where(all[0], all[1], o.p.Empty("aten::scalar_tensor", all[1].DType))
	}
	return o.p.Empty("aten::where", o.resultType(o.node.Outputs[0]), o.sizes(0)...)
}

// index is advanced indexing; with one index it has a formula of its own.
func (o *graphOp) index() *eager.Tensor {
	self := o.self()
	if !self.RequiresGrad() {
		return o.plain()[0]
	}
	a, _ := o.node.Arg("indices")
	last, count := len(a.Values)-1, 0
	for _, v := range a.Values {
		if v >= 0 {
			count++
		}
	}
	if count == 1 && a.Values[last] >= 0 {
		return self.Index(last, o.vals[a.Values[last]])
	}
	return o.conservative()[0]
}

// convert is tensor.to(dtype). A conversion to the trace's own type may mean "the type of the input": only the source line
// tells (x.to(torch.float32) against x.to(input_dtype)).
func (o *graphOp) convert() *eager.Tensor {
	self := o.self()
	d := graphType(o.Values[o.node.Outputs[0]].DType)
	if o.Trace != nil {
		if o.straightened() {
			return self.ToContiguous(d)
		}
		return self.To(d)
	}
	if !d.Floating() || !self.DType.Floating() {
		if d.Floating() && !o.saysFloat() {
			d = o.moduleType()
		}
		return self.To(d)
	}
	if o.saysFloat() {
		return self.To(d)
	}
	return self.To(o.moduleType())
}

// straightened tells whether the trace turned a tensor that is not contiguous into one that is: to(memory_format=torch.contiguous_format).
func (o *graphOp) straightened() bool {
	in := o.node.Tensor("self")
	return in >= 0 && !o.contiguous(in) && o.contiguous(o.node.Outputs[0])
}

func (o *graphOp) contiguous(value int) bool {
	v := &o.Values[value]
	l := tensor.Layout{Sizes: o.Dims(v.Sizes), Strides: o.Dims(v.Strides)}
	return l.IsContiguous()
}

// saysFloat tells whether the source line asks for fp32 in so many words.
func (o *graphOp) saysFloat() bool {
	code := o.node.Source.Code
	return inLoss(&o.node.Node) || strings.Contains(code, "float32") || strings.Contains(code, ".float()") || strings.Contains(code, "torch.float)") || strings.Contains(code, "torch.float,")
}
