package eager

import (
	"math"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// Flash holds the arguments of flash-attn's functions beside q, k and v.
type Flash struct {
	Dropout float64
	Causal  bool
	Samples int // of flash_attn_varlen_func: sequences that follow each other in q, k and v
}

// FlashAttention is flash_attn_func of flash-attn 2 on [batch, seq, heads, dim], and flash_attn_varlen_func on [tokens, heads, dim]. It saves q, k, v, the result, which lies as the
// query does, a log-sum-exp for each row and head in fp32, and sixteen bytes of random state
// (https://github.com/Dao-AILab/flash-attention/blob/v2.8.3/flash_attn/flash_attn_interface.py, FlashAttnFunc and FlashAttnVarlenFunc;
// https://github.com/Dao-AILab/flash-attention/blob/v2.8.3/csrc/flash_attn/flash_api.cpp, mha_fwd and mha_varlen_fwd). PyTorch's own kernel is the same code
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp).
func FlashAttention(q, k, v *Tensor, a Flash) *Tensor {
	p := q.p
	if p.still {
		a.Dropout = 0
	}
	dim := q.Dim(-1)
	if dim%8 == 0 {
		return p.flashAttention(q, k, v, a)
	}
	c, more := p.Function(q, k, v), roundUp(dim, 8)-dim
	q, k, v = c.Let(q.Pad(0, more)), c.Let(k.Pad(0, more)), c.Let(v.Pad(0, more))
	return c.Return(p.flashAttention(q, k, v, a).Slice(-1, 0, dim))
}

func (p *Process) flashAttention(q, k, v *Tensor, a Flash) *Tensor {
	s := flashSizesOf(q, k, a)
	p.op = "flash_attn::forward"
	n := p.record("FlashAttnFuncBackward", q, k, v)
	n.save(q, k, v)
	out := p.empty(q.Like(), q.DType)
	lse := p.emptyOf(tensor.Float32, s.batch, s.heads, s.rows)
	p.flashSplits(s, a.Dropout)
	random := p.emptyOf(tensor.Int64, 2)
	n.save(out, lse, random)
	n.out(out)
	flops := 4 * float64(s.batch*s.heads) * float64(s.rows) * float64(s.columns) / float64(s.samples) * float64(s.dim)
	if a.Causal {
		flops /= 2
	}
	fused := Work{
		Op: p.op, Kind: Fused, DType: q.DType, Result: q.DType, FLOPs: flops, Kernels: 1, Causal: a.Causal, Dropout: a.Dropout > 0,
		Shape: [4]int{s.batch * s.samples * s.heads, s.rows / s.samples, s.columns / s.samples, s.dim}, Read: stored(q) + stored(k) + stored(v), Written: out.Bytes(),
	}
	p.work(fused)
	n.backward(func([]*Tensor) []*Tensor {
		back := fused
		back.Op, back.FLOPs = "flash_attn::backward", 2.5*flops
		back.Read, back.Written = 2*fused.Read, q.Bytes()+k.Bytes()+v.Bytes()
		p.work(back)
		grads := []*Tensor{p.empty(q.Like(), q.DType), p.empty(k.Like(), k.DType), p.empty(v.Like(), v.DType)}
		p.flashScratch(s, q.DType)
		for i := range grads {
			if !n.needs(i) {
				drop(grads[i])
				grads[i] = nil
			}
		}
		return grads
	})
	drop(lse, random, q, k, v)
	return out
}

// flashSizes are what the buffers of a flash kernel are made of. Of sequences that follow each other, batch is 1 and rows are the tokens of all samples.
type flashSizes struct {
	batch, heads, keyHeads, rows, columns, dim int
	width                                      int // of a head in sums of fp32
	samples                                    int // of one batch: more than 1 where sequences follow each other
	varlen                                     bool
}

func flashSizesOf(q, k *Tensor, a Flash) flashSizes {
	dim := q.Dim(-1)
	width := roundUp(dim, 32)
	if dim > 192 { // head_size_rounded
		width = 256
	}
	if q.Rank() == 3 {
		return flashSizes{batch: 1, heads: q.Dim(1), keyHeads: k.Dim(1), rows: q.Dim(0), columns: k.Dim(0), dim: dim, width: width, samples: max(a.Samples, 1), varlen: true}
	}
	return flashSizes{batch: q.Dim(0), heads: q.Dim(2), keyHeads: k.Dim(2), rows: q.Dim(1), columns: k.Dim(1), dim: dim, width: width, samples: 1}
}

// torchFlashSizes are those of PyTorch's kernel on [batch, heads, seq, dim], which rounds long heads up to 64 numbers.
func torchFlashSizes(q, k *Tensor) flashSizes {
	dim, to := q.Dim(3), 32
	if dim > 128 {
		to = 64
	}
	return flashSizes{batch: q.Dim(0), heads: q.Dim(1), keyHeads: k.Dim(1), rows: q.Dim(2), columns: k.Dim(2), dim: dim, width: roundUp(dim, to), samples: 1}
}

// flashScratch is what mha_bwd and mha_varlen_bwd take for themselves: the row sums softmax_d and the sums of dq in fp32, both in whole blocks of 128 rows for each sample, with heads
// padded to 32 numbers; grouped heads have gradients of their keys and values for every query head first.
func (p *Process) flashScratch(s flashSizes, d tensor.DType) {
	rows := roundUp(s.rows, 128)
	if s.varlen {
		rows = s.rows + 128*s.samples
	}
	softmaxD := p.emptyOf(tensor.Float32, s.batch, s.heads, rows)
	sums := p.emptyOf(tensor.Float32, s.batch, rows, s.heads, s.width)
	if s.heads != s.keyHeads {
		dk := p.emptyOf(d, s.batch, s.columns, s.heads, s.dim)
		dv := p.emptyOf(d, s.batch, s.columns, s.heads, s.dim)
		drop(dk, dv)
	}
	drop(softmaxD, sums)
}

// flashSplits are the partial results in fp32 of a forward pass whose keys several thread blocks divide: where samples, heads and blocks of 64 rows leave multiprocessors idle
// (set_params_splitkv and num_splits_heuristic; not with dropout, not where sequences follow each other).
func (p *Process) flashSplits(s flashSizes, dropout float64) {
	if dropout > 0 || s.varlen {
		return
	}
	block := 64
	switch {
	case s.dim <= 64:
		block = 256
	case s.dim <= 128:
		block = 128
	}
	splits := keySplits(s.batch*s.heads*ceilDiv(s.rows, 64), 2*p.Device.SMs, ceilDiv(s.columns, block))
	if splits <= 1 {
		return
	}
	sums := p.emptyOf(tensor.Float32, splits, s.batch, s.heads, s.rows)
	parts := p.emptyOf(tensor.Float32, splits, s.batch, s.heads, s.rows, s.width)
	drop(sums, parts)
}

// keySplits is num_splits_heuristic: the fewest parts that fill the card nearly as well as any number does.
func keySplits(blocks, slots, columns int) int {
	if float64(blocks) >= 0.8*float64(slots) {
		return 1
	}
	most := min(128, slots, columns)
	eligible := func(n int) bool { return n == 1 || ceilDiv(columns, n) != ceilDiv(columns, n-1) }
	filled := func(n int) float64 {
		waves := float64(blocks*n) / float64(slots)
		return waves / math.Ceil(waves)
	}
	best := 0.0
	for n := 1; n <= most; n++ {
		if eligible(n) {
			best = max(best, filled(n))
		}
	}
	for n := 1; n <= most; n++ {
		if eligible(n) && filled(n) >= 0.85*best {
			return n
		}
	}
	return 1
}
