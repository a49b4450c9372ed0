package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// vit is ViTModel and DeiTModel without a pooler (transformers 5.17, modeling_vit.py, modeling_deit.py).
type vit struct {
	*eager.Module
	spec   Spec
	embed  *vitEmbeddings
	layers []*vitLayer
	norm   *eager.LayerNormModule
}

// newViT builds ViTForImageClassification or DeiTForImageClassification.
func newViT(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m, err := newImageClassifier(p, c, s)
	if err != nil {
		return nil, err
	}
	if err := fixedSize(c, s); err != nil {
		return nil, err
	}
	body, err := newViTBody(m.root.Child(c.Family.Prefix), c, s)
	if err != nil {
		return nil, err
	}
	classifier := m.root.Linear("classifier", c.Int("hidden_size"), c.Labels(), true)
	m.logits = func(call *eager.Call, pixels *eager.Tensor) *eager.Tensor {
		sequence := call.Let(body.forward(pixels))
		pooled := call.Let(firstToken(sequence))
		return classifier.Forward(pooled)
	}
	return m, nil
}

func newViTBody(m *eager.Module, c *hfconfig.Config, s Spec) (*vit, error) {
	b := &vit{Module: m, spec: s, embed: newViTEmbeddings(m.Child("embeddings"), c)}
	list := m.Child("layers")
	for i := range c.Int("num_hidden_layers") {
		l, err := newViTLayer(list.Item(i), c, s)
		if err != nil {
			return nil, err
		}
		b.layers = append(b.layers, l)
	}
	b.norm = m.LayerNorm("layernorm", c.Int("hidden_size"))
	return b, nil
}

func (b *vit) forward(pixels *eager.Tensor) *eager.Tensor {
	c := b.Enter(pixels)
	embeds := c.Let(b.embed.forward(pixels))
	hidden := c.Let(embeds)
	for _, l := range b.layers {
		h := hidden
		run := func() *eager.Tensor { return l.forward(h) }
		c.Set(&hidden, layer(b.Process(), b.spec.Checkpointing, run, h))
	}
	sequence := c.Let(b.norm.Forward(hidden))
	return c.Return(sequence)
}

// vitEmbeddings is ViTEmbeddings: a class token before the patches; DeiT has a token for distillation too.
type vitEmbeddings struct {
	*eager.Module
	class, distill *eager.Tensor
	patches        *patches
	places         *eager.Tensor
	drop           *eager.DropoutModule
}

func newViTEmbeddings(m *eager.Module, c *hfconfig.Config) *vitEmbeddings {
	width, tokens := c.Int("hidden_size"), 1
	e := &vitEmbeddings{Module: m, class: m.Param("cls_token", 1, 1, width), patches: newPatches(m, c)}
	if c.Family.Code == "Deit" {
		tokens = 2
	}
	e.places = m.Param("position_embeddings", 1, e.patches.count+tokens, width)
	e.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	if c.Family.Code == "Deit" {
		e.distill = m.Param("distillation_token", 1, 1, width)
	}
	return e
}

func (e *vitEmbeddings) forward(pixels *eager.Tensor) *eager.Tensor {
	c := e.Enter(pixels)
	x := c.Let(e.patches.forward(pixels))
	batch := x.Dim(0)
	parts := []*eager.Tensor{c.Let(e.class.Expand(batch, -1, -1))}
	if e.distill != nil {
		parts = append(parts, c.Let(e.distill.Expand(batch, -1, -1)))
	}
	c.Set(&x, eager.Cat(1, append(parts, x)...))
	c.Set(&x, x.Add(e.places))
	c.Set(&x, e.drop.Forward(x))
	return c.Return(x)
}

// vitLayer is ViTLayer.
type vitLayer struct {
	*eager.Module
	attn          *vitAttention
	before, after *eager.LayerNormModule
	mlp           *plainMLP
	drop          *eager.DropoutModule
}

func newViTLayer(m *eager.Module, c *hfconfig.Config, s Spec) (*vitLayer, error) {
	hidden := c.Int("hidden_size")
	l := &vitLayer{Module: m, attn: newViTAttention(m.Child("attention"), c, s)}
	l.before = m.LayerNorm("layernorm_before", hidden)
	l.after = m.LayerNorm("layernorm_after", hidden)
	mlp, err := newPlainMLP(m.Child("mlp"), hidden, c.Int("intermediate_size"), c.String("hidden_act"))
	l.mlp = mlp
	l.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	return l, err
}

func (l *vitLayer) forward(hidden *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden)
	residual := c.Let(hidden)
	hidden = c.Let(l.before.Forward(hidden))
	attended, weights := l.attn.forward(hidden, nil)
	c.Set(&hidden, attended)
	c.Let(weights)
	c.Set(&hidden, l.drop.Forward(hidden))
	c.Set(&hidden, hidden.Add(residual))
	c.Set(&residual, hidden)
	c.Set(&hidden, l.after.Forward(hidden))
	c.Set(&hidden, l.mlp.forward(hidden))
	c.Set(&hidden, l.drop.Forward(hidden))
	c.Set(&hidden, hidden.Add(residual))
	return c.Return(hidden)
}

// vitAttention is ViTAttention and BeitAttention.
type vitAttention struct {
	*eager.Module
	heads headAttention
	out   *eager.LinearModule
}

func newViTAttention(m *eager.Module, c *hfconfig.Config, s Spec) *vitAttention {
	width := c.Int("hidden_size")
	a := &vitAttention{Module: m}
	names := [3]string{"q_proj", "k_proj", "v_proj"}
	bias := [3]bool{true, false, true} // BEiT
	if c.Family.Code != "Beit" {
		bias = [3]bool{c.Bool("qkv_bias"), c.Bool("qkv_bias"), c.Bool("qkv_bias")}
	}
	a.heads = newHeadAttentionBias(m, names, width, c.Int("num_attention_heads"), s, c.Float("attention_probs_dropout_prob"), bias)
	a.heads.impl.plain = false
	a.out = m.Linear("o_proj", width, width, true)
	return a
}

func (a *vitAttention) forward(hidden, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := a.Enter(hidden, mask)
	out, weights = a.heads.forward(c, hidden, mask)
	c.Set(&out, a.out.Forward(out))
	c.ReturnAll(out, weights)
	return out, weights
}

// plainMLP is ViTMLP and its copies: two linear layers with an activation between.
type plainMLP struct {
	*eager.Module
	fc1, fc2 *eager.LinearModule
	act      func(*eager.Tensor) *eager.Tensor
}

func newPlainMLP(m *eager.Module, width, inner int, act string) (*plainMLP, error) {
	f := &plainMLP{Module: m, fc1: m.Linear("fc1", width, inner, true), fc2: m.Linear("fc2", inner, width, true)}
	fn, err := activation(m, act)
	f.act = fn
	return f, err
}

func (f *plainMLP) forward(x *eager.Tensor) *eager.Tensor {
	c := f.Enter(x)
	x = c.Let(f.fc1.Forward(x))
	c.Set(&x, f.act(x))
	c.Set(&x, f.fc2.Forward(x))
	return c.Return(x)
}
