package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// beit is BeitModel with its pooler (transformers 5.17, modeling_beit.py).
type beit struct {
	*eager.Module
	spec   Spec
	embed  *beitEmbeddings
	shared *beitBias
	layers []*beitLayer
	norm   *eager.LayerNormModule // nil where patches are averaged
	pooler *eager.Module
	pooled *eager.LayerNormModule // nil where they are not
}

// newBeit builds BeitForImageClassification.
func newBeit(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m, err := newImageClassifier(p, c, s)
	if err != nil {
		return nil, err
	}
	body, err := newBeitBody(m.root.Child(c.Family.Prefix), c, s)
	if err != nil {
		return nil, err
	}
	classifier := m.root.Linear("classifier", c.Int("hidden_size"), c.Labels(), true)
	m.logits = func(call *eager.Call, pixels *eager.Tensor) *eager.Tensor {
		sequence, pooled := body.forward(pixels)
		call.Let(sequence)
		call.Let(pooled)
		return classifier.Forward(pooled)
	}
	return m, nil
}

func newBeitBody(m *eager.Module, c *hfconfig.Config, s Spec) (*beit, error) {
	b := &beit{Module: m, spec: s, embed: newBeitEmbeddings(m.Child("embeddings"), c)}
	if c.Bool("use_shared_relative_position_bias") {
		b.shared = newBeitBias(m.Child("shared_position_bias"), c)
	}
	list, count := m.Child("layers"), c.Int("num_hidden_layers")
	for i := range count {
		l, err := newBeitLayer(list.Item(i), c, s, c.Float("drop_path_rate")*float64(i)/float64(max(count-1, 1)))
		if err != nil {
			return nil, err
		}
		b.layers = append(b.layers, l)
	}
	if !c.Bool("use_mean_pooling") {
		b.norm = m.LayerNorm("layernorm", c.Int("hidden_size"))
	}
	b.pooler = m.Child("pooler")
	if c.Bool("use_mean_pooling") {
		b.pooled = b.pooler.LayerNorm("layernorm", c.Int("hidden_size"))
	}
	return b, nil
}

func (b *beit) forward(pixels *eager.Tensor) (sequence, pooled *eager.Tensor) {
	c := b.Enter(pixels)
	embeds := c.Let(b.embed.forward(pixels))
	var mask *eager.Tensor
	if b.shared != nil {
		mask = c.Let(b.shared.forward(pixels))
	}
	hidden := c.Let(embeds)
	for _, l := range b.layers {
		h := hidden
		run := func() *eager.Tensor { return l.forward(h, mask, pixels) }
		c.Set(&hidden, layer(b.Process(), b.spec.Checkpointing, run, h, mask))
	}
	sequence = c.Let(hidden)
	if b.norm != nil {
		c.Set(&sequence, b.norm.Forward(hidden))
	}
	pooled = c.Let(b.pool(sequence))
	c.ReturnAll(sequence, pooled)
	return sequence, pooled
}

// pool is BeitPooler.forward: the mean of all patches, or the class token.
func (b *beit) pool(x *eager.Tensor) *eager.Tensor {
	c := b.pooler.Enter(x)
	if b.pooled == nil {
		return c.Return(firstToken(x))
	}
	return c.Return(b.pooled.Forward(x.Slice(1, 1, x.Dim(1)).Mean(false, 1)))
}

// beitEmbeddings is BeitEmbeddings.
type beitEmbeddings struct {
	*eager.Module
	class   *eager.Tensor
	patches *patches
	places  *eager.Tensor // nil without absolute positions
	drop    *eager.DropoutModule
}

func newBeitEmbeddings(m *eager.Module, c *hfconfig.Config) *beitEmbeddings {
	width := c.Int("hidden_size")
	e := &beitEmbeddings{Module: m, class: m.Param("cls_token", 1, 1, width)}
	if c.Bool("use_mask_token") {
		m.Param("mask_token", 1, 1, width)
	}
	e.patches = newPatches(m, c)
	if c.Bool("use_absolute_position_embeddings") {
		e.places = m.Param("position_embeddings", 1, e.patches.count+1, width)
	}
	e.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	return e
}

func (e *beitEmbeddings) forward(pixels *eager.Tensor) *eager.Tensor {
	c := e.Enter(pixels)
	x := c.Let(e.patches.forward(pixels))
	class := c.Let(e.class.Expand(x.Dim(0), -1, -1))
	c.Set(&x, eager.Cat(1, class, x))
	if e.places != nil {
		c.Set(&x, x.Add(interpolated(e.places, x, pixels, e.patches, e.places.DType)))
	}
	c.Set(&x, e.drop.Forward(x))
	return c.Return(x)
}

