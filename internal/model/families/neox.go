package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// neoX is GPTNeoXForCausalLM (transformers 5.17, modeling_gpt_neox.py).
type neoX struct {
	*decoder
	embed  *eager.EmbeddingModule
	drop   *eager.DropoutModule
	layers []*neoXLayer
	norm   *eager.LayerNormModule
	rope   *rotary
}

func newNeoX(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m := &neoX{decoder: newDecoder(p, c, s)}
	model := m.root.Child(c.Family.Prefix)
	hidden := c.Int("hidden_size")
	m.embed = model.Embedding("embed_in", c.Int("vocab_size"), hidden)
	m.drop = model.Dropout("emb_dropout", c.Float("hidden_dropout"))
	list := model.Child("layers")
	for i := range c.Int("num_hidden_layers") {
		l, err := newNeoXLayer(list.Item(i), c, s)
		if err != nil {
			return nil, err
		}
		m.layers = append(m.layers, l)
	}
	m.norm = model.LayerNorm("final_layer_norm", hidden)
	m.rope = newRotary(model, rotaryDim(c, hidden/c.Int("num_attention_heads")))
	if err := m.addHead(c, hidden, m.embed.Weight, m.model); err != nil {
		return nil, err
	}
	return m, nil
}

// rotaryDim is the part of a head that is rotated: int(head_dim * partial_rotary_factor).
func rotaryDim(c *hfconfig.Config, head int) int {
	return int(float64(head) * c.Float("partial_rotary_factor"))
}

// model is GPTNeoXModel.forward.
func (m *neoX) model(ids *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(ids)
	embeds := c.Let(m.embed.Forward(ids))
	positions := c.Let(positionIDs(p, m.spec.Seq))
	mask := c.Let(causalMask(m.spec, p, embeds.DType))
	hidden := c.Let(m.drop.Forward(embeds))
	cos, sin := m.rope.forward(hidden, positions)
	c.Let(cos)
	c.Let(sin)
	for _, l := range m.layers {
		h := hidden
		run := func() *eager.Tensor { return l.forward(h, cos, sin, mask) }
		c.Set(&hidden, layer(p, m.spec.Checkpointing, run, h, cos, sin, mask, positions))
	}
	c.Set(&hidden, m.norm.Forward(hidden))
	return c.Return(hidden)
}

// neoXLayer is GPTNeoXLayer.
type neoXLayer struct {
	*eager.Module
	inputNorm, midNorm *eager.LayerNormModule
	attnDrop, mlpDrop  *eager.DropoutModule
	attn               *neoXAttention
	mlp                *neoXMLP
	parallel           bool
}

func newNeoXLayer(m *eager.Module, c *hfconfig.Config, s Spec) (*neoXLayer, error) {
	hidden := c.Int("hidden_size")
	l := &neoXLayer{Module: m, parallel: c.Bool("use_parallel_residual")}
	l.inputNorm = m.LayerNorm("input_layernorm", hidden)
	l.midNorm = m.LayerNorm("post_attention_layernorm", hidden)
	l.attnDrop = m.Dropout("post_attention_dropout", c.Float("hidden_dropout"))
	l.mlpDrop = m.Dropout("post_mlp_dropout", c.Float("hidden_dropout"))
	l.attn = newNeoXAttention(m.Child("attention"), c, s)
	mlp, err := newNeoXMLP(m.Child("mlp"), c)
	l.mlp = mlp
	return l, err
}

func (l *neoXLayer) forward(hidden, cos, sin, mask *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, cos, sin, mask)
	attended, weights := l.attn.forward(l.inputNorm.Forward(hidden), cos, sin, mask)
	c.Let(attended)
	c.Let(weights)
	c.Set(&attended, l.attnDrop.Forward(attended))
	if !l.parallel {
		c.Set(&attended, attended.Add(hidden))
		out := c.Let(l.mlp.forward(l.midNorm.Forward(attended)))
		c.Set(&out, l.mlpDrop.Forward(out))
		return c.Return(out.Add(attended))
	}
	out := c.Let(l.mlp.forward(l.midNorm.Forward(hidden)))
	c.Set(&out, l.mlpDrop.Forward(out))
	return c.Return(out.Add(attended).Add(hidden))
}

