package eager

// GroupedMM is torch.nn.functional.grouped_mm of rows [n, in], sorted by expert, with the experts' matrices [experts, in, out];
// offsets are where each expert's rows end. It is on none of autocast's lists (2.11) and saves each operand where the other
// needs a gradient; the gradient of the matrices is one whole tensor in their memory order (aten/src/ATen/native/GroupedMMUtils.h).
func GroupedMM(rows, experts, offsets *Tensor) *Tensor {
	p := rows.p
	p.op = "aten::_grouped_mm"
	n := p.record("GroupedMmBackward0", rows, experts)
	n.saveIf(n.needs(0), experts)
	n.save(offsets)
	n.saveIf(n.needs(1), rows)
	out := n.out(p.emptyOf(rows.DType, rows.Dim(0), experts.Dim(2)))
	// Every expert has its own product; together they have as many rows as there are.
	p.multiply(p.op, rows.DType, 8, 1, rows.Dim(0), experts.Dim(2), rows.Dim(1))
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 2)
		if n.needs(1) {
			grads[1] = p.empty(experts.Like(), g[0].DType)
			p.multiply("GroupedMmBackward0", g[0].DType, 8, experts.Dim(0), rows.Dim(1), experts.Dim(2), rows.Dim(0)/max(1, experts.Dim(0)))
		}
		if n.needs(0) {
			grads[0] = p.emptyOf(g[0].DType, rows.Sizes...)
			p.multiply("GroupedMmBackward0", g[0].DType, 8, 1, rows.Dim(0), rows.Dim(1), experts.Dim(2))
		}
		return grads
	})
	drop(rows, experts, offsets)
	return out
}
