package eager

import (
	"github.com/plimsoll/plimsoll/internal/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

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
	if a.Mask != nil && a.Mask.DType.Floating() {
		a.Mask = c.Let(p.lower(a.Mask))
	}
	v = c.Let(p.lower(v))
	k = c.Let(p.lower(k))
	q = c.Let(p.lower(q))
	if a.Mask != nil && a.Mask.DType == tensor.Bool {
		a.Mask = c.Let(a.Mask.additive(q.DType))
	}
	switch b := p.attentionBackend(q, k, a); b {
	case mathBackend:
		return c.Return(mathAttention(q, k, v, a))
	default:
		return c.Return(p.fusedAttention(b, q, k, v, a))
	}
}

// additive turns a boolean mask into an additive one of the query's type, on every call
// (aten/src/ATen/native/transformers/attention.cpp, convert_boolean_attn_mask).
func (t *Tensor) additive(d tensor.DType) *Tensor {
	t.p.op = "aten::where"
	return t.p.emptyOf(d, t.Sizes...)
}

// attentionBackend follows aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (2.11).
func (p *Process) attentionBackend(q, k *Tensor, a Attention) backend {
	if a.Mask != nil && a.Mask.Strides[a.Mask.Rank()-1] != 1 {
		return mathBackend
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
	case cudnnBackend:
		layout = likeOrder(q, sizes)
	case efficientBackend:
		lseRows = roundUp(rows, 32)
	}
	seed, offset := p.randomState(b)
	out := p.empty(layout, q.DType)
	lse := p.emptyOf(tensor.Float32, batch, heads, lseRows)
	n.save(lse, out, offset, seed)
	n.out(out)
	if b == cudnnBackend {
		p.scratch(256)
	}
	flops := 4 * float64(batch) * float64(heads) * float64(rows) * float64(cols) * float64(dim)
	if a.Causal {
		flops /= 2
	}
	p.observe(p.op, q.DType, flops, q.Bytes()+k.Bytes()+v.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		p.observe("ScaledDotProductAttentionBackward0", q.DType, 2.5*flops, 2*(q.Bytes()+k.Bytes()+v.Bytes()), q.Bytes()+k.Bytes()+v.Bytes())
		return p.fusedGrads(n, b, q, k, v, a)
	})
	drop(lse, seed, offset)
	return out
}

// randomState is what dropout inside a kernel needs in backward. cuDNN always has both numbers on the card, with
// or without dropout (recorded trace), efficient attention keeps them on the host.
func (p *Process) randomState(b backend) (seed, offset *Tensor) {
	if b != cudnnBackend {
		return nil, nil
	}
	return p.emptyOf(tensor.Int64), p.emptyOf(tensor.Int64)
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

// fusedGrads are dq, dk, dv and the kernel's own buffers, measured for cuDNN and efficient attention, read in
// flash_api.cpp for flash.
func (p *Process) fusedGrads(n *Node, b backend, q, k, v *Tensor, a Attention) []*Tensor {
	batch, heads, rows, dim := q.Dim(0), q.Dim(1), q.Dim(2), q.Dim(3)
	perRow := units.Bytes(batch * heads * rows * 4)
	dq := p.empty(gradLayout(b, q), q.DType)
	dk := p.empty(gradLayout(b, k), k.DType)
	dv := p.empty(gradLayout(b, v), v.DType)
	grads := []*Tensor{dq, dk, dv, nil}
	if a.Mask != nil && n.needs(3) {
		grads[3] = p.emptyOf(a.Mask.DType, a.Mask.Sizes...)
	}
	switch b {
	case cudnnBackend:
		size := perRow*units.Bytes(dim) + perRow + 256
		if heads != k.Dim(1) {
			size += 2 * 2 * units.Bytes(batch*heads*k.Dim(2)*dim)
		}
		p.scratch(size)
	case efficientBackend:
		product := p.emptyOf(tensor.Float32, batch, heads, rows, dim)
		if q.DType == tensor.Float32 {
			delta := p.emptyOf(tensor.Float32, batch, heads, rows)
			p.scratch(perRow)
			drop(delta)
		} else {
			p.scratch(perRow)
		}
		drop(product)
	case flashBackend:
		p.flashScratch(q, k)
	}
	for i := range grads {
		if !n.needs(i) && grads[i] != nil {
			drop(grads[i])
			grads[i] = nil
		}
	}
	return grads
}

// gradLayout: efficient attention lays gradients out as [batch, seq, heads, dim]; cuDNN and flash follow the operand.
func gradLayout(b backend, t *Tensor) tensor.Layout {
	if b == cudnnBackend {
		return t.Like()
	}
	return tensor.Ordered(t.Sizes, []int{0, 2, 1, 3})
}

// flashScratch: softmax_d and dq_accum in fp32, padded; GQA expands dk and dv (flash_api.cpp, mha_bwd).
func (p *Process) flashScratch(q, k *Tensor) {
	batch, heads, rows, dim := q.Dim(0), q.Dim(1), q.Dim(2), q.Dim(3)
	padded := roundUp(rows, 128)
	width := roundUp(dim, 32)
	if dim >= 224 {
		width = 256
	}
	softmaxD := p.emptyOf(tensor.Float32, batch, heads, padded)
	accumulated := p.emptyOf(tensor.Float32, batch, padded, heads, width)
	if heads != k.Dim(1) {
		dk := p.emptyOf(q.DType, batch, k.Dim(2), heads, dim)
		dv := p.emptyOf(q.DType, batch, k.Dim(2), heads, dim)
		drop(dk, dv)
	}
	drop(softmaxD, accumulated)
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
		out = c.Let(Matmul(attn, v))
		c.Set(&out, out.To(origin))
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
