package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// segformer is SegformerModel (transformers 5.17, modeling_segformer.py). Token sequences seen as images are channels_last, so its
// inner convolutions run in that format.
type segformer struct {
	*eager.Module
	stages []*segformerStage
}

// newSegformer builds SegformerForImageClassification.
func newSegformer(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m, err := newImageClassifier(p, c, s)
	if err != nil {
		return nil, err
	}
	body := &segformer{Module: m.root.Child(c.Family.Prefix)}
	if err := body.addStages(c, s); err != nil {
		return nil, err
	}
	sizes := c.Ints("hidden_sizes")
	width := sizes[len(sizes)-1]
	classifier := m.root.Linear("classifier", width, c.Labels(), true)
	m.logits = func(call *eager.Call, pixels *eager.Tensor) *eager.Tensor {
		last := call.Let(body.forward(pixels))
		sequence := call.Let(last)
		if c.Bool("reshape_last_stage") {
			call.Set(&sequence, sequence.Permute(0, 2, 3, 1))
		}
		call.Set(&sequence, sequence.Reshape(sequence.Dim(0), -1, width))
		call.Set(&sequence, sequence.Mean(false, 1))
		return classifier.Forward(sequence)
	}
	return m, nil
}

func (b *segformer) addStages(c *hfconfig.Config, s Spec) error {
	count, total := c.Int("num_encoder_blocks"), 0
	lists := map[string][]int{}
	for _, name := range []string{"depths", "hidden_sizes", "num_attention_heads", "sr_ratios", "mlp_ratios", "patch_sizes", "strides"} {
		lists[name] = c.Ints(name)
		if len(lists[name]) < count {
			return tooShort(c, name, count)
		}
	}
	for _, d := range lists["depths"] {
		total += d
	}
	rate := func(at int) float64 { return c.Float("drop_path_rate") * float64(at) / float64(max(total-1, 1)) }
	list, at, channels := b.Child("stages"), 0, c.Int("num_channels")
	for i := range count {
		of := func(name string) int { return lists[name][i] }
		width := of("hidden_sizes")
		stage := &segformerStage{Module: list.Item(i), spec: s, reshape: i < count-1 || c.Bool("reshape_last_stage")}
		stage.embed = newOverlapPatches(stage.Child("patch_embeddings"), channels, width, of("patch_sizes"), of("strides"))
		blocks := stage.Child("blocks")
		for j := range of("depths") {
			shape := segformerShape{width: width, heads: of("num_attention_heads"), inner: width * of("mlp_ratios"), reduction: of("sr_ratios")}
			l, err := newSegformerLayer(blocks.Item(j), c, s, shape, rate(at))
			if err != nil {
				return err
			}
			stage.blocks = append(stage.blocks, l)
			at++
		}
		stage.norm = stage.LayerNorm("layer_norm", width)
		b.stages = append(b.stages, stage)
		channels = width
	}
	return nil
}

func (b *segformer) forward(pixels *eager.Tensor) *eager.Tensor {
	c := b.Enter(pixels)
	hidden := c.Let(pixels)
	for _, s := range b.stages {
		c.Set(&hidden, s.forward(hidden))
	}
	return c.Return(hidden)
}

// segformerStage is SegformerStage.
type segformerStage struct {
	*eager.Module
	spec    Spec
	embed   *overlapPatches
	blocks  []*segformerLayer
	norm    *eager.LayerNormModule
	reshape bool
}

func (s *segformerStage) forward(image *eager.Tensor) *eager.Tensor {
	c := s.Enter(image)
	hidden, size := s.embed.forward(image)
	c.Let(hidden)
	for _, b := range s.blocks {
		h := hidden
		run := func() *eager.Tensor { return b.forward(h, size) }
		c.Set(&hidden, layer(s.Process(), s.spec.Checkpointing, run, h))
	}
	c.Set(&hidden, s.norm.Forward(hidden))
	if s.reshape {
		c.Set(&hidden, hidden.Reshape(hidden.Dim(0), size.high, size.wide, -1).Permute(0, 3, 1, 2).Contiguous())
	}
	return c.Return(hidden)
}

// overlapPatches is SegformerOverlapPatchEmbeddings.
type overlapPatches struct {
	*eager.Module
	proj *eager.ConvModule
	norm *eager.LayerNormModule
}

func newOverlapPatches(m *eager.Module, channels, width, patch, stride int) *overlapPatches {
	args := eager.Conv{Window: eager.Window{Stride: []int{stride, stride}, Padding: []int{patch / 2, patch / 2}}}
	return &overlapPatches{m, m.Conv("proj", channels, width, true, args, patch, patch), m.LayerNorm("layer_norm", width)}
}

func (e *overlapPatches) forward(image *eager.Tensor) (*eager.Tensor, grid) {
	c := e.Enter(image)
	x := c.Let(e.proj.Forward(image))
	size := grid{x.Dim(2), x.Dim(3)}
	c.Set(&x, x.Flatten(2, -1).Transpose(1, 2))
	c.Set(&x, e.norm.Forward(x))
	return c.Return(x), size
}

// segformerShape are the sizes of a layer.
type segformerShape struct{ width, heads, inner, reduction int }

// segformerLayer is SegformerLayer.
type segformerLayer struct {
	*eager.Module
	before, after *eager.LayerNormModule
	attn          *segformerAttention
	path          *dropPath
	mlp           *mixMLP
	drop          *eager.DropoutModule
}

