package tensor

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestACopyOfAnExpandedTensorIsRowMajor(t *testing.T) {
	t.Parallel()
	mask := Layout{Sizes: []int{4, 8, 16, 16}, Strides: []int{256, 0, 16, 1}} // [4, 1, 16, 16] expanded over heads
	if got := mask.Like(); !got.IsContiguous() {
		t.Errorf("strides %v", got.Strides)
	}
	turned := Layout{Sizes: []int{2, 3, 5}, Strides: []int{30, 1, 6}} // every second row of a transposed matrix
	if got := turned.Like(); got.Strides[1] != 1 || got.Strides[2] != 3 || got.Strides[0] != 15 {
		t.Errorf("strides %v", got.Strides)
	}
}

func TestAViewOfATransposedTensorExistsOnlyWhereStridesAllow(t *testing.T) {
	t.Parallel()
	heads := Of(2, 8, 4, 16).Transpose(1, 2)
	if _, ok := heads.View([]int{2, 4, 128}); ok {
		t.Error("merging heads of a transposed tensor needs a copy")
	}
	back := heads.Transpose(1, 2)
	if l, ok := back.View([]int{2, 8, 64}); !ok || !l.IsContiguous() {
		t.Errorf("merging heads that lie together: %v, %v", l, ok)
	}
	if l, ok := Of(6, 4).Slice(1, 2, 1).View([]int{2, 3, 2}); !ok || !slices.Equal(l.Strides, []int{12, 4, 1}) {
		t.Errorf("splitting rows of a slice: %v, %v", l, ok)
	}
}

func TestMixedTypesPromoteAsPyTorchDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want DType }{
		{Float16, BFloat16, Float32}, {BFloat16, Float32, Float32}, {Int64, Float16, Float16}, {Bool, Int64, Int64}, {BFloat16, BFloat16, BFloat16},
	} {
		if got := Promote(c.a, c.b); got != c.want {
			t.Errorf("%v and %v give %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestChannelsLastIsRecognised(t *testing.T) {
	t.Parallel()
	l := ChannelsLast(2, 3, 5, 7)
	if !l.IsChannelsLast() || l.IsContiguous() || !l.Dense() {
		t.Errorf("%v: channels last %v, contiguous %v, dense %v", l, l.IsChannelsLast(), l.IsContiguous(), l.Dense())
	}
	if Of(2, 3, 5, 7).IsChannelsLast() {
		t.Error("row-major images are not channels last")
	}
}

func TestAbsurdSizesAreRefused(t *testing.T) {
	t.Parallel()
	defer func() {
		if _, ok := recover().(Mismatch); !ok {
			t.Error("no Mismatch for 2^80 elements")
		}
	}()
	Of(1<<40, 1<<40).Numel()
}

func TestViewsKeepTheNumberOfElementsAndLikeIsDense(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 5).Draw(t, "sizes")
		l := Of(sizes...)
		order := rapid.Permutation(seq(0, len(sizes))).Draw(t, "order")
		p := l.Permute(order...)
		if p.Numel() != l.Numel() || !p.Dense() {
			t.Fatalf("permute %v of %v: %v", order, sizes, p)
		}
		if !p.Like().Dense() || !slices.Equal(p.Like().Sizes, p.Sizes) {
			t.Fatalf("like of %v: %v", p, p.Like())
		}
		flat, ok := p.View([]int{p.Numel()})
		if ok != p.IsContiguous() && p.Numel() > 1 && ok && flat.Strides[0] != 1 {
			t.Fatalf("flattening %v: %v %v", p, flat, ok)
		}
	})
}
