package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// falcon is FalconForCausalLM (transformers 5.17, modeling_falcon.py).
type falcon struct {
	*decoder
	heads  int
	alibi  bool
	embed  *eager.EmbeddingModule
	layers []*falconLayer
	norm   *eager.LayerNormModule
	rope   *rotary
}

func newFalcon(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m := &falcon{decoder: newDecoder(p, c, s), heads: c.Int("num_attention_heads"), alibi: c.Bool("alibi")}
	model := m.root.Child("transformer")
	hidden := c.Int("hidden_size")
	m.embed = model.Embedding("word_embeddings", c.Int("vocab_size"), hidden)
	list := model.Child("h")
	for i := range c.Int("num_hidden_layers") {
		l, err := newFalconLayer(list.Item(i), c, s)
		if err != nil {
			return nil, err
		}
		m.layers = append(m.layers, l)
	}
	m.norm = model.LayerNorm("ln_f", hidden)
	m.rope = newRotary(model, hidden/m.heads)
	if err := m.addHead(c, hidden, m.embed.Weight, m.model); err != nil {
		return nil, err
	}
	return m, nil
}

// model is FalconModel.forward. The mask is always made, so sdpa converts it in every layer.
func (m *falcon) model(ids *eager.Tensor) *eager.Tensor {
	p := m.root.Process()
	c := m.root.Enter(ids)
	embeds := c.Let(m.embed.Forward(ids))
	var alibi *eager.Tensor
	if m.alibi {
		c.Let(p.Empty("aten::ones", tensor.Int64, m.spec.Batch, m.spec.Seq))
		alibi = c.Let(p.Empty("alibi", embeds.DType, m.spec.Batch*m.heads, 1, m.spec.Seq))
	}
	positions := c.Let(positionIDs(p, m.spec.Seq))
	mask := c.Let(plainMask(m.spec, p, embeds.DType, 1)) // a window of 1 forbids leaving the mask out
	if m.alibi {
		c.Set(&mask, m.slopedMask(mask, embeds.DType))
	}
	hidden := c.Let(embeds)
	cos, sin := m.rope.forward(hidden, positions)
	c.Let(cos)
	c.Let(sin)
	var outputs [2]*eager.Tensor
	for _, l := range m.layers {
		in := falconInputs{hidden: hidden, alibi: alibi, mask: mask, cos: cos, sin: sin}
		run := func() []*eager.Tensor { return l.forward(in) }
		var pair []*eager.Tensor
		if m.spec.Checkpointing {
			pair = p.Checkpoint(run, hidden, alibi, mask, cos, sin, positions)
		} else {
			pair = run()
		}
		c.Set(&outputs[0], pair[0])
		c.Set(&outputs[1], pair[1])
		c.Set(&hidden, outputs[0])
	}
	c.Set(&hidden, m.norm.Forward(hidden))
	return c.Return(hidden)
}

// slopedMask adds the slopes to the mask: one [batch, heads, seq, seq] for the whole model.
func (m *falcon) slopedMask(mask *eager.Tensor, d tensor.DType) *eager.Tensor {
	p := m.root.Process()
	c := p.Function(mask)
	if mask.DType == tensor.Bool {
		c.Set(&mask, p.Empty("aten::where", d, m.spec.Batch, 1, m.spec.Seq, m.spec.Seq))
	}
	scaled := c.Let(p.Empty("aten::div", d, m.spec.Batch, m.heads, 1, m.spec.Seq))
	return c.Return(scaled.MaskedFill(mask.Compare("aten::lt", nil)))
}

// falconInputs are the tensors a layer is given.
type falconInputs struct{ hidden, alibi, mask, cos, sin *eager.Tensor }

// falconLinear is FalconLinear: the transposed weight is a view, so autocast casts it anew in every call.
type falconLinear struct{ *eager.LinearModule }

func (l falconLinear) forward(x *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	out := c.Let(eager.Matmul(x, l.Weight.Transpose(0, 1)))
	if l.Bias == nil {
		return c.Return(out)
	}
	return c.Return(out.Add(l.Bias))
}

// falconLayer is FalconDecoderLayer: attention and MLP side by side, or one after the other.
type falconLayer struct {
	*eager.Module
	attn            *falconAttention
	mlp             *falconMLP
	newer, parallel bool
	first           *eager.LayerNormModule // ln_attn or input_layernorm
	second          *eager.LayerNormModule // ln_mlp or post_attention_layernorm; nil where the MLP reads the first
	attnDropout     float64
	dropout         float64
}

func newFalconLayer(m *eager.Module, c *hfconfig.Config, s Spec) (*falconLayer, error) {
	hidden := c.Int("hidden_size")
	l := &falconLayer{Module: m, newer: c.Bool("new_decoder_architecture"), parallel: c.Bool("parallel_attn"),
		attnDropout: c.Float("attention_dropout"), dropout: c.Float("hidden_dropout")}
	l.attn = newFalconAttention(m.Child("self_attention"), c, s)
	mlp, err := newFalconMLP(m.Child("mlp"), c)
	l.mlp = mlp
	norms := c.Int("num_ln_in_parallel_attn")
	if c.Null("num_ln_in_parallel_attn") && l.newer {
		norms = 2
	}
	switch {
	case !l.parallel:
		l.second = m.LayerNorm("post_attention_layernorm", hidden)
		l.first = m.LayerNorm("input_layernorm", hidden)
	case norms == 2:
		l.first = m.LayerNorm("ln_attn", hidden)
		l.second = m.LayerNorm("ln_mlp", hidden)
	default:
		l.first = m.LayerNorm("input_layernorm", hidden)
	}
	return l, err
}

func (l *falconLayer) forward(in falconInputs) []*eager.Tensor {
	c := l.Enter(in.hidden, in.alibi, in.mask, in.cos, in.sin)
	residual := c.Let(in.hidden)
	normed := c.Let(l.first.Forward(in.hidden))
	forMLP := c.Let(normed)
	if l.newer && l.second != nil {
		c.Set(&forMLP, l.second.Forward(in.hidden))
	}
	in.hidden = normed
	attended, weights := l.attn.forward(in)
	c.Let(attended)
	c.Let(weights)
	if !l.newer && !l.parallel {
		c.Set(&residual, dropoutAdd(attended, residual, l.attnDropout))
		c.Set(&forMLP, l.second.Forward(residual))
	}
	out := c.Let(l.mlp.forward(forMLP))
	if l.newer || l.parallel {
		out.AddInPlace(attended)
	}
	c.Set(&out, dropoutAdd(out, residual, l.dropout))
	return c.ReturnAll(out, weights)
}

// falconMLP is FalconMLP.
type falconMLP struct {
	*eager.Module
	up, down falconLinear
	act      func(*eager.Tensor) *eager.Tensor
}

func newFalconMLP(m *eager.Module, c *hfconfig.Config) (*falconMLP, error) {
	hidden, inner := c.Int("hidden_size"), c.Int("ffn_hidden_size")
	l := &falconMLP{Module: m, up: falconLinear{m.Linear("dense_h_to_4h", hidden, inner, c.Bool("bias"))}}
	act, err := activation(m, c.String("activation"))
	l.act = act
	l.down = falconLinear{m.Linear("dense_4h_to_h", inner, hidden, c.Bool("bias"))}
	return l, err
}

func (l *falconMLP) forward(x *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	x = c.Let(l.act(l.up.forward(x)))
	c.Set(&x, l.down.forward(x))
	return c.Return(x)
}
