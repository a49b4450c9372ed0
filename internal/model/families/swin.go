package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// swin is SwinModel with its pooler (transformers 5.17, modeling_swin.py).
type swin struct {
	*eager.Module
	spec    Spec
	embed   *swinEmbeddings
	encoder *eager.Module
	stages  []*swinStage
	norm    *eager.LayerNormModule
	pooler  *eager.Module
}

// newSwin builds SwinForImageClassification.
func newSwin(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m, err := newImageClassifier(p, c, s)
	if err != nil {
		return nil, err
	}
	if c.Bool("use_absolute_embeddings") {
		if err := fixedSize(c, s); err != nil {
			return nil, err
		}
	}
	body, width, err := newSwinBody(m.root.Child(c.Family.Prefix), c, s)
	if err != nil {
		return nil, err
	}
	classifier := m.root.Linear("classifier", width, c.Labels(), true)
	m.logits = func(call *eager.Call, pixels *eager.Tensor) *eager.Tensor {
		sequence, pooled := body.forward(pixels)
		call.Let(sequence)
		call.Let(pooled)
		return classifier.Forward(pooled)
	}
	return m, nil
}

// newSwinBody also gives the width of the last stage.
func newSwinBody(m *eager.Module, c *hfconfig.Config, s Spec) (*swin, int, error) {
	b := &swin{Module: m, spec: s, embed: newSwinEmbeddings(m.Child("embeddings"), c), encoder: m.Child("encoder")}
	depths, heads, width := c.Ints("depths"), c.Ints("num_heads"), c.Int("embed_dim")
	if len(heads) < len(depths) {
		return nil, 0, tooShort(c, "num_heads", len(depths))
	}
	total, at := 0, 0
	for _, d := range depths {
		total += d
	}
	list := b.encoder.Child("layers")
	for i, depth := range depths {
		stage := &swinStage{Module: list.Item(i), spec: s}
		blocks := stage.Child("blocks")
		for j := range depth {
			rate := c.Float("drop_path_rate") * float64(at) / float64(max(total-1, 1))
			l, err := newSwinLayer(blocks.Item(j), c, s, width, heads[i], rate, j%2 == 1)
			if err != nil {
				return nil, 0, err
			}
			stage.blocks = append(stage.blocks, l)
			at++
		}
		if i < len(depths)-1 {
			stage.merge = newSwinMerging(stage.Child("downsample"), width)
			width *= 2
		}
		b.stages = append(b.stages, stage)
	}
	b.norm = m.LayerNorm("layernorm", width)
	b.pooler = m.Child("pooler")
	return b, width, nil
}

func (b *swin) forward(pixels *eager.Tensor) (sequence, pooled *eager.Tensor) {
	c := b.Enter(pixels)
	embeds, size := b.embed.forward(pixels)
	c.Let(embeds)
	encoded := c.Let(b.encode(embeds, size))
	sequence = c.Let(b.norm.Forward(encoded))
	pooled = c.Let(b.pool(sequence.Transpose(1, 2)))
	c.Set(&pooled, pooled.Flatten(1, -1))
	c.ReturnAll(sequence, pooled)
	return sequence, pooled
}

// encode is SwinEncoder.forward. Every stage also makes its result as an image, which nobody reads.
func (b *swin) encode(hidden *eager.Tensor, size grid) *eager.Tensor {
	c := b.encoder.Enter(hidden)
	hidden = c.Let(hidden)
	var image *eager.Tensor
	for _, s := range b.stages {
		h, at := hidden, size
		run := func() []*eager.Tensor { return s.forward(h, at) }
		var out []*eager.Tensor
		if b.spec.Checkpointing {
			out = b.Process().Checkpoint(run, h)
		} else {
			out = run()
		}
		c.Set(&hidden, out[0])
		c.Set(&image, out[1])
		if s.merge != nil {
			size = size.halved()
		}
	}
	return c.Return(hidden)
}

// pool is nn.AdaptiveAvgPool1d(1): a mean over a dimension more.
func (b *swin) pool(x *eager.Tensor) *eager.Tensor {
	c := b.pooler.Enter(x)
	return c.Return(x.Unsqueeze(-2).AdaptiveAvgPool(1, 1).Squeeze(-2))
}

// grid is the number of patches in rows and columns.
type grid struct{ high, wide int }

func (g grid) halved() grid { return grid{(g.high + 1) / 2, (g.wide + 1) / 2} }

// roundedUp is the grid with both sides a multiple of n.
func (g grid) roundedUp(n int) grid { return grid{(g.high + n - 1) / n * n, (g.wide + n - 1) / n * n} }

// swinEmbeddings is SwinEmbeddings.
type swinEmbeddings struct {
	*eager.Module
	inner      *eager.Module
	projection *eager.ConvModule
	places     *eager.Tensor // nil without absolute positions
	norm       *eager.LayerNormModule
	drop       *eager.DropoutModule
}

