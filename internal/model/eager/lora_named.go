package eager

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// named is a module that PEFT puts adapters beside where a target names it, and that all-linear leaves alone: a convolution or a table of embeddings
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/lora/layer.py, dispatch_default).
type named interface {
	at() string
	adapt(LoRA) error
}

func (m *Module) at() string { return m.path }

// attachNamed gives the modules that targets name adapters.
func (m *Module) attachNamed(o LoRA) (attached int, err error) {
	for _, n := range m.root.named {
		if !o.meets(n.at()) {
			continue
		}
		if err := n.adapt(o); err != nil {
			return attached, fmt.Errorf("lora_targets: %s %w", n.at(), err)
		}
		attached++
	}
	return attached, nil
}

// AsConv makes an nn.ConvNd of a module whose parameters are registered, so that it can get adapters. How it is called is told with each call.
func (m *Module) AsConv(weight, bias *Tensor, groups int) *ConvModule {
	l := &ConvModule{Module: m, Weight: weight, Bias: bias, Args: Conv{Groups: max(groups, 1)}}
	m.root.named = append(m.root.named, l)
	return l
}

// Adapted tells whether the convolution has adapters beside it.
func (l *ConvModule) Adapted() bool { return l.lora != nil }

// adapt is _ConvNd.update_layer: a convolution of the same kernel to as many channels as the rank, whatever the groups, and one of single points in as many groups
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/lora/layer.py, class _ConvNd).
func (l *ConvModule) adapt(o LoRA) error {
	groups := max(l.Args.Groups, 1)
	if o.Rank%groups != 0 {
		return fmt.Errorf("is a convolution of %d groups: PEFT needs a lora_rank that is a multiple of it", groups)
	}
	out, in, kernel := l.Weight.Dim(0), l.Weight.Dim(1)*groups, l.Weight.Sizes[2:]
	points := slices.Repeat([]int{1}, len(kernel))
	d := o.adapterType(l.dtype)
	made := &adapter{dropout: o.Dropout}
	made.a = l.Child("lora_A").Child("default").ParamOf("weight", d, append([]int{o.Rank, in}, kernel...)...)
	made.b = l.Child("lora_B").Child("default").ParamOf("weight", d, append([]int{out, o.Rank / groups}, points...)...)
	if o.DoRA {
		made.magnitude = l.Child("lora_magnitude_vector").Child("default").ParamOf("weight", tensor.Float32, append([]int{1, out}, points...)...)
	}
	l.lora = made
	return nil
}

// Call is _ConvNd.forward of a layer with adapters: the base layer, and the adapter on the input in the adapter's type. PEFT's adapters know of no dilation.
func (l *ConvModule) Call(x *Tensor, args Conv) *Tensor {
	if slices.ContainsFunc(args.Dilation, func(n int) bool { return n > 1 }) {
		panic(fault("%s is a dilated convolution: PEFT's adapters beside it give another size, so that it fails as well; leave it out of lora_targets", l.path))
	}
	c := l.Enter(x)
	result := c.Let(Convolution(x, l.Weight, l.Bias, args))
	d := result.DType
	cast := c.Let(x.To(l.lora.a.DType))
	if l.lora.magnitude != nil {
		c.Set(&result, result.Add(l.dora(cast, result, args)))
	} else {
		c.Set(&result, result.Add(l.delta(cast.Dropout(l.lora.dropout), args).MulScalar()))
	}
	c.Set(&result, result.To(d))
	return c.Return(result)
}

// delta is lora_B(lora_A(x)).
func (l *ConvModule) delta(x *Tensor, args Conv) *Tensor {
	groups := max(args.Groups, 1)
	args.Groups = 1
	return Convolution(Convolution(x, l.lora.a, nil, args), l.lora.b, nil, Conv{Groups: groups})
}

