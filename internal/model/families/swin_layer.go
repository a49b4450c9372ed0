package families

import (
	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// swinLayer is SwinLayer: attention inside windows, in every second layer shifted by half a window.
type swinLayer struct {
	*eager.Module
	attn          *swinAttention
	before, after *eager.LayerNormModule
	mlp           *plainMLP
	drop          *eager.DropoutModule
	path          *dropPath
	window        int
	shifted       bool
}

func newSwinLayer(m *eager.Module, c *hfconfig.Config, s Spec, width, heads int, dropped float64, shifted bool) (*swinLayer, error) {
	l := &swinLayer{Module: m, window: c.Int("window_size"), shifted: shifted && c.Int("window_size") > 1}
	l.attn = newSwinAttention(m.Child("attention"), c, s, width, heads)
	l.before = m.LayerNorm("layernorm_before", width)
	l.after = m.LayerNorm("layernorm_after", width)
	mlp, err := newPlainMLP(m.Child("mlp"), width, int(c.Float("mlp_ratio")*float64(width)), c.String("hidden_act"))
	l.mlp = mlp
	l.drop = m.Dropout("dropout", c.Float("hidden_dropout_prob"))
	l.path = newDropPath(m, dropped)
	return l, err
}

// forward gives the hidden states and the weights of attention.
func (l *swinLayer) forward(hidden *eager.Tensor, size grid) []*eager.Tensor {
	c := l.Enter(hidden)
	window, shifted := l.window, l.shifted
	if short := min(size.high, size.wide); short <= window { // set_shift_and_window_size
		window, shifted = short, false
	}
	batch, width := hidden.Dim(0), hidden.Dim(2)
	shortcut := c.Let(hidden)
	hidden = c.Let(l.before.Forward(hidden))
	c.Set(&hidden, hidden.View(batch, size.high, size.wide, width))
	padded := size.roundedUp(window)
	c.Set(&hidden, hidden.PadTo(batch, padded.high, padded.wide, width))
	windows := c.Let(partition(roll(hidden, shifted), window))
	c.Set(&windows, windows.View(-1, window*window, width))
	var mask *eager.Tensor
	if shifted {
		mask = c.Let(l.mask(padded, window, hidden.DType))
	}
	attended, weights := l.attn.forward(windows, mask)
	c.Let(attended)
	c.Let(weights)
	c.Set(&attended, l.drop.Forward(attended))
	image := c.Let(attended.View(-1, window, window, width))
	c.Set(&image, roll(unpartition(image, window, padded), shifted))
	if padded != size {
		c.Set(&image, image.Slice(1, 0, size.high).Slice(2, 0, size.wide).Contiguous())
	}
	c.Set(&image, image.View(batch, size.high*size.wide, width))
	c.Set(&hidden, shortcut.Add(l.path.forward(image)))
	residual := c.Let(hidden)
	c.Set(&hidden, l.after.Forward(hidden))
	c.Set(&hidden, l.mlp.forward(hidden))
	c.Set(&hidden, l.drop.Forward(hidden).Add(residual))
	return c.ReturnAll(hidden, weights)
}

// roll is cyclic_shift.
func roll(x *eager.Tensor, shifted bool) *eager.Tensor {
	if !shifted {
		return x
	}
	return x.Roll()
}

// partition is window_partition: [batch, high, wide, width] to [windows, window, window, width].
func partition(x *eager.Tensor, window int) *eager.Tensor {
	c := x.Process().Function(x)
	batch, high, wide, width := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	c.Set(&x, x.View(batch, high/window, window, wide/window, window, width))
	return c.Return(x.Transpose(2, 3).Contiguous().View(-1, window, window, width))
}

// unpartition is window_reverse.
func unpartition(x *eager.Tensor, window int, size grid) *eager.Tensor {
	c := x.Process().Function(x)
	width := x.Dim(3)
	c.Set(&x, x.View(-1, size.high/window, size.wide/window, window, window, width))
	c.Set(&x, x.Transpose(2, 3).Contiguous().View(-1, size.high, size.wide, width))
	return c.Return(x)
}

// mask is get_attn_mask: which pairs of a shifted window do not belong together.
func (l *swinLayer) mask(size grid, window int, d tensor.DType) *eager.Tensor {
	p := l.Process()
	c := p.Function()
	image := c.Let(p.Empty("aten::add", tensor.Int64, 1, size.high, size.wide, 1).To(d))
	windows := c.Let(partition(image, window))
	c.Set(&windows, windows.View(-1, window*window))
	mask := c.Let(windows.Unsqueeze(1).Sub(windows.Unsqueeze(2)))
	filled := mask.MaskedFill(p.Empty("aten::ne", tensor.Bool, mask.Sizes...))
	c.Set(&mask, filled.MaskedFill(p.Empty("aten::eq", tensor.Bool, mask.Sizes...)))
	return c.Return(mask)
}

// swinAttention is SwinAttention with its SwinRelativePositionBias.
type swinAttention struct {
	*eager.Module
	q, k, v, out *eager.LinearModule
	bias         *eager.Module
	table, index *eager.Tensor
	head, area   int
	impl         attention
}

func newSwinAttention(m *eager.Module, c *hfconfig.Config, s Spec, width, heads int) *swinAttention {
	window, bias := c.Int("window_size"), c.Bool("qkv_bias")
	a := &swinAttention{Module: m, head: width / max(heads, 1), area: window * window}
	a.q = m.Linear("q_proj", width, width, bias)
	a.k = m.Linear("k_proj", width, width, bias)
	a.v = m.Linear("v_proj", width, width, bias)
	a.out = m.Linear("o_proj", width, width, true)
	a.bias = m.Child("relative_position_bias")
	a.table = a.bias.Param("relative_position_bias_table", (2*window-1)*(2*window-1), heads)
	a.index = a.bias.Buffer("relative_position_index", tensor.Int64, a.area*a.area)
	a.impl = attention{impl: s.Attn, dropout: c.Float("attention_probs_dropout_prob")}
	return a
}

func (a *swinAttention) forward(hidden, mask *eager.Tensor) (out, weights *eager.Tensor) {
	c := a.Enter(hidden, mask)
	rows, seq := hidden.Dim(0), hidden.Dim(1)
	split := func(l *eager.LinearModule) *eager.Tensor {
		return c.Let(l.Forward(hidden).View(rows, seq, -1, a.head).Transpose(1, 2))
	}
	q := split(a.q)
	k := split(a.k)
	v := split(a.v)
	bias := c.Let(a.positions())
	both := bias
	if mask != nil {
		count := mask.Dim(0)
		wide := c.Let(mask.Unsqueeze(1).Unsqueeze(0).Expand(rows/count, -1, -1, -1, -1).Reshape(-1, 1, seq, seq))
		both = c.Let(bias.Add(wide))
	}
	out, weights = a.impl.forward(q, k, v, both)
	c.Let(out)
	c.Let(weights)
	c.Set(&out, out.Reshape(rows, seq, -1).Contiguous())
	c.Set(&out, a.out.Forward(out))
	c.ReturnAll(out, weights)
	return out, weights
}

// positions is SwinRelativePositionBias.forward: [1, heads, area, area].
func (a *swinAttention) positions() *eager.Tensor {
	c := a.bias.Enter()
	bias := c.Let(a.table.Index(0, a.index))
	c.Set(&bias, bias.View(a.area, a.area, -1))
	return c.Return(bias.Permute(2, 0, 1).Contiguous().Unsqueeze(0))
}
