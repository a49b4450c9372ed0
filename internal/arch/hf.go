package arch

import (
	"fmt"

	"github.com/plimsoll/plimsoll/internal/eager"
	"github.com/plimsoll/plimsoll/internal/tensor"
)

// What the families of transformers share: activations, attention interfaces, checkpointed layers, batches.

// activation is ACT2FN[name]: modules without parameters, so each call holds its argument.
func activation(m *eager.Module, name string) (func(*eager.Tensor) *eager.Tensor, error) {
	fn, ok := map[string]func(*eager.Tensor) *eager.Tensor{
		"silu":                 (*eager.Tensor).SiLU,
		"swish":                (*eager.Tensor).SiLU,
		"gelu":                 (*eager.Tensor).GELU,
		"gelu_pytorch_tanh":    (*eager.Tensor).GELU,
		"gelu_python":          (*eager.Tensor).GELU,
		"gelu_new":             newGELU,
		"gelu_fast":            newGELU,
		"relu":                 (*eager.Tensor).ReLU,
		"tanh":                 (*eager.Tensor).Tanh,
		"sigmoid":              (*eager.Tensor).Sigmoid,
		"gelu_accurate_approx": newGELU,
	}[name]
	if !ok {
		return nil, fmt.Errorf("activation %q is not written here", name)
	}
	child := m.Child("act_fn")
	return func(x *eager.Tensor) *eager.Tensor {
		c := child.Enter(x)
		return c.Return(fn(x))
	}, nil
}

// newGELU is NewGELUActivation: 0.5 * x * (1 + tanh(√(2/π) * (x + 0.044715 * x³))), eight operators.
func newGELU(x *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(x)
	half := c.Let(x.MulScalar())
	inner := x.Add(x.Pow().MulScalar()).MulScalar()
	return c.Return(half.Mul(inner.Tanh().AddScalar()))
}

// repeatKV is repeat_kv: heads repeated for grouped-query attention.
func repeatKV(x *eager.Tensor, times int) *eager.Tensor {
	if times == 1 {
		return x
	}
	return x.RepeatInterleave(times, 1)
}

// attention is the interface both implementations share.
type attention struct {
	impl    string
	dropout float64
	causal  bool
	groups  int // query heads a key head serves; 0 and 1: no grouping
}

// forward is ALL_ATTENTION_FUNCTIONS[impl]: [batch, heads, seq, dim] in, [batch, seq, heads, dim] out.
func (a attention) forward(q, k, v, mask *eager.Tensor) *eager.Tensor {
	if a.impl == "eager" {
		return a.eager(q, k, v, mask)
	}
	return a.sdpa(q, k, v, mask)
}

// sdpa is integrations/sdpa_attention.py.
func (a attention) sdpa(q, k, v, mask *eager.Tensor) *eager.Tensor {
	c := q.Process().Function(q, k, v, mask)
	gqa := false
	if a.groups > 1 {
		if gqa = mask == nil && k.Dim(-1) == v.Dim(-1) && v.Dim(-1) <= 256; !gqa {
			c.Set(&k, repeatKV(k, a.groups))
			c.Set(&v, repeatKV(v, a.groups))
		}
	}
	causal := a.causal && mask == nil && q.Dim(2) > 1
	out := c.Let(eager.ScaledDotProduct(q, k, v, eager.Attention{Mask: mask, Dropout: a.dropout, Causal: causal, GQA: gqa}))
	c.Set(&out, out.Transpose(1, 2).Contiguous())
	return c.Return(out)
}

// eager is eager_attention_forward of modeling_llama.py and its copies.
func (a attention) eager(q, k, v, mask *eager.Tensor) *eager.Tensor {
	c := q.Process().Function(q, k, v, mask)
	key := c.Let(repeatKV(k, max(a.groups, 1)))
	value := c.Let(repeatKV(v, max(a.groups, 1)))
	weights := c.Let(eager.Matmul(q, key.Transpose(2, 3)).MulScalar())
	if mask != nil {
		c.Set(&weights, weights.Add(mask))
	}
	c.Set(&weights, weights.SoftmaxTo(-1, tensor.Float32).To(q.DType))
	c.Set(&weights, weights.Dropout(a.dropout))
	out := c.Let(eager.Matmul(weights, value))
	c.Set(&out, out.Transpose(1, 2).Contiguous())
	return c.Return(out)
}

// layer runs a GradientCheckpointingLayer: checkpointed (non-reentrant) or plain. args are the tensors it is given.
func layer(p *eager.Process, checkpointed bool, run func() *eager.Tensor, args ...*eager.Tensor) *eager.Tensor {
	if !checkpointed {
		return run()
	}
	return p.Checkpoint(func() []*eager.Tensor { return []*eager.Tensor{run()} }, args...)[0]
}

// positionIDs is torch.arange(seq) + past_seen_tokens: two tensors for a moment.
func positionIDs(p *eager.Process, seq int) *eager.Tensor {
	return p.Empty("position_ids", tensor.Int64, 1, seq).AddScalar()
}

// causalMask is create_causal_mask (masking_utils.py) without padding: it looks for packed sequences, then makes nothing for sdpa (eager
// execution skips the mask) and a float [batch, 1, seq, seq] of the embedding's type for eager attention.
func causalMask(s Spec, p *eager.Process, d tensor.DType) *eager.Tensor {
	c := p.Function()
	c.Let(p.Empty("position_diff", tensor.Int64, s.Batch, 1))
	prepended := p.Empty("position_diff", tensor.Int64, s.Batch, s.Seq+1)
	c.Let(p.Empty("position_diff", tensor.Int64, s.Batch, s.Seq))
	prepended.Drop()
	unequal := p.Empty("packed_sequence_mask", tensor.Bool, s.Batch, s.Seq)
	c.Let(p.Empty("packed_sequence_mask", tensor.Int64, s.Batch, s.Seq))
	p.Empty("packed_sequence_mask", tensor.Int64, s.Batch, s.Seq).Drop()
	unequal.Drop()
	c.ReturnAll()
	if s.Attn != "eager" {
		return nil
	}
	return p.Empty("causal_mask", d, s.Batch, 1, s.Seq, s.Seq)
}

// causalTokens allocates the inputs of a decoder: the labels are the ids themselves.
func causalTokens(p *eager.Process, s Spec) []*eager.Tensor {
	ids := p.Input("input_ids", tensor.Int64, s.Batch, s.Seq)
	return []*eager.Tensor{ids, ids}
}
