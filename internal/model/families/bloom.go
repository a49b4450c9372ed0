package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// bloom is BloomForCausalLM (transformers 5.17, modeling_bloom.py). It has eager attention only.
type bloom struct {
	*decoder
	heads  int
	embed  *eager.EmbeddingModule
	norm   *eager.LayerNormModule
	blocks []*bloomBlock
	final  *eager.LayerNormModule
}

func newBloom(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if c.Bool("slow_but_exact") {
		return nil, errors.New("bloom with slow_but_exact is not supported")
	}
	s.Attn = "eager"
	m := &bloom{decoder: newDecoder(p, c, s), heads: c.Int("n_head")}
	model := m.root.Child("transformer")
	hidden := c.Int("hidden_size")
	m.embed = model.Embedding("word_embeddings", c.Int("vocab_size"), hidden)
	m.norm = model.LayerNorm("word_embeddings_layernorm", hidden)
	list := model.Child("h")
	for i := range c.Int("n_layer") {
		m.blocks = append(m.blocks, newBloomBlock(list.Item(i), c, s))
	}
	m.final = model.LayerNorm("ln_f", hidden)
	if err := m.addHead(c, hidden, m.embed.Weight, m.model); err != nil {
		return nil, err
	}
	return m, nil
}

// model is BloomModel.forward. The pair a block returns has a name: the last block's probabilities live through the
// next block.
func (m *bloom) model(ids *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(ids)
	embeds := c.Let(m.embed.Forward(ids))
	hidden := c.Let(m.norm.Forward(embeds))
	if m.spec.Mask == NoMask {
		c.Let(p.Empty("aten::ones", tensor.Float32, m.spec.Batch, m.spec.Seq))
	}
	alibi := c.Let(p.Empty("alibi", hidden.DType, m.spec.Batch*m.heads, 1, m.spec.Seq))
	mask := c.Let(plainMask(m.spec, p, embeds.DType, 0))
	var outputs [2]*eager.Tensor
	for _, b := range m.blocks {
		h := hidden
		run := func() []*eager.Tensor { return b.forward(h, alibi, mask) }
		var pair []*eager.Tensor
		if m.spec.Checkpointing {
			pair = p.Checkpoint(run, h, alibi, mask)
		} else {
			pair = run()
		}
		c.Set(&outputs[0], pair[0])
		c.Set(&outputs[1], pair[1])
		c.Set(&hidden, outputs[0])
	}
	c.Set(&hidden, m.final.Forward(hidden))
	return c.Return(hidden)
}

// bloomBlock is BloomBlock.
type bloomBlock struct {
	*eager.Module
	inputNorm, midNorm *eager.LayerNormModule
	attn               *bloomAttention
	mlp                *bloomMLP
	after              bool // the residual is taken after the norm
}

func newBloomBlock(m *eager.Module, c *hfconfig.Config, s Spec) *bloomBlock {
	hidden := c.Int("hidden_size")
	b := &bloomBlock{Module: m, after: c.Bool("apply_residual_connection_post_layernorm")}
	b.inputNorm = m.LayerNorm("input_layernorm", hidden)
	b.attn = newBloomAttention(m.Child("self_attention"), c, s)
	b.midNorm = m.LayerNorm("post_attention_layernorm", hidden)
	mlp := m.Child("mlp")
	b.mlp = &bloomMLP{Module: mlp, up: mlp.Linear("dense_h_to_4h", hidden, 4*hidden, true), gelu: mlp.Child("gelu_impl"),
		down: mlp.Linear("dense_4h_to_h", 4*hidden, hidden, true), dropout: c.Float("hidden_dropout")}
	return b
}

func (b *bloomBlock) forward(hidden, alibi, mask *eager.Tensor) []*eager.Tensor {
	c := b.Enter(hidden, alibi, mask)
	normed := c.Let(b.inputNorm.Forward(hidden))
	residual := c.Let(b.residual(normed, hidden))
	attended, weights := b.attn.forward(normed, residual, alibi, mask)
	c.Let(attended)
	c.Let(weights)
	c.Set(&normed, b.midNorm.Forward(attended))
	c.Set(&residual, b.residual(normed, attended))
	out := c.Let(b.mlp.forward(normed, residual))
	return c.ReturnAll(out, weights)
}

func (b *bloomBlock) residual(normed, plain *eager.Tensor) *eager.Tensor {
	if b.after {
		return normed
	}
	return plain
}

// bloomAttention is BloomAttention.
type bloomAttention struct {
	*eager.Module
	qkv, dense    *eager.LinearModule
	drop          *eager.DropoutModule
	heads         int
	hiddenDropout float64
	cache         *kvCache
}

