package eager

import "github.com/plimsoll/plimsoll/internal/model/tensor"

// Attention holds the arguments of scaled_dot_product_attention beside q, k and v.
type Attention struct {
	Mask    *Tensor // additive or boolean; nil for none
	Dropout float64
	Causal  bool
	GQA     bool // enable_gqa
}

type backend uint8

const (
	mathBackend backend = iota
	efficientBackend
	flashBackend
	cudnnBackend
)

// ScaledDotProduct is F.scaled_dot_product_attention on [batch, heads, seq, dim].
func ScaledDotProduct(q, k, v *Tensor, a Attention) *Tensor {
	p := q.p
	c := p.Function(q, k, v, a.Mask)
	if p.still {
		a.Dropout = 0
	}
	if a.Mask != nil && a.Mask.DType.Floating() {
		a.Mask = c.Let(p.lower(a.Mask))
	}
	v = c.Let(p.lower(v))
	k = c.Let(p.lower(k))
	q = c.Let(p.lower(q))
	if a.Mask != nil && a.Mask.DType == tensor.Bool {
		a.Mask = c.Let(a.Mask.additive(q.DType))
	}
	b := p.attentionBackend(q, k, a)
	if b == mathBackend {
		return c.Return(mathAttention(q, k, v, a))
	}
	if b == efficientBackend && a.Mask != nil {
		a.Mask = c.Let(a.Mask.aligned(8).Expand(q.Dim(0), q.Dim(1), q.Dim(2), k.Dim(2)))
	}
	if b == flashBackend && q.Dim(-1)%8 != 0 {
		dim := q.Dim(-1)
		more := roundUp(dim, 8) - dim
		q, k, v = c.Let(q.Pad(0, more)), c.Let(k.Pad(0, more)), c.Let(v.Pad(0, more))
		return c.Return(p.fusedAttention(b, q, k, v, a).Slice(-1, 0, dim))
	}
	return c.Return(p.fusedAttention(b, q, k, v, a))
}

// aligned copies a mask whose rows do not begin at multiples of some length into longer rows and views the part that counts
// (attention.cpp, preprocess_mask and pad_bias); efficient attention saves that copy.
func (t *Tensor) aligned(to int) *Tensor {
	rank, last := t.Rank(), t.Dim(-1)
	for _, s := range t.Strides[:rank-1] {
		if s%to != 0 {
			return t.Pad(0, to-last%to).Slice(-1, 0, last)
		}
	}
	return t
}

// additive turns a boolean mask into an additive one of the query's type, on every call
// (aten/src/ATen/native/transformers/attention.cpp, convert_boolean_attn_mask).
func (t *Tensor) additive(d tensor.DType) *Tensor {
	t.p.op = "aten::where"
	out := t.p.emptyOf(d, t.Sizes...)
	t.p.observe(t.p.op, d, 0, stored(t), out.Bytes())
	return out
}

// attentionBackend follows aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (2.11).
func (p *Process) attentionBackend(q, k *Tensor, a Attention) backend {
	if a.Mask != nil && a.Mask.Strides[a.Mask.Rank()-1] != 1 {
		return mathBackend
	}
	if !a.GQA && q.Dim(1) != k.Dim(1) {
		return mathBackend // check_batch_size_and_num_heads_dense; the product broadcasts
	}
	half := q.DType.Half()
	maskGrad := a.Mask != nil && a.Mask.requires
	if half && p.Device.Major >= 8 && !maskGrad {
		if p.Device.CuDNNFirst && q.Dim(-1) <= 256 && q.Dim(-1)%8 == 0 {
			return cudnnBackend
		}
		if a.Mask == nil && q.Dim(-1) <= 256 {
			return flashBackend
		}
	}
	if a.GQA && q.Dim(1) != k.Dim(1) {
		return mathBackend
	}
	return efficientBackend
}

// fusedAttention saves q, k, v, the result, the log-sum-exp rows in fp32, the mask and 16 bytes of random state.
func (p *Process) fusedAttention(b backend, q, k, v *Tensor, a Attention) *Tensor {
	p.op = "aten::_scaled_dot_product_attention"
	n := p.record("ScaledDotProductAttentionBackward0", q, k, v, a.Mask)
	n.save(q, k, v, a.Mask)
	batch, heads, rows, cols, dim := q.Dim(0), q.Dim(1), q.Dim(2), k.Dim(2), v.Dim(-1)
	sizes := []int{batch, heads, rows, dim}
	layout, lseRows := tensor.Ordered(sizes, []int{0, 2, 1, 3}), rows
	switch b {
	case cudnnBackend, flashBackend:
		layout = likeOrder(q, sizes)
	case efficientBackend:
		lseRows = roundUp(rows, 32)
	}
	seed, offset := p.randomState(b)
	out := p.empty(layout, q.DType)
	lse := p.emptyOf(tensor.Float32, batch, heads, lseRows)
	n.save(lse, out, offset, seed)
	n.out(out)
	switch b {
	case cudnnBackend:
		p.scratch(256)
	case flashBackend:
		p.flashSplits(torchFlashSizes(q, k), a.Dropout)
	}
	flops := 4 * float64(batch) * float64(heads) * float64(rows) * float64(cols) * float64(dim)
	if a.Causal {
		flops /= 2
	}
	fused := Work{
		Op: p.op, Kind: Fused, DType: q.DType, Result: q.DType, FLOPs: flops, Kernels: 1, Causal: a.Causal, Dropout: a.Dropout > 0,
		Shape: [4]int{batch * heads, rows, cols, dim}, Read: stored(q) + stored(k) + stored(v), Written: out.Bytes(),
	}
	p.work(fused)
	n.backward(func(g []*Tensor) []*Tensor {
		back := fused
		back.Op, back.FLOPs = "ScaledDotProductAttentionBackward0", 2.5*flops
		back.Read, back.Written = 2*fused.Read, q.Bytes()+k.Bytes()+v.Bytes()
		p.work(back)
		return p.fusedGrads(n, b, g[0], out.Layout, q, k, v, a)
	})
	drop(lse, seed, offset)
	return out
}

