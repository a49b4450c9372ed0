package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/setup"
)

// What the families of transformers share: activations, attention interfaces, checkpointed layers, batches.

// repeatKV is repeat_kv: heads repeated for grouped-query attention.
func repeatKV(x *eager.Tensor, times int) *eager.Tensor {
	if times == 1 {
		return x
	}
	return x.RepeatInterleave(times, 1)
}

// flash is the word for flash-attn 2 among attention implementations.
const flash = string(setup.FlashAttention2)

// attention is the interface that all implementations share.
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
	switch a.impl {
	case "eager":
		return a.eager(q, k, v, mask)
	case flash:
		return a.flash(q, k, v, mask), nil
	}
	return a.sdpa(q, k, v, mask), nil
}

// flash is integrations/flash_attention.py: [batch, seq, heads, dim] without copies of grouped keys and values. Where some token is padding (mask is then [batch, seq]), the tokens
// that are none follow each other, and their results are written back to where they were (_upad_input and pad_input of modeling_flash_attention_utils.py); all count here, as of the longest batch.
func (a attention) flash(q, k, v, mask *eager.Tensor) *eager.Tensor {
	p := q.Process()
	c := p.Function(q, k, v, mask)
	given := []*eager.Tensor{q, k, v}
	for i := range given {
		c.Set(&given[i], given[i].Transpose(1, 2))
	}
	if d, on := p.Autocasting(); on && q.DType == tensor.Float32 { // fa_peft_integration_check
		for i := range given {
			c.Set(&given[i], given[i].To(d))
		}
	}
	options := eager.Flash{Dropout: a.dropout, Causal: a.causal}
	if mask == nil {
		return c.Return(eager.FlashAttention(given[0], given[1], given[2], options))
	}
	batch, rows, columns := given[0].Dim(0), given[0].Dim(1), given[1].Dim(1)
	indices := c.Let(p.Empty("aten::nonzero", tensor.Int64, batch*columns))
	for _, i := range []int{1, 2, 0} {
		x := given[i]
		if i == 0 && rows != columns {
			indices = c.Let(p.Empty("aten::nonzero", tensor.Int64, batch*rows))
		}
		c.Set(&given[i], x.Reshape(-1, x.Dim(2), x.Dim(3)).Index(0, indices))
	}
	options.Samples = batch
	out := c.Let(eager.FlashAttention(given[0], given[1], given[2], options))
	whole := c.Let(p.Empty("aten::zeros", out.DType, batch*rows, out.Dim(1), out.Dim(2)))
	p.Formula(eager.Formula{Op: "aten::index_put_", Inputs: []*eager.Tensor{whole, out}, Saved: []*eager.Tensor{indices}, Target: whole})
	return c.Return(whole.View(batch, rows, out.Dim(1), out.Dim(2)))
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
