package eager

import (
	"github.com/plimsoll/plimsoll/internal/model/tensor"
	"github.com/plimsoll/plimsoll/internal/units"
)

// Tiles of TRL's fused head: tokens and columns of the vocabulary that are projected at once
// (https://github.com/huggingface/trl/blob/v1.16.0/trl/kernels/chunked_logprob.py, TOKEN_CHUNK_SIZE;
// https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/utils.py, _CHUNKED_LOGPROB_CHUNK_SIZE).
const (
	fusedTokens  = 4096
	fusedColumns = 32768
)

// FusedLogProbs is TRL's ChunkedLogProbFunction: the log-probability of each target under hidden·weightᵀ, without the logits. They exist one tile at a time;
// backward computes each tile again, turns it into its gradient in place and sums both gradients in fp32.
func FusedLogProbs(hidden, weight, targets *Tensor) *Tensor {
	p := hidden.p
	p.op = "trl::ChunkedLogProbFunction"
	n := p.record("ChunkedLogProbFunctionBackward", hidden, weight)
	f := fusedHead{p: p, tokens: hidden.Dim(0), width: hidden.Dim(1), vocab: weight.Dim(0), hidden: hidden.DType, weight: weight.DType, dtype: hidden.DType}
	if d, on := p.Autocasting(); on {
		f.dtype = d
	}
	row := func() *Tensor { return p.emptyOf(tensor.Float32, f.tokens) }
	running, sum, weighted, squares, total, before, target := row(), row(), row(), row(), row(), row(), row()
	release := f.tiles(false, func(int, int) {})
	logs := row()
	logZ := row()
	drop(logs)
	out := row()
	ratio := row()
	entropy := row()
	drop(ratio)
	top := p.emptyOf(tensor.Bool, f.tokens)
	n.save(hidden, weight, targets, logZ, entropy)
	n.out(out)
	drop(running, sum, weighted, squares, total, before, target, logZ, entropy, top)
	release()
	n.backward(func([]*Tensor) []*Tensor { return f.backward(n) })
	drop(hidden, weight, targets)
	return out
}

// fusedHead is what backward needs to know of a call.
type fusedHead struct {
	p                     *Process
	tokens, width, vocab  int
	hidden, weight, dtype tensor.DType // of the arguments, and of the products
}

// tiles projects one tile after another, with copies of its operands in the type of the products, and calls more for each. Its names live until it is released,
// as those of a Python function do: the tile, the last rows and, where they have a name (in backward), the last weights.
func (f fusedHead) tiles(named bool, more func(rows, columns int)) (release func()) {
	p := f.p
	buffer := p.emptyOf(f.dtype, min(f.tokens, fusedTokens), fusedColumns)
	var part, words *Tensor
	for from := 0; from < f.tokens; from += fusedTokens {
		rows := min(fusedTokens, f.tokens-from)
		replace(&part, f.cast(f.hidden, rows))
		for at := 0; at < f.vocab; at += fusedColumns {
			columns := min(fusedColumns, f.vocab-at)
			replace(&words, f.cast(f.weight, columns))
			p.useBlas()
			p.multiply(p.op, f.dtype, 8, 1, rows, columns, f.width)
			p.observe(p.op, f.dtype, 0, units.Bytes(rows*columns)*f.dtype.Width(), 0)
			more(rows, columns)
			if !named {
				replace(&words, nil)
			}
		}
	}
	return func() { drop(part, words, buffer) }
}

// replace gives a name another value; the old one goes afterwards.
func replace(name **Tensor, value *Tensor) {
	drop(*name)
	*name = value
}

// cast is a copy of some rows of an operand; nil where it has the type of the products.
func (f fusedHead) cast(from tensor.DType, rows int) *Tensor {
	if from == f.dtype {
		return nil
	}
	out := f.p.emptyOf(f.dtype, rows, f.width)
	f.p.observe("aten::_to_copy", f.dtype, 0, 2*out.Bytes(), out.Bytes())
	return out
}

func (f fusedHead) backward(n *Node) []*Tensor {
	p := f.p
	p.op = n.name
	var states, words *Tensor
	if n.needs(0) {
		states = p.zerosLike(tensor.Of(f.tokens, f.width), tensor.Float32)
	}
	if n.needs(1) {
		words = p.zerosLike(tensor.Of(f.vocab, f.width), tensor.Float32)
	}
	release := f.tiles(true, func(rows, columns int) {
		for _, grad := range []*Tensor{states, words} {
			if grad != nil {
				p.multiply(p.op, f.dtype, 8, 1, rows, f.width, columns) // or columns × width over rows: as many operations
			}
		}
	})
	grads := []*Tensor{states, words}
	for i, d := range []tensor.DType{f.hidden, f.weight} {
		if t := grads[i]; t != nil && d != tensor.Float32 {
			grads[i] = p.empty(t.Like(), d)
			p.observe("aten::_to_copy", d, 0, t.Bytes(), grads[i].Bytes())
			defer drop(t) // both sums live until the function returns
		}
	}
	release()
	return grads
}