// randomState is what dropout inside a kernel needs in backward. cuDNN always has both numbers on the card, with
// or without dropout (recorded trace), flash one tensor of both (flash_api.cpp, rng_state), efficient attention keeps them on the host.
func (p *Process) randomState(b backend) (seed, offset *Tensor) {
	switch b {
	case cudnnBackend:
		return p.emptyOf(tensor.Int64), p.emptyOf(tensor.Int64)
	case flashBackend:
		return p.emptyOf(tensor.Int64, 2), nil
	}
	return nil, nil
}

// likeOrder lays sizes out in the order of dimensions of another tensor (cuDNN's output follows the query).
func likeOrder(t *Tensor, sizes []int) tensor.Layout {
	order := t.Order()
	slow := make([]int, len(order))
	for i, d := range order {
		slow[len(order)-1-i] = d
	}
	return tensor.Ordered(sizes, slow)
}

// mathAttention is _scaled_dot_product_attention_math (attention.cpp, 2.11).
func mathAttention(q, k, v *Tensor, a Attention) *Tensor {
	p := q.p
	c := p.Function(q, k, v, a.Mask)
	origin := q.DType
	var out *Tensor
	p.WithoutAutocast(func() {
		q, k, v = c.Let(q.accurate()), c.Let(k.accurate()), c.Let(v.accurate())
		q = c.Let(q.MulScalar())
		mask := a.Mask
		if a.Causal {
			p.op = "aten::tril"
			ones := p.emptyOf(tensor.Bool, q.Dim(2), k.Dim(2))
			lower := p.emptyOf(tensor.Bool, q.Dim(2), k.Dim(2))
			p.observe(p.op, tensor.Bool, 0, ones.Bytes(), 2*lower.Bytes())
			drop(ones)
			mask = c.Let(lower.additive(q.DType))
			drop(lower)
		}
		if a.GQA && q.Dim(1) != k.Dim(1) {
			times := q.Dim(1) / k.Dim(1)
			k, v = c.Let(k.RepeatInterleave(times, 1)), c.Let(v.RepeatInterleave(times, 1))
		}
		attn := c.Let(Matmul(q, k.Transpose(-2, -1).MulScalar()))
		if mask != nil {
			attn.AddInPlace(mask)
		}
		c.Set(&attn, attn.safeSoftmax())
		if a.Dropout > 0 {
			c.Set(&attn, attn.Dropout(a.Dropout))
		}
		// The pair it returns is made from the right: the weights in the caller's type, which nobody takes, come first.
		if unused := attn.To(origin); unused != attn {
			c.Let(unused)
		}
		out = c.Let(Matmul(attn, v).To(origin))
	})
	return c.Return(out)
}

func (t *Tensor) accurate() *Tensor {
	if t.DType.Half() {
		return t.To(tensor.Float32)
	}
	return t
}

// safeSoftmax beside softmax compares the scores with -inf (a boolean of the same shape) to find empty rows.
func (t *Tensor) safeSoftmax() *Tensor {
	p := t.p
	c := p.Function(t)
	out := c.Let(t.Softmax(-1))
	p.op = "aten::_safe_softmax"
	masked := p.emptyOf(tensor.Bool, t.Sizes...)
	p.observe("aten::eq", t.DType, 0, t.Bytes(), masked.Bytes())
	p.observe("aten::all", tensor.Bool, 0, masked.Bytes(), 0)
	p.observe("aten::where", t.DType, 0, out.Bytes(), out.Bytes())
	drop(masked)
	return c.Return(out)
}

// RepeatInterleave repeats every entry of a dimension: an expanded view made whole.
func (t *Tensor) RepeatInterleave(times, dim int) *Tensor {
	dim = t.Axis(dim)
	sizes := append([]int(nil), t.Sizes...)
	wide := append(append(append([]int(nil), sizes[:dim+1]...), times), sizes[dim+1:]...)
	sizes[dim] *= times
	return t.Unsqueeze(dim + 1).Expand(wide...).Reshape(sizes...)
}
