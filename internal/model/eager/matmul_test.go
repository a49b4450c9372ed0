package eager

import (
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/model/tensor"
)

func TestMatmulTakesAVectorOnEitherSide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ a, b, out []int }{
		"before batches of matrices": {[]int{3}, []int{2, 5, 3, 4}, []int{2, 5, 4}},
		"behind batches of matrices": {[]int{2, 5, 4, 3}, []int{3}, []int{2, 5, 4}},
		"before a matrix":            {[]int{3}, []int{3, 4}, []int{4}},
		"behind a matrix":            {[]int{4, 3}, []int{3}, []int{4}},
	} {
		p := NewProcess(Device{SMs: 1, ThreadsPerSM: 1024, Major: 9})
		if out := Matmul(p.Empty("a", tensor.Float32, c.a...), p.Empty("b", tensor.Float32, c.b...)); !slices.Equal(out.Sizes, c.out) {
			t.Errorf("a vector %s: %v", name, out.Sizes)
		}
	}
}
