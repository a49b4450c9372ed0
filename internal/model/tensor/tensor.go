// Package tensor holds what a tensor is besides its bytes: an element type, sizes and strides.
//
// It takes sizes and the rules of PyTorch (contiguity, views, broadcasting, type promotion) and returns layouts. It holds no data,
// allocates nothing and refuses sizes that do not fit each other with a Mismatch.
package tensor

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/internal/units"
)

// DType is an element type.
type DType uint8

// Element types, in the order of promotion: the result of mixing two is the later one, except that float16
// with bfloat16 gives float32 (c10/core/ScalarType.cpp, promoteTypes).
const (
	Bool DType = iota
	Uint8
	Int32
	Int64
	Float16
	BFloat16
	Float32
	Float64
	dtypes
)

var (
	widths     = [dtypes]units.Bytes{1, 1, 4, 8, 2, 2, 4, 8}
	dtypeNames = [dtypes]string{"bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"}
)

// Width is the size of one element.
func (d DType) Width() units.Bytes { return widths[d] }

// String is PyTorch's name of the type without "torch.".
func (d DType) String() string { return dtypeNames[d] }

// Floating tells whether the type can carry a gradient.
func (d DType) Floating() bool { return d >= Float16 }

// Half tells whether the type has 16 bits.
func (d DType) Half() bool { return d == Float16 || d == BFloat16 }

// Promote gives the result type of an operator on both.
func Promote(a, b DType) DType {
	if a != b && a.Half() && b.Half() {
		return Float32
	}
	return max(a, b)
}

// Mismatch is the value of a panic where sizes contradict each other; package eager turns it into an error.
type Mismatch string

func (m Mismatch) Error() string { return string(m) }

func mismatch(format string, args ...any) Mismatch { return Mismatch(fmt.Sprintf(format, args...)) }

// Layout is sizes and strides, both in elements. Layouts are never changed in place.
type Layout struct {
	Sizes   []int
	Strides []int
}

// blank is a layout whose sizes and strides are still to be written.
func blank(rank int) Layout {
	both := make([]int, 2*rank)
	return Layout{both[:rank:rank], both[rank:]}
}

// copied is a layout of its own.
func (l Layout) copied() Layout {
	out := blank(len(l.Sizes))
	copy(out.Sizes, l.Sizes)
	copy(out.Strides, l.Strides)
	return out
}

// Of gives the contiguous layout of sizes.
func Of(sizes ...int) Layout {
	return Layout{Sizes: sizes, Strides: rowMajor(sizes)}
}

func rowMajor(sizes []int) []int {
	strides := make([]int, len(sizes))
	step := 1
	for i := len(sizes) - 1; i >= 0; i-- {
		strides[i] = step
		step *= max(sizes[i], 1)
	}
	return strides
}

// isRowMajor tells whether the layout is that of Of, also in the strides of dimensions of size one.
func (l Layout) isRowMajor() bool {
	step := 1
	for i := len(l.Sizes) - 1; i >= 0; i-- {
		if l.Strides[i] != step {
			return false
		}
		step *= max(l.Sizes[i], 1)
	}
	return true
}

// ChannelsLast gives the layout with the second dimension fastest (torch.channels_last, also in 3-D).
func ChannelsLast(sizes ...int) Layout {
	order := append([]int{0}, seq(2, len(sizes))...)
	return Ordered(sizes, append(order, 1))
}

// Ordered gives a dense layout whose dimensions lie in memory in the given order, slowest first.
func Ordered(sizes, order []int) Layout {
	strides := make([]int, len(sizes))
	step := 1
	for i := len(order) - 1; i >= 0; i-- {
		strides[order[i]] = step
		step *= max(sizes[order[i]], 1)
	}
	return Layout{Sizes: sizes, Strides: strides}
}

// Iterated is the layout of a result of operands that are broadcast to sizes: dimensions in the order of the operands' strides, the first operand that tells decides
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/TensorIterator.cpp, reorder_dimensions).
func Iterated(sizes []int, operands ...Layout) Layout {
	rank := len(sizes)
	order := make([]int, rank) // fastest first
	for i := range order {
		order[i] = rank - 1 - i
	}
	stride := func(l Layout, dim int) int {
		if at := dim - rank + len(l.Sizes); at >= 0 && (l.Sizes[at] == sizes[dim] && sizes[dim] != 1) {
			return l.Strides[at]
		}
		return 0
	}
	compare := func(a, b int) int {
		for _, l := range operands {
			sa, sb := stride(l, a), stride(l, b)
			switch {
			case sa == 0 || sb == 0:
			case sa != sb:
				return sa - sb
			case sizes[a] > sizes[b]:
				return 1
			}
		}
		return 0
	}
	return ordered(sizes, order, compare)
}

