package graphrun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/internal/model/eager"
	"github.com/plimsoll/plimsoll/internal/model/exported"
)

// manyResults are operators with several results, and views, whose results share memory.
var manyResults = map[string]func(o *graphOp) []*eager.Tensor{
	"split":            (*graphOp).split,
	"split_with_sizes": (*graphOp).split,
	"chunk":            (*graphOp).chunk,
	"unbind":           (*graphOp).unbind,
	"broadcast_tensors": func(o *graphOp) []*eager.Tensor {
		all := o.tensors()
		for i, t := range all {
			if !slices.Equal(t.Sizes, o.sizes(i)) { // ATen/ExpandUtils.h, expand_outplace: those of the right size are themselves
				all[i] = t.Expand(o.sizes(i)...)
			}
		}
		return all
	},
	"topk": func(o *graphOp) []*eager.Tensor {
		values, indices := o.self().TopK(o.int("k", 1), o.int("dim", -1))
		return []*eager.Tensor{values, indices}
	},
	"sort": func(o *graphOp) []*eager.Tensor {
		values, indices := o.self().Sort()
		return []*eager.Tensor{values, indices}
	},
	"view":          one((*graphOp).reshape),
	"_unsafe_view":  one((*graphOp).reshape),
	"reshape":       one((*graphOp).reshape),
	"unflatten":     one((*graphOp).reshape),
	"flatten":       one(func(o *graphOp) *eager.Tensor { return o.self().Flatten(o.int("start_dim", 0), o.int("end_dim", -1)) }),
	"contiguous":    one(func(o *graphOp) *eager.Tensor { return o.self().Contiguous() }),
	"transpose":     one(func(o *graphOp) *eager.Tensor { return o.self().Transpose(o.int("dim0", 0), o.int("dim1", 1)) }),
	"swapaxes":      one(func(o *graphOp) *eager.Tensor { return o.self().Transpose(o.int("axis0", 0), o.int("axis1", 1)) }),
	"t":             one(func(o *graphOp) *eager.Tensor { return o.self().Transpose(0, 1) }),
	"numpy_T":       one(func(o *graphOp) *eager.Tensor { return o.self().Transpose(0, 1) }),
	"permute":       one(func(o *graphOp) *eager.Tensor { return o.self().Permute(o.ints("dims")...) }),
	"unsqueeze":     one(func(o *graphOp) *eager.Tensor { return o.self().Unsqueeze(o.int("dim", 0)) }),
	"squeeze":       one((*graphOp).squeeze),
	"expand":        one(func(o *graphOp) *eager.Tensor { return o.self().Expand(o.ints("size")...) }),
	"expand_as":     one(func(o *graphOp) *eager.Tensor { return o.self().Expand(o.second().Sizes...) }),
	"select":        one(func(o *graphOp) *eager.Tensor { return o.self().Select(o.int("dim", 0), o.int("index", 0)) }),
	"slice":         one((*graphOp).slice),
	"detach_":       one(func(o *graphOp) *eager.Tensor { return o.self() }),
	"repeat":        one(func(o *graphOp) *eager.Tensor { return o.self().Repeat(o.ints("repeats")...) }),
	"pixel_shuffle": one(func(o *graphOp) *eager.Tensor { return o.self().Moved("pixel_shuffle", o.sizes(0)) }),
}

func one(f graphOpFunc) func(o *graphOp) []*eager.Tensor {
	return func(o *graphOp) []*eager.Tensor { return []*eager.Tensor{f(o)} }
}

// reshape gives the shape the graph states: view where strides allow it, a copy otherwise.
func (o *graphOp) reshape() *eager.Tensor { return o.self().Reshape(o.sizes(0)...) }

func (o *graphOp) squeeze() *eager.Tensor {
	if a, ok := o.node.Arg("dim"); ok && a.Kind == exported.Int {
		return o.self().Squeeze(o.int("dim", 0))
	}
	return o.self().Reshape(o.sizes(0)...)
}

// slice of everything is no operator in eager execution: Python's indexing skips it.
func (o *graphOp) slice() *eager.Tensor {
	t := o.self()
	dim := t.Axis(o.int("dim", 0))
	from, to, step := o.int("start", 0), o.int("end", t.Sizes[dim]), o.int("step", 1)
	if from == 0 && to >= t.Sizes[dim] && step == 1 {
		return t
	}
	return t.SliceStep(dim, from, to, step)
}

// pieces refuses a cut into another number of pieces than the graph lists.
func (o *graphOp) pieces(n int) {
	if n != len(o.node.Outputs) {
		panic(eager.Fault(fmt.Sprintf("%s makes %d pieces, the graph lists %d", o.node.Target, n, len(o.node.Outputs))))
	}
}

func (o *graphOp) chunk() []*eager.Tensor {
	t, dim, n := o.self(), o.int("dim", 0), o.int("chunks", 1)
	step := max((t.Dim(dim)+n-1)/max(n, 1), 1)
	o.pieces((t.Dim(dim) + step - 1) / step)
	return t.Chunk(n, dim)
}

