package families

import (
	"errors"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
)

// convnext is ConvNextModel (transformers 5.17, modeling_convnext.py). The norm of the patches leaves channels_last images behind,
// and everything after it stays in that format.
type convnext struct {
	*eager.Module
	embed   *eager.Module
	patches *eager.ConvModule
	first   *imageNorm
	encoder *eager.Module
	stages  []*convnextStage
	norm    *eager.LayerNormModule
}

// newConvNext builds ConvNextForImageClassification.
func newConvNext(p *eager.Process, c *hfconfig.Config, s Spec) (eager.Model, error) {
	m, err := newImageClassifier(p, c, s)
	if err != nil {
		return nil, err
	}
	if s.Checkpointing {
		return nil, errors.New("convnext does not support gradient checkpointing: gradient_checkpointing_enable() raises; leave checkpointing out")
	}
	sizes := c.Ints("hidden_sizes")
	for _, name := range []string{"depths", "hidden_sizes"} {
		if len(c.Ints(name)) < c.Int("num_stages") || len(sizes) == 0 {
			return nil, tooShort(c, name, c.Int("num_stages"))
		}
	}
	body, err := newConvNextBody(m.root.Child(c.Family.Prefix), c, sizes)
	if err != nil {
		return nil, err
	}
	classifier := m.root.Linear("classifier", sizes[len(sizes)-1], c.Labels(), true)
	m.logits = func(call *eager.Call, pixels *eager.Tensor) *eager.Tensor {
		last, pooled := body.forward(pixels)
		call.Let(last)
		call.Let(pooled)
		return classifier.Forward(pooled)
	}
	return m, nil
}

func newConvNextBody(m *eager.Module, c *hfconfig.Config, sizes []int) (*convnext, error) {
	b := &convnext{Module: m, embed: m.Child("embeddings")}
	patch := c.Int("patch_size")
	args := eager.Conv{Window: eager.Window{Stride: []int{patch, patch}}}
	b.patches = b.embed.Conv("patch_embeddings", c.Int("num_channels"), sizes[0], true, args, patch, patch)
	b.first = &imageNorm{b.embed.LayerNorm("layernorm", sizes[0])}
	b.encoder = m.Child("encoder")
	depths, total, at := c.Ints("depths"), 0, 0
	for _, d := range depths {
		total += d
	}
	list, before := b.encoder.Child("stages"), sizes[0]
	for i := range c.Int("num_stages") {
		stage := newConvNextStage(list.Item(i), before, sizes[i], i > 0)
		layers := stage.Child("layers")
		for j := range depths[i] {
			rate := c.Float("drop_path_rate") * float64(at) / float64(max(total-1, 1))
			l, err := newConvNextLayer(layers.Item(j), c, sizes[i], rate)
			if err != nil {
				return nil, err
			}
			stage.layers = append(stage.layers, l)
			at++
		}
		b.stages = append(b.stages, stage)
		before = sizes[i]
	}
	b.norm = m.LayerNorm("layernorm", sizes[len(sizes)-1])
	return b, nil
}

func (b *convnext) forward(pixels *eager.Tensor) (last, pooled *eager.Tensor) {
	c := b.Enter(pixels)
	embeds := c.Let(b.cut(pixels))
	last = c.Let(b.encode(embeds))
	pooled = c.Let(b.norm.Forward(last.Mean(false, -2, -1)))
	c.ReturnAll(last, pooled)
	return last, pooled
}

// cut is ConvNextEmbeddings.forward.
func (b *convnext) cut(pixels *eager.Tensor) *eager.Tensor {
	c := b.embed.Enter(pixels)
	x := c.Let(b.patches.Forward(pixels))
	c.Set(&x, b.first.forward(x))
	return c.Return(x)
}

// encode is ConvNextEncoder.forward.
func (b *convnext) encode(hidden *eager.Tensor) *eager.Tensor {
	c := b.encoder.Enter(hidden)
	hidden = c.Let(hidden)
	for _, s := range b.stages {
		c.Set(&hidden, s.forward(hidden))
	}
	return c.Return(hidden)
}

// imageNorm is ConvNextLayerNorm on channels_first images.
type imageNorm struct{ norm *eager.LayerNormModule }

func (n *imageNorm) forward(x *eager.Tensor) *eager.Tensor {
	c := n.norm.Enter(x)
	x = c.Let(x.Permute(0, 2, 3, 1))
	c.Set(&x, eager.LayerNorm(x, n.norm.Weight, n.norm.Bias, n.norm.Weight.Numel()))
	c.Set(&x, x.Permute(0, 3, 1, 2))
	return c.Return(x)
}

// convnextStage is ConvNextStage; all but the first halve the image.
type convnextStage struct {
	*eager.Module
	norm   *imageNorm
	conv   *eager.ConvModule
	layers []*convnextLayer
}

func newConvNextStage(m *eager.Module, in, out int, halved bool) *convnextStage {
	s := &convnextStage{Module: m}
	if !halved && in == out {
		return s
	}
	list := m.Child("downsampling_layer")
	s.norm = &imageNorm{list.LayerNorm("0", in)}
	stride := 1
	if halved {
		stride = 2
	}
	args := eager.Conv{Window: eager.Window{Stride: []int{stride, stride}}}
	s.conv = list.Conv("1", in, out, true, args, 2, 2)
	return s
}

func (s *convnextStage) forward(x *eager.Tensor) *eager.Tensor {
	c := s.Enter(x)
	x = c.Let(x)
	if s.norm != nil {
		c.Set(&x, s.norm.forward(x))
		c.Set(&x, s.conv.Forward(x))
	}
	for _, l := range s.layers {
		c.Set(&x, l.forward(x))
	}
	return c.Return(x)
}

// convnextLayer is ConvNextLayer.
type convnextLayer struct {
	*eager.Module
	dwconv   *eager.ConvModule
	norm     *eager.LayerNormModule
	pw1, pw2 *eager.LinearModule
	act      func(*eager.Tensor) *eager.Tensor
	scale    *eager.Tensor // nil without layer scale
	path     *dropPath
}

func newConvNextLayer(m *eager.Module, c *hfconfig.Config, width int, dropped float64) (*convnextLayer, error) {
	args := eager.Conv{Window: eager.Window{Stride: []int{1, 1}, Padding: []int{3, 3}}, Groups: width}
	l := &convnextLayer{Module: m, dwconv: m.Conv("dwconv", width, width, true, args, 7, 7)}
	l.norm = m.LayerNorm("layernorm", width)
	l.pw1 = m.Linear("pwconv1", width, 4*width, true)
	act, err := activation(m, c.String("hidden_act"))
	l.act = act
	l.pw2 = m.Linear("pwconv2", 4*width, width, true)
	if c.Float("layer_scale_init_value") > 0 {
		l.scale = m.Param("layer_scale_parameter", width)
	}
	l.path = newDropPath(m, dropped)
	return l, err
}

func (l *convnextLayer) forward(x *eager.Tensor) *eager.Tensor {
	c := l.Enter(x)
	residual := c.Let(x)
	x = c.Let(l.dwconv.Forward(x))
	c.Set(&x, x.Permute(0, 2, 3, 1))
	c.Set(&x, l.norm.Forward(x))
	c.Set(&x, l.pw1.Forward(x))
	c.Set(&x, l.act(x))
	c.Set(&x, l.pw2.Forward(x))
	if l.scale != nil {
		c.Set(&x, l.scale.Mul(x))
	}
	c.Set(&x, x.Permute(0, 3, 1, 2))
	c.Set(&x, residual.Add(l.path.forward(x)))
	return c.Return(x)
}
