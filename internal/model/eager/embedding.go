package eager

import (
	"slices"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Embedding looks indices up in a table. It saves the indices; the gradient is a dense table of zeros that is written to.
// More than 3072 indices are sorted first and summed in fp32 pieces, with or without a padding index: of 13 tables recorded on an H200, the ten with fewer took nothing beside their gradient
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/native/cuda/Embedding.cu, embedding_dense_backward_cuda).
func Embedding(indices, table *Tensor) *Tensor {
	p := table.p
	p.op = "aten::embedding"
	n := p.record("EmbeddingBackward0", table)
	n.save(indices)
	out := n.out(p.emptyOf(table.DType, append(slices.Clone(indices.Sizes), table.Dim(1))...))
	p.observe(p.op, table.DType, 0, out.Bytes(), out.Bytes())
	count := indices.Numel()
	n.backward(func(g []*Tensor) []*Tensor {
		grad := g[0].Contiguous()
		dense := p.emptyOf(grad.DType, table.Sizes...)
		if count > sortedFrom {
			p.embeddingScratch(count, table)
		}
		p.observe("EmbeddingBackward0", grad.DType, float64(grad.Numel()), grad.Bytes(), dense.Bytes())
		if grad != g[0] {
			drop(grad)
		}
		return []*Tensor{dense}
	})
	if p.tokens == nil {
		p.tokens = table
	}
	if p.inputGrads && p.grad && !p.named && p.tokens == table {
		out.RequireGrad()
	}
	drop(indices, table)
	return out
}

// sortedFrom is the most indices that one kernel adds up without sorting them.
const sortedFrom = 3072

// embeddingScratch: sorted indices and their origins, then fp32 partial sums (n/10 + min(n, rows)) wide
// (EmbeddingBackwardKernel.cu: NROWS_PER_THREAD 10).
func (p *Process) embeddingScratch(count int, table *Tensor) {
	sorted := p.emptyOf(tensor.Int64, count)
	origin := p.emptyOf(tensor.Int64, count)
	segments := count/10 + min(count, table.Dim(0))
	p.scratch(units.Bytes(segments) * units.Bytes(table.Dim(1)) * 4)
	drop(sorted, origin)
}