func (o *graphOp) unbind() []*eager.Tensor {
	t, dim := o.self(), o.int("dim", 0)
	o.pieces(t.Dim(dim))
	return t.Unbind(dim)
}

func (o *graphOp) split() []*eager.Tensor {
	t := o.self()
	dim := t.Axis(o.int("dim", 0))
	lengths := o.ints("split_sizes")
	if lengths == nil {
		step := max(o.int("split_size", 1), 1)
		o.pieces((t.Sizes[dim] + step - 1) / step)
		for at := 0; at < t.Sizes[dim]; at += step {
			lengths = append(lengths, min(step, t.Sizes[dim]-at))
		}
	}
	return t.Split(dim, lengths...)
}

// attention runs scaled_dot_product_attention with what the plan stripped left out.
func (o *graphOp) attention() *eager.Tensor {
	a := eager.Attention{
		Mask: o.arg("attn_mask"), Dropout: o.node.Float("dropout_p", 0),
		Causal: o.node.Bool("is_causal", false) || o.node.causal, GQA: o.node.gqa || o.node.Bool("enable_gqa", false),
	}
	return eager.ScaledDotProduct(o.arg("query"), o.arg("key"), o.arg("value"), a)
}

// flash runs flash-attn's function (probe, _flash.py).
func (o *graphOp) flash() *eager.Tensor {
	return eager.FlashAttention(o.arg("query"), o.arg("key"), o.arg("value"), eager.Flash{
		Dropout: o.node.Float("dropout_p", 0), Causal: o.node.Bool("is_causal", false), Samples: o.int("samples", 0),
	})
}

// function is a result of a torch.autograd.Function (probe, _functions.py).
func (o *graphOp) function() *eager.Tensor {
	return o.p.CustomResult(o.arg("result"), o.listed("arguments"), o.listed("saved"))
}

// listed are the tensors of an argument that is a list.
func (o *graphOp) listed(name string) []*eager.Tensor {
	a, _ := o.node.Arg(name)
	var out []*eager.Tensor
	for _, v := range a.Values {
		if v >= 0 && o.vals[v] != nil {
			out = append(out, o.vals[v])
		}
	}
	return out
}

// einsum of two operands is a batched product of permuted operands (aten/src/ATen/native/Linear.cpp, sumproduct_pair).
func (o *graphOp) einsum() *eager.Tensor {
	a, _ := o.node.Arg("equation")
	in, out, ok := strings.Cut(strings.ReplaceAll(a.Text, " ", ""), "->")
	left, right, two := strings.Cut(in, ",")
	all := o.tensors()
	if two && len(all) == 2 {
		left, right, out, in = spelled(left, right, out, all[0].Rank(), all[1].Rank())
	}
	if !ok || !two || len(all) != 2 || strings.Contains(right, ",") || strings.Contains(in, ".") {
		return o.conservative()[0]
	}
	var batch, lo, ro, sum []byte
	for _, c := range []byte(left) {
		switch {
		case strings.IndexByte(right, c) >= 0 && strings.IndexByte(out, c) >= 0:
			batch = append(batch, c)
		case strings.IndexByte(right, c) >= 0:
			sum = append(sum, c)
		default:
			lo = append(lo, c)
		}
	}
	for _, c := range []byte(right) {
		if strings.IndexByte(left, c) < 0 {
			ro = append(ro, c)
		}
	}
	l := arrange(all[0], left, batch, lo, sum)
	r := arrange(all[1], right, batch, sum, ro)
	have := string(batch) + string(lo) + string(ro)
	shape := make([]int, len(have))
	for i := range len(have) {
		shape[i] = o.sizes(0)[strings.IndexByte(out, have[i])]
	}
	order := make([]int, len(out))
	for i := range len(out) {
		order[i] = strings.IndexByte(have, out[i])
	}
	res := eager.Bmm(l, r).View(shape...)
	if slices.IsSorted(order) {
		return res
	}
	return res.Permute(order...)
}

// spelled gives the dimensions behind "..." letters of their own, the same in all terms, where both operands have equally many of them.
func spelled(left, right, out string, ranks ...int) (l, r, o, in string) {
	const dots = "..."
	count := func(term string, rank int) int {
		if !strings.Contains(term, dots) {
			return 0
		}
		return rank - len(term) + len(dots)
	}
	n, m := count(left, ranks[0]), count(right, ranks[1])
	if n == m && n > 0 && n <= 10 {
		letters := "0123456789"[:n]
		left, right, out = strings.Replace(left, dots, letters, 1), strings.Replace(right, dots, letters, 1), strings.Replace(out, dots, letters, 1)
	}
	return left, right, out, left + "," + right
}

// arrange permutes an operand into three groups of dimensions and merges each group.
func arrange(t *eager.Tensor, names string, groups ...[]byte) *eager.Tensor {
	var order, shape []int
	for _, g := range groups {
		size := 1
		for _, c := range g {
			axis := strings.IndexByte(names, c)
			order = append(order, axis)
			size *= t.Sizes[axis]
		}
		shape = append(shape, size)
	}
	return t.Permute(order...).Reshape(shape...)
}
