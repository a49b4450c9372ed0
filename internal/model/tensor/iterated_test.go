package tensor

import (
	"slices"
	"testing"
)

// The strides are those that PyTorch 2.11 gives for a + b.
func TestABroadcastResultHasItsOperandsOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b Layout
		want []int
	}{
		"both contiguous":            {Of(2, 3, 1), Of(2, 1, 4), []int{12, 4, 1}},
		"transposed":                 {Of(4, 5, 1).Transpose(0, 1), Of(5, 1, 6), []int{6, 30, 1}},
		"transposed, fewer rows":     {Of(5, 4, 1).Transpose(0, 1), Of(4, 1, 6), []int{6, 24, 1}},
		"the first operand decides":  {Of(3, 4, 5, 1).Transpose(0, 1), Of(4, 3, 1, 6), []int{30, 120, 6, 1}},
		"an order that nobody tells": {Layout{Sizes: []int{12, 8, 1, 64}, Strides: []int{8, 1, 6144, 96}}, Of(12, 8, 5, 1), []int{2560, 320, 64, 1}},
	} {
		if got := Iterated(Broadcast(c.a.Sizes, c.b.Sizes), c.a, c.b); !slices.Equal(got.Strides, c.want) {
			t.Errorf("%s: strides %v, want %v", name, got.Strides, c.want)
		}
	}
}
