package alloc

import (
	"testing"

	"github.com/plimsoll/plimsoll/internal/units"
)

// The first segments of testdata/snapshots/gpt2-accumulate.pickle.gz, as the driver of an H200 placed them, in MiB from the first: what is filled upward comes before what is taken further below.
func TestSegmentsLieAsADriverPutsThem(t *testing.T) {
	t.Parallel()
	d := Driver()
	var at []uint64
	sizes := []units.Bytes{2, 148, 20}
	for range 25 {
		sizes = append(sizes, 20)
	}
	for _, size := range append(sizes, 12, 12) {
		at = append(at, d.Segment(size*units.MiB))
	}
	const early = 4 // in the space that is freed at the start, 414 MiB: twenty-one of 20 MiB, with what is left beside it
	for i := early; i < 24; i++ {
		if at[i] != at[i-1]+uint64(20*units.MiB) {
			t.Errorf("segment %d lies at %d, not above the one before", i, at[i])
		}
	}
	for i := 25; i < 28; i++ {
		if at[i] != at[i-1]-uint64(32*units.MiB) {
			t.Errorf("segment %d lies at %d, not 32 MiB below the one before at %d", i, at[i], at[i-1])
		}
	}
	if at[28] != at[27]+uint64(20*units.MiB) || at[29] != at[26]+uint64(20*units.MiB) {
		t.Error("12 MiB do not fill what is left of 32, from the lowest address up")
	}
	seen := map[uint64]bool{}
	for _, a := range at {
		if seen[a] {
			t.Error("two segments lie at one address")
		}
		seen[a] = true
	}
	d.Release(at[5], 20*units.MiB)
	if got := d.Segment(20 * units.MiB); got != at[5] {
		t.Errorf("what was given back is not taken again: %d", got)
	}
}
