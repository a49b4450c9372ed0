package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// dinov2 is Dinov2Model (transformers 5.17, modeling_dinov2.py).
type dinov2 struct {
	*eager.Module
	spec    Spec
	embed   *dinov2Embeddings
	encoder *eager.Module
	layers  []*dinov2Layer
	norm    *eager.LayerNormModule
}

// newDinov2 builds Dinov2ForImageClassification: the class token beside the mean of all patches.
func newDinov2(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m, err := newImageClassifier(p, c, s)
	if err != nil {
		return nil, err
	}
	body, err := newDinov2Body(m.root.Child(c.Family.Prefix), c, s)
	if err != nil {
		return nil, err
	}
	classifier := m.root.Linear("classifier", 2*c.Int("hidden_size"), c.Labels(), true)
	m.logits = func(call *eager.Call, pixels *eager.Tensor) *eager.Tensor {
		sequence, pooled := body.forward(pixels)
		call.Let(sequence)
		call.Let(pooled)
		class := call.Let(firstToken(sequence))
		tokens := call.Let(sequence.Slice(1, 1, sequence.Dim(1)))
		both := call.Let(eager.Cat(1, class, tokens.Mean(false, 1)))
		return classifier.Forward(both)
	}
	return m, nil
}

func newDinov2Body(m *eager.Module, c *hfconfig.Config, s Spec) (*dinov2, error) {
	b := &dinov2{Module: m, spec: s, embed: newDinov2Embeddings(m.Child("embeddings"), c), encoder: m.Child("encoder")}
	list := b.encoder.Child("layer")
	for i := range c.Int("num_hidden_layers") {
		l, err := newDinov2Layer(list.Item(i), c, s)
		if err != nil {
			return nil, err
		}
		b.layers = append(b.layers, l)
	}
	b.norm = m.LayerNorm("layernorm", c.Int("hidden_size"))
	return b, nil
}

func (b *dinov2) forward(pixels *eager.Tensor) (sequence, pooled *eager.Tensor) {
	c := b.Enter(pixels)
	embeds := c.Let(b.embed.forward(pixels))
	// encoder_outputs holds the encoder's result while the name sequence_output moves on.
	encoded := c.Let(b.encode(embeds))
	sequence = c.Let(b.norm.Forward(encoded))
	pooled = c.Let(firstToken(sequence))
	c.ReturnAll(sequence, pooled)
	return sequence, pooled
}

// encode is Dinov2Encoder.forward.
func (b *dinov2) encode(hidden *eager.Tensor) *eager.Tensor {
	c := b.encoder.Enter(hidden)
	hidden = c.Let(hidden)
	for _, l := range b.layers {
		h := hidden
		run := func() *eager.Tensor { return l.forward(h) }
		c.Set(&hidden, layer(b.Process(), b.spec.Checkpointing, run, h))
	}
	return c.Return(hidden)
}

// dinov2Embeddings is Dinov2Embeddings: images of another size than the position embeddings' are interpolated to.
type dinov2Embeddings struct {
	*eager.Module
	class, places *eager.Tensor
	patches       *patches
	drop          *eager.DropoutModule
}

func newDinov2Embeddings(m *eager.Module, c *hfconfig.Config) *dinov2Embeddings {
	width := c.Int("hidden_size")
	e := &dinov2Embeddings{Module: m, class: m.Param("cls_token", 1, 1, width)}
	if c.Bool("use_mask_token") {
		m.Param("mask_token", 1, width)
	}
	e.patches = newPatches(m, c)
	e.places = m.Param("position_embeddings", 1, e.patches.count+1, width)
	e.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	return e
}

func (e *dinov2Embeddings) forward(pixels *eager.Tensor) *eager.Tensor {
	c := e.Enter(pixels)
	x := c.Let(e.patches.forward(pixels))
	class := c.Let(e.class.Expand(x.Dim(0), -1, -1))
	c.Set(&x, eager.Cat(1, class, x))
	c.Set(&x, x.Add(interpolated(e.places, x, pixels, e.patches, tensor.Float32)))
	c.Set(&x, e.drop.Forward(x))
	return c.Return(x)
}

// dinov2Layer is Dinov2Layer.
type dinov2Layer struct {
	*eager.Module
	norm1, norm2   *eager.LayerNormModule
	attn           *dinov2Attention
	scale1, scale2 *layerScale
	drop           *dropPath
	mlp            interface {
		forward(*eager.Tensor) *eager.Tensor
	}
}

