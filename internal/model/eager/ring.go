package eager

import "github.com/plimsoll/plimsoll/internal/model/tensor"

// RingAttention is causal scaled_dot_product_attention of one of several cards that divide a sequence (context parallelism): each has its part of q, k and v, gathers the keys and
// values of all, and merges one attention after the other in fp32. Of the cards, the last one needs most: it looks with all of its queries at the first halves of the others' keys
// (their load is balanced head to tail). Saved is what one attention saves.
// https://github.com/pytorch/pytorch/blob/v2.11.0/torch/distributed/tensor/experimental/_context_parallel/_attention.py (_templated_ring_attention)
func RingAttention(q, k, v *Tensor, a Attention, cards int) *Tensor {
	b := q.p.attentionBackend(q, k, a)
	if cards < 2 || b == mathBackend {
		return ScaledDotProduct(q, k, v, a)
	}
	c := q.p.Function(q, k, v)
	r := ring{p: q.p, b: b, q: q, k: k, v: v, a: a, cards: cards}
	return c.Return(r.forward())
}

type ring struct {
	p       *Process
	b       backend
	q, k, v *Tensor
	a       Attention
	cards   int
}

// turn tells the keys and values of a turn, and whether its products are causal: those of the card itself, then the first halves of each other's.
func (r ring) turn(i int) (cols int, causal bool) {
	if i == 0 {
		return r.k.Dim(2), true
	}
	return r.k.Dim(2) / 2, false
}

// gathered are copies of keys and values one after the other, and those of all cards, which take their place once they have come.
func (r ring) gathered() (mine []*Tensor, all *Tensor) {
	n := r.k.Numel() + r.v.Numel()
	r.p.op = "aten::clone"
	mine = []*Tensor{r.p.emptyOf(r.k.DType, r.k.Numel()), r.p.emptyOf(r.v.DType, r.v.Numel())}
	r.p.op = "aten::cat"
	sent := r.p.emptyOf(r.k.DType, n) // the collective keeps it until it is waited for
	r.p.op = "_c10d_functional::all_gather_into_tensor"
	all = r.p.emptyOf(r.k.DType, n*r.cards)
	return append(mine, sent), all
}

// rotated is the copy of keys and values that is made for every further turn and not sent: one gather has brought them all.
func (r ring) rotated(i int) {
	if i > 0 && i < r.cards-1 {
		r.p.op = "aten::cat"
		drop(r.p.emptyOf(r.k.DType, r.k.Numel()+r.v.Numel()))
	}
}

func (r ring) forward() *Tensor {
	p, q := r.p, r.q
	p.op = "aten::_scaled_dot_product_attention"
	n := p.record("ScaledDotProductAttentionBackward0", q, r.k, r.v)
	n.save(q, r.k, r.v)
	mine, all := r.gathered()
	rows := []int{q.Dim(0), q.Dim(1), q.Dim(2)}
	var block, lse, sum, sumLSE, seed, offset *Tensor // the last attention, and what is merged
	for i := range r.cards {
		if i == 1 {
			drop(mine...)
		}
		r.rotated(i)
		was := []*Tensor{block, lse, seed, offset}
		p.op = "aten::_scaled_dot_product_attention"
		seed, offset = p.randomState(r.b)
		block, lse = p.empty(likeOrder(q, q.Sizes), q.DType), p.emptyOf(tensor.Float32, rows...)
		if i > 0 {
			was[1] = nil // merged
		}
		drop(was...)
		p.work(r.fused(i))
		if r.b == cudnnBackend {
			p.scratch(256)
		}
		p.op = "aten::_to_copy"
		wide := p.emptyOf(tensor.Float32, q.Sizes...)
		p.observe(p.op, tensor.Float32, 0, block.Bytes(), wide.Bytes())
		if sum == nil {
			sum, sumLSE, lse = wide, lse, nil
			continue
		}
		sum, sumLSE = r.merge(sum, sumLSE, wide, lse)
	}
	drop(all)
	p.op = "aten::_to_copy"
	out := p.empty(likeOrder(q, q.Sizes), q.DType)
	drop(sum, block)
	n.save(sumLSE, out, offset, seed)
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor { return r.back(n, g[0], out.Layout) })
	drop(sumLSE, seed, offset)
	return out
}

