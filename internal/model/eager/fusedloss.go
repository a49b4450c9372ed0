package eager

import (
	"math/bits"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

// FusedLinearCrossEntropy is Liger's: the head, the loss and both gradients are computed in forward, a piece of the rows at a time, so that logits exist for one piece only. What backward
// hands on is there already (https://github.com/linkedin/Liger-Kernel/blob/v0.8.5/src/liger_kernel/ops/fused_linear_cross_entropy.py; measured: docs/measurements/2026-11-16-h200-quantized.md).
// x is [rows, hidden], w [classes, hidden].
func FusedLinearCrossEntropy(x, w, target *Tensor) *Tensor {
	l := newFusedLoss(x, w)
	l.p.NoGrad(l.pieces)
	return l.result(target)
}

// fusedLoss is one call of it.
type fusedLoss struct {
	p                             *Process
	n                             *Node
	x, w                          *Tensor
	gradIn, gradWeight            *Tensor
	losses, mask                  *Tensor
	rows, hidden, classes, atOnce int
}

func newFusedLoss(x, w *Tensor) *fusedLoss {
	p := x.p
	p.op = "liger::fused_linear_cross_entropy"
	l := &fusedLoss{p: p, n: p.record("LigerFusedLinearCrossEntropyFunctionBackward", x, w), x: x, w: w, rows: x.Dim(0), hidden: x.Dim(1), classes: w.Dim(0)}
	l.gradIn = p.empty(x.Like(), x.DType)
	if l.n.needs(1) {
		l.gradWeight = p.empty(w.Like(), w.DType)
	}
	l.losses, l.mask = p.emptyOf(tensor.Float32, l.rows), p.emptyOf(tensor.Bool, l.rows)
	l.atOnce = min(ligerPiece(l.rows, l.hidden, l.classes), l.rows)
	return l
}

// pieces are the products of all pieces. Those of operands in the type that is computed in write into one buffer of logits and into the gradients themselves; under autocast each
// makes its own result, of casts of both operands.
func (l *fusedLoss) pieces() {
	p := l.p
	d, casting := p.Autocasting()
	if !casting {
		d = l.x.DType
	}
	var buffer *Tensor
	if l.x.DType == d && l.w.DType == d { // _can_use_mm_out
		buffer = p.emptyOf(d, l.atOnce, l.classes)
	}
	for at := 0; at < l.rows; at += l.atOnce {
		n, made := min(l.atOnce, l.rows-at), (*Tensor)(nil)
		if buffer == nil {
			made = l.castPiece(d, n)
		} else {
			l.multiply(d, n, l.classes, l.hidden)
			l.multiply(d, n, l.hidden, l.classes)
		}
		l.addToWeight(d, n)
		drop(made)
	}
	drop(buffer)
}

// castPiece gives the logits of a piece under autocast, and its part of the input's gradient. The transposed weight is a view, whose cast autocast does not keep; it keeps that of the
// weight itself, which the gradient is a product with.
func (l *fusedLoss) castPiece(d tensor.DType, n int) *Tensor {
	p := l.p
	part, turned := p.emptyOf(d, n, l.hidden), p.emptyOf(d, l.classes, l.hidden)
	logits := p.emptyOf(d, n, l.classes)
	l.multiply(d, n, l.classes, l.hidden)
	drop(part, turned)
	whole := p.lower(l.w)
	product := p.emptyOf(d, n, l.hidden)
	l.multiply(d, n, l.hidden, l.classes)
	drop(product, whole)
	return logits
}

// addToWeight adds a piece's product to the gradient of the weight: in place where the product is of 16 bits, else by way of a result of its own.
func (l *fusedLoss) addToWeight(d tensor.DType, n int) {
	if l.gradWeight == nil {
		return
	}
	p := l.p
	var held *Tensor
	switch {
	case !d.Half():
		held = p.emptyOf(d, l.classes, l.hidden)
	case l.x.DType != d:
		held = p.emptyOf(d, n, l.hidden)
	}
	l.multiply(d, l.classes, l.hidden, n)
	drop(held)
}

func (l *fusedLoss) multiply(d tensor.DType, rows, columns, inner int) {
	l.p.useBlas()
	l.p.multiply("aten::mm", d, alignment(l.w), 1, rows, columns, inner)
}

// result is the loss, whose backward hands both gradients on.
func (l *fusedLoss) result(target *Tensor) *Tensor {
	p, n := l.p, l.n
	out := p.emptyOf(tensor.Float32)
	drop(l.mask, l.losses)
	n.save(l.gradIn, l.gradWeight)
	n.out(out)
	layouts := []shaped{{l.x.Layout, l.x.DType}, {l.w.Layout, l.w.DType}}
	stores := make([]*storage, 2)
	for i, t := range []*Tensor{l.gradIn, l.gradWeight} {
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
	drop(l.gradIn, l.gradWeight, l.x, l.w, target)
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
