package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// What the families of transformers share: activations, attention interfaces, checkpointed layers, batches.

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
	groups  int  // query heads a key head serves; 0 and 1: no grouping
	plain   bool // eager: softmax in the type autocast or the scores give, without a cast back (BERT and its kin)
	softcap bool // eager: scores go through softcap * tanh(scores / softcap)
	cache   *kvCache
}

// projectHeads is how attention of most models ends: the heads side by side, through the output projection. It returns from the call c.
func projectHeads(c *eager.Call, projection *eager.LinearModule, out, weights *eager.Tensor) (*eager.Tensor, *eager.Tensor) {
	c.Let(out)
	c.Let(weights)
	c.Set(&out, out.Reshape(out.Dim(0), out.Dim(1), -1).Contiguous())
	c.Set(&out, projection.Forward(out))
	c.ReturnAll(out, weights)
	return out, weights
}

// forward is ALL_ATTENTION_FUNCTIONS[impl]: [batch, heads, seq, dim] in, [batch, seq, heads, dim] out, and the
// probabilities where they exist (eager): the caller has a name for them too.
func (a attention) forward(q, k, v, mask *eager.Tensor) (out, weights *eager.Tensor) {
	if a.impl == "eager" {
		return a.eager(q, k, v, mask)
	}
	return a.sdpa(q, k, v, mask), nil
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
func (a attention) eager(q, k, v, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := q.Process().Function(q, k, v, mask)
	key := c.Let(repeatKV(k, max(a.groups, 1)))
	value := c.Let(repeatKV(v, max(a.groups, 1)))
	weights = c.Let(eager.Matmul(q, key.Transpose(2, 3)).MulScalar())
	if a.softcap {
		c.Set(&weights, weights.DivScalar())
		c.Set(&weights, weights.Tanh())
		c.Set(&weights, weights.MulScalar())
	}
	if mask != nil {
		c.Set(&weights, weights.Add(mask))
	}
	if a.plain {
		c.Set(&weights, weights.Softmax(-1))
	} else {
		c.Set(&weights, weights.SoftmaxTo(-1, tensor.Float32).To(q.DType))
	}
	c.Set(&weights, weights.Dropout(a.dropout))
	out = c.Let(eager.Matmul(weights, value))
	c.Set(&out, out.Transpose(1, 2).Contiguous())
	c.ReturnAll(out, weights)
	return out, weights
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
