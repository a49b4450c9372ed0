package fitrun

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/live/watch"
	"github.com/plimsoll/plimsoll/internal/units"
)

func h200(free units.Bytes) watch.Card {
	return watch.Card{ID: "GPU-0", Instance: -1, Name: "NVIDIA H200", Total: 140 * units.GiB, Free: free}
}

func TestTheCardThatDecidesIsTheOneTheCommandTakes(t *testing.T) {
	t.Parallel()
	a, b := h200(9*units.GiB), h200(5*units.GiB)
	b.ID = "GPU-1b"
	small := watch.Card{ID: "GPU-2c", Name: "NVIDIA L4", Total: 24 * units.GiB, Free: 3 * units.GiB}
	for _, c := range []struct {
		cards   []watch.Card
		environ []string
		ranks   int
		want    units.Bytes // 0: none
	}{
		{[]watch.Card{a, b}, nil, 1, 9 * units.GiB},
		{[]watch.Card{a, b}, nil, 2, 5 * units.GiB},
		{[]watch.Card{a, b}, []string{"CUDA_VISIBLE_DEVICES=1"}, 1, 5 * units.GiB},
		{[]watch.Card{a, b}, []string{"CUDA_VISIBLE_DEVICES=GPU-1b,0"}, 1, 5 * units.GiB},
		{[]watch.Card{a, b}, []string{"CUDA_VISIBLE_DEVICES=1,7,0"}, 2, 5 * units.GiB},
		{[]watch.Card{a, b}, []string{"CUDA_VISIBLE_DEVICES="}, 1, 0},
		{[]watch.Card{a, b}, []string{"CUDA_VISIBLE_DEVICES=-1"}, 1, 0},
		{[]watch.Card{a, small}, []string{"CUDA_VISIBLE_DEVICES=0"}, 1, 3 * units.GiB}, // CUDA's number 0 may be either
		{[]watch.Card{a, small}, []string{"CUDA_VISIBLE_DEVICES=GPU-0"}, 1, 9 * units.GiB},
		{nil, nil, 1, 0},
	} {
		visible, alike := visibleCards(c.cards, c.environ)
		var got units.Bytes
		if len(visible) > 0 {
			got = takenCard(visible, alike, c.ranks).Free
		}
		if got != c.want {
			t.Errorf("%v for %d ranks: %s, want %s", c.environ, c.ranks, got, c.want)
		}
	}
}
