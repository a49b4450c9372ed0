package eager

import (
	"maps"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

func TestTheChosenCallsRunAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first int
		order []int
		want  []int // from 1
	}{{0, nil, []int{1, 2, 3, 4, 5, 6}}, {2, nil, []int{1, 2}}, {2, []int{4, 0, 1, 2, 3, 5}, []int{1, 5}}, {1, []int{5, 4, 3, 2, 1, 0}, []int{6}}} {
		p := bare()
		p.CheckpointFirst, p.CheckpointOrder = c.first, c.order
		again := map[int]bool{}
		p.Observe = func(w Work) {
			if w.Phase == PhaseAgain {
				again[w.Call] = true
			} else if w.Call != 0 {
				t.Errorf("%s of %s belongs to call %d", w.Op, w.Phase, w.Call)
			}
		}
		if err := p.Train(newMLP(p, 6, 512, 256, true), Options{Optimizer: "sgd", Steps: 1}); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(again)); !slices.Equal(got, c.want) {
			t.Errorf("first %d of %v: calls %v ran again, want %v", c.first, c.order, got, c.want)
		}
		for i, kept := range p.Kept() { // the input of GELU; the input of the layer is its argument
			want := units.Bytes(0)
			if slices.Contains(c.want, i+1) {
				want = 512 * 256 * 4
			}
			if kept != want {
				t.Errorf("call %d would keep %d bytes, want %d", i+1, kept, want)
			}
		}
	}
}
