package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// opt is OPTForCausalLM (transformers 5.17, modeling_opt.py).
type opt struct {
	*decoder
	tokens     *eager.EmbeddingModule
	places     *eager.EmbeddingModule
	projectOut *eager.LinearModule // nil where the embeddings have the hidden size
	projectIn  *eager.LinearModule
	norm       *eager.LayerNormModule // nil where layers normalise afterwards
	layers     []*optLayer
}

func newOPT(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	if !c.Bool("layer_norm_elementwise_affine") {
		return nil, errors.New("opt without layer_norm_elementwise_affine is not supported")
	}
	m := &opt{decoder: newDecoder(p, c, s)}
	decoder := m.root.Child("model").Child("decoder")
	hidden, width := c.Int("hidden_size"), c.Int("word_embed_proj_dim")
	m.tokens = decoder.Embedding("embed_tokens", c.Int("vocab_size"), width)
	m.places = decoder.Embedding("embed_positions", c.Int("max_position_embeddings")+2, hidden)
	if width != hidden {
		m.projectOut = decoder.Linear("project_out", hidden, width, false)
		m.projectIn = decoder.Linear("project_in", width, hidden, false)
	}
	if c.Bool("do_layer_norm_before") && !c.Bool("_remove_final_layer_norm") {
		m.norm = decoder.LayerNorm("final_layer_norm", hidden)
	}
	list := decoder.Child("layers")
	for i := range c.Int("num_hidden_layers") {
		l, err := newOPTLayer(list.Item(i), c, s)
		if err != nil {
			return nil, err
		}
		m.layers = append(m.layers, l)
	}
	if err := m.addHead(c, width, m.tokens.Weight, m.model); err != nil {
		return nil, err
	}
	return m, nil
}

// model is OPTDecoder.forward. A mask of ones is made where none is given; the positions are counted from it.
func (m *opt) model(ids *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(ids)
	embeds := c.Let(m.tokens.Forward(ids))
	if m.spec.Mask == NoMask {
		c.Let(p.Empty("aten::ones", tensor.Float32, m.spec.Batch, m.spec.Seq))
	}
	positions := c.Let(p.Empty("position_ids", tensor.Int64, m.spec.Batch, m.spec.Seq))
	mask := c.Let(plainMask(m.spec, p, embeds.DType, 0))
	places := c.Let(m.places.Forward(p.Empty("aten::add", tensor.Int64, m.spec.Batch, m.spec.Seq)))
	if m.projectIn != nil {
		c.Set(&embeds, m.projectIn.Forward(embeds))
	}
	hidden := c.Let(embeds.Add(places))
	for _, l := range m.layers {
		h := hidden
		run := func() *eager.Tensor { return l.forward(h, mask) }
		c.Set(&hidden, layer(p, m.spec.Checkpointing, run, h, mask, positions))
	}
	if m.norm != nil {
		c.Set(&hidden, m.norm.Forward(hidden))
	}
	if m.projectOut != nil {
		c.Set(&hidden, m.projectOut.Forward(hidden))
	}
	return c.Return(hidden)
}

// optLayer is OPTDecoderLayer.
type optLayer struct {
	*eager.Module
	attn                *optAttention
	attnNorm, finalNorm *eager.LayerNormModule
	fc1, fc2            *eager.LinearModule
	act                 func(*eager.Tensor) *eager.Tensor
	before              bool // normalises before attention and before the MLP
	dropout             float64
}

func newOPTLayer(m *eager.Module, c *hfconfig.Config, s Spec) (*optLayer, error) {
	hidden, inner, bias := c.Int("hidden_size"), c.Int("ffn_dim"), c.Bool("enable_bias")
	l := &optLayer{Module: m, before: c.Bool("do_layer_norm_before"), dropout: c.Float("dropout")}
	l.attn = newOPTAttention(m.Child("self_attn"), c, s)
	act, err := activation(m, c.String("activation_function"))
	l.act = act
	l.attnNorm = m.LayerNorm("self_attn_layer_norm", hidden)
	l.fc1 = m.Linear("fc1", hidden, inner, bias)
	l.fc2 = m.Linear("fc2", inner, hidden, bias)
	l.finalNorm = m.LayerNorm("final_layer_norm", hidden)
	return l, err
}

func (l *optLayer) forward(hidden, mask *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, mask)
	batch, seq, width := hidden.Dim(0), hidden.Dim(1), hidden.Dim(2)
	residual := c.Let(hidden)
	hidden = c.Let(hidden)
	if l.before {
		c.Set(&hidden, l.attnNorm.Forward(hidden))
	}
	attended, weights := l.attn.forward(hidden, mask)
	c.Set(&hidden, attended)
	c.Let(weights)
	c.Set(&hidden, hidden.Dropout(l.dropout))
	c.Set(&hidden, residual.Add(hidden))
	if !l.before {
		c.Set(&hidden, l.attnNorm.Forward(hidden))
	}
	c.Set(&hidden, hidden.Reshape(-1, width))
	c.Set(&residual, hidden)
	if l.before {
		c.Set(&hidden, l.finalNorm.Forward(hidden))
	}
	c.Set(&hidden, l.fc1.Forward(hidden))
	c.Set(&hidden, l.act(hidden))
	c.Set(&hidden, l.fc2.Forward(hidden))
	c.Set(&hidden, hidden.Dropout(l.dropout))
	c.Set(&hidden, residual.Add(hidden).View(batch, seq, width))
	if !l.before {
		c.Set(&hidden, l.finalNorm.Forward(hidden))
	}
	return c.Return(hidden)
}

// optAttention is OPTAttention: the query is scaled before the scores.
type optAttention struct {
	*eager.Module
	k, v, q, out *eager.LinearModule
	heads        int
	impl         attention
}

func newOPTAttention(m *eager.Module, c *hfconfig.Config, s Spec) *optAttention {
	hidden, bias := c.Int("hidden_size"), c.Bool("enable_bias")
	a := &optAttention{Module: m, heads: c.Int("num_attention_heads")}
	a.k = m.Linear("k_proj", hidden, hidden, bias)
	a.v = m.Linear("v_proj", hidden, hidden, bias)
	a.q = m.Linear("q_proj", hidden, hidden, bias)
	a.out = m.Linear("out_proj", hidden, hidden, bias)
	a.impl = attention{impl: s.Attn, dropout: c.Float("attention_dropout"), causal: true, cache: s.cache}
	return a
}

func (a *optAttention) forward(hidden, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := a.Enter(hidden, mask)
	batch, width := hidden.Dim(0), hidden.Dim(2)
	split := func(x *eager.Tensor) *eager.Tensor {
		return x.View(batch, -1, a.heads, width/a.heads).Transpose(1, 2)
	}
	q := c.Let(a.q.Forward(hidden).MulScalar())
	c.Set(&q, split(q))
	k := c.Let(a.k.Forward(hidden))
	v := c.Let(a.v.Forward(hidden))
	c.Set(&k, split(k))
	c.Set(&v, split(v))
	a.impl.cache.update(c, &k, &v)
	out, weights = a.impl.forward(q, k, v, mask)
	return projectHeads(c, a.out, out, weights)
}