func newSegformerLayer(m *eager.Module, c *hfconfig.Config, s Spec, shape segformerShape, dropped float64) (*segformerLayer, error) {
	l := &segformerLayer{Module: m, before: m.LayerNorm("layernorm_before", shape.width)}
	l.attn = newSegformerAttention(m.Child("attention"), c, s, shape)
	l.path = newDropPath(m, dropped)
	l.after = m.LayerNorm("layernorm_after", shape.width)
	mlp, err := newMixMLP(m.Child("mlp"), c, shape)
	l.mlp = mlp
	l.drop = m.Dropout("hidden_dropout", c.Float("hidden_dropout_prob"))
	return l, err
}

func (l *segformerLayer) forward(hidden *eager.Tensor, size grid) *eager.Tensor {
	c := l.Enter(hidden)
	residual := c.Let(hidden)
	hidden = c.Let(l.before.Forward(hidden))
	attended, weights := l.attn.forward(hidden, size)
	c.Set(&hidden, attended)
	c.Let(weights)
	c.Set(&hidden, l.drop.Forward(hidden))
	c.Set(&hidden, l.path.forward(hidden).Add(residual))
	c.Set(&residual, hidden)
	c.Set(&hidden, l.after.Forward(hidden))
	c.Set(&hidden, l.mlp.forward(hidden, size))
	c.Set(&hidden, l.path.forward(hidden).Add(residual))
	return c.Return(hidden)
}

// segformerAttention is SegformerAttention: keys and values of a shorter sequence where the ratio is above one.
type segformerAttention struct {
	*eager.Module
	q, k, v, out *eager.LinearModule
	shrink       *eager.Module // SegformerSequenceReduction; nil without
	reduction    *eager.ConvModule
	norm         *eager.LayerNormModule
	head         int
	impl         attention
}

func newSegformerAttention(m *eager.Module, c *hfconfig.Config, s Spec, shape segformerShape) *segformerAttention {
	a := &segformerAttention{Module: m, head: shape.width / max(shape.heads, 1)}
	inner := a.head * shape.heads
	a.q = m.Linear("q_proj", shape.width, inner, true)
	a.k = m.Linear("k_proj", shape.width, inner, true)
	a.v = m.Linear("v_proj", shape.width, inner, true)
	a.out = m.Linear("o_proj", inner, shape.width, true)
	if r := shape.reduction; r > 1 {
		a.shrink = m.Child("sequence_reduction")
		args := eager.Conv{Window: eager.Window{Stride: []int{r, r}}}
		a.reduction = a.shrink.Conv("sequence_reduction", shape.width, shape.width, true, args, r, r)
		a.norm = a.shrink.LayerNorm("layer_norm", shape.width)
	}
	a.impl = attention{impl: s.Attn, dropout: c.Float("attention_probs_dropout_prob")}
	return a
}

func (a *segformerAttention) forward(hidden *eager.Tensor, size grid) (out, weights *eager.Tensor) {
	c := a.Enter(hidden)
	batch := hidden.Dim(0)
	split := func(x *eager.Tensor) *eager.Tensor {
		return c.Let(x.View(batch, -1, x.Dim(2)/a.head, a.head).Transpose(1, 2))
	}
	q := split(a.q.Forward(hidden))
	source := c.Let(hidden)
	if a.shrink != nil {
		c.Set(&source, a.reduce(hidden, size))
	}
	k := split(a.k.Forward(source))
	v := split(a.v.Forward(source))
	out, weights = a.impl.forward(q, k, v, nil)
	return projectHeads(c, a.out, out, weights)
}

// reduce is SegformerSequenceReduction.forward.
func (a *segformerAttention) reduce(x *eager.Tensor, size grid) *eager.Tensor {
	c := a.shrink.Enter(x)
	batch, width := x.Dim(0), x.Dim(2)
	x = c.Let(x.Transpose(1, 2).Reshape(batch, width, size.high, size.wide))
	c.Set(&x, a.reduction.Forward(x))
	c.Set(&x, x.Reshape(batch, width, -1).Transpose(1, 2))
	c.Set(&x, a.norm.Forward(x))
	return c.Return(x)
}

// mixMLP is SegformerMixMLP with its SegformerDepthWiseConv.
type mixMLP struct {
	*eager.Module
	fc1, fc2 *eager.LinearModule
	inner    *eager.Module
	dwconv   *eager.ConvModule
	act      func(*eager.Tensor) *eager.Tensor
	drop     *eager.DropoutModule
}

func newMixMLP(m *eager.Module, c *hfconfig.Config, shape segformerShape) (*mixMLP, error) {
	f := &mixMLP{Module: m, fc1: m.Linear("fc1", shape.width, shape.inner, true), inner: m.Child("dwconv")}
	args := eager.Conv{Window: eager.Window{Stride: []int{1, 1}, Padding: []int{1, 1}}, Groups: shape.inner}
	f.dwconv = f.inner.Conv("dwconv", shape.inner, shape.inner, true, args, 3, 3)
	act, err := activation(m, c.String("hidden_act"))
	f.act = act
	f.fc2 = m.Linear("fc2", shape.inner, shape.width, true)
	f.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	return f, err
}

func (f *mixMLP) forward(x *eager.Tensor, size grid) *eager.Tensor {
	c := f.Enter(x)
	x = c.Let(f.fc1.Forward(x))
	c.Set(&x, f.mix(x, size))
	c.Set(&x, f.act(x))
	c.Set(&x, f.drop.Forward(x))
	c.Set(&x, f.fc2.Forward(x))
	c.Set(&x, f.drop.Forward(x))
	return c.Return(x)
}

// mix is SegformerDepthWiseConv.forward.
func (f *mixMLP) mix(x *eager.Tensor, size grid) *eager.Tensor {
	c := f.inner.Enter(x)
	x = c.Let(x.Transpose(1, 2).View(x.Dim(0), x.Dim(2), size.high, size.wide))
	c.Set(&x, f.dwconv.Forward(x))
	c.Set(&x, x.Flatten(2, -1).Transpose(1, 2))
	return c.Return(x)
}
