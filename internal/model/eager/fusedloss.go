package eager

import (
	"math/bits"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// FusedLinearCrossEntropy is Liger's: the head, the loss and both gradients are computed in forward, a piece of the rows at a time, so that logits exist for one piece only. What backward
// hands on is there already (https://github.com/linkedin/Liger-Kernel/blob/v0.8.2/src/liger_kernel/ops/fused_linear_cross_entropy.py#L22). The gradient of the weight is added
// up piece by piece, each product in the type of the weight and once more in fp32. x is [rows, hidden], w [classes, hidden].
func FusedLinearCrossEntropy(x, w, target *Tensor) *Tensor {
	return fusedLinearCrossEntropy(x, w, target, false)
}

// fusedLinearCrossEntropy as it is, or as 0.4.2 had it, which the published rows are of: logits raised to fp32 and lowered again, the gradient of the weight added up in place.
func fusedLinearCrossEntropy(x, w, target *Tensor, old bool) *Tensor {
	p := x.p
	in, weight := p.lower(x), p.lower(w)
	p.op = "liger::fused_linear_cross_entropy"
	n := p.record("LigerFusedLinearCrossEntropyFunctionBackward", in, weight)
	rows, hidden, classes := in.Dim(0), in.Dim(1), weight.Dim(0)
	gradIn := p.empty(in.Like(), in.DType)
	var gradWeight *Tensor
	if n.needs(1) {
		gradWeight = p.empty(weight.Like(), weight.DType)
	}
	losses := p.emptyOf(tensor.Float32, rows)
	mask := p.emptyOf(tensor.Bool, rows)
	piece := ligerPiece(rows, hidden, classes)
	turned := weight.alias(weight.Layout.Transpose(0, 1)).Retain()
	c := p.Function() // names of a piece last until those of the next replace them
	var logits, scaled *Tensor
	for at := 0; at < rows; at += piece {
		part := in.alias(tensor.Of(min(piece, rows-at), hidden)).Retain()
		c.Set(&logits, p.product("aten::mm", part, turned))
		if old {
			c.Set(&logits, logits.Detach().To(tensor.Float32))
			c.Set(&logits, logits.To(in.DType))
			c.Set(&scaled, p.empty(logits.Like(), logits.DType))
		}
		drop(p.product("aten::mm", logits, weight))
		if gradWeight != nil && !old {
			p.op = "aten::mm"
			product := p.emptyOf(weight.DType, classes, hidden)
			if weight.DType != tensor.Float32 {
				drop(p.emptyOf(tensor.Float32, classes, hidden))
			}
			drop(product)
		}
		part.Release()
	}
	c.ReturnAll()
	turned.Release()
	out := p.emptyOf(tensor.Float32)
	drop(mask, losses)
	n.save(gradIn, gradWeight)
	n.out(out)
	results := []*Tensor{gradIn, gradWeight}
	layouts := []shaped{{in.Layout, in.DType}, {weight.Layout, weight.DType}}
	stores := make([]*storage, 2)
	for i, t := range results {
		if t != nil {
			stores[i] = t.store
		}
	}
	n.backward(func([]*Tensor) []*Tensor {
		grads := make([]*Tensor, 2)
		for i, s := range stores {
			if s != nil && n.needs(i) {
				s.refs++
				grads[i] = p.newTensor(s, layouts[i].layout, layouts[i].dtype)
			}
		}
		return grads
	})
	drop(gradIn, gradWeight, in, x, weight, w, target)
	return out
}

// ligerPiece is how many rows Liger takes at a time: so many that their logits are no larger than the input, up to the next power of two.
func ligerPiece(rows, hidden, classes int) int {
	most := max(ceilDiv(rows, max(ceilDiv(classes, hidden), 1)), 1)
	return 1 << bits.Len(uint(most-1))
}

// ChunkedCrossEntropy is the loss of torchtune: the head runs on pieces of the sequence, whose logits are kept in the model's type, and each piece is raised to fp32 for its own loss alone
// (https://github.com/meta-pytorch/torchtune/blob/v0.6.1/torchtune/modules/loss/ce_chunked_output_loss.py). x is [rows, hidden].
func ChunkedCrossEntropy(x, w, target *Tensor, pieces int) *Tensor {
	c := x.p.Function(x, w, target)
	step := max(ceilDiv(x.Dim(0), pieces), 1)
	var logits, targets []*Tensor
	for at := 0; at < x.Dim(0); at += step {
		to := min(at+step, x.Dim(0))
		logits = append(logits, c.Let(Linear(x.Slice(0, at, to), w, nil)))
		targets = append(targets, c.Let(target.Slice(0, at, to)))
	}
	var total *Tensor
	for i, piece := range logits {
		loss := CrossEntropy(piece.Float(), targets[i])
		if total == nil {
			total = c.Let(loss)
			continue
		}
		c.Set(&total, total.Add(loss))
	}
	return c.Return(total.DivScalar())
}
