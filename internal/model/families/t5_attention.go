package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// t5Attention is T5LayerSelfAttention or T5LayerCrossAttention around T5Attention.
type t5Attention struct {
	*eager.Module
	inner      *eager.Module
	q, k, v, o *eager.LinearModule
	buckets    *eager.EmbeddingModule // relative_attention_bias, in the first block
	norm       *t5Norm
	drop       *eager.DropoutModule
	head       int
	impl       string
	dropout    float64
	causal     bool
	learned    bool // gradient checkpointing makes the zeros of cross-attention require a gradient
}

func newT5Attention(m *eager.Module, name string, c *hfconfig.Config, s Spec) *t5Attention {
	width, inner := c.Int("d_model"), c.Int("num_heads")*c.Int("d_kv")
	a := &t5Attention{Module: m, inner: m.Child(name), head: c.Int("d_kv"), impl: s.Attn, dropout: c.Float("dropout_rate")}
	a.learned = s.Checkpointing
	a.q = a.inner.Linear("q", width, inner, false)
	a.k = a.inner.Linear("k", width, inner, false)
	a.v = a.inner.Linear("v", width, inner, false)
	a.o = a.inner.Linear("o", inner, width, false)
	return a
}

// addNorm registers what comes after the attention's own parameters.
func (a *t5Attention) addNorm(c *hfconfig.Config) {
	a.norm = newT5Norm(a.Module, "layer_norm", c.Int("d_model"))
	a.drop = a.Dropout("dropout", c.Float("dropout_rate"))
}

func (a *t5Attention) forward(hidden, mask, source, bias *eager.Tensor, cache *kvCache) (out, usedBias, weights *eager.Tensor) {
	c := a.Enter(hidden, mask, source, bias)
	normed := c.Let(a.norm.forward(hidden))
	out, usedBias, weights = a.attend(normed, mask, source, bias, cache)
	c.Let(out)
	c.Let(usedBias)
	c.Let(weights)
	c.Set(&out, hidden.Add(a.drop.Forward(out)))
	c.ReturnAll(out, usedBias, weights)
	return out, usedBias, weights
}

// attend is T5Attention.forward.
func (a *t5Attention) attend(hidden, mask, source, bias *eager.Tensor, cache *kvCache) (out, usedBias, weights *eager.Tensor) {
	c := a.inner.Enter(hidden, mask, source, bias)
	batch, seq := hidden.Dim(0), hidden.Dim(1)
	split := func(x *eager.Tensor) *eager.Tensor {
		return c.Let(x.View(batch, -1, x.Dim(2)/a.head, a.head).Transpose(1, 2))
	}
	if source == nil {
		source = hidden
	}
	q := split(a.q.Forward(hidden))
	k := split(a.k.Forward(source))
	v := split(a.v.Forward(source))
	cache.update(c, &k, &v)
	if bias == nil {
		bias = c.Let(a.positions(q, k))
	}
	out, weights = a.mix(q, k, v, mask, bias)
	c.Let(out)
	c.Let(weights)
	c.Set(&out, out.Reshape(batch, seq, -1).Contiguous())
	c.Set(&out, a.o.Forward(out))
	c.ReturnAll(out, bias, weights)
	return out, bias, weights
}

// mix is the attention function with a position bias.
func (a *t5Attention) mix(q, k, v, mask, bias *eager.Tensor) (out, weights *eager.Tensor) {
	if a.impl == "eager" {
		return a.eager(q, k, v, mask, bias)
	}
	p := q.Process()
	c := p.Function(q, k, v, mask, bias)
	both := c.Let(a.biasMask(q, k, mask, bias))
	out = c.Let(eager.ScaledDotProduct(q, k, v, eager.Attention{Mask: both, Dropout: a.dropout}))
	c.Set(&out, out.Transpose(1, 2).Contiguous())
	return c.Return(out), nil
}