// neoXAttention is GPTNeoXAttention.
type neoXAttention struct {
	*eager.Module
	qkv, dense *eager.LinearModule
	head       int
	impl       attention
}

func newNeoXAttention(m *eager.Module, c *hfconfig.Config, s Spec) *neoXAttention {
	hidden := c.Int("hidden_size")
	a := &neoXAttention{Module: m, head: hidden / c.Int("num_attention_heads")}
	a.qkv = m.Linear("query_key_value", hidden, 3*hidden, c.Bool("attention_bias"))
	a.dense = m.Linear("dense", hidden, hidden, c.Bool("attention_bias"))
	a.impl = attention{impl: s.Attn, dropout: c.Float("attention_dropout"), causal: true, cache: s.cache}
	return a
}

func (a *neoXAttention) forward(hidden, cos, sin, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := a.Enter(hidden, cos, sin, mask)
	batch, seq := hidden.Dim(0), hidden.Dim(1)
	qkv := c.Let(a.qkv.Forward(hidden).View(batch, seq, -1, 3*a.head).Transpose(1, 2))
	parts := c.Lets(qkv.Chunk(3, -1))
	q, k := neoXRotary(parts[0], parts[1], cos, sin)
	c.Set(&parts[0], q)
	c.Set(&parts[1], k)
	a.impl.cache.update(c, &parts[1], &parts[2])
	out, weights = a.impl.forward(q, parts[1], parts[2], mask)
	return projectHeads(c, a.dense, out, weights)
}

// neoXRotary is apply_rotary_pos_emb of modeling_gpt_neox.py: only the first dimensions of a head are rotated, the
// rest is joined to them again.
func neoXRotary(q, k, cos, sin *eager.Tensor) (*eager.Tensor, *eager.Tensor) {
	c := q.Process().Function(q, k, cos, sin)
	c.Set(&cos, cos.Unsqueeze(1))
	c.Set(&sin, sin.Unsqueeze(1))
	n := cos.Dim(-1)
	cut := func(x *eager.Tensor) (rotated, passed *eager.Tensor) {
		return c.Let(x.Slice(-1, 0, n)), c.Let(x.Slice(-1, n, x.Dim(-1)))
	}
	qr, qp := cut(q)
	kr, kp := cut(k)
	qe := c.Let(qr.Mul(cos).Add(rotateHalf(qr).Mul(sin)))
	ke := c.Let(kr.Mul(cos).Add(rotateHalf(kr).Mul(sin)))
	c.Set(&qe, eager.Cat(-1, qe, qp))
	c.Set(&ke, eager.Cat(-1, ke, kp))
	c.ReturnAll(qe, ke)
	return qe, ke
}

// neoXMLP is GPTNeoXMLP.
type neoXMLP struct {
	*eager.Module
	up, down *eager.LinearModule
	act      func(*eager.Tensor) *eager.Tensor
}

func newNeoXMLP(m *eager.Module, c *hfconfig.Config) (*neoXMLP, error) {
	hidden, inner := c.Int("hidden_size"), c.Int("intermediate_size")
	l := &neoXMLP{Module: m, up: m.Linear("dense_h_to_4h", hidden, inner, true)}
	l.down = m.Linear("dense_4h_to_h", inner, hidden, true)
	act, err := activation(m, c.String("hidden_act"))
	l.act = act
	return l, err
}

func (l *neoXMLP) forward(x *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	x = c.Let(l.up.Forward(x))
	c.Set(&x, l.act(x))
	c.Set(&x, l.down.Forward(x))
	return c.Return(x)
}