// beitBias is BeitRelativePositionBias: a table over distances, interpolated to the image and looked up for every pair of patches.
type beitBias struct {
	*eager.Module
	table       *eager.Tensor
	side, patch int
}

func newBeitBias(m *eager.Module, c *hfconfig.Config) *beitBias {
	side := c.Int("image_size") / c.Int("patch_size")
	rows := (2*side-1)*(2*side-1) + 3
	return &beitBias{m, m.Param("relative_position_bias_table", rows, c.Int("num_attention_heads")), side, c.Int("patch_size")}
}

func (b *beitBias) forward(pixels *eager.Tensor) *eager.Tensor {
	p := b.Process()
	c := b.Enter()
	high, wide := pixels.Dim(2)/b.patch, pixels.Dim(3)/b.patch
	old, tokens := 2*b.side-1, high*wide+1
	sub := c.Let(b.table.Slice(0, 0, old*old))
	c.Set(&sub, sub.Reshape(1, old, old, -1).Permute(0, 3, 1, 2))
	scaled := c.Let(sub.Upsample(2*high-1, 2*wide-1))
	c.Set(&scaled, scaled.Permute(0, 2, 3, 1).Reshape((2*high-1)*(2*wide-1), -1))
	table := c.Let(eager.Cat(0, scaled, b.table.Slice(0, old*old, old*old+3)))
	// The index is made on the host; indexing brings it to the card for as long as it takes.
	index := p.Empty("aten::to", tensor.Int64, tokens*tokens)
	bias := c.Let(table.Index(0, p.Host(tensor.Int64, tokens*tokens)))
	index.Drop()
	c.Set(&bias, bias.View(tokens, tokens, -1))
	c.Set(&bias, bias.Permute(2, 0, 1).Contiguous())
	return c.Return(bias.Unsqueeze(0))
}

// beitLayer is BeitLayer: two blocks, each scaled by channel.
type beitLayer struct {
	*eager.Module
	attn             *vitAttention
	before, after    *eager.LayerNormModule
	mlp              *plainMLP
	drop             *eager.DropoutModule
	path             *dropPath
	lambda1, lambda2 *eager.Tensor // nil without layer scale
	bias             *beitBias     // nil without
}

func newBeitLayer(m *eager.Module, c *hfconfig.Config, s Spec, dropped float64) (*beitLayer, error) {
	hidden := c.Int("hidden_size")
	l := &beitLayer{Module: m}
	l.attn = newViTAttention(m.Child("attention"), c, s)
	l.before = m.LayerNorm("layernorm_before", hidden)
	l.after = m.LayerNorm("layernorm_after", hidden)
	mlp, err := newPlainMLP(m.Child("mlp"), hidden, c.Int("intermediate_size"), c.String("hidden_act"))
	l.mlp = mlp
	l.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	l.path = newDropPath(m, dropped)
	if c.Float("layer_scale_init_value") > 0 {
		l.lambda1 = m.Param("lambda_1", hidden)
		l.lambda2 = m.Param("lambda_2", hidden)
	}
	if c.Bool("use_relative_position_bias") {
		l.bias = newBeitBias(m.Child("relative_position_bias"), c)
	}
	return l, err
}

func (l *beitLayer) forward(hidden, mask, pixels *eager.Tensor) *eager.Tensor {
	c := l.Enter(hidden, mask)
	if l.bias != nil {
		bias := c.Let(l.bias.forward(pixels))
		if mask != nil {
			bias = c.Let(bias.Add(mask))
		}
		mask = bias
	}
	residual := c.Let(hidden)
	hidden = c.Let(l.before.Forward(hidden))
	attended, weights := l.attn.forward(hidden, mask)
	c.Set(&hidden, attended)
	c.Let(weights)
	c.Set(&hidden, l.drop.Forward(hidden))
	c.Set(&hidden, scaledBy(l.lambda1, hidden))
	c.Set(&hidden, l.path.forward(hidden).Add(residual))
	c.Set(&residual, hidden)
	c.Set(&hidden, l.after.Forward(hidden))
	c.Set(&hidden, l.mlp.forward(hidden))
	c.Set(&hidden, l.drop.Forward(hidden))
	c.Set(&hidden, scaledBy(l.lambda2, hidden))
	c.Set(&hidden, l.path.forward(hidden).Add(residual))
	return c.Return(hidden)
}

// scaledBy multiplies by a parameter, or by the number one.
func scaledBy(factor, x *eager.Tensor) *eager.Tensor {
	if factor == nil {
		return x.MulScalar()
	}
	return factor.Mul(x)
}
