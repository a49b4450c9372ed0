package families

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/hfconfig"
	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Masks of decoders and encoders (transformers 5.17, masking_utils.py:
// https://github.com/huggingface/transformers/blob/v5.17.0/src/transformers/masking_utils.py).

// causalMask is create_causal_mask: nothing for sdpa without padding (eager execution skips it), for eager attention a
// float [batch, 1, seq, seq] of the embedding's type.
func causalMask(s Spec, p *eager.Process, d tensor.DType) *eager.Tensor {
	return windowMask(s, p, d, 0)
}

// lookForPacking is find_packed_sequence_indices: every call that is given positions and no padding mask looks for several
// sequences in a row.
func lookForPacking(s Spec, p *eager.Process) {
	c := p.Function()
	c.Let(p.Empty("position_diff", tensor.Int64, s.Batch, 1))
	prepended := p.Empty("position_diff", tensor.Int64, s.Batch, s.Seq+1)
	c.Let(p.Empty("position_diff", tensor.Int64, s.Batch, s.Seq))
	prepended.Drop()
	unequal := p.Empty("packed_sequence_mask", tensor.Bool, s.Batch, s.Seq)
	c.Let(p.Empty("packed_sequence_mask", tensor.Int64, s.Batch, s.Seq))
	p.Empty("packed_sequence_mask", tensor.Int64, s.Batch, s.Seq).Drop()
	unequal.Drop()
	c.ReturnAll()
}

// windowMask is create_sliding_window_causal_mask. Where the window is shorter than the sequence, sdpa needs a mask
// too: one boolean [1, 1, seq, seq] that all samples share.
func windowMask(s Spec, p *eager.Process, d tensor.DType, window int) *eager.Tensor {
	if s.Mask == NoMask {
		lookForPacking(s, p)
	}
	return plainMask(s, p, d, window)
}

// plainMask makes the mask where the model has made a padding mask itself (OPT, BLOOM) or gives no positions.
func plainMask(s Spec, p *eager.Process, d tensor.DType, window int) *eager.Tensor {
	c := p.Function()
	givenMask(c, s)
	if s.Mask == Padded {
		return c.Return(paddedMask(s, p, d, s.Seq, s.Seq))
	}
	c.ReturnAll()
	if s.Attn == flash { // flash_attention_mask: windows are the kernel's own
		return nil
	}
	if s.Attn != "eager" && (window == 0 || s.Seq < window) {
		return nil
	}
	shared := p.Empty("causal_mask", tensor.Bool, 1, 1, s.Seq, s.Seq).Expand(s.Batch, -1, s.Seq, s.Seq)
	if s.Attn != "eager" {
		return shared
	}
	mask := p.Empty("causal_mask", d, s.Batch, 1, s.Seq, s.Seq)
	shared.Drop()
	return mask
}

// givenMask is the attention_mask as booleans, which has a name while the 4-D mask is made (_preprocess_mask_arguments).
func givenMask(c *eager.Call, s Spec) {
	if s.Mask != NoMask {
		c.Let(c.Process().Empty("aten::_to_copy", tensor.Bool, s.Batch, s.Seq))
	}
}

// paddedMask is sdpa_mask where some token is padding: what may be seen [1, 1, rows, visible] (one column where all may), and which of it is there
// [batch, 1, rows, seq]; for eager attention a float of that shape (eager_mask).
func paddedMask(s Spec, p *eager.Process, d tensor.DType, rows, visible int) *eager.Tensor {
	c, cols := p.Function(), s.Seq
	if s.Attn == flash { // flash_attention_mask: the padding mask itself
		return c.Return(p.Empty("attention_mask", tensor.Bool, s.Batch, cols))
	}
	seen := p.Empty("aten::le", tensor.Bool, 1, 1, rows, visible)
	both := p.Empty("aten::bitwise_and", tensor.Bool, 1, 1, rows, visible)
	seen.Drop()
	there := p.Empty("aten::index", tensor.Bool, s.Batch, 1, 1, cols)
	mask := c.Let(p.Empty("attention_mask", tensor.Bool, s.Batch, 1, rows, cols))
	there.Drop()
	both.Drop()
	if s.Attn == "eager" {
		c.Set(&mask, p.Empty("attention_mask", d, s.Batch, 1, rows, cols))
	}
	return c.Return(mask)
}

// bidirectionalMask is create_bidirectional_mask for rows that look at a padded sequence: nothing where nothing is padded.
func bidirectionalMask(s Spec, p *eager.Process, d tensor.DType, rows int) *eager.Tensor {
	c := p.Function()
	givenMask(c, s)
	if s.Mask != Padded {
		c.ReturnAll()
		return nil
	}
	return c.Return(paddedMask(s, p, d, rows, 1))
}

// maskPair holds the masks of a decoder whose layers may attend within a window.
type maskPair struct{ full, sliding *eager.Tensor }

// newMaskPair makes the masks that a model's layers need.
func newMaskPair(c *eager.Call, s Spec, d tensor.DType, w windowing) maskPair {
	var pair maskPair
	if !w.every {
		pair.full = c.Let(causalMask(s, c.Process(), d))
	}
	if w.size > 0 {
		pair.sliding = c.Let(windowMask(s, c.Process(), d, w.size))
	}
	return pair
}

func (m maskPair) of(sliding bool) *eager.Tensor {
	if sliding {
		return m.sliding
	}
	return m.full
}

// windowing says which layers attend within a window.
type windowing struct {
	size  int  // 0: none does
	every bool // all do, as in families without layer_types
	kinds []string
}

func windowingOf(c *hfconfig.Config) windowing {
	if !c.Has("sliding_window") || c.Null("sliding_window") {
		return windowing{}
	}
	if !c.Has("layer_types") {
		return windowing{size: c.Int("sliding_window"), every: true}
	}
	kinds := c.Strings("layer_types")
	if !slices.Contains(kinds, "sliding_attention") && !c.Family.Windows.Both {
		return windowing{}
	}
	return windowing{size: c.Int("sliding_window"), kinds: kinds}
}

// of tells whether layer i attends within the window.
func (w windowing) of(i int) bool {
	return w.every || w.size > 0 && w.kinds[i] == "sliding_attention"
}
