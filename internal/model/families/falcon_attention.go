package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// falconAttention is FalconAttention: one fused projection, cut in one of three ways.
type falconAttention struct {
	*eager.Module
	qkv, dense      falconLinear
	heads, head, kv int // kv: key heads as config.num_kv_heads has them
	newer, multi    bool
	impl            string
	drop            *eager.DropoutModule
	cache           *kvCache
}

func newFalconAttention(m *eager.Module, c *hfconfig.Config, s Spec) *falconAttention {
	hidden, heads := c.Int("hidden_size"), c.Int("num_attention_heads")
	a := &falconAttention{Module: m, heads: heads, head: hidden / heads, kv: c.Int("num_kv_heads"),
		newer: c.Bool("new_decoder_architecture"), multi: c.Bool("multi_query"), impl: s.Attn, cache: s.cache}
	width := 3 * hidden
	switch {
	case a.newer:
		width = (2*a.kv + heads) * a.head
	case a.multi:
		width = hidden + 2*a.head
	}
	a.qkv = falconLinear{m.Linear("query_key_value", hidden, width, c.Bool("bias"))}
	a.dense = falconLinear{m.Linear("dense", hidden, hidden, c.Bool("bias"))}
	a.drop = m.Dropout("attention_dropout", c.Float("attention_dropout"))
	return a
}

func (a *falconAttention) forward(in falconInputs) (out, weights *eager.Tensor) {
	c := a.Enter(in.hidden, in.alibi, in.mask, in.cos, in.sin)
	batch, seq := in.hidden.Dim(0), in.hidden.Dim(1)
	fused := c.Let(a.qkv.forward(in.hidden))
	parts := c.Lets(a.split(fused))
	for i := range parts {
		c.Set(&parts[i], parts[i].Transpose(1, 2).Reshape(batch, -1, seq, a.head))
	}
	q, k, v := parts[0], parts[1], parts[2]
	if in.alibi == nil {
		qe, ke := applyRotary(q, k, in.cos, in.sin)
		c.Set(&q, qe)
		c.Set(&k, ke)
	}
	a.cache.update(c, &k, &v)
	switch {
	case a.impl != "eager":
		dropout := a.drop.Prob
		if in.alibi == nil {
			dropout = 0
		}
		out = c.Let(eager.ScaledDotProduct(q, k, v, eager.Attention{Mask: in.mask, Dropout: dropout}))
	case in.alibi == nil:
		weights = c.Let(eager.Matmul(q, k.Transpose(-1, -2)))
		weights.MulScalarInPlace()
		c.Set(&weights, weights.Add(in.mask).SoftmaxTo(-1, in.hidden.DType))
		out = c.Let(eager.Matmul(weights, v))
	default:
		out, weights = a.sloped(c, q, k, v, in)
	}
	c.Set(&out, out.Permute(0, 2, 1, 3).Reshape(batch, seq, -1))
	c.Set(&out, a.dense.forward(out))
	c.ReturnAll(out, weights)
	return out, weights
}

// sloped is eager attention with alibi: scores in fp32, their slopes added, scaled in place.
func (a *falconAttention) sloped(c *eager.Call, q, k, v *eager.Tensor, in falconInputs) (out, probs *eager.Tensor) {
	product := c.Let(eager.Matmul(q, k.Transpose(-1, -2)))
	scores := c.Let(product.View(product.Sizes...))
	if scores.DType.Half() {
		c.Set(&scores, scores.To(tensor.Float32))
	}
	logits := c.Let(scores.Add(in.alibi.View(q.Dim(0), a.heads, 1, -1)))
	logits.MulScalarInPlace()
	probs = c.Let(logits.Add(in.mask).SoftmaxTo(-1, in.hidden.DType))
	c.Set(&probs, a.drop.Forward(probs))
	return c.Let(eager.Matmul(probs, v)), probs
}

// split is _split_heads. A list as index copies: keys and values leave the projection, queries of the newer
// architecture too, where their heads are flattened.
func (a *falconAttention) split(fused *eager.Tensor) []*eager.Tensor {
	p := a.Process()
	c := p.Function(fused)
	batch, seq := fused.Dim(0), fused.Dim(1)
	pick := func(x *eager.Tensor, dim int) *eager.Tensor {
		return c.Let(x.Index(dim, p.Empty("aten::tensor", tensor.Int64, 1)))
	}
	switch {
	case a.newer:
		group := a.heads / a.kv
		qkv := c.Let(fused.View(batch, seq, -1, group+2, a.head))
		parts := []*eager.Tensor{c.Let(qkv.Slice(3, 0, group)), pick(qkv, 3), pick(qkv, 3)}
		c.Set(&parts[1], parts[1].Expand(parts[0].Sizes...))
		c.Set(&parts[2], parts[2].Expand(parts[0].Sizes...))
		flat := make([]*eager.Tensor, 3)
		for i, x := range parts {
			flat[i] = c.Let(x.Flatten(2, 3))
		}
		return c.ReturnAll(flat...)
	case !a.multi:
		c.Set(&fused, fused.View(batch, seq, a.heads, 3, a.head))
		return c.ReturnAll(c.Let(fused.Select(3, 0)), c.Let(fused.Select(3, 1)), c.Let(fused.Select(3, 2)))
	}
	c.Set(&fused, fused.View(batch, seq, a.heads+2, a.head))
	return c.ReturnAll(c.Let(fused.Slice(2, 0, a.heads)), pick(fused, 2), pick(fused, 2))
}
