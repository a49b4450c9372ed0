package eager

import "github.com/plimsoll/plimsoll/internal/model/tensor"

// RingAttention is causal scaled_dot_product_attention of one of several cards that divide a sequence (context parallelism): each has its part of q, k and v, gathers the keys and
// values of all, and merges one attention after the other in fp32. It is the first card's: with the later half of its queries it looks at the keys of each other card (their load is
// balanced head to tail), so that its result is put together from two parts, and saved beside the copy that its layer makes of it. The last card, which has no such turn, needs a little less:
// on an H200 this was within 0.02 % as rank 0 (docs/measurements/2026-11-16-h200-written-plans.md).
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

// turn tells the rows of queries of a turn, and whether its products are causal: all of them with the card's own keys, then the later half with each other's.
func (r ring) turn(i int) (rows int, causal bool) {
	if i == 0 {
		return r.q.Dim(2), true
	}
	return r.q.Dim(2) / 2, false
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
	n := p.record("ScaledDotProductAttentionBackward0", q, r.k, r.v, nil)
	n.save(q, r.k, r.v)
	mine, all := r.gathered()
	var block, sum, sumLSE, seed, offset *Tensor // the last attention, and what is merged
	for i := range r.cards {
		if i == 1 {
			drop(mine...)
		}
		r.rotated(i)
		was := []*Tensor{block, seed, offset}
		p.op = "aten::_scaled_dot_product_attention"
		part := q.first(r.rows(i))
		seed, offset = p.randomState(r.b)
		block = p.empty(likeOrder(q, part.Sizes), q.DType)
		lse := p.emptyOf(tensor.Float32, part.Sizes[:3]...)
		drop(was...)
		p.work(r.fused(i))
		if r.b == cudnnBackend {
			p.scratch(256)
		}
		p.op = "aten::_to_copy"
		wide := p.emptyOf(tensor.Float32, part.Sizes...)
		p.observe(p.op, tensor.Float32, 0, block.Bytes(), wide.Bytes())
		if sum == nil {
			sum, sumLSE = wide, lse
			continue
		}
		sum, sumLSE = r.merge(sum, sumLSE, wide, lse)
	}
	drop(all)
	p.op = "aten::_to_copy"
	out := p.emptyOf(q.DType, q.Sizes...)
	drop(sum, block)
	n.save(sumLSE, out, offset, seed)
	n.out(out)
	n.backward(func(g []*Tensor) []*Tensor { return r.back(n, g[0], out.Layout) })
	drop(sumLSE, seed, offset)
	return out
}

func (r ring) rows(i int) int {
	rows, _ := r.turn(i)
	return rows
}

// merge adds the attention of the later half of the queries to what is there: out − sigmoid(lse' − lse) · (out − out'), and puts both halves together (_SDPAMerger._merge_one, _partial_update).
func (r ring) merge(sum, sumLSE, block, lse *Tensor) (*Tensor, *Tensor) {
	p := r.p
	like := func(t *Tensor) *Tensor { return p.emptyOf(tensor.Float32, t.Sizes...) }
	p.op = "aten::sub"
	weight, diff := like(lse), like(block)
	p.op = "aten::mul"
	product := like(block)
	drop(weight, diff)
	p.op = "aten::sub"
	merged := like(block)
	drop(product)
	mergedLSE := like(lse)
	p.op = "aten::cat"
	wholeLSE := like(sumLSE)
	drop(sumLSE)
	whole := like(sum)
	p.work(Work{Op: p.op, Kind: Pass, DType: tensor.Float32, Result: tensor.Float32, Kernels: 8, Read: 6*block.Bytes() + sum.Bytes(), Written: 3*block.Bytes() + sum.Bytes()})
	drop(sum, merged, mergedLSE, block, lse)
	return whole, wholeLSE
}

// fused is the work of a turn's attention.
func (r ring) fused(i int) Work {
	q := r.q
	rows, causal := r.turn(i)
	batch, heads, cols, dim := q.Dim(0), q.Dim(1), r.k.Dim(2), r.v.Dim(-1)
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
	wide := func(t *Tensor) *Tensor { return p.emptyOf(tensor.Float32, t.Sizes...) }
	p.op = "aten::zeros_like"
	dq, pair := wide(q), []*Tensor{wide(r.k), wide(r.v)} // pair: of keys and values
	mine, all := r.gathered()
	both := r.k.Numel() + r.v.Numel()
	var last []*Tensor         // gradients of the last turn
	var sent, got, had *Tensor // what goes to the next card, what comes from the one before, and what came in the turn before
	for i := range r.cards {
		if i == 1 {
			drop(mine...)
		}
		r.rotated(i)
		work := r.fused(i)
		work.Op, work.FLOPs, work.Read = "ScaledDotProductAttentionBackward0", 2.5*work.FLOPs, 2*work.Read
		p.work(work)
		part := q.first(r.rows(i))
		now := p.fusedGrads(n, r.b, g, out, part, r.k, r.v, r.a)
		drop(last...)
		last = now
		if i > 0 { // the sum that came from the card before takes the place of what is there
			drop(sent, had)
			drop(pair...)
			pair = nil
		}
		p.op = "aten::cat"
		sent = p.emptyOf(tensor.Float32, both)
		p.op = "_c10d_functional::all_to_all_single"
		had, got = got, p.emptyOf(tensor.Float32, both)
		if i > 0 {
			p.op = "aten::cat"
			whole := wide(q)
			drop(dq)
			dq = whole
		}
	}
	p.op = "aten::_to_copy"
	whole := p.empty(gradLayout(r.b, q), q.DType)
	drop(dq)
	narrow := p.emptyOf(r.k.DType, both)
	grads := []*Tensor{whole, narrow.alias(tensor.Of(r.k.Sizes...)), narrow.alias(tensor.Of(r.v.Sizes...)), nil}
	drop(narrow, all, sent, got, had)
	drop(pair...)
	drop(last...)
	return grads
}

// first is the shape of the first rows of queries.
func (t *Tensor) first(rows int) *Tensor {
	return &Tensor{p: t.p, Layout: t.Layout.Slice(2, rows, 1), DType: t.DType}
}