// ordered is the layout of sizes whose dimensions, given fastest first, are sorted as TensorIterator does it: two that cannot be told apart (0) stay, and are looked past.
func ordered(sizes, order []int, compare func(a, b int) int) Layout {
	for i := 1; i < len(order); i++ {
		at := i
		for j := i - 1; j >= 0; j-- {
			c := compare(order[j], order[at])
			if c < 0 {
				break
			}
			if c > 0 {
				order[j], order[at] = order[at], order[j]
				at = j
			}
		}
	}
	slices.Reverse(order)
	return Ordered(sizes, order)
}

func seq(from, to int) []int {
	out := make([]int, 0, max(to-from, 0))
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

// Rank is the number of dimensions.
func (l Layout) Rank() int { return len(l.Sizes) }

// maxElements is more than any device holds; products of sizes stay far from overflow.
const maxElements = 1 << 50

// Numel is the number of elements.
func (l Layout) Numel() int {
	n := 1
	for _, s := range l.Sizes {
		if s < 0 || (s > 0 && n > maxElements/s) {
			panic(mismatch("a tensor of shape %v is larger than any memory", l.Sizes))
		}
		n *= s
	}
	return n
}

// Dim is the size of a dimension; negative ones count from the end.
func (l Layout) Dim(i int) int { return l.Sizes[l.Axis(i)] }

// Axis resolves a dimension that may count from the end.
func (l Layout) Axis(i int) int {
	axis := i
	if i < 0 {
		axis = i + len(l.Sizes)
	}
	if axis < 0 || axis >= len(l.Sizes) {
		panic(mismatch("dimension %d of a tensor of shape %v", i, l.Sizes))
	}
	return axis
}

// IsContiguous tells whether elements lie in row-major order without gaps.
func (l Layout) IsContiguous() bool {
	step := 1
	for i := len(l.Sizes) - 1; i >= 0; i-- {
		if l.Sizes[i] == 1 {
			continue
		}
		if l.Strides[i] != step {
			return false
		}
		step *= l.Sizes[i]
	}
	return true
}

// IsChannelsLast tells whether a 4-D or 5-D layout is dense with the second dimension fastest.
func (l Layout) IsChannelsLast() bool {
	if len(l.Sizes) != 4 && len(l.Sizes) != 5 {
		return false
	}
	want := ChannelsLast(l.Sizes...)
	for i, s := range l.Sizes {
		if s != 1 && l.Strides[i] != want.Strides[i] {
			return false
		}
	}
	return true
}

// Dense tells whether the elements fill their span without gaps or overlap, in whatever order.
func (l Layout) Dense() bool {
	if l.IsContiguous() { // most are, and need no sorting
		return true
	}
	step := 1
	for _, i := range l.Order() {
		if l.Sizes[i] == 1 {
			continue
		}
		if l.Strides[i] != step {
			return false
		}
		step *= l.Sizes[i]
	}
	return true
}

// Order lists the dimensions from the fastest to the slowest.
func (l Layout) Order() []int {
	order := seq(0, len(l.Sizes))
	slices.Reverse(order)
	slices.SortStableFunc(order, func(a, b int) int { return l.Strides[a] - l.Strides[b] })
	return order
}

// Like gives the layout PyTorch's empty_like(preserve_format) chooses: the strides of a dense source, else the order of its dimensions. An
// expanded dimension (stride 0) keeps its place among the others
// (https://github.com/pytorch/pytorch/blob/v2.11.0/aten/src/ATen/ExpandUtils.cpp, infer_dense_strides).
func (l Layout) Like() Layout {
	if l.isRowMajor() {
		return l
	}
	if l.IsContiguous() {
		return Of(l.Sizes...)
	}
	if l.Dense() {
		return l
	}
	perm := seq(0, len(l.Sizes)) // fastest first
	slices.Reverse(perm)
	return ordered(l.Sizes, perm, l.slower)
}

// slower compares two dimensions by their place in memory; 0 where it cannot be told.
func (l Layout) slower(a, b int) int {
	switch x, y := l.Strides[a], l.Strides[b]; {
	case x == 0 || y == 0:
		return 0
	case x != y:
		return x - y
	case l.Sizes[a] > l.Sizes[b]:
		return 1
	}
	return 0
}

// Same tells whether two layouts have equal sizes.
func (l Layout) Same(sizes []int) bool { return slices.Equal(l.Sizes, sizes) }

// Broadcast gives the common shape of two.
func Broadcast(a, b []int) []int {
	if slices.Equal(a, b) {
		return a
	}
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	shift := len(a) - len(b)
	for i, n := range b {
		switch m := a[i+shift]; {
		case m == n || n == 1:
		case m == 1:
			out[i+shift] = n
		default:
			panic(mismatch("shapes %v and %v do not fit each other", a, b))
		}
	}
	return out
}

// Infer replaces one -1 of a requested shape by what the number of elements leaves for it.
func Infer(numel int, sizes []int) []int {
	known, hole := 1, -1
	for i, s := range sizes {
		if s == -1 {
			hole = i
			continue
		}
		known *= s
	}
	out := sizes
	if hole >= 0 && known > 0 {
		out = slices.Clone(sizes)
		out[hole] = numel / known
		known *= out[hole]
	}
	if known != numel {
		panic(mismatch("%d elements do not make a tensor of shape %v", numel, sizes))
	}
	return out
}

// View gives the strides of a view with other sizes, or false where only a copy can have that shape
// (aten/src/ATen/TensorUtils.cpp, computeStride).
func (l Layout) View(sizes []int) (Layout, bool) {
	if l.IsContiguous() || l.Numel() == 0 {
		return Of(sizes...), true
	}
	strides := make([]int, len(sizes))
	v := len(sizes) - 1
	chunk, viewed := 1, 1
	base := l.Strides[len(l.Strides)-1]
	for i := len(l.Sizes) - 1; i >= 0; i-- {
		chunk *= l.Sizes[i]
		last := i == 0 || (l.Sizes[i-1] != 1 && l.Strides[i-1] != chunk*base)
		if !last {
			continue
		}
		for v >= 0 && (viewed < chunk || sizes[v] == 1) {
			strides[v] = viewed * base
			viewed *= sizes[v]
			v--
		}
		if viewed != chunk {
			return Layout{}, false
		}
		if i > 0 {
			base, chunk, viewed = l.Strides[i-1], 1, 1
		}
	}
	return Layout{Sizes: sizes, Strides: strides}, v == -1
}

// Transpose swaps two dimensions.
func (l Layout) Transpose(a, b int) Layout {
	a, b = l.Axis(a), l.Axis(b)
	out := l.copied()
	out.Sizes[a], out.Sizes[b] = out.Sizes[b], out.Sizes[a]
	out.Strides[a], out.Strides[b] = out.Strides[b], out.Strides[a]
	return out
}

// Permute reorders the dimensions.
func (l Layout) Permute(order ...int) Layout {
	if len(order) != len(l.Sizes) {
		panic(mismatch("permute %v of a tensor of shape %v", order, l.Sizes))
	}
	out := blank(len(order))
	for i, d := range order {
		d = l.Axis(d)
		out.Sizes[i], out.Strides[i] = l.Sizes[d], l.Strides[d]
	}
	return out
}

// Unsqueeze inserts a dimension of size one.
func (l Layout) Unsqueeze(dim int) Layout {
	if dim < 0 {
		dim += len(l.Sizes) + 1
	}
	if dim < 0 || dim > len(l.Sizes) {
		panic(mismatch("unsqueeze at %d of a tensor of shape %v", dim, l.Sizes))
	}
	stride := 1
	if dim < len(l.Sizes) {
		stride = l.Sizes[dim] * l.Strides[dim]
	}
	return Layout{slices.Insert(slices.Clone(l.Sizes), dim, 1), slices.Insert(slices.Clone(l.Strides), dim, stride)}
}

// Squeeze removes a dimension of size one; another size leaves the layout as it is.
func (l Layout) Squeeze(dim int) Layout {
	dim = l.Axis(dim)
	if l.Sizes[dim] != 1 {
		return l
	}
	return l.drop(dim)
}

func (l Layout) drop(dim int) Layout {
	return Layout{slices.Delete(slices.Clone(l.Sizes), dim, dim+1), slices.Delete(slices.Clone(l.Strides), dim, dim+1)}
}

// Select removes a dimension by taking one of its entries.
func (l Layout) Select(dim int) Layout { return l.drop(l.Axis(dim)) }

// Slice keeps length entries of a dimension, step apart.
func (l Layout) Slice(dim, length, step int) Layout {
	dim = l.Axis(dim)
	out := l.copied()
	out.Sizes[dim] = length
	out.Strides[dim] *= step
	return out
}

// Expand repeats dimensions of size one without memory (stride zero); -1 keeps a size.
func (l Layout) Expand(sizes []int) Layout {
	shift := len(sizes) - len(l.Sizes)
	if shift < 0 {
		panic(mismatch("expand %v to %v", l.Sizes, sizes))
	}
	out := blank(len(sizes))
	copy(out.Sizes, sizes)
	for i := range l.Sizes {
		want, have := sizes[i+shift], l.Sizes[i]
		switch {
		case want == -1 || want == have:
			out.Sizes[i+shift], out.Strides[i+shift] = have, l.Strides[i]
		case have != 1:
			panic(mismatch("expand %v to %v", l.Sizes, sizes))
		}
	}
	return out
}