// merge adds the attention to some keys to what is there (_SDPAMerger._merge_one): out − sigmoid(lse' − lse) · (out − out').
func (r ring) merge(sum, sumLSE, block, lse *Tensor) (*Tensor, *Tensor) {
	p := r.p
	p.op = "aten::sub"
	weight := p.emptyOf(tensor.Float32, lse.Sizes...)
	diff := p.emptyOf(tensor.Float32, sum.Sizes...)
	p.op = "aten::mul"
	product := p.emptyOf(tensor.Float32, sum.Sizes...)
	drop(weight, diff)
	p.op = "aten::sub"
	merged := p.emptyOf(tensor.Float32, sum.Sizes...)
	drop(product)
	mergedLSE := p.emptyOf(tensor.Float32, lse.Sizes...)
	p.work(Work{Op: p.op, Kind: Pass, DType: tensor.Float32, Result: tensor.Float32, Kernels: 6, Read: 6 * sum.Bytes(), Written: 3 * sum.Bytes()})
	drop(sum, sumLSE, block, lse)
	return merged, mergedLSE
}

// fused is the work of a turn's attention.
func (r ring) fused(i int) Work {
	q := r.q
	cols, causal := r.turn(i)
	batch, heads, rows, dim := q.Dim(0), q.Dim(1), q.Dim(2), r.v.Dim(-1)
	flops := 4 * float64(batch) * float64(heads) * float64(rows) * float64(cols) * float64(dim)
	if causal {
		flops /= 2
	}
	return Work{
		Op: r.p.op, Kind: Fused, DType: q.DType, Result: q.DType, FLOPs: flops, Kernels: 1, Causal: causal,
		Shape: [4]int{batch * heads, rows, cols, dim}, Read: stored(q) + stored(r.k) + stored(r.v), Written: q.Bytes(),
	}
}

// back: gradients are added up in fp32; those of keys and values go round with them (_templated_ring_attention_backward).
func (r ring) back(n *Node, g *Tensor, out tensor.Layout) []*Tensor {
	p, q := r.p, r.q
	p.op = "aten::zeros_like"
	dq := p.emptyOf(tensor.Float32, q.Sizes...)
	pair := []*Tensor{p.emptyOf(tensor.Float32, r.k.Numel()), p.emptyOf(tensor.Float32, r.v.Numel())} // of keys and values
	mine, all := r.gathered()
	both := r.k.Numel() + r.v.Numel()
	var last []*Tensor    // gradients of the last turn
	var sent, got *Tensor // what goes to the next card, and what comes from the one before
	for i := range r.cards {
		if i == 1 {
			drop(mine...)
		}
		r.rotated(i)
		work := r.fused(i)
		work.Op, work.FLOPs, work.Read = "ScaledDotProductAttentionBackward0", 2.5*work.FLOPs, 2*work.Read
		p.work(work)
		cols, _ := r.turn(i)
		now := p.fusedGrads(n, r.b, g, out, q, r.k.first(cols), r.v.first(cols), r.a)
		drop(last...)
		last = now
		p.op = "aten::cat"
		if i > 0 { // the sum that came from the card before takes the place of what is there
			drop(sent)
			drop(pair...)
			pair = []*Tensor{p.emptyOf(tensor.Float32, r.k.Numel()), p.emptyOf(tensor.Float32, r.v.Numel())}
		}
		sent = p.emptyOf(tensor.Float32, both)
		p.op = "_c10d_functional::all_to_all_single"
		came := p.emptyOf(tensor.Float32, both)
		drop(got)
		got = came
	}
	p.op = "aten::_to_copy"
	whole := p.empty(gradLayout(r.b, q), q.DType)
	drop(dq)
	narrow := p.emptyOf(r.k.DType, both)
	grads := []*Tensor{whole, narrow.alias(tensor.Of(r.k.Sizes...)), narrow.alias(tensor.Of(r.v.Sizes...)), nil}
	drop(narrow, all, sent, got)
	drop(pair...)
	drop(last...)
	return grads
}

// first is the shape of the first rows of keys or values.
func (t *Tensor) first(rows int) *Tensor {
	return &Tensor{p: t.p, Layout: t.Layout.Slice(2, rows, 1), DType: t.DType}
}