func newSwinEmbeddings(m *eager.Module, c *hfconfig.Config) *swinEmbeddings {
	size, width := c.Int("patch_size"), c.Int("embed_dim")
	e := &swinEmbeddings{Module: m, inner: m.Child("patch_embeddings")}
	args := eager.Conv{Window: eager.Window{Stride: []int{size, size}}}
	e.projection = e.inner.Conv("projection", c.Int("num_channels"), width, true, args, size, size)
	if c.Bool("use_absolute_embeddings") {
		side := c.Int("image_size") / size
		e.places = m.Param("position_embeddings", 1, side*side, width)
	}
	e.norm = m.LayerNorm("norm", width)
	e.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	return e
}

func (e *swinEmbeddings) forward(pixels *eager.Tensor) (*eager.Tensor, grid) {
	c := e.Enter(pixels)
	x, size := e.cut(pixels)
	c.Let(x)
	c.Set(&x, e.norm.Forward(x))
	if e.places != nil {
		c.Set(&x, x.Add(e.places))
	}
	c.Set(&x, e.drop.Forward(x))
	return c.Return(x), size
}

// cut is SwinPatchEmbeddings.forward: images that patches do not divide are padded.
func (e *swinEmbeddings) cut(pixels *eager.Tensor) (*eager.Tensor, grid) {
	c := e.inner.Enter(pixels)
	c.Let(pixels)
	patch := e.projection.Args.Stride[0]
	whole := grid{pixels.Dim(2), pixels.Dim(3)}.roundedUp(patch)
	if whole.wide != pixels.Dim(3) {
		c.Set(&pixels, pixels.PadTo(pixels.Dim(0), pixels.Dim(1), pixels.Dim(2), whole.wide))
	}
	if whole.high != pixels.Dim(2) {
		c.Set(&pixels, pixels.PadTo(pixels.Dim(0), pixels.Dim(1), whole.high, whole.wide))
	}
	x := c.Let(e.projection.Forward(pixels))
	size := grid{x.Dim(2), x.Dim(3)}
	c.Set(&x, x.Flatten(2, -1).Transpose(1, 2))
	return c.Return(x), size
}

// swinMerging is SwinPatchMerging: every fourth patch beside its neighbours.
type swinMerging struct {
	*eager.Module
	reduction *eager.LinearModule
	norm      *eager.LayerNormModule
}

func newSwinMerging(m *eager.Module, width int) *swinMerging {
	return &swinMerging{m, m.Linear("reduction", 4*width, 2*width, false), m.LayerNorm("norm", 4*width)}
}

func (s *swinMerging) forward(x *eager.Tensor, size grid) *eager.Tensor {
	c := s.Enter(x)
	batch, width := x.Dim(0), x.Dim(2)
	x = c.Let(x.View(batch, size.high, size.wide, width))
	if even := size.roundedUp(2); even != size {
		c.Set(&x, x.PadTo(batch, even.high, even.wide, width))
	}
	var quarters []*eager.Tensor
	for col := range 2 {
		for row := range 2 {
			quarters = append(quarters, x.SliceStep(1, row, x.Dim(1), 2).SliceStep(2, col, x.Dim(2), 2))
		}
	}
	c.Set(&x, eager.Cat(-1, quarters...))
	c.Set(&x, x.View(batch, -1, 4*width))
	c.Set(&x, s.norm.Forward(x))
	c.Set(&x, s.reduction.Forward(x))
	return c.Return(x)
}

// swinStage is SwinStage. Checkpointing covers it and each of its blocks again.
type swinStage struct {
	*eager.Module
	spec   Spec
	blocks []*swinLayer
	merge  *swinMerging // nil in the last stage
}

// forward gives the hidden states and their copy as an image.
func (s *swinStage) forward(hidden *eager.Tensor, size grid) []*eager.Tensor {
	c := s.Enter(hidden)
	hidden = c.Let(hidden)
	var weights *eager.Tensor
	for _, b := range s.blocks {
		h := hidden
		run := func() []*eager.Tensor { return b.forward(h, size) }
		var out []*eager.Tensor
		if s.spec.Checkpointing {
			out = s.Process().Checkpoint(run, h)
		} else {
			out = run()
		}
		c.Set(&hidden, out[0])
		c.Set(&weights, out[1])
	}
	before, after := c.Let(hidden), size
	if s.merge != nil {
		c.Set(&hidden, s.merge.forward(before, size))
		after = size.halved()
	}
	image := c.Let(hidden.View(hidden.Dim(0), after.high, after.wide, hidden.Dim(2)).Permute(0, 3, 1, 2).Contiguous())
	return c.ReturnAll(hidden, image)
}