func newDinov2Layer(m *eager.Module, c *hfconfig.Config, s Spec) (*dinov2Layer, error) {
	hidden := c.Int("hidden_size")
	l := &dinov2Layer{Module: m, norm1: m.LayerNorm("norm1", hidden)}
	l.attn = newDinov2Attention(m.Child("attention"), c, s)
	l.scale1 = newLayerScale(m, "layer_scale1", hidden)
	l.drop = newDropPath(m, c.Float("drop_path_rate"))
	l.norm2 = m.LayerNorm("norm2", hidden)
	inner := int(float64(hidden) * c.Float("mlp_ratio"))
	var err error
	if c.Bool("use_swiglu_ffn") {
		l.mlp = newSwiGLU(m.Child("mlp"), hidden, (inner*2/3+7)/8*8)
	} else {
		l.mlp, err = newPlainMLP(m.Child("mlp"), hidden, inner, c.String("hidden_act"))
	}
	l.scale2 = newLayerScale(m, "layer_scale2", hidden)
	return l, err
}

func (l *dinov2Layer) forward(hidden *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden)
	normed := c.Let(l.norm1.Forward(hidden))
	attended := c.Let(l.attn.forward(normed))
	c.Set(&attended, l.scale1.forward(attended))
	hidden = c.Let(l.drop.forward(attended).Add(hidden))
	out := c.Let(l.norm2.Forward(hidden))
	c.Set(&out, l.mlp.forward(out))
	c.Set(&out, l.scale2.forward(out))
	c.Set(&out, l.drop.forward(out).Add(hidden))
	return c.Return(out)
}

// dinov2Attention is Dinov2Attention around Dinov2SelfAttention and Dinov2SelfOutput.
type dinov2Attention struct {
	*eager.Module
	self, output *eager.Module
	heads        headAttention
	dense        *eager.LinearModule
	drop         *eager.DropoutModule
}

func newDinov2Attention(m *eager.Module, c *hfconfig.Config, s Spec) *dinov2Attention {
	width := c.Int("hidden_size")
	a := &dinov2Attention{Module: m, self: m.Child("attention"), output: m.Child("output")}
	names := [3]string{"query", "key", "value"}
	bias := c.Bool("qkv_bias")
	a.heads = newHeadAttentionBias(a.self, names, width, c.Int("num_attention_heads"), s, c.Float("attention_probs_dropout_prob"), [3]bool{bias, bias, bias})
	a.heads.queryLast = true
	a.dense = a.output.Linear("dense", width, width, true)
	a.drop = a.output.Dropout("dropout", c.Float("hidden_dropout_prob"))
	return a
}

func (a *dinov2Attention) forward(hidden *eager.Tensor) *eager.Tensor {
	c := a.Enter(hidden)
	inner := a.self.Enter(hidden)
	attended, weights := a.heads.forward(inner, hidden, nil)
	inner.ReturnAll(attended, weights)
	c.Let(attended)
	c.Let(weights)
	return c.Return(c.Let(a.finish(attended, hidden)))
}

// finish is Dinov2SelfOutput.forward.
func (a *dinov2Attention) finish(x, input *eager.Tensor) *eager.Tensor {
	c := a.output.Enter(x, input)
	x = c.Let(a.dense.Forward(x))
	c.Set(&x, a.drop.Forward(x))
	return c.Return(x)
}

// layerScale is Dinov2LayerScale: a factor for each channel.
type layerScale struct {
	*eager.Module
	factor *eager.Tensor
}

func newLayerScale(m *eager.Module, name string, width int) *layerScale {
	c := m.Child(name)
	return &layerScale{c, c.Param("lambda1", width)}
}

func (l *layerScale) forward(x *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	return c.Return(x.Mul(l.factor))
}

// swiGLU is Dinov2SwiGLUFFN.
type swiGLU struct {
	*eager.Module
	in, out *eager.LinearModule
}

func newSwiGLU(m *eager.Module, width, inner int) *swiGLU {
	return &swiGLU{m, m.Linear("weights_in", width, 2*inner, true), m.Linear("weights_out", inner, width, true)}
}

func (f *swiGLU) forward(x *eager.Tensor) *eager.Tensor {
	c := f.Enter(x)
	x = c.Let(f.in.Forward(x))
	halves := c.Lets(x.Chunk(2, -1))
	hidden := c.Let(halves[0].SiLU().Mul(halves[1]))
	return c.Return(f.out.Forward(hidden))
}