// biasMask is create_position_bias_mask (integrations/sdpa_attention.py).
func (a *t5Attention) biasMask(q, k, mask, bias *eager.Tensor) *eager.Tensor {
	if mask != nil {
		return eager.Where(mask, bias, q.Process().Empty("aten::scalar_tensor", bias.DType))
	}
	if !a.causal || q.Dim(2) == 1 {
		return bias
	}
	p := q.Process()
	c := p.Function(q, k, bias)
	rows := p.Empty("aten::arange", tensor.Int64, q.Dim(2))
	cols := p.Empty("aten::arange", tensor.Int64, k.Dim(2))
	causal := c.Let(p.Empty("aten::ge", tensor.Bool, 1, 1, q.Dim(2), k.Dim(2)))
	rows.Drop()
	cols.Drop()
	return c.Return(eager.Where(causal, bias, p.Empty("aten::scalar_tensor", bias.DType)))
}

// eager is eager_attention_forward of modeling_t5.py.
func (a *t5Attention) eager(q, k, v, mask, bias *eager.Tensor) (out, weights *eager.Tensor) {
	c := q.Process().Function(q, k, v, mask, bias)
	weights = c.Let(eager.Matmul(q, k.Transpose(2, 3)).MulScalar())
	c.Set(&weights, weights.Add(bias))
	if mask != nil {
		c.Set(&weights, weights.Add(mask))
	}
	c.Set(&weights, weights.Softmax(-1))
	c.Set(&weights, weights.Dropout(a.dropout))
	out = c.Let(eager.Matmul(weights, v))
	c.Set(&out, out.Transpose(1, 2).Contiguous())
	c.ReturnAll(out, weights)
	return out, weights
}

// positions is what takes the place of a bias that is not given: the relative one in the first self-attention, zeros else.
func (a *t5Attention) positions(q, k *eager.Tensor) *eager.Tensor {
	p := q.Process()
	if a.buckets == nil {
		zeros := p.Empty("aten::zeros", q.DType, 1, q.Dim(1), q.Dim(2), k.Dim(2))
		if a.learned {
			zeros.RequireGrad()
		}
		return zeros
	}
	c := p.Function(q, k)
	rows, cols := q.Dim(2), k.Dim(2)
	context := c.Let(p.Empty("aten::arange", tensor.Int64, rows, 1).AddScalar())
	memory := c.Let(p.Empty("aten::arange", tensor.Int64, 1, cols))
	relative := c.Let(memory.Sub(context))
	bucket := c.Let(a.bucket(relative))
	values := c.Let(a.buckets.Forward(bucket))
	c.Set(&values, values.Permute(2, 0, 1).Unsqueeze(0))
	return c.Return(values)
}

// bucket is _relative_position_bucket.
func (a *t5Attention) bucket(relative *eager.Tensor) *eager.Tensor {
	p := relative.Process()
	c := p.Function(relative)
	like := func(op string, d tensor.DType) *eager.Tensor { return p.Empty(op, d, relative.Sizes...) }
	var buckets *eager.Tensor
	if !a.causal {
		buckets = c.Let(like("aten::gt", tensor.Bool).To(tensor.Int64).MulScalar().AddScalar())
		c.Set(&relative, relative.Abs())
	} else {
		zeros := like("aten::zeros_like", tensor.Int64)
		smaller := like("aten::minimum", tensor.Int64)
		zeros.Drop()
		c.Set(&relative, smaller.Neg())
	}
	small := c.Let(like("aten::lt", tensor.Bool))
	large := c.Let(relative.Float().DivScalar().Log().DivScalar().MulScalar().To(tensor.Int64).AddScalar())
	limit := like("aten::full_like", tensor.Int64)
	c.Set(&large, like("aten::minimum", tensor.Int64))
	limit.Drop()
	picked := eager.Where(small, relative, large)
	if buckets == nil {
		return c.Return(c.Let(picked.AddScalar()))
	}
	return c.Return(buckets.AddInPlace(picked))
}