// dora is _DoraConvNdLayer.forward (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/lora/dora.py, class _DoraConvNdLayer).
func (l *ConvModule) dora(x, base *Tensor, args Conv) *Tensor {
	p, lora := x.p, l.lora
	c := p.Function(x, base)
	if lora.dropout > 0 {
		x = c.Let(x.Dropout(lora.dropout))
	}
	rank := lora.a.Dim(0)
	low := c.Let(Matmul(lora.b.View(-1, rank), lora.a.View(rank, -1)).Reshape(l.Weight.Sizes...))
	var norm *Tensor
	p.NoGrad(func() {
		sum := l.Weight.Add(low.Detach().MulScalar())
		dims := make([]int, sum.Rank()-1)
		for i := range dims {
			dims[i] = i + 1
		}
		norm = c.Let(p.reduceDims(sum, dims, sum.DType).Transpose(0, 1))
		drop(sum)
	})
	scale := c.Let(lora.magnitude.Div(norm))
	switch {
	case lora.dropout > 0:
		base = c.Let(Convolution(x, l.Weight, nil, args))
	case l.Bias != nil:
		base = c.Let(base.Sub(l.Bias.View(append([]int{1, -1}, slices.Repeat([]int{1}, base.Rank()-2)...)...)))
	}
	return c.Return(scale.AddScalar().Mul(base).Add(scale.Mul(l.delta(x, args)).MulScalar()))
}

// AsTable makes an nn.Embedding of a module whose parameter is registered, so that it can get adapters.
func (m *Module) AsTable(weight *Tensor, scaled bool) *EmbeddingModule {
	e := &EmbeddingModule{Module: m, Weight: weight, scaled: scaled}
	m.root.named = append(m.root.named, e)
	return e
}

// Adapted tells whether the table has adapters beside it.
func (e *EmbeddingModule) Adapted() bool { return e.lora != nil }

// adapt is Embedding.update_layer: a table as wide as the rank, and a matrix
// (https://github.com/huggingface/peft/blob/v0.18.0/src/peft/tuners/lora/layer.py, class Embedding).
func (e *EmbeddingModule) adapt(o LoRA) error {
	rows, width := e.Weight.Dim(0), e.Weight.Dim(1)
	d := o.adapterType(e.dtype)
	made := &adapter{}
	made.a = e.Child("lora_embedding_A").ParamOf("default", d, o.Rank, rows)
	made.b = e.Child("lora_embedding_B").ParamOf("default", d, width, o.Rank)
	if o.DoRA {
		made.magnitude = e.Child("lora_magnitude_vector").Child("default").ParamOf("weight", tensor.Float32, width)
	}
	e.lora = made
	return nil
}

// Call is Embedding.forward of a table with adapters. The table's own multiplication by a number, where it has one, is an operator of the model's that follows;
// PEFT repeats it on what the adapter gives.
func (e *EmbeddingModule) Call(indices *Tensor) *Tensor {
	c := e.Enter(indices)
	result := c.Let(Embedding(indices, e.Weight))
	d := result.DType
	var scale *Tensor
	if e.lora.magnitude != nil {
		scale = c.Let(e.dora())
	}
	after := c.Let(Embedding(indices, e.lora.a.Transpose(0, 1)))
	delta := Matmul(after, e.lora.b.Transpose(0, 1))
	if scale != nil {
		delta = scale.Mul(delta)
	}
	delta = c.Let(delta.MulScalar())
	if e.scaled {
		c.Set(&delta, delta.MulScalar())
	}
	if scale != nil {
		c.Set(&result, scale.Mul(result).Add(delta))
	} else {
		c.Set(&result, result.Add(delta))
	}
	c.Set(&result, result.To(d))
	return c.Return(result)
}

// dora is what DoraEmbeddingLayer scales by: magnitude over the norm of the adapted table, which is computed without a gradient.
func (e *EmbeddingModule) dora() *Tensor {
	p, lora := e.p, e.lora
	c := p.Function()
	low := c.Let(Matmul(lora.a.Transpose(0, 1), lora.b.Transpose(0, 1)).Transpose(0, 1))
	var norm *Tensor
	p.NoGrad(func() {
		sum := e.Weight.Transpose(0, 1).Add(low.Detach().MulScalar())
		norm = c.Let(p.reduceDims(sum, []int{1}, sum.DType).Squeeze(1))
		drop(sum)
	})
	return c.Return(lora.magnitude.Div(norm))
}
