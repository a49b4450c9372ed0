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
	flops := 2 * float64(out.Numel()) * float64(rows.Dim(1))
	p.observe(p.op, rows.DType, flops, rows.Bytes()+experts.Bytes(), out.Bytes())
	n.backward(func(g []*Tensor) []*Tensor {
		grads := make([]*Tensor, 2)
		if n.needs(1) {
			grads[1] = p.empty(experts.Like(), g[0].DType)
			p.observe("GroupedMmBackward0", g[0].DType, flops, g[0].Bytes()+rows.Bytes(), grads[1].Bytes())
		}
		if n.needs(0) {
			grads[0] = p.emptyOf(g[0].DType, rows.Sizes...)
			p.observe("GroupedMmBackward0", g[0].DType, flops, g[0].Bytes()+experts.Bytes(), grads[0].Bytes())
		}
		return grads
	})
	drop(rows, experts, offsets)
	return out
}