func newBloomAttention(m *eager.Module, c *hfconfig.Config, s Spec) *bloomAttention {
	hidden := c.Int("hidden_size")
	a := &bloomAttention{Module: m, heads: c.Int("n_head"), hiddenDropout: c.Float("hidden_dropout"), cache: s.cache}
	a.qkv = m.Linear("query_key_value", hidden, 3*hidden, true)
	a.dense = m.Linear("dense", hidden, hidden, true)
	a.drop = m.Dropout("attention_dropout", c.Float("attention_dropout"))
	return a
}

func (a *bloomAttention) forward(hidden, residual, alibi, mask *eager.Tensor) (out, probs *eager.Tensor) {
	c := a.Enter(hidden, residual, alibi, mask)
	batch, seq, head := hidden.Dim(0), hidden.Dim(1), hidden.Dim(2)/a.heads
	fused := c.Let(a.qkv.Forward(hidden))
	parts := c.Lets(a.split(fused))
	q, k, v := parts[0], parts[1], parts[2]
	a.cache.update(c, &k, &v)
	c.Set(&q, q.Reshape(batch*a.heads, -1, head))
	c.Set(&k, k.Reshape(batch*a.heads, -1, head).Transpose(-1, -2))
	c.Set(&v, v.Reshape(batch*a.heads, -1, head))
	scores := c.Let(eager.Baddbmm(alibi, q, k))
	weights := c.Let(scores.View(batch, a.heads, seq, -1))
	c.Set(&weights, weights.Add(mask))
	probs = c.Let(weights.SoftmaxTo(-1, tensor.Float32).To(q.DType))
	c.Set(&probs, a.drop.Forward(probs))
	flat := c.Let(probs.View(batch*a.heads, seq, -1))
	context := c.Let(eager.Bmm(flat, v))
	c.Set(&context, context.View(batch, a.heads, seq, head).Permute(0, 2, 1, 3).Reshape(batch, seq, -1))
	out = c.Let(a.dense.Forward(context))
	c.Set(&out, dropoutAdd(out, residual, a.hiddenDropout))
	c.ReturnAll(out, probs)
	return out, probs
}

// split is _reshape: three selections of the fused projection, each with a gradient of full size.
func (a *bloomAttention) split(fused *eager.Tensor) []*eager.Tensor {
	c := a.Process().Function(fused)
	c.Set(&fused, fused.View(fused.Dim(0), fused.Dim(1), a.heads, 3, -1))
	var parts []*eager.Tensor
	for i := range 3 {
		parts = append(parts, c.Let(fused.Select(3, i).Transpose(1, 2)))
	}
	return c.ReturnAll(parts...)
}

func dropoutAdd(x, residual *eager.Tensor, prob float64) *eager.Tensor {
	c := x.Process().Function(x, residual)
	out := c.Let(x.Dropout(prob))
	c.Set(&out, residual.Add(out))
	return c.Return(out)
}

// bloomMLP is BloomMLP.
type bloomMLP struct {
	*eager.Module
	up, down *eager.LinearModule
	gelu     *eager.Module
	dropout  float64
}

func (l *bloomMLP) forward(x, residual *eager.Tensor) *eager.Tensor {
	c := l.Enter(x, residual)
	x = c.Let(l.activate(l.up.Forward(x)))
	inner := c.Let(l.down.Forward(x))
	return c.Return(dropoutAdd(inner, residual, l.dropout))
}

// activate is BloomGelu: an autograd function that saves its input and computes the rest again in backward.
func (l *bloomMLP) activate(x *eager.Tensor) *eager.Tensor {
	c := l.gelu.Enter(x)
	return c.Return(eager.Custom("GeLUFunctionBackward", x, fastGELU, bloomGELUBackward))
}

// bloomGELUBackward is bloom_gelu_back: ff * g with
// tanh = tanh(0.79788456 * x * (1 + 0.044715 * x * x)) and
// ff = 0.5 * x * ((1 - tanh * tanh) * (0.79788456 + 0.1070322243 * x * x)) + 0.5 * (1 + tanh).
func bloomGELUBackward(g, x *eager.Tensor) *eager.Tensor {
	c := x.Process().Function(g, x)
	scaled := c.Let(x.MulScalar())
	tanh := c.Let(scaled.Mul(x.MulScalar().Mul(x).AddScalar()).Tanh())
	c.Del(&scaled)
	half := c.Let(x.MulScalar())
	slope := c.Let(tanh.Mul(tanh).AddScalar())
	inner := slope.Mul(x.MulScalar().Mul(x).AddScalar())
	c.Del(&slope)
	left := c.Let(half.Mul(inner))
	c.Del(&half)
	ff := c.Let(left.Add(tanh.AddScalar().MulScalar()))
	c.Del(&left)
	return c.Return(ff.Mul(g))
}
